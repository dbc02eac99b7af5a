//! Scores of a ranking by relevance judgments. Pure functions.
//!
//! Results count in the order in which they were returned, also where their scores are equal. A repeated document counts
//! at its first rank. Documents without a judgment are not relevant.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

/// The judgments for one query: a grade per document id. Above 0 is relevant.
pub(crate) type Grades = BTreeMap<String, i64>;

/// The cutoff of nDCG@10 and MRR@10.
const CUTOFF: usize = 10;

/// The scores of one query's ranking, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Scores {
    /// nDCG@10.
    pub(crate) ndcg: f64,
    /// The share of the relevant documents that was returned.
    pub(crate) recall: f64,
    /// One over the rank of the first relevant document in the top 10; 0 without one.
    pub(crate) reciprocal_rank: f64,
}

impl Scores {
    /// Scores a ranking of document ids, best first. Recall covers all of it. `None` when no document is relevant, since
    /// the scores are undefined then.
    pub(crate) fn of(ranking: &[String], grades: &Grades) -> Option<Scores> {
        let mut seen = HashSet::new();
        let ranked: Vec<i64> = ranking
            .iter()
            .filter(|id| seen.insert(id.as_str()))
            .map(|id| grades.get(id).copied().unwrap_or(0))
            .collect();
        let relevant = grades.values().filter(|grade| **grade > 0).count();
        let mut ideal: Vec<i64> = grades.values().copied().collect();
        ideal.sort_unstable_by(|a, b| b.cmp(a));
        (relevant > 0).then(|| Scores {
            ndcg: discounted_gain(&ranked) / discounted_gain(&ideal),
            recall: ranked.iter().filter(|grade| **grade > 0).count() as f64 / relevant as f64,
            reciprocal_rank: ranked
                .iter()
                .take(CUTOFF)
                .position(|grade| *grade > 0)
                .map_or(0.0, |index| 1.0 / (index + 1) as f64),
        })
    }

    /// The mean of each score; 0 for an empty iterator.
    pub(crate) fn mean<'a>(scores: impl IntoIterator<Item = &'a Scores>) -> Scores {
        let (mut count, mut sum) = (0_u32, Scores { ndcg: 0.0, recall: 0.0, reciprocal_rank: 0.0 });
        for score in scores {
            count += 1;
            sum.ndcg += score.ndcg;
            sum.recall += score.recall;
            sum.reciprocal_rank += score.reciprocal_rank;
        }
        let count = f64::from(count.max(1));
        Scores {
            ndcg: sum.ndcg / count,
            recall: sum.recall / count,
            reciprocal_rank: sum.reciprocal_rank / count,
        }
    }
}

/// Discounted cumulative gain at 10: the sum of `grade / log2(rank + 1)`. Gains are linear and negative grades count as
/// 0, as in `ndcg_cut` of trec_eval.
fn discounted_gain(grades: &[i64]) -> f64 {
    grades
        .iter()
        .zip(2..)
        .take(CUTOFF)
        .map(|(grade, rank_plus_1)| (*grade).max(0) as f64 / f64::from(rank_plus_1).log2())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scores(ranking: &str, grades: &[(&str, i64)]) -> Option<Scores> {
        let ranking: Vec<String> = ranking.split_whitespace().map(str::to_owned).collect();
        Scores::of(&ranking, &grades.iter().map(|(id, grade)| ((*id).to_owned(), *grade)).collect())
    }

    /// Scores a ranking of ids by grades; `expected` is nDCG@10, recall and reciprocal rank.
    fn check(ranking: &str, grades: &[(&str, i64)], expected: [f64; 3]) {
        let found = scores(ranking, grades).unwrap();
        let found = [found.ndcg, found.recall, found.reciprocal_rank];
        let is_equal = found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12);
        assert!(is_equal, "{ranking}: {found:?}, not {expected:?}");
    }

    const LOG2_3: f64 = 1.584_962_500_721_156;
    const LOG2_11: f64 = 3.459_431_618_637_297_3;

    #[test]
    fn the_ideal_order_scores_1() {
        check("a b c", &[("a", 3), ("b", 1), ("c", 0)], [1.0, 1.0, 1.0]);
        check("a", &[("a", 1)], [1.0, 1.0, 1.0]);
    }

    #[test]
    fn gains_are_graded_and_linear() {
        // grade 1 at rank 1 and grade 3 at rank 3; ideal: 3 at rank 1 and 1 at rank 2
        let ndcg = (1.0 + 3.0 / 2.0) / (3.0 + 1.0 / LOG2_3);
        check("b x a", &[("a", 3), ("b", 1), ("c", 0)], [ndcg, 1.0, 1.0]);
    }

    #[test]
    fn documents_of_one_grade_are_interchangeable() {
        for ranking in ["a b", "b a"] {
            check(ranking, &[("a", 2), ("b", 2)], [1.0, 1.0, 1.0]);
        }
    }

    #[test]
    fn a_grade_of_0_or_less_is_not_relevant() {
        check("n z a", &[("a", 1), ("z", 0), ("n", -1)], [0.5, 1.0, 1.0 / 3.0]);
        assert_eq!(scores("a", &[("a", 0)]), None);
        assert_eq!(scores("a", &[]), None);
    }

    #[test]
    fn a_document_without_a_judgment_occupies_a_rank() {
        check("x a", &[("a", 1)], [1.0 / LOG2_3, 1.0, 0.5]);
    }

    #[test]
    fn ndcg_and_mrr_stop_at_rank_10_and_recall_does_not() {
        check("0 1 2 3 4 5 6 7 8 a", &[("a", 1)], [1.0 / LOG2_11, 1.0, 0.1]);
        check("0 1 2 3 4 5 6 7 8 9 a", &[("a", 1)], [0.0, 1.0, 0.0]);
    }

    #[test]
    fn the_ideal_order_stops_at_rank_10_too() {
        let many: Vec<String> = (0..12).map(|i| format!("d{i:02}")).collect();
        let grades: Vec<(&str, i64)> = many.iter().map(|id| (id.as_str(), 1)).collect();
        check(&many[..10].join(" "), &grades, [1.0, 10.0 / 12.0, 1.0]);
    }

    #[test]
    fn a_repeated_document_counts_once() {
        check("a a b", &[("a", 1), ("b", 1)], [1.0, 1.0, 1.0]);
    }

    #[test]
    fn an_empty_ranking_scores_0() {
        check("", &[("a", 1)], [0.0, 0.0, 0.0]);
    }

    #[test]
    fn the_mean_is_taken_per_score() {
        let one = Scores { ndcg: 1.0, recall: 0.5, reciprocal_rank: 0.25 };
        let other = Scores { ndcg: 0.0, recall: 1.0, reciprocal_rank: 0.25 };
        assert_eq!(Scores::mean([&one, &other]), Scores { ndcg: 0.5, recall: 0.75, reciprocal_rank: 0.25 });
        assert_eq!(Scores::mean([]), Scores { ndcg: 0.0, recall: 0.0, reciprocal_rank: 0.0 });
    }
}
