//! Limits of a key: requests and tokens per minute, and requests at one time.
//!
//! A [`Bucket`] is the token bucket that the generic cell rate algorithm (GCRA, ITU-T I.371) describes: it holds one minute's units, fills
//! evenly, and a request takes its units if they are there. The arithmetic is exact: no fraction of a unit is lost or gained.

use std::time::{Duration, Instant};

use crate::budget::Budgets;

/// The time in which an empty bucket fills.
const PERIOD: Duration = Duration::from_secs(60);
/// Highest limit: beyond it the arithmetic could overflow after a century.
pub const LIMIT_MAX: u64 = 1_000_000_000_000;

/// The limits of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct KeyLimits {
    /// Requests per minute.
    pub requests_per_minute: Option<u64>,
    /// Tokens per minute: those of texts to embed and to rerank.
    pub tokens_per_minute: Option<u64>,
    /// Requests at one time.
    pub concurrent_requests: Option<u64>,
    /// Its budgets.
    pub budgets: Budgets,
}

/// Units per minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bucket {
    limit: u64,
    /// Units times the nanoseconds of [`PERIOD`]; below 0 after a charge of more than there was.
    level: i128,
    /// When `level` was that.
    at: Instant,
}

/// There are not enough units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exceeded {
    /// When there will be; `None` for more units than the limit, which there never will be.
    pub retry_after: Option<Duration>,
}

impl Bucket {
    /// A full bucket of `limit` units per minute, at most [`LIMIT_MAX`].
    pub fn new(limit: u64, now: Instant) -> Bucket {
        let limit = limit.min(LIMIT_MAX);
        Bucket { limit, level: scaled(limit), at: now }
    }

    /// A bucket with this level, in thousandths of a unit: below 0 after charges of more than there was.
    pub fn at_level(limit: u64, thousandths: i64, now: Instant) -> Bucket {
        let full = Bucket::new(limit, now);
        let level = i128::from(thousandths) * (scaled(1) / 1_000);
        Bucket { level: level.min(full.level), ..full }
    }

    /// One of as many equal parts of the bucket; its limit is rounded up.
    pub fn part(&self, parts: u64, now: Instant) -> Bucket {
        let (mut whole, parts) = (*self, parts.max(1));
        whole.fill(now);
        let limit = whole.limit.div_ceil(parts);
        Bucket { limit, level: (whole.level / i128::from(parts)).min(scaled(limit)), ..whole }
    }

    /// Units that are missing to a full bucket, rounded up.
    pub fn missing(&mut self, now: Instant) -> u64 {
        self.fill(now);
        let missing = (scaled(self.limit) - self.level).max(0).unsigned_abs();
        u64::try_from(missing.div_ceil(scaled(1).unsigned_abs())).unwrap_or(u64::MAX)
    }

    /// Units per minute.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes `units`.
    ///
    /// # Errors
    /// [`Exceeded`]; nothing is taken then.
    pub fn take(&mut self, now: Instant, units: u64) -> Result<(), Exceeded> {
        self.fill(now);
        let missing = scaled(units) - self.level;
        if missing <= 0 {
            self.level -= scaled(units);
            return Ok(());
        }
        Err(Exceeded { retry_after: (units <= self.limit).then(|| self.time_for(missing)) })
    }

    /// Takes `units` that were used already, also if that leaves less than none.
    pub fn charge(&mut self, now: Instant, units: u64) {
        self.fill(now);
        self.level -= scaled(units);
    }

    /// Gives back units that were taken and not used.
    pub fn give_back(&mut self, now: Instant, units: u64) {
        self.fill(now);
        self.level = (self.level + scaled(units)).min(scaled(self.limit));
    }

    /// Units that can be taken now.
    pub fn remaining(&mut self, now: Instant) -> u64 {
        self.fill(now);
        u64::try_from(self.level / scaled(1)).unwrap_or(0)
    }

    /// Time until the bucket is full.
    pub fn reset_after(&mut self, now: Instant) -> Duration {
        self.fill(now);
        self.time_for(scaled(self.limit) - self.level)
    }

    /// Adds what has come since. A time before the last one adds nothing.
    fn fill(&mut self, now: Instant) {
        let elapsed = now.saturating_duration_since(self.at);
        let added =
            i128::try_from(elapsed.as_nanos()).unwrap_or(i128::MAX).saturating_mul(i128::from(self.limit));
        self.level = self.level.saturating_add(added).min(scaled(self.limit));
        self.at = self.at.max(now);
    }

    /// The time in which the level rises by this amount, rounded up.
    fn time_for(&self, level: i128) -> Duration {
        let nanos = level.max(0).unsigned_abs().div_ceil(u128::from(self.limit.max(1)));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

fn scaled(units: u64) -> i128 {
    i128::from(units) * (PERIOD.as_nanos() as i128)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an `Instant` can only be made by the clock")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn after(start: Instant, nanos: u64) -> Instant {
        start + Duration::from_nanos(nanos)
    }

    #[test]
    fn a_minute_of_units_can_be_taken_at_once_and_then_evenly() {
        let start = Instant::now();
        let mut bucket = Bucket::new(60, start);
        assert_eq!(bucket.take(start, 60), Ok(()));
        assert_eq!(bucket.take(start, 1), Err(Exceeded { retry_after: Some(Duration::from_secs(1)) }));
        assert_eq!(
            bucket.take(after(start, 999_999_999), 1),
            Err(Exceeded { retry_after: Some(Duration::from_nanos(1)) })
        );
        assert_eq!(bucket.take(after(start, 1_000_000_000), 1), Ok(()));
        assert_eq!(bucket.take(start, 61), Err(Exceeded { retry_after: None }), "never");
        let later = start + Duration::from_secs(31);
        assert_eq!((bucket.remaining(later), bucket.reset_after(later)), (30, Duration::from_secs(30)));
        bucket.give_back(later, 100);
        assert_eq!(bucket.remaining(later), 60, "no more than the limit");
        bucket.charge(later, 120);
        assert_eq!((bucket.remaining(later), bucket.reset_after(later)), (0, Duration::from_secs(120)));
        assert_eq!(Bucket::new(0, start).take(start, 1), Err(Exceeded { retry_after: None }));
    }

    /// The algorithm as its standard has it: the theoretical arrival time of the next cell, in nanoseconds times the limit.
    struct Gcra {
        limit: i128,
        arrival: i128,
    }

    impl Gcra {
        fn take(&mut self, now: u64, units: u64) -> bool {
            let (now, period) = (i128::from(now) * self.limit, PERIOD.as_nanos() as i128);
            let next = self.arrival.max(now) + i128::from(units) * period;
            let conforms = next - now <= period * self.limit;
            if conforms {
                self.arrival = next;
            }
            conforms
        }
    }

    proptest! {
        #[test]
        fn it_admits_what_the_standard_admits(
            limit in 1u64..2_000,
            steps in prop::collection::vec((0u64..3_000_000_000, 0u64..40), 1..200),
        ) {
            let start = Instant::now();
            let mut bucket = Bucket::new(limit, start);
            let mut standard = Gcra { limit: i128::from(limit), arrival: 0 };
            let mut now = 0;
            for (pause, units) in steps {
                now += pause;
                prop_assert_eq!(bucket.take(after(start, now), units).is_ok(), standard.take(now, units));
            }
        }

        #[test]
        fn no_window_of_a_minute_admits_more_than_twice_the_limit_and_refusals_tell_when(
            limit in 1u64..500,
            steps in prop::collection::vec((0u64..2_000_000_000, 1u64..20), 1..200),
        ) {
            let start = Instant::now();
            let mut bucket = Bucket::new(limit, start);
            let (mut now, mut admitted) = (0, Vec::new());
            for (pause, units) in steps {
                now += pause;
                match bucket.take(after(start, now), units) {
                    Ok(()) => admitted.push((now, units)),
                    Err(Exceeded { retry_after: Some(wait) }) => {
                        let ready = after(start, now) + wait;
                        prop_assert!(bucket.clone().take(ready, units).is_ok());
                        prop_assert!(bucket.clone().take(ready - Duration::from_nanos(1), units).is_err());
                    }
                    Err(Exceeded { retry_after: None }) => prop_assert!(units > limit),
                }
            }
            let minute = PERIOD.as_nanos() as u64;
            for (at, _) in &admitted {
                let within = admitted.iter().filter(|(other, _)| (*at..at + minute).contains(other));
                prop_assert!(within.map(|(_, units)| units).sum::<u64>() <= 2 * limit);
            }
        }
    }
}
