//! What the searches of a collection find first, learned from those that come, without a judgment.
//!
//! How many documents answer a query is a matter of what a collection's users ask. Where they want the one right
//! passage, the scores fall off at once; where they name a subject, they hardly fall at all.

use serde::{Deserialize, Serialize};

use super::RankedList;

/// Results that a search is known by.
const TOP: usize = 10;
/// Searches that count at most: those before them fade.
const WINDOW_SEARCHES: f32 = 1000.0;
/// A collection starts as the development sets are in the mean, which counts as one search.
const COSINE_PRIOR: Ewma = Ewma { value: 0.518, searches: 1.0 };
const DROP_PRIOR: Ewma = Ewma { value: 0.435, searches: 1.0 };
/// As far as the development sets reach, and a little further.
const COSINE_RANGE: (f32, f32) = (0.3, 0.6);
const DROP_RANGE: (f32, f32) = (0.2, 0.8);
/// Means that move by less change no relevance by much more than a hundredth: 0.013 at the worst.
const CHANGE_MIN: f32 = 0.001;

/// What one search found first.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ScoreProfile {
    /// The mean cosine of the dense leg's first ten documents; `None` where it has fewer.
    pub cosine: Option<f32>,
    /// What the tenth document of the lexical leg lacks to the first one's score, as a share of it: 1 where nine or fewer
    /// hold a word of the query, `None` where that isn't known.
    pub drop: Option<f32>,
}

impl ScoreProfile {
    /// Of a search by the legs that are given.
    pub fn of(lexical: Option<RankedList<'_>>, dense: Option<RankedList<'_>>) -> ScoreProfile {
        let cosine = dense.and_then(|retriever| retriever.ranking.get(..TOP)).map(|first| {
            let sum: f32 = first.iter().map(|one| one.score).sum();
            sum / TOP as f32
        });
        let drop = lexical.and_then(|retriever| {
            let best = retriever.ranking.first().filter(|best| best.score > 0.0)?;
            match retriever.ranking.get(TOP - 1) {
                Some(tenth) => Some(1.0 - tenth.score / best.score),
                None => (!retriever.is_truncated).then_some(1.0),
            }
        });
        ScoreProfile { cosine, drop }
    }
}

/// A mean that forgets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Ewma {
    value: f32,
    searches: f32,
}

impl Ewma {
    fn update(&mut self, value: Option<f32>, weight: f32) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        self.searches = (self.searches + weight).min(WINDOW_SEARCHES);
        self.value += weight / self.searches * (value - self.value);
    }
}

/// The mean shape of a collection's searches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ScoreBaseline {
    cosine: Ewma,
    drop: Ewma,
}

impl Default for ScoreBaseline {
    fn default() -> ScoreBaseline {
        ScoreBaseline { cosine: COSINE_PRIOR, drop: DROP_PRIOR }
    }
}

impl ScoreBaseline {
    /// Takes up a search. `weight`, 0..1, is how probable it is that the collection could answer it: what is off its subject
    /// says nothing about it.
    pub fn update(&mut self, shape: ScoreProfile, weight: f32) {
        self.cosine.update(shape.cosine, weight);
        self.drop.update(shape.drop, weight);
    }

    /// How far the mean cosine and the mean drop are from where a collection starts.
    pub fn deviation_from_prior(&self) -> (f32, f32) {
        (
            self.cosine.value.clamp(COSINE_RANGE.0, COSINE_RANGE.1) - COSINE_PRIOR.value,
            self.drop.value.clamp(DROP_RANGE.0, DROP_RANGE.1) - DROP_PRIOR.value,
        )
    }

    /// Whether these can be the means of searches: what was read from a file may be anything.
    pub fn is_sound(&self) -> bool {
        [self.cosine, self.drop]
            .iter()
            .all(|mean| mean.value.is_finite() && (1.0..=WINDOW_SEARCHES).contains(&mean.searches))
    }

    /// Whether relevance by this one differs from that by the other enough to be noticed.
    pub fn has_changed_from(&self, other: &ScoreBaseline) -> bool {
        let is_far = |one: Ewma, other: Ewma| (one.value - other.value).abs() > CHANGE_MIN;
        is_far(self.cosine, other.cosine) || is_far(self.drop, other.drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fusion::ScoredDocument;

    fn ranking(scores: impl IntoIterator<Item = f32>) -> Vec<ScoredDocument> {
        (0..).zip(scores).map(|(document, score)| ScoredDocument { document, score }).collect()
    }

    fn retriever(ranking: &[ScoredDocument], is_truncated: bool) -> Option<RankedList<'_>> {
        Some(RankedList { ranking, is_truncated })
    }

    #[test]
    fn a_search_is_known_by_its_first_ten() {
        let cosines = ranking((0..20).map(|place| 0.9 - 0.02 * place as f32));
        let scores = ranking((0..20).map(|place| 20.0 - place as f32));
        let shape = ScoreProfile::of(retriever(&scores, true), retriever(&cosines, true));
        assert!((shape.cosine.unwrap() - 0.81).abs() < 1e-6, "{shape:?}");
        assert!((shape.drop.unwrap() - 9.0 / 20.0).abs() < 1e-6, "{shape:?}");
    }

    #[test]
    fn fewer_than_ten_say_what_is_known() {
        let nine = ranking([1.0; 9]);
        assert_eq!(
            ScoreProfile::of(retriever(&nine, false), retriever(&nine, false)),
            ScoreProfile { cosine: None, drop: Some(1.0) }
        );
        assert_eq!(ScoreProfile::of(retriever(&nine, true), None), ScoreProfile::default());
        let none = ranking([]);
        assert_eq!(
            ScoreProfile::of(retriever(&none, false), retriever(&none, false)),
            ScoreProfile::default()
        );
        let worthless = ranking([0.0; 10]);
        assert_eq!(ScoreProfile::of(retriever(&worthless, false), None), ScoreProfile::default());
    }

    #[test]
    fn the_mean_starts_as_one_search_and_forgets_after_a_thousand() {
        let mut baseline = ScoreBaseline::default();
        baseline.update(ScoreProfile { cosine: Some(0.418), drop: Some(0.635) }, 1.0);
        let (cosine, drop) = baseline.deviation_from_prior();
        assert!((cosine + 0.05).abs() < 1e-6 && (drop - 0.1).abs() < 1e-6, "{baseline:?}");
        let before = baseline;
        baseline.update(ScoreProfile { cosine: Some(0.0), drop: Some(f32::NAN) }, 0.0);
        assert_eq!(baseline, before, "what has no weight, and what is no number");

        let (many, others) =
            (ScoreProfile { cosine: Some(0.5), drop: None }, ScoreProfile { cosine: Some(0.4), drop: None });
        (0..100_000).for_each(|_| baseline.update(many, 1.0));
        (0..1000).for_each(|_| baseline.update(others, 1.0));
        let (cosine, _) = baseline.deviation_from_prior();
        assert!((cosine + 0.518 - 0.4 - 0.1 * 0.368).abs() < 1e-3, "{baseline:?}");
    }

    #[test]
    fn no_search_takes_it_further_than_the_development_sets_reach() {
        let mut baseline = ScoreBaseline::default();
        (0..5000).for_each(|_| baseline.update(ScoreProfile { cosine: Some(-1.0), drop: Some(1.0) }, 1.0));
        let (cosine, drop) = baseline.deviation_from_prior();
        assert!((cosine + 0.218).abs() < 1e-6 && (drop - 0.365).abs() < 1e-6, "{baseline:?}");
    }

    #[test]
    fn what_no_searches_can_have_taught_is_not_sound() {
        assert!(ScoreBaseline::default().is_sound());
        for searches in [0.0, -5.0, 1e9, f32::NAN] {
            let drop = Ewma { searches, ..DROP_PRIOR };
            assert!(!ScoreBaseline { drop, ..ScoreBaseline::default() }.is_sound(), "{searches}");
        }
        let cosine = Ewma { value: f32::INFINITY, ..COSINE_PRIOR };
        assert!(!ScoreBaseline { cosine, ..ScoreBaseline::default() }.is_sound());
    }

    #[test]
    fn small_moves_are_not_noticed() {
        let before = ScoreBaseline::default();
        let mut baseline = before;
        (0..4).for_each(|_| baseline.update(ScoreProfile { cosine: Some(0.519), drop: Some(0.434) }, 1.0));
        assert!(!baseline.has_changed_from(&before), "{baseline:?}");
        baseline.update(ScoreProfile { cosine: None, drop: Some(0.5) }, 1.0);
        assert!(baseline.has_changed_from(&before), "{baseline:?}");
    }
}
