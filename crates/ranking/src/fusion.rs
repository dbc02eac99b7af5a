//! Fusion of rankings of documents. Pure: equal input gives equal output, bit for bit.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::chunks::fibonacci_hash;

/// A document in a ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredDocument {
    /// A number chosen by the caller.
    pub document: u32,
    /// Comparable within its ranking only.
    pub score: f32,
}

/// A ranking, best document first, each document at most once, with its weight.
#[derive(Debug, Clone, Copy)]
pub struct WeightedRanking<'a> {
    /// Best first.
    pub ranking: &'a [ScoredDocument],
    /// Not negative.
    pub weight: f32,
}

/// A document in the fused ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FusedDocument {
    /// The document.
    pub document: u32,
    /// Sum of the contributions of all rankings.
    pub score: f32,
    /// Index of the ranking that contributed most; the last of equal ones.
    pub strongest: usize,
    /// That contribution.
    pub largest: f32,
    /// The document's index in that ranking.
    pub rank_index: usize,
}

/// Merges rankings by reciprocal rank: each ranking adds `weight / (k + rank)`, rank from 1.
///
/// Input scores are ignored, only order counts. `k` is usually 60; larger flattens the top.
/// Ties go to the lower document number. At most `limit` documents.
/// Source: Cormack, Clarke, Büttcher, SIGIR 2009.
pub fn reciprocal_rank(rankings: &[WeightedRanking<'_>], k: f32, limit: usize) -> Vec<FusedDocument> {
    let mut scores = FusedScores::with_capacity_for(rankings);
    for (ranking_index, WeightedRanking { ranking, weight }) in rankings.iter().enumerate() {
        for (rank_index, scored) in ranking.iter().enumerate() {
            scores.add(scored.document, ranking_index, rank_index, weight / (k + (rank_index + 1) as f32));
        }
    }
    scores.into_best(limit)
}

/// Merges rankings by the weighted sum of their scores, each divided by the best of its ranking.
///
/// Scores count from 0, or from the lowest score of a ranking if that is negative; if no score is higher than that, each counts
/// as 1. A document missing from a ranking gets 0 from it. Ties go to the lower document number. At most `limit` documents.
/// Source: Bruch, Gai, Ingber, ACM TOIS 2023 (convex combination with the theoretical minimum, over the union of the top
/// documents).
pub fn convex(rankings: &[WeightedRanking<'_>], limit: usize) -> Vec<FusedDocument> {
    let mut scores = FusedScores::with_capacity_for(rankings);
    for (ranking_index, WeightedRanking { ranking, weight }) in rankings.iter().enumerate() {
        let (lowest, highest) = bounds(ranking);
        let zero = lowest.min(0.0);
        for (rank_index, scored) in ranking.iter().enumerate() {
            let share = if highest > zero { (scored.score - zero) / (highest - zero) } else { 1.0 };
            scores.add(scored.document, ranking_index, rank_index, weight * share);
        }
    }
    scores.into_best(limit)
}

/// The evidence of the best lexical hit, in [words](crate::relevance::Bm25Bounds::words), up to which the lexical ranking has
/// [`LEXICAL_SHARE_MIN`] of its weight, and from which it has all of it. Chosen with it on six sets (cranfield, cacm, dbpedia-entity, trecqa,
/// xquad, texts of Debian's packages): a share of 0.5 gains 0.007 more on Debian's texts, and loses 0.028 on cacm, whose texts are short.
const EVIDENCE: (f32, f32) = (0.6, 1.2);
const LEXICAL_SHARE_MIN: f32 = 0.8;

/// Moves weight from the lexical to the dense ranking if the best lexical hit has only frequent words of the query, or few: the shares of
/// [`convex`] are relative to the best hit, however little it has. A ranking of weight 0 keeps it.
pub fn weights_by_evidence(lexical: f32, dense: f32, words: f32) -> (f32, f32) {
    if dense == 0.0 {
        return (lexical, dense);
    }
    let evidence = ((words - EVIDENCE.0) / (EVIDENCE.1 - EVIDENCE.0)).clamp(0.0, 1.0);
    let kept = lexical * (LEXICAL_SHARE_MIN + (1.0 - LEXICAL_SHARE_MIN) * evidence);
    (kept, dense + lexical - kept)
}

/// After [`spread`], the last score is at most this share of the best. Values from 0.4 to 1 (no spreading) hardly differ on the
/// development sets; spreading is for models whose cosines are all between 0.7 and 0.9.
const LAST_SHARE_MAX: f32 = 0.6;

/// Stretches the scores of a ranking downwards if they are close together compared to their distance from 0: depending on the
/// model, the cosine of unrelated texts may be 0 or 0.7. The best score and the order do not change.
pub fn spread(ranking: &mut [ScoredDocument]) {
    let (lowest, highest) = bounds(ranking);
    let lowest_max = highest * LAST_SHARE_MAX;
    if highest > lowest && lowest > lowest_max {
        let factor = (highest - lowest_max) / (highest - lowest);
        ranking.iter_mut().for_each(|scored| scored.score = highest - (highest - scored.score) * factor);
    }
}

fn bounds(ranking: &[ScoredDocument]) -> (f32, f32) {
    ranking.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), scored| {
        (low.min(scored.score), high.max(scored.score))
    })
}

/// Sums of contributions by document.
struct FusedScores {
    fused: Vec<FusedDocument>,
    /// Indexes in `fused`, by document.
    indexes: HashTable<u32>,
}

impl FusedScores {
    fn with_capacity_for(rankings: &[WeightedRanking<'_>]) -> FusedScores {
        let capacity = rankings.iter().map(|weighted| weighted.ranking.len()).sum();
        FusedScores { fused: Vec::with_capacity(capacity), indexes: HashTable::with_capacity(capacity) }
    }

    /// Rankings are added one after the other; of equal contributions the later is the strongest.
    fn add(&mut self, document: u32, ranking_index: usize, rank_index: usize, value: f32) {
        let fused = &mut self.fused;
        let is_document = |&index: &u32| fused[index as usize].document == document;
        let of = |&index: &u32| fibonacci_hash(fused[index as usize].document);
        match self.indexes.entry(fibonacci_hash(document), is_document, of) {
            Entry::Occupied(entry) => {
                let sum = &mut fused[*entry.get() as usize];
                sum.score += value;
                if value.total_cmp(&sum.largest).is_ge() {
                    (sum.largest, sum.strongest, sum.rank_index) = (value, ranking_index, rank_index);
                }
            }
            Entry::Vacant(entry) => {
                entry.insert(fused.len() as u32);
                fused.push(FusedDocument {
                    document,
                    score: value,
                    strongest: ranking_index,
                    largest: value,
                    rank_index,
                });
            }
        }
    }

    fn into_best(self, limit: usize) -> Vec<FusedDocument> {
        let mut fused = self.fused;
        let by_rank = |a: &FusedDocument, b: &FusedDocument| {
            b.score.total_cmp(&a.score).then(a.document.cmp(&b.document))
        };
        if limit < fused.len() {
            if limit > 0 {
                fused.select_nth_unstable_by(limit - 1, by_rank);
            }
            fused.truncate(limit);
        }
        fused.sort_unstable_by(by_rank);
        fused
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each letter is a document (its number is the letter's code); scores descend from 1.0 in steps of 0.1.
    fn ranking(letters: &str) -> Vec<ScoredDocument> {
        letters
            .bytes()
            .enumerate()
            .map(|(rank_index, letter)| ScoredDocument {
                document: letter.into(),
                score: 1.0 - rank_index as f32 * 0.1,
            })
            .collect()
    }

    fn letters(fused: &[FusedDocument]) -> String {
        fused.iter().map(|one| char::from(one.document as u8)).collect()
    }

    fn fuse(first: &str, second: &str) -> Vec<FusedDocument> {
        let (first, second) = (ranking(first), ranking(second));
        let rankings = [
            WeightedRanking { ranking: &first, weight: 1.0 },
            WeightedRanking { ranking: &second, weight: 1.0 },
        ];
        reciprocal_rank(&rankings, 60.0, 10)
    }

    fn blend(first: &[(u8, f32)], second: &[(u8, f32)], limit: usize) -> Vec<FusedDocument> {
        let ranking = |pairs: &[(u8, f32)]| -> Vec<ScoredDocument> {
            pairs.iter().map(|&(letter, score)| ScoredDocument { document: letter.into(), score }).collect()
        };
        let (first, second) = (ranking(first), ranking(second));
        convex(
            &[
                WeightedRanking { ranking: &first, weight: 0.5 },
                WeightedRanking { ranking: &second, weight: 0.5 },
            ],
            limit,
        )
    }

    #[test]
    fn a_single_first_place_scores_one_sixty_first() {
        let fused = fuse("a", "");
        assert_eq!(
            fused,
            [FusedDocument {
                document: b'a'.into(),
                score: 1.0 / 61.0,
                strongest: 0,
                largest: 1.0 / 61.0,
                rank_index: 0
            }]
        );
    }

    #[test]
    fn contributions_of_both_rankings_add_up() {
        let fused = fuse("xa", "yab");
        assert_eq!(letters(&fused), "axyb");
        assert_eq!(fused[0].score, 1.0 / 62.0 + 1.0 / 62.0);
        assert_eq!(fused[1].score, 1.0 / 61.0);
        assert_eq!(fused[3].score, 1.0 / 63.0);
    }

    #[test]
    fn a_weight_scales_its_ranking() {
        let (first, second) = (ranking("a"), ranking("b"));
        let rankings = [
            WeightedRanking { ranking: &first, weight: 1.0 },
            WeightedRanking { ranking: &second, weight: 2.0 },
        ];
        let fused = reciprocal_rank(&rankings, 60.0, 10);
        assert_eq!(letters(&fused), "ba");
        assert_eq!(fused[0].score, 2.0 / 61.0);
    }

    #[test]
    fn ties_go_to_the_lower_number_and_the_limit_is_respected() {
        assert_eq!(letters(&fuse("bd", "ac")), "abcd");
        let (first, second) = (ranking("bd"), ranking("ac"));
        let rankings = [
            WeightedRanking { ranking: &first, weight: 1.0 },
            WeightedRanking { ranking: &second, weight: 1.0 },
        ];
        assert_eq!(letters(&reciprocal_rank(&rankings, 60.0, 3)), "abc");
        assert_eq!(reciprocal_rank(&rankings, 60.0, 0), []);
        assert_eq!(reciprocal_rank(&[], 60.0, 5), []);
    }

    #[test]
    fn the_strongest_ranking_contributes_most_and_ties_go_to_the_last() {
        let fused = fuse("xab", "yxa");
        let strongest =
            |letter: char| fused.iter().find(|one| one.document == letter as u32).map(|one| one.strongest);
        assert_eq!(strongest('x'), Some(0));
        assert_eq!(strongest('a'), Some(0));
        assert_eq!(strongest('y'), Some(1));
        assert_eq!(fuse("a", "a")[0].strongest, 1);
    }

    fn scores(fused: &[FusedDocument]) -> Vec<f32> {
        fused.iter().map(|one| one.score).collect()
    }

    #[test]
    fn convex_sums_scores_relative_to_the_best() {
        let fused = blend(&[(b'a', 8.0), (b'b', 6.0), (b'c', 4.0)], &[(b'b', 1.0), (b'd', 0.5)], 10);
        assert_eq!(letters(&fused), "bacd");
        assert_eq!(scores(&fused), [0.875, 0.5, 0.25, 0.25]);
        assert_eq!(fused.iter().map(|one| one.strongest).collect::<Vec<_>>(), [1, 0, 0, 1]);
    }

    #[test]
    fn convex_counts_from_a_negative_lowest_score() {
        let fused = blend(&[], &[(b'a', 0.5), (b'b', 0.25), (b'c', -0.5)], 10);
        assert_eq!(scores(&fused), [0.5, 0.375, 0.0]);
        let fused = blend(&[], &[(b'a', -0.25), (b'b', -0.5)], 10);
        assert_eq!(scores(&fused), [0.5, 0.0]);
    }

    #[test]
    fn convex_counts_equal_scores_as_one() {
        let fused = blend(&[(b'a', 3.0)], &[(b'b', -0.25), (b'c', -0.25)], 10);
        assert_eq!(letters(&fused), "abc");
        assert_eq!(scores(&fused), [0.5, 0.5, 0.5]);
        assert_eq!(scores(&blend(&[(b'a', 0.0)], &[], 10)), [0.5]);
    }

    #[test]
    fn the_lexical_weight_follows_the_evidence() {
        let check = |(lexical, dense): (f32, f32), words, expected: (f32, f32)| {
            let seen = weights_by_evidence(lexical, dense, words);
            let is_near = (seen.0 - expected.0).abs() < 1e-6 && (seen.1 - expected.1).abs() < 1e-6;
            assert!(is_near, "{lexical}, {dense}, {words}: {seen:?}");
        };
        check((0.5, 0.5), 0.0, (0.4, 0.6));
        check((0.5, 0.5), 0.6, (0.4, 0.6));
        check((0.5, 0.5), 0.9, (0.45, 0.55));
        check((0.5, 0.5), 5.0, (0.5, 0.5));
        check((0.0, 1.0), 0.0, (0.0, 1.0));
        check((1.0, 0.0), 0.0, (1.0, 0.0));
    }

    #[test]
    fn spread_lowers_the_last_score_to_three_fifths_of_the_best() {
        let check = |given: &[f32], expected: &[f32]| {
            let mut ranking: Vec<ScoredDocument> =
                given.iter().map(|&score| ScoredDocument { document: 0, score }).collect();
            spread(&mut ranking);
            let spread: Vec<f32> = ranking.iter().map(|scored| scored.score).collect();
            let is_near =
                spread.iter().zip(expected).all(|(spread, expected)| (spread - expected).abs() < 1e-6);
            assert!(is_near && spread.len() == expected.len(), "{given:?} became {spread:?}");
        };
        check(&[1.0, 0.95, 0.9], &[1.0, 0.8, 0.6]);
        check(&[1.0, 0.9, 0.5], &[1.0, 0.9, 0.5]);
        check(&[1.0, 0.9, -0.5], &[1.0, 0.9, -0.5]);
        check(&[-0.5, -0.6], &[-0.5, -0.6]);
        check(&[0.7, 0.7], &[0.7, 0.7]);
        check(&[], &[]);
    }
}
