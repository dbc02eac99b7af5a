//! How sure a difference is: the paired bootstrap over queries.

use serde::Serialize;

/// Two runs that rank alike differ by less: their figures are rounded differently.
const ROUNDING: f64 = 1e-9;
/// How often the queries are drawn anew.
const SAMPLES: usize = 10_000;
/// Where the interval of 95 % begins among the sorted samples; it ends as far from the other end.
const FIRST_OF_95_PERCENT: usize = SAMPLES / 40;
/// Every comparison starts here, so that equal scores always give the same interval.
const SEED: u64 = 0x5eed;

/// A mean difference with its interval of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(super) struct Difference {
    /// The mean.
    pub(super) mean: f64,
    /// The lower end.
    pub(super) low: f64,
    /// The upper end.
    pub(super) high: f64,
}

impl Difference {
    /// The mean of per-query differences with its interval: the queries of each set are drawn with replacement, 10,000
    /// times; sets weigh equally, however many queries they have. Without a difference everything is 0.
    ///
    /// Source: Efron, Tibshirani, An Introduction to the Bootstrap, 1993 (percentile interval).
    pub(super) fn of(sets: &[Vec<f64>]) -> Difference {
        let sets: Vec<&Vec<f64>> = sets.iter().filter(|set| !set.is_empty()).collect();
        if sets.is_empty() {
            return Difference { mean: 0.0, low: 0.0, high: 0.0 };
        }
        let count = sets.len() as f64;
        let mut draw = SplitMix64(SEED);
        let mut samples: Vec<f64> = (0..SAMPLES)
            .map(|_| sets.iter().map(|set| resampled_mean(set, &mut draw)).sum::<f64>() / count)
            .collect();
        samples.sort_unstable_by(f64::total_cmp);
        Difference {
            mean: sets.iter().map(|set| set.iter().sum::<f64>() / set.len() as f64).sum::<f64>() / count,
            low: samples[FIRST_OF_95_PERCENT],
            high: samples[SAMPLES - 1 - FIRST_OF_95_PERCENT],
        }
    }

    /// Whether the whole interval is below 0 by more than rounding.
    pub(super) fn is_worse(&self) -> bool {
        self.high < -ROUNDING
    }

    /// Whether the whole interval is above 0 by more than rounding.
    pub(super) fn is_better(&self) -> bool {
        self.low > ROUNDING
    }
}

fn resampled_mean(values: &[f64], draw: &mut SplitMix64) -> f64 {
    (0..values.len()).map(|_| values[draw.below(values.len())]).sum::<f64>() / values.len() as f64
}

/// A small generator of random numbers. Source: Steele, Lea, Flood, Fast Splittable Pseudorandom Number Generators,
/// OOPSLA 2014.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is above 0.
    fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_is_the_published_one() {
        // the first numbers of seed 1234567 in the authors' reference implementation
        let mut draw = SplitMix64(1_234_567);
        assert_eq!([draw.next(), draw.next()], [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]);
    }

    #[test]
    fn a_constant_difference_is_certain() {
        let found = Difference::of(&[vec![0.25; 7]]);
        assert_eq!(found, Difference { mean: 0.25, low: 0.25, high: 0.25 });
        assert!(found.is_better() && !found.is_worse());
        assert!(Difference::of(&[vec![-0.25; 7]]).is_worse());
    }

    #[test]
    fn no_difference_is_neither_better_nor_worse() {
        let found = Difference::of(&[vec![0.0; 3]]);
        assert!(!found.is_better() && !found.is_worse());
        assert_eq!(Difference::of(&[]).mean, 0.0);
        for rounding in [1e-12, -1e-12] {
            let found = Difference::of(&[vec![rounding; 3]]);
            assert!(!found.is_better() && !found.is_worse());
        }
    }

    #[test]
    fn the_interval_is_that_of_the_normal_distribution_where_there_are_many_queries() {
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
