//! Merging rankings of documents. Pure: the same input gives the same output, bit for bit.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use crate::embedded::spread;

/// One document in a ranking, named by a number that the caller gave it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// The document.
    pub document: u32,
    /// Its score, comparable within its ranking only.
    pub score: f32,
}

/// A ranking, best document first, each document at most once, and how much it counts.
#[derive(Debug, Clone, Copy)]
pub struct Weighted<'a> {
    /// Best first.
    pub ranking: &'a [Scored],
    /// 0 or larger.
    pub weight: f32,
}

/// One document of the fused ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Fused {
    /// The document.
    pub document: u32,
    /// The sum of its shares.
    pub score: f32,
    /// Which of the rankings that hold the document gave the largest share; of equal ones the last.
    pub strongest: usize,
    /// The document's place in that ranking, from 0.
    pub place: usize,
}

/// Merges rankings by reciprocal rank: each ranking adds `weight / (k + rank)`, rank from 1.
///
/// Input scores are ignored, only order counts. `k` is usually 60; larger flattens the top.
/// Ties go to the lower document number. At most `limit` documents.
/// Source: Cormack, Clarke, Büttcher, SIGIR 2009.
pub fn reciprocal_rank(rankings: &[Weighted<'_>], k: f32, limit: usize) -> Vec<Fused> {
    let mut shares = Shares::with_room_for(rankings);
    for (leg, Weighted { ranking, weight }) in rankings.iter().enumerate() {
        for (place, scored) in ranking.iter().enumerate() {
            shares.add(scored.document, leg, place, weight / (k + (place + 1) as f32));
        }
    }
    shares.into_best(limit)
}

/// Merges rankings by the weighted sum of their min-max normalised scores.
///
/// Each ranking's scores are stretched to 0..1, its best to 1 and its last to 0; where all are equal, all become 1.
/// A document that a ranking does not hold gets 0 from it. Ties go to the lower document number. At most `limit`
/// documents. Source: Bruch, Gai, Ingber, ACM TOIS 2023 (convex combination over the union of the top documents).
pub fn convex(rankings: &[Weighted<'_>], limit: usize) -> Vec<Fused> {
    let mut shares = Shares::with_room_for(rankings);
    for (leg, Weighted { ranking, weight }) in rankings.iter().enumerate() {
        let (lowest, highest) = bounds(ranking);
        for (place, scored) in ranking.iter().enumerate() {
            let normalised =
                if highest > lowest { (scored.score - lowest) / (highest - lowest) } else { 1.0 };
            shares.add(scored.document, leg, place, weight * normalised);
        }
    }
    shares.into_best(limit)
}

fn bounds(ranking: &[Scored]) -> (f32, f32) {
    ranking.iter().fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), scored| {
        (low.min(scored.score), high.max(scored.score))
    })
}

/// What each ranking gives to each document, added up as it comes.
struct Shares {
    fused: Vec<Sum>,
    /// Places in `fused` by document.
    places: HashTable<u32>,
}

struct Sum {
    fused: Fused,
    /// The largest share so far.
    largest: f32,
}

impl Shares {
    fn with_room_for(rankings: &[Weighted<'_>]) -> Shares {
        let room = rankings.iter().map(|weighted| weighted.ranking.len()).sum();
        Shares { fused: Vec::with_capacity(room), places: HashTable::with_capacity(room) }
    }

    /// Rankings come one after the other, so that of equal shares the later counts as the stronger.
    fn add(&mut self, document: u32, leg: usize, place: usize, value: f32) {
        let fused = &mut self.fused;
        let is_it = |&at: &u32| fused[at as usize].fused.document == document;
        let of = |&at: &u32| spread(fused[at as usize].fused.document);
        match self.places.entry(spread(document), is_it, of) {
            Entry::Occupied(entry) => {
                let sum = &mut fused[*entry.get() as usize];
                sum.fused.score += value;
                if value.total_cmp(&sum.largest).is_ge() {
                    (sum.largest, sum.fused.strongest, sum.fused.place) = (value, leg, place);
                }
            }
            Entry::Vacant(entry) => {
                entry.insert(fused.len() as u32);
                let first = Fused { document, score: value, strongest: leg, place };
                fused.push(Sum { fused: first, largest: value });
            }
        }
    }

    fn into_best(self, limit: usize) -> Vec<Fused> {
        let mut fused: Vec<Fused> = self.fused.into_iter().map(|sum| sum.fused).collect();
        let by_rank = |a: &Fused, b: &Fused| b.score.total_cmp(&a.score).then(a.document.cmp(&b.document));
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
    fn ranking(letters: &str) -> Vec<Scored> {
        letters
            .bytes()
            .enumerate()
            .map(|(place, letter)| Scored { document: letter.into(), score: 1.0 - place as f32 * 0.1 })
            .collect()
    }

    fn letters(fused: &[Fused]) -> String {
        fused.iter().map(|one| char::from(one.document as u8)).collect()
    }

    fn fuse(first: &str, second: &str) -> Vec<Fused> {
        let (first, second) = (ranking(first), ranking(second));
        let rankings =
            [Weighted { ranking: &first, weight: 1.0 }, Weighted { ranking: &second, weight: 1.0 }];
        reciprocal_rank(&rankings, 60.0, 10)
    }

    fn blend(first: &[(u8, f32)], second: &[(u8, f32)], limit: usize) -> Vec<Fused> {
        let ranking = |pairs: &[(u8, f32)]| -> Vec<Scored> {
            pairs.iter().map(|&(letter, score)| Scored { document: letter.into(), score }).collect()
        };
        let (first, second) = (ranking(first), ranking(second));
        convex(
            &[Weighted { ranking: &first, weight: 0.5 }, Weighted { ranking: &second, weight: 0.5 }],
            limit,
        )
    }

    #[test]
    fn a_single_first_place_scores_one_sixty_first() {
        let fused = fuse("a", "");
        assert_eq!(fused, [Fused { document: b'a'.into(), score: 1.0 / 61.0, strongest: 0, place: 0 }]);
    }

    #[test]
    fn shares_of_both_rankings_add_up() {
        let fused = fuse("xa", "yab");
        assert_eq!(letters(&fused), "axyb");
        assert_eq!(fused[0].score, 1.0 / 62.0 + 1.0 / 62.0);
        assert_eq!(fused[1].score, 1.0 / 61.0);
        assert_eq!(fused[3].score, 1.0 / 63.0);
    }

    #[test]
    fn a_weight_scales_its_ranking() {
        let (first, second) = (ranking("a"), ranking("b"));
        let rankings =
            [Weighted { ranking: &first, weight: 1.0 }, Weighted { ranking: &second, weight: 2.0 }];
        let fused = reciprocal_rank(&rankings, 60.0, 10);
        assert_eq!(letters(&fused), "ba");
        assert_eq!(fused[0].score, 2.0 / 61.0);
    }

    #[test]
    fn ties_go_to_the_lower_number_and_the_limit_holds() {
        assert_eq!(letters(&fuse("bd", "ac")), "abcd");
        let (first, second) = (ranking("bd"), ranking("ac"));
        let rankings =
            [Weighted { ranking: &first, weight: 1.0 }, Weighted { ranking: &second, weight: 1.0 }];
        assert_eq!(letters(&reciprocal_rank(&rankings, 60.0, 3)), "abc");
        assert_eq!(reciprocal_rank(&rankings, 60.0, 0), []);
        assert_eq!(reciprocal_rank(&[], 60.0, 5), []);
    }

    #[test]
    fn the_strongest_ranking_is_the_one_with_the_larger_share_and_the_last_of_equals() {
        let fused = fuse("xab", "yxa");
        let strongest =
            |letter: char| fused.iter().find(|one| one.document == letter as u32).map(|one| one.strongest);
        assert_eq!(strongest('x'), Some(0));
        assert_eq!(strongest('a'), Some(0));
        assert_eq!(strongest('y'), Some(1));
        assert_eq!(fuse("a", "a")[0].strongest, 1);
    }

    #[test]
    fn convex_stretches_each_ranking_to_zero_and_one() {
        let fused = blend(&[(b'a', 8.0), (b'b', 6.0), (b'c', 4.0)], &[(b'b', 0.9), (b'd', 0.5)], 10);
        assert_eq!(letters(&fused), "bacd");
        assert_eq!(fused.iter().map(|one| one.score).collect::<Vec<_>>(), [0.75, 0.5, 0.0, 0.0]);
        assert_eq!(fused.iter().map(|one| one.strongest).collect::<Vec<_>>(), [1, 0, 0, 1]);
    }

    #[test]
    fn convex_gives_one_to_all_of_a_ranking_of_equal_scores() {
        let fused = blend(&[(b'a', 3.0)], &[(b'b', -0.2), (b'c', -0.2)], 10);
        assert_eq!(letters(&fused), "abc");
        assert_eq!(fused.iter().map(|one| one.score).collect::<Vec<_>>(), [0.5, 0.5, 0.5]);
    }
}
