//! The baseline of a collection's scores, estimated from its searches without judgments.
//!
//! How many documents answer a query depends on what users ask. If they look for the one right passage, scores drop steeply after
//! it; if they name a subject, scores hardly drop.

use serde::{Deserialize, Serialize};

use super::RankedList;

/// A search is characterised by this many top results.
const TOP: usize = 10;
/// Effective number of searches in the means: the weight of older ones decays.
const WINDOW_SEARCHES: f32 = 1000.0;
/// Priors: the means over the development sets, weighted as one search.
const COSINE_PRIOR: Ewma = Ewma { value: 0.518, searches: 1.0 };
const DROP_PRIOR: Ewma = Ewma { value: 0.435, searches: 1.0 };
/// Bounds: the range of the development sets, slightly extended.
const COSINE_RANGE: (f32, f32) = (0.3, 0.6);
const DROP_RANGE: (f32, f32) = (0.2, 0.8);
/// Smaller changes of a mean change no relevance by much more than 0.01 (0.013 in the worst case).
const CHANGE_MIN: f32 = 0.001;

/// Score statistics of one search's top 10.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct ScoreProfile {
    /// Mean cosine of the first ten documents of the dense retriever; `None` if it has fewer.
    pub cosine: Option<f32>,
    /// Relative drop from the first to the tenth lexical score: 1 if at most nine documents contain a word of the query, `None`
    /// if unknown.
    pub drop: Option<f32>,
}

impl ScoreProfile {
    /// The profile of a search by the given retrievers.
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

/// Exponentially weighted mean.
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

/// The mean score profile of a collection's searches.
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
    /// Adds a search. `weight`, 0..1, is the probability that the collection can answer it: searches off its subject say nothing
    /// about it.
    pub fn update(&mut self, shape: ScoreProfile, weight: f32) {
        self.cosine.update(shape.cosine, weight);
        self.drop.update(shape.drop, weight);
    }

    /// The deviations of mean cosine and mean drop from their priors.
    pub fn deviation_from_prior(&self) -> (f32, f32) {
        (
            self.cosine.value.clamp(COSINE_RANGE.0, COSINE_RANGE.1) - COSINE_PRIOR.value,
            self.drop.value.clamp(DROP_RANGE.0, DROP_RANGE.1) - DROP_PRIOR.value,
        )
    }

    /// Whether the values are possible: a file may contain anything.
    pub fn is_sound(&self) -> bool {
        [self.cosine, self.drop]
            .iter()
            .all(|mean| mean.value.is_finite() && (1.0..=WINDOW_SEARCHES).contains(&mean.searches))
    }

    /// Whether the difference changes relevance noticeably.
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
    fn a_score_profile_covers_the_top_ten() {
        let cosines = ranking((0..20).map(|rank| 0.9 - 0.02 * rank as f32));
        let scores = ranking((0..20).map(|rank| 20.0 - rank as f32));
        let shape = ScoreProfile::of(retriever(&scores, true), retriever(&cosines, true));
        assert!((shape.cosine.unwrap() - 0.81).abs() < 1e-6, "{shape:?}");
        assert!((shape.drop.unwrap() - 9.0 / 20.0).abs() < 1e-6, "{shape:?}");
    }

    #[test]
    fn short_rankings_have_partial_profiles() {
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
    fn the_mean_starts_with_weight_one_and_decays_after_a_thousand_searches() {
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
    fn deviations_are_clamped_to_the_range_of_the_development_sets() {
        let mut baseline = ScoreBaseline::default();
        (0..5000).for_each(|_| baseline.update(ScoreProfile { cosine: Some(-1.0), drop: Some(1.0) }, 1.0));
        let (cosine, drop) = baseline.deviation_from_prior();
        assert!((cosine + 0.218).abs() < 1e-6 && (drop - 0.365).abs() < 1e-6, "{baseline:?}");
    }

    #[test]
    fn impossible_baselines_are_not_sound() {
        assert!(ScoreBaseline::default().is_sound());
        for searches in [0.0, -5.0, 1e9, f32::NAN] {
            let drop = Ewma { searches, ..DROP_PRIOR };
            assert!(!ScoreBaseline { drop, ..ScoreBaseline::default() }.is_sound(), "{searches}");
        }
        let cosine = Ewma { value: f32::INFINITY, ..COSINE_PRIOR };
        assert!(!ScoreBaseline { cosine, ..ScoreBaseline::default() }.is_sound());
    }

    #[test]
    fn small_changes_are_not_noticeable() {
        let before = ScoreBaseline::default();
        let mut baseline = before;
        (0..4).for_each(|_| baseline.update(ScoreProfile { cosine: Some(0.519), drop: Some(0.434) }, 1.0));
        assert!(!baseline.has_changed_from(&before), "{baseline:?}");
        baseline.update(ScoreProfile { cosine: None, drop: Some(0.5) }, 1.0);
        assert!(baseline.has_changed_from(&before), "{baseline:?}");
    }
}
