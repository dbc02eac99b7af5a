//! How good a ranking is, by what people judged. Pure functions.
//!
//! Results count in the order in which they were returned, equal scores or not; a document that comes twice counts
//! where it came first. Documents without a judgment count as not relevant.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

/// What people judged for one query: a grade by document; above 0 is relevant.
pub(super) type Grades = BTreeMap<String, i64>;

/// The places that nDCG and MRR look at.
pub(super) const PLACES: usize = 10;

/// The scores of one query's ranking, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct Scores {
    /// nDCG@10.
    pub(super) ndcg: f64,
    /// The part of the relevant documents that was returned.
    pub(super) recall: f64,
    /// One over the place of the first relevant document among ten; 0 when there is none.
    pub(super) reciprocal_rank: f64,
}

impl Scores {
    /// Scores a ranking of document ids, best first; recall looks at all of it. `None` when no document is relevant:
    /// such a query says nothing about a ranking.
    pub(super) fn of(ranking: &[String], grades: &Grades) -> Option<Scores> {
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
            ndcg: gain(&ranked) / gain(&ideal),
            recall: ranked.iter().filter(|grade| **grade > 0).count() as f64 / relevant as f64,
            reciprocal_rank: ranked
                .iter()
                .take(PLACES)
                .position(|grade| *grade > 0)
                .map_or(0.0, |place| 1.0 / (place + 1) as f64),
        })
    }

    /// The mean of each score; all 0 without a score.
    pub(super) fn mean<'a>(scores: impl IntoIterator<Item = &'a Scores>) -> Scores {
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

/// Discounted cumulative gain of the first ten grades: each over the binary logarithm of its place plus one. Gains are
/// linear and below 0 count as 0, as `ndcg_cut` of trec_eval has them.
fn gain(grades: &[i64]) -> f64 {
    grades
        .iter()
        .zip(2..)
        .take(PLACES)
        .map(|(grade, place)| (*grade).max(0) as f64 / f64::from(place).log2())
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
    fn the_ideal_order_has_everything() {
        check("a b c", &[("a", 3), ("b", 1), ("c", 0)], [1.0, 1.0, 1.0]);
        check("a", &[("a", 1)], [1.0, 1.0, 1.0]);
    }

    #[test]
    fn gains_are_graded_and_linear() {
        // found 1 in place 1 and 3 in place 3; ideal 3 in place 1 and 1 in place 2
        let ndcg = (1.0 + 3.0 / 2.0) / (3.0 + 1.0 / LOG2_3);
        check("b x a", &[("a", 3), ("b", 1), ("c", 0)], [ndcg, 1.0, 1.0]);
    }

    #[test]
    fn documents_of_one_grade_may_change_places() {
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
    fn what_nobody_judged_takes_its_place() {
        check("x a", &[("a", 1)], [1.0 / LOG2_3, 1.0, 0.5]);
    }

    #[test]
    fn only_ten_places_count_and_recall_sees_all() {
        check("0 1 2 3 4 5 6 7 8 a", &[("a", 1)], [1.0 / LOG2_11, 1.0, 0.1]);
        check("0 1 2 3 4 5 6 7 8 9 a", &[("a", 1)], [0.0, 1.0, 0.0]);
    }

    #[test]
    fn the_ideal_has_ten_places_too() {
        let many: Vec<String> = (0..12).map(|i| format!("d{i:02}")).collect();
        let grades: Vec<(&str, i64)> = many.iter().map(|id| (id.as_str(), 1)).collect();
        check(&many[..10].join(" "), &grades, [1.0, 10.0 / 12.0, 1.0]);
    }

    #[test]
    fn a_document_that_comes_twice_counts_once() {
        check("a a b", &[("a", 1), ("b", 1)], [1.0, 1.0, 1.0]);
    }

    #[test]
    fn nothing_found_is_0() {
        check("", &[("a", 1)], [0.0, 0.0, 0.0]);
    }

    #[test]
    fn the_mean_is_taken_of_each() {
        let one = Scores { ndcg: 1.0, recall: 0.5, reciprocal_rank: 0.25 };
        let other = Scores { ndcg: 0.0, recall: 1.0, reciprocal_rank: 0.25 };
        assert_eq!(Scores::mean([&one, &other]), Scores { ndcg: 0.5, recall: 0.75, reciprocal_rank: 0.25 });
        assert_eq!(Scores::mean([]), Scores { ndcg: 0.0, recall: 0.0, reciprocal_rank: 0.0 });
    }
}
