//! What the searches of a collection find first, learned from those that come, without a judgment.
//!
//! How many documents answer a query is a matter of what a collection's users ask. Where they want the one right
//! passage, the scores fall off at once; where they name a subject, they hardly fall at all.

use serde::{Deserialize, Serialize};

use super::Leg;

/// Results that a search is known by.
const FIRST: usize = 10;
/// Searches that count at most: those before them fade.
const MEMORY: f32 = 1000.0;
/// A collection starts as the development sets are in the mean, which counts as one search.
const COSINE_AT_START: Mean = Mean { value: 0.518, searches: 1.0 };
const DROP_AT_START: Mean = Mean { value: 0.435, searches: 1.0 };
/// As far as the development sets reach, and a little further.
const COSINES: (f32, f32) = (0.3, 0.6);
const DROPS: (f32, f32) = (0.2, 0.8);
/// Means that move by less change no relevance by much more than a hundredth: 0.013 at the worst.
const MOVED: f32 = 0.001;

/// What one search found first.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Shape {
    /// The mean cosine of the dense leg's first ten documents; `None` where it has fewer.
    pub cosine: Option<f32>,
    /// What the tenth document of the lexical leg lacks to the first one's score, as a share of it: 1 where nine or fewer
    /// hold a word of the query, `None` where that isn't known.
    pub drop: Option<f32>,
}

impl Shape {
    /// Of a search by the legs that are given.
    pub fn of(lexical: Option<Leg<'_>>, dense: Option<Leg<'_>>) -> Shape {
        let cosine = dense.and_then(|leg| leg.ranking.get(..FIRST)).map(|first| {
            let sum: f32 = first.iter().map(|one| one.score).sum();
            sum / FIRST as f32
        });
        let drop = lexical.and_then(|leg| {
            let best = leg.ranking.first().filter(|best| best.score > 0.0)?;
            match leg.ranking.get(FIRST - 1) {
                Some(tenth) => Some(1.0 - tenth.score / best.score),
                None => (!leg.is_cut).then_some(1.0),
            }
        });
        Shape { cosine, drop }
    }
}

/// A mean that forgets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Mean {
    value: f32,
    searches: f32,
}

impl Mean {
    fn learn(&mut self, value: Option<f32>, weight: f32) {
        let Some(value) = value.filter(|value| value.is_finite()) else { return };
        self.searches = (self.searches + weight).min(MEMORY);
        self.value += weight / self.searches * (value - self.value);
    }
}

/// The mean shape of a collection's searches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Usual {
    cosine: Mean,
    drop: Mean,
}

impl Default for Usual {
    fn default() -> Usual {
        Usual { cosine: COSINE_AT_START, drop: DROP_AT_START }
    }
}

impl Usual {
    /// Takes up a search. `weight`, 0..1, is how probable it is that the collection could answer it: what is off its subject
    /// says nothing about it.
    pub fn learn(&mut self, shape: Shape, weight: f32) {
        self.cosine.learn(shape.cosine, weight);
        self.drop.learn(shape.drop, weight);
    }

    /// How far the mean cosine and the mean drop are from where a collection starts.
    pub fn deviations(&self) -> (f32, f32) {
        (
            self.cosine.value.clamp(COSINES.0, COSINES.1) - COSINE_AT_START.value,
            self.drop.value.clamp(DROPS.0, DROPS.1) - DROP_AT_START.value,
        )
    }

    /// Whether these can be the means of searches: what was read from a file may be anything.
    pub fn is_sound(&self) -> bool {
        [self.cosine, self.drop]
            .iter()
            .all(|mean| mean.value.is_finite() && (1.0..=MEMORY).contains(&mean.searches))
    }

    /// Whether relevance by this one differs from that by the other enough to be noticed.
    pub fn has_moved_from(&self, other: &Usual) -> bool {
        let is_far = |one: Mean, other: Mean| (one.value - other.value).abs() > MOVED;
        is_far(self.cosine, other.cosine) || is_far(self.drop, other.drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fusion::Scored;

    fn ranking(scores: impl IntoIterator<Item = f32>) -> Vec<Scored> {
        (0..).zip(scores).map(|(document, score)| Scored { document, score }).collect()
    }

    fn leg(ranking: &[Scored], is_cut: bool) -> Option<Leg<'_>> {
        Some(Leg { ranking, is_cut })
    }

    #[test]
    fn a_search_is_known_by_its_first_ten() {
        let cosines = ranking((0..20).map(|place| 0.9 - 0.02 * place as f32));
        let scores = ranking((0..20).map(|place| 20.0 - place as f32));
        let shape = Shape::of(leg(&scores, true), leg(&cosines, true));
        assert!((shape.cosine.unwrap() - 0.81).abs() < 1e-6, "{shape:?}");
        assert!((shape.drop.unwrap() - 9.0 / 20.0).abs() < 1e-6, "{shape:?}");
    }

    #[test]
    fn fewer_than_ten_say_what_is_known() {
        let nine = ranking([1.0; 9]);
        assert_eq!(Shape::of(leg(&nine, false), leg(&nine, false)), Shape { cosine: None, drop: Some(1.0) });
        assert_eq!(Shape::of(leg(&nine, true), None), Shape::default());
        let none = ranking([]);
        assert_eq!(Shape::of(leg(&none, false), leg(&none, false)), Shape::default());
        let worthless = ranking([0.0; 10]);
        assert_eq!(Shape::of(leg(&worthless, false), None), Shape::default());
    }

    #[test]
    fn the_mean_starts_as_one_search_and_forgets_after_a_thousand() {
        let mut usual = Usual::default();
        usual.learn(Shape { cosine: Some(0.418), drop: Some(0.635) }, 1.0);
        let (cosine, drop) = usual.deviations();
        assert!((cosine + 0.05).abs() < 1e-6 && (drop - 0.1).abs() < 1e-6, "{usual:?}");
        let before = usual;
        usual.learn(Shape { cosine: Some(0.0), drop: Some(f32::NAN) }, 0.0);
        assert_eq!(usual, before, "what has no weight, and what is no number");

        let (many, others) =
            (Shape { cosine: Some(0.5), drop: None }, Shape { cosine: Some(0.4), drop: None });
        (0..100_000).for_each(|_| usual.learn(many, 1.0));
        (0..1000).for_each(|_| usual.learn(others, 1.0));
        let (cosine, _) = usual.deviations();
        assert!((cosine + 0.518 - 0.4 - 0.1 * 0.368).abs() < 1e-3, "{usual:?}");
    }

    #[test]
    fn no_search_takes_it_further_than_the_development_sets_reach() {
        let mut usual = Usual::default();
        (0..5000).for_each(|_| usual.learn(Shape { cosine: Some(-1.0), drop: Some(1.0) }, 1.0));
        let (cosine, drop) = usual.deviations();
        assert!((cosine + 0.218).abs() < 1e-6 && (drop - 0.365).abs() < 1e-6, "{usual:?}");
    }

    #[test]
    fn what_no_searches_can_have_taught_is_not_sound() {
        assert!(Usual::default().is_sound());
        for searches in [0.0, -5.0, 1e9, f32::NAN] {
            let drop = Mean { searches, ..DROP_AT_START };
            assert!(!Usual { drop, ..Usual::default() }.is_sound(), "{searches}");
        }
        let cosine = Mean { value: f32::INFINITY, ..COSINE_AT_START };
        assert!(!Usual { cosine, ..Usual::default() }.is_sound());
    }

    #[test]
    fn small_moves_are_not_noticed() {
        let before = Usual::default();
        let mut usual = before;
        (0..4).for_each(|_| usual.learn(Shape { cosine: Some(0.519), drop: Some(0.434) }, 1.0));
        assert!(!usual.has_moved_from(&before), "{usual:?}");
        usual.learn(Shape { cosine: None, drop: Some(0.5) }, 1.0);
        assert!(usual.has_moved_from(&before), "{usual:?}");
    }
}
