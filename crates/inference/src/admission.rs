//! Who may wait in the interactive lane.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::pool::Load;
use super::scheduler::InferenceError;

/// How long decisions are counted before they tell how much is refused.
const WINDOW: Duration = Duration::from_millis(25);
/// However much is refused, so much may wait, or as much as the threads compute at a time: less would leave them without work until the
/// next request is read.
const WAIT_LEAST: Duration = Duration::from_millis(5);
/// Callers are told to come again as if no smaller share were admitted.
const SHARE_LEAST: f64 = 0.01;
/// The lane is overrun where a smaller share is admitted.
const OVERRUN: f64 = 0.5;

/// The limits of the lane, and what became of the latest requests.
///
/// The time that a text may wait is for bursts. Where requests are refused for longer, a long queue serves nobody: as many are answered
/// with a short one, and sooner. So the limit shrinks with the square of the share of those who are admitted: where a tenth is, that of the
/// shortest queue is reached, and where most are, there is still room for bursts (the idea is that of CoDel: Nichols and
/// Jacobson, "Controlling queue delay", 2012).
pub(super) struct Admission {
    tokens_max: usize,
    wait_max: Duration,
    latest: Mutex<Latest>,
}

struct Latest {
    since: Instant,
    admitted: u32,
    refused: u32,
    /// The share of those admitted in the window before.
    share: f64,
}

impl Admission {
    /// Everybody is admitted up to so many tokens, and so long a time.
    pub(super) fn new(tokens_max: usize, wait_max: Duration) -> Admission {
        let latest = Latest { since: Instant::now(), admitted: 0, refused: 0, share: 1.0 };
        Admission { tokens_max, wait_max, latest: Mutex::new(latest) }
    }

    /// Whether so many more tokens may wait. An empty queue takes any number.
    ///
    /// # Errors
    /// [`InferenceError::TooMany`], [`InferenceError::TooLong`].
    pub(super) fn admit(&self, load: Load, tokens: usize) -> Result<(), InferenceError> {
        let now = Instant::now();
        self.check_at(now, load, tokens)?;
        self.latest(now).admitted += 1;
        Ok(())
    }

    fn check_at(&self, now: Instant, load: Load, tokens: usize) -> Result<(), InferenceError> {
        let Load { waiting: queued, wait, at_a_time } = load;
        if queued == 0 {
            return Ok(());
        }
        let mut latest = self.latest(now);
        let least = WAIT_LEAST.max(at_a_time).min(self.wait_max);
        let limit = self.wait_max.mul_f64(latest.share.powi(2)).max(least);
        let error = if queued + tokens > self.tokens_max {
            InferenceError::TooMany { queued, limit: self.tokens_max }
        } else if wait > limit {
            InferenceError::TooLong { wait, limit, again: wait.div_f64(latest.share.max(SHARE_LEAST)) }
        } else {
            return Ok(());
        };
        latest.refused += 1;
        Err(error)
    }

    /// Whether most of what comes is refused.
    pub(super) fn is_overrun(&self) -> bool {
        self.is_overrun_at(Instant::now())
    }

    fn is_overrun_at(&self, now: Instant) -> bool {
        self.latest(now).share < OVERRUN
    }

    fn latest(&self, now: Instant) -> MutexGuard<'_, Latest> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        latest.roll(now);
        latest
    }
}

impl Latest {
    /// Begins a new window when this one is over. What is older than another one says nothing any more.
    fn roll(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.since);
        if age < WINDOW {
            return;
        }
        // as if one more had been admitted, so that a single refusal is not everybody's
        let share = f64::from(self.admitted + 1) / f64::from(self.admitted + self.refused + 1);
        let is_old = age >= 2 * WINDOW || self.admitted + self.refused == 0;
        *self = Latest { since: now, admitted: 0, refused: 0, share: if is_old { 1.0 } else { share } };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(40);

    fn load(wait_ms: u64) -> Load {
        Load { waiting: 10, wait: Duration::from_millis(wait_ms), at_a_time: Duration::ZERO }
    }

    /// The wait from which on requests are refused.
    fn limit(admission: &Admission, now: Instant) -> u64 {
        (0..).find(|wait| admission.check_at(now, load(*wait), 1).is_err()).unwrap()
    }

    #[test]
    fn the_more_is_refused_the_shorter_the_queue_until_a_while_has_passed() {
        let admission = Admission::new(1000, LIMIT);
        assert_eq!(limit(&admission, Instant::now()), 41);
        let again = |share: f64| {
            admission.latest.lock().unwrap().share = share;
            match admission.admit(load(100), 1) {
                Err(InferenceError::TooLong { again, .. }) => again.as_millis(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([1.0, 0.5, 0.1, 0.0].map(again), [100, 200, 1000, 10_000]);
        let after = |age: Duration, [admitted, refused]: [u32; 2]| {
            let since = Instant::now();
            *admission.latest.lock().unwrap() = Latest { since, admitted, refused, share: 1.0 };
            (limit(&admission, since + age), admission.is_overrun_at(since + age))
        };
        assert_eq!(after(WINDOW / 2, [1, 9]), (41, false), "the window is not over");
        assert_eq!(after(WINDOW, [6, 4]), (17, false));
        assert_eq!(after(WINDOW, [4, 6]), (9, true));
        assert_eq!(after(WINDOW, [0, 1]), (11, false), "one is not everybody");
        assert_eq!(after(WINDOW, [1, 99]), (6, true), "threads are not left without work");
        assert_eq!(after(2 * WINDOW, [1, 99]), (41, false), "that was long ago");
        let slow = |wait_ms| Load { at_a_time: Duration::from_millis(20), ..load(wait_ms) };
        assert_eq!(after(WINDOW, [1, 99]).0, 6);
        let now = admission.latest.lock().unwrap().since;
        assert!(admission.check_at(now, slow(20), 1).is_ok(), "what the threads compute is no queue");
        assert!(admission.check_at(now, slow(21), 1).is_err());
    }

    #[test]
    fn decisions_are_counted_once() {
        let admission = Admission::new(1000, LIMIT);
        let counted = || {
            let latest = admission.latest.lock().unwrap();
            (latest.admitted, latest.refused)
        };
        assert!(admission.admit(load(1), 1).is_ok());
        assert!(admission.admit(load(1), 1000).is_err());
        assert_eq!(counted(), (1, 1));
        assert!(admission.admit(Load { waiting: 0, ..load(80) }, 2000).is_ok(), "nobody waits");
    }
}
