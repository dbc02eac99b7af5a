//! Whether to call an upstream, and whether to call it again.
//!
//! A [`Breaker`] keeps callers from an upstream that fails anyway; a [`RetryBudget`] keeps retries to a share of the requests, so that an
//! outage is not made worse by those who wait for its end; [`wait_before_retry`] says how long a failed attempt waits.
//! None of them has a clock: every decision takes `now`.

use std::time::{Duration, Instant};

/// Failures in a row that open a breaker.
pub const FAILURES_MAX: u32 = 5;
/// How long a breaker stays open at first, and at most; it doubles with each failed probe.
pub const OPEN_FIRST: Duration = Duration::from_secs(1);
/// See [`OPEN_FIRST`].
pub const OPEN_MAX: Duration = Duration::from_secs(30);

/// The share of requests that may be retries.
pub const RETRY_SHARE: f64 = 0.1;
/// Retries that may be saved up; a new budget has as many.
pub const RETRIES_SAVED_MAX: f64 = 10.0;

/// The longest wait before the first retry; it doubles with each.
pub const WAIT_FIRST: Duration = Duration::from_millis(100);
/// The longest wait before any retry that the upstream did not ask for.
pub const WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest wait that an upstream can ask for; who asks for more is not called again.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(20);

/// Decides whether an upstream is called: closed it lets everything pass, open nothing, half open one probe at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    state: State,
    /// How long it stays open the next time.
    open_for: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// A probe is on its way, and counts as lost after `until`.
    HalfOpen {
        until: Instant,
    },
}

/// Whether a call may be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Admission {
    /// It may.
    Pass,
    /// It may not; try again after this time.
    Refused(Duration),
}

/// What an attempt told about the upstream's health.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It answered, if only to refuse.
    Answered,
    /// It could not be reached, was silent, or failed by its own fault.
    Failed,
}

impl Default for Breaker {
    fn default() -> Breaker {
        Breaker { state: State::Closed { failures: 0 }, open_for: OPEN_FIRST }
    }
}

impl Breaker {
    /// Whether a call would be let through at `now`; nothing is changed.
    pub fn would_admit(&self, now: Instant) -> Admission {
        match self.state {
            State::Closed { .. } => Admission::Pass,
            State::Open { until } | State::HalfOpen { until } if now >= until => Admission::Pass,
            State::Open { until } | State::HalfOpen { until } => Admission::Refused(until - now),
        }
    }

    /// Whether a call may be made at `now`. When it is a probe, no other passes until its outcome is known or `probe_max` is over.
    pub fn admit(&mut self, now: Instant, probe_max: Duration) -> Admission {
        let admission = self.would_admit(now);
        if admission == Admission::Pass && !matches!(self.state, State::Closed { .. }) {
            self.state = State::HalfOpen { until: now + probe_max };
        }
        admission
    }

    /// Takes note of how a call ended. Calls that began before the breaker opened, and fail after, change nothing.
    pub fn record(&mut self, now: Instant, outcome: Outcome) {
        match (outcome, self.state) {
            (Outcome::Answered, _) => *self = Breaker::default(),
            (Outcome::Failed, State::Closed { failures }) if failures + 1 < FAILURES_MAX => {
                self.state = State::Closed { failures: failures + 1 };
            }
            (Outcome::Failed, State::Closed { .. } | State::HalfOpen { .. }) => {
                self.state = State::Open { until: now + self.open_for };
                self.open_for = (self.open_for * 2).min(OPEN_MAX);
            }
            (Outcome::Failed, State::Open { .. }) => {}
        }
    }
}

/// How many retries are left: each request earns a share of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryBudget {
    saved: f64,
}

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget { saved: RETRIES_SAVED_MAX }
    }
}

impl RetryBudget {
    /// A request was made that is no retry.
    pub fn earn(&mut self) {
        self.saved = (self.saved + RETRY_SHARE).min(RETRIES_SAVED_MAX);
    }

    /// Takes one retry; `false` when there is none.
    pub fn take(&mut self) -> bool {
        let is_left = self.saved >= 1.0;
        if is_left {
            self.saved -= 1.0;
        }
        is_left
    }
}

/// An attempt that failed in a way that may pass.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailedAttempt {
    /// Retries before it.
    pub retries: u32,
    /// Retries that a request may have.
    pub retries_max: u32,
    /// How long the upstream asked to wait.
    pub retry_after: Option<Duration>,
    /// How much time the request has left; `None` when nobody counts it.
    pub left: Option<Duration>,
    /// A random number from 0 up to 1, which spreads callers who failed together.
    pub random: f64,
}

/// How long to wait before the next attempt; `None` when there shall be none: too many were made, the upstream asks for too long, or the
/// request would be over. The budget is asked after this.
///
/// The wait is random between half and the whole of a step that doubles with each retry, and never shorter than what the upstream
/// asks for.
pub fn wait_before_retry(failed: &FailedAttempt) -> Option<Duration> {
    if failed.retries >= failed.retries_max {
        return None;
    }
    let step = WAIT_FIRST.saturating_mul(1 << failed.retries.min(16)).min(WAIT_MAX);
    let backoff = step.mul_f64(0.5 + failed.random.clamp(0.0, 1.0) / 2.0);
    let asked = failed.retry_after.unwrap_or_default();
    let wait = backoff.max(asked);
    let fits = failed.left.is_none_or(|left| wait < left);
    (asked <= RETRY_AFTER_MAX && fits).then_some(wait)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an `Instant` can only be made by the clock")]
mod tests {
    use super::*;

    const PROBE_MAX: Duration = Duration::from_secs(9);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Plays `events` at the times (in ms) that they name and compares what a call at the end hears.
    fn check(events: &[(u64, Outcome)], at: u64, expected: Admission) {
        let start = Instant::now();
        let mut breaker = Breaker::default();
        for (time, outcome) in events {
            let now = start + ms(*time);
            breaker.admit(now, PROBE_MAX);
            breaker.record(now, *outcome);
        }
        assert_eq!(breaker.would_admit(start + ms(at)), expected, "{events:?} at {at}");
    }

    #[test]
    fn failures_in_a_row_open_a_breaker_and_time_half_opens_it() {
        let failed = |times: &[u64]| times.iter().map(|at| (*at, Outcome::Failed)).collect::<Vec<_>>();
        check(&failed(&[0, 0, 0, 0]), 0, Admission::Pass);
        check(&failed(&[0, 0, 0, 0, 10]), 10, Admission::Refused(ms(1000)));
        check(&failed(&[0, 0, 0, 0, 10]), 910, Admission::Refused(ms(100)));
        check(&failed(&[0, 0, 0, 0, 10]), 1010, Admission::Pass);
        check(&failed(&[0, 0, 0, 0, 10, 500]), 1010, Admission::Pass); // began earlier: nothing new
    }

    #[test]
    fn an_answer_closes_a_breaker_and_a_failed_probe_opens_it_for_longer() {
        use Outcome::{Answered, Failed};
        let five = [(0, Failed); 5];
        check(&[&five[..4], &[(0, Answered), (0, Failed)]].concat(), 0, Admission::Pass);
        check(&[&five[..], &[(1000, Failed)]].concat(), 1000, Admission::Refused(ms(2000)));
        check(&[&five[..], &[(1000, Failed), (3000, Failed)]].concat(), 3000, Admission::Refused(ms(4000)));
        check(
            &[&five[..], &[(1000, Failed), (3000, Answered), (3000, Failed)]].concat(),
            3000,
            Admission::Pass,
        );
        let long: Vec<_> = (0..9).map(|n| (n * 100_000, Failed)).collect();
        check(&[&five[..], &long].concat(), 800_000, Admission::Refused(OPEN_MAX));
    }

    #[test]
    fn one_probe_passes_at_a_time_and_a_lost_one_does_not_block_for_ever() {
        let start = Instant::now();
        let mut breaker = Breaker::default();
        (0..5).for_each(|_| breaker.record(start, Outcome::Failed));
        assert_eq!(breaker.admit(start + ms(1000), PROBE_MAX), Admission::Pass);
        assert_eq!(breaker.admit(start + ms(1001), PROBE_MAX), Admission::Refused(ms(8999)));
        assert_eq!(breaker.admit(start + ms(10_000), PROBE_MAX), Admission::Pass);
    }

    #[test]
    fn retries_are_a_tenth_of_the_requests_once_the_savings_are_gone() {
        let mut budget = RetryBudget::default();
        assert_eq!((0..100).filter(|_| budget.take()).count(), 10);
        let retries = (0..1000).filter(|_| {
            budget.earn();
            budget.take()
        });
        assert!((99..=100).contains(&retries.count()));
        (0..1000).for_each(|_| budget.earn());
        assert_eq!((0..100).filter(|_| budget.take()).count(), 10, "no more is saved");
    }

    #[test]
    fn waits_double_are_spread_and_keep_to_what_the_upstream_asks() {
        let first = FailedAttempt { retries: 0, retries_max: 9, retry_after: None, left: None, random: 0.0 };
        let wait = |change: &dyn Fn(&mut FailedAttempt)| {
            let mut failed = first;
            change(&mut failed);
            wait_before_retry(&failed)
        };
        assert_eq!(wait(&|_| {}), Some(ms(50)));
        assert_eq!(wait(&|failed| failed.random = 1.0), Some(ms(100)));
        assert_eq!(wait(&|failed| failed.retries = 3), Some(ms(400)));
        assert_eq!(wait(&|failed| failed.retries = 8), Some(ms(2500)));
        assert_eq!(wait(&|failed| failed.retries = 9), None);
        assert_eq!(wait(&|failed| failed.retry_after = Some(ms(700))), Some(ms(700)));
        assert_eq!(wait(&|failed| failed.retry_after = Some(ms(20_001))), None);
        assert_eq!(wait(&|failed| failed.left = Some(ms(50))), None);
        assert_eq!(wait(&|failed| failed.left = Some(ms(51))), Some(ms(50)));
    }
}
