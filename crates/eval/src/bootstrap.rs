//! Confidence intervals of mean differences: the paired bootstrap over queries.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

/// Differences up to this come from rounding: two runs with equal rankings may differ by less.
const ROUNDING: f64 = 1e-9;
/// Bootstrap samples.
const SAMPLES: usize = 10_000;
/// The index of the 2.5th percentile among the sorted samples.
const LOWER_END: usize = SAMPLES / 40;
/// A fixed seed: equal scores give equal intervals.
const SEED: u64 = 0x5eed;

/// A mean difference with its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct Difference {
    /// The mean.
    pub(crate) mean: f64,
    /// The lower end.
    pub(crate) low: f64,
    /// The upper end.
    pub(crate) high: f64,
}

impl Difference {
    /// The mean over sets of the mean per-query difference, with its interval. Each of [`SAMPLES`] samples draws the
    /// queries of each set with replacement. Sets weigh equally, whatever their number of queries. All 0 without queries.
    ///
    /// Source: Efron, Tibshirani, An Introduction to the Bootstrap, 1993 (percentile interval).
    pub(crate) fn of(sets: &[Vec<f64>]) -> Difference {
        let sets: Vec<&Vec<f64>> = sets.iter().filter(|set| !set.is_empty()).collect();
        if sets.is_empty() {
            return Difference { mean: 0.0, low: 0.0, high: 0.0 };
        }
        let count = sets.len() as f64;
        let mut rng = StdRng::seed_from_u64(SEED);
        let mut samples: Vec<f64> = (0..SAMPLES)
            .map(|_| sets.iter().map(|set| resampled_mean(set, &mut rng)).sum::<f64>() / count)
            .collect();
        samples.sort_unstable_by(f64::total_cmp);
        Difference {
            mean: sets.iter().map(|set| set.iter().sum::<f64>() / set.len() as f64).sum::<f64>() / count,
            low: samples[LOWER_END],
            high: samples[SAMPLES - 1 - LOWER_END],
        }
    }

    /// Whether the whole interval is below 0 by more than rounding.
    pub(crate) fn is_worse(&self) -> bool {
        self.high < -ROUNDING
    }

    /// Whether the whole interval is above 0 by more than rounding.
    pub(crate) fn is_better(&self) -> bool {
        self.low > ROUNDING
    }
}

fn resampled_mean(values: &[f64], rng: &mut StdRng) -> f64 {
    (0..values.len()).map(|_| values[rng.random_range(0..values.len())]).sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_difference_has_an_interval_of_width_0() {
        let found = Difference::of(&[vec![0.25; 7]]);
        assert_eq!(found, Difference { mean: 0.25, low: 0.25, high: 0.25 });
        assert!(found.is_better() && !found.is_worse());
        assert!(Difference::of(&[vec![-0.25; 7]]).is_worse());
    }

    #[test]
    fn differences_up_to_rounding_are_neither_better_nor_worse() {
        let found = Difference::of(&[vec![0.0; 3]]);
        assert!(!found.is_better() && !found.is_worse());
        assert_eq!(Difference::of(&[]).mean, 0.0);
        for rounding in [1e-12, -1e-12] {
            let found = Difference::of(&[vec![rounding; 3]]);
            assert!(!found.is_better() && !found.is_worse());
        }
    }

    #[test]
    fn the_interval_of_many_queries_is_that_of_the_normal_distribution() {
        // 400 differences of +1 and -1: the mean has the standard error 1 / 20
        let values: Vec<f64> = (0..400).map(|i| if i % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let found = Difference::of(&[values]);
        assert_eq!(found.mean, 0.0);
        assert!((found.low + 1.96 / 20.0).abs() < 0.006, "{found:?}");
        assert!((found.high - 1.96 / 20.0).abs() < 0.006, "{found:?}");
    }

    #[test]
    fn sets_weigh_equally() {
        let found = Difference::of(&[vec![1.0; 2], vec![0.0; 1000]]);
        assert_eq!(found, Difference { mean: 0.5, low: 0.5, high: 0.5 });
    }

    #[test]
    fn equal_scores_give_equal_intervals() {
        let sets = [vec![0.1, -0.2, 0.3, 0.05, 0.0, -0.01]];
        assert_eq!(Difference::of(&sets), Difference::of(&sets));
    }
}
