//! Whether to call an upstream, and whether to retry a failed call.
//!
//! A [`CircuitBreaker`] stops calls to an upstream that keeps failing. A [`RetryBudget`] limits retries to a share of the requests, so that
//! retries do not make an outage worse. [`wait_before_retry`] computes the delay before the next attempt.
//! None of them reads a clock: every decision takes `now`.

use std::time::{Duration, Instant};

/// Consecutive failures that open a circuit breaker.
pub const FAILURES_MAX: u32 = 5;
/// How long a circuit breaker stays open the first time. Each failed probe doubles it, up to [`OPEN_MAX`].
pub const OPEN_FIRST: Duration = Duration::from_secs(1);
/// Upper bound of the time that a circuit breaker stays open.
pub const OPEN_MAX: Duration = Duration::from_secs(30);

/// Retries that each request adds to the budget: at most one retry per ten requests in the long run.
pub const RETRY_SHARE: f64 = 0.1;
/// Capacity of a retry budget in retries; a new budget is full.
pub const RETRIES_MAX: f64 = 10.0;

/// Upper bound of the delay before the first retry. It doubles with each retry, up to [`WAIT_MAX`].
pub const WAIT_FIRST: Duration = Duration::from_millis(100);
/// Upper bound of the computed delay before any retry. An upstream can ask for a longer one.
pub const WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest delay that an upstream can ask for. A request whose upstream asks for more is not retried.
pub const RETRY_AFTER_MAX: Duration = Duration::from_secs(20);

/// Decides whether an upstream is called. Closed: every call is allowed. Open: every call is rejected. Half open: one probe at a time is
/// allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CircuitBreaker {
    state: BreakerState,
    /// How long the breaker stays open the next time it opens.
    open_for: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BreakerState {
    Closed {
        failures: u32,
    },
    Open {
        until: Instant,
    },
    /// A probe is in flight. Another one is allowed after `until`, in case the outcome of the first is never recorded.
    HalfOpen {
        until: Instant,
    },
}

/// Whether a [`CircuitBreaker`] allows a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BreakerDecision {
    /// Make the call.
    Allow,
    /// Do not make the call.
    Reject {
        /// How long until the next call can be allowed.
        retry_after: Duration,
    },
}

/// The outcome of a call for the health of its upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// The upstream answered, successfully or by refusing the request.
    Answered,
    /// The upstream was unreachable, timed out or failed internally.
    Failed,
    /// The upstream began a successful reply whose end has yet to come. Another outcome follows.
    Started,
    /// The caller gave up before the upstream answered.
    Unknown,
}

impl Default for CircuitBreaker {
    fn default() -> CircuitBreaker {
        CircuitBreaker { state: BreakerState::Closed { failures: 0 }, open_for: OPEN_FIRST }
    }
}

impl CircuitBreaker {
    /// Whether a call would be allowed at `now`. Changes nothing.
    pub fn would_allow(&self, now: Instant) -> BreakerDecision {
        match self.state {
            BreakerState::Closed { .. } => BreakerDecision::Allow,
            BreakerState::Open { until } | BreakerState::HalfOpen { until } if now >= until => {
                BreakerDecision::Allow
            }
            BreakerState::Open { until } | BreakerState::HalfOpen { until } => {
                BreakerDecision::Reject { retry_after: until - now }
            }
        }
    }

    /// Whether every call is allowed.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, BreakerState::Closed { .. })
    }

    /// Whether a call is allowed at `now`. If the call is a probe, further calls are rejected until its outcome is recorded, or for
    /// `probe_max` at most.
    pub fn allow(&mut self, now: Instant, probe_max: Duration) -> BreakerDecision {
        let decision = self.would_allow(now);
        if decision == BreakerDecision::Allow && !matches!(self.state, BreakerState::Closed { .. }) {
            self.state = BreakerState::HalfOpen { until: now + probe_max };
        }
        decision
    }

    /// Records the outcome of a call. A failure while the breaker is open (a call that began before it opened) changes nothing.
    pub fn record(&mut self, now: Instant, outcome: Outcome) {
        match (outcome, self.state) {
            (Outcome::Answered, _) => *self = CircuitBreaker::default(),
            (Outcome::Failed, BreakerState::Closed { failures }) if failures + 1 < FAILURES_MAX => {
                self.state = BreakerState::Closed { failures: failures + 1 };
            }
            (Outcome::Failed, BreakerState::Closed { .. } | BreakerState::HalfOpen { .. }) => {
                self.state = BreakerState::Open { until: now + self.open_for };
                self.open_for = (self.open_for * 2).min(OPEN_MAX);
            }
            // The probe succeeded as far as it got: calls are allowed again, and one failure reopens the breaker.
            (Outcome::Started, BreakerState::HalfOpen { .. }) => {
                self.state = BreakerState::Closed { failures: FAILURES_MAX - 1 };
            }
            // The next call is the probe.
            (Outcome::Unknown, BreakerState::HalfOpen { .. }) => {
                self.state = BreakerState::HalfOpen { until: now }
            }
            (Outcome::Failed, BreakerState::Open { .. }) | (Outcome::Started | Outcome::Unknown, _) => {}
        }
    }
}

/// A token bucket of retries. Each request deposits [`RETRY_SHARE`] of a retry, each retry withdraws one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetryBudget {
    retries: f64,
}

impl Default for RetryBudget {
    fn default() -> RetryBudget {
        RetryBudget { retries: RETRIES_MAX }
    }
}

impl RetryBudget {
    /// Call this for each request, once: not for its retries.
    pub fn deposit(&mut self) {
        self.retries = (self.retries + RETRY_SHARE).min(RETRIES_MAX);
    }

    /// Takes one retry out of the budget. `false` when there is none.
    pub fn withdraw(&mut self) -> bool {
        let has_retry = self.retries >= 1.0;
        if has_retry {
            self.retries -= 1.0;
        }
        has_retry
    }
}

/// A failed attempt that may succeed when it is retried.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FailedAttempt {
    /// Retries of this request before the attempt.
    pub retries: u32,
    /// Upper bound of the retries of one request.
    pub retries_max: u32,
    /// The delay that the upstream asked for.
    pub retry_after: Option<Duration>,
    /// Time until the request's deadline; `None` without a deadline.
    pub time_left: Option<Duration>,
    /// A random number in 0..1 for the jitter, so that requests that failed together are not retried together.
    pub random: f64,
}

/// The delay before the next attempt: exponential backoff with jitter, half to all of a step that doubles with each retry, and at least
/// the delay that the upstream asked for.
///
/// `None`: do not retry, because the retries are used up, the upstream asks for more than [`RETRY_AFTER_MAX`], or the deadline would pass.
/// Withdraw from the [`RetryBudget`] afterwards, when there is a delay.
pub fn wait_before_retry(failed: &FailedAttempt) -> Option<Duration> {
    if failed.retries >= failed.retries_max {
        return None;
    }
    let step = WAIT_FIRST.saturating_mul(1 << failed.retries.min(16)).min(WAIT_MAX);
    let backoff = step.mul_f64(0.5 + failed.random.clamp(0.0, 1.0) / 2.0);
    let requested = failed.retry_after.unwrap_or_default();
    let wait = backoff.max(requested);
    let fits = failed.time_left.is_none_or(|left| wait < left);
    (requested <= RETRY_AFTER_MAX && fits).then_some(wait)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an `Instant` can only be made by the clock")]
mod tests {
    use super::*;

    const PROBE_MAX: Duration = Duration::from_secs(9);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn reject(retry_after: Duration) -> BreakerDecision {
        BreakerDecision::Reject { retry_after }
    }

    /// Records `events` at their times (in ms) and compares the decision about a call at `at`.
    fn check(events: &[(u64, Outcome)], at: u64, expected: BreakerDecision) {
        let start = Instant::now();
        let mut breaker = CircuitBreaker::default();
        for (time, outcome) in events {
            let now = start + ms(*time);
            breaker.allow(now, PROBE_MAX);
            breaker.record(now, *outcome);
        }
        assert_eq!(breaker.would_allow(start + ms(at)), expected, "{events:?} at {at}");
    }

    #[test]
    fn failures_in_a_row_open_a_breaker_and_time_half_opens_it() {
        let failed = |times: &[u64]| times.iter().map(|at| (*at, Outcome::Failed)).collect::<Vec<_>>();
        check(&failed(&[0, 0, 0, 0]), 0, BreakerDecision::Allow);
        check(&failed(&[0, 0, 0, 0, 10]), 10, reject(ms(1000)));
        check(&failed(&[0, 0, 0, 0, 10]), 910, reject(ms(100)));
        check(&failed(&[0, 0, 0, 0, 10]), 1010, BreakerDecision::Allow);
        check(&failed(&[0, 0, 0, 0, 10, 500]), 1010, BreakerDecision::Allow); // the call began before the breaker opened
    }

    #[test]
    fn an_answer_closes_a_breaker_and_a_failed_probe_doubles_its_open_time() {
        use Outcome::{Answered, Failed};
        let five = [(0, Failed); 5];
        check(&[&five[..4], &[(0, Answered), (0, Failed)]].concat(), 0, BreakerDecision::Allow);
        check(&[&five[..], &[(1000, Failed)]].concat(), 1000, reject(ms(2000)));
        check(&[&five[..], &[(1000, Failed), (3000, Failed)]].concat(), 3000, reject(ms(4000)));
        check(
            &[&five[..], &[(1000, Failed), (3000, Answered), (3000, Failed)]].concat(),
            3000,
            BreakerDecision::Allow,
        );
        let long: Vec<_> = (0..9).map(|n| (n * 100_000, Failed)).collect();
        check(&[&five[..], &long].concat(), 800_000, reject(OPEN_MAX));
    }

    #[test]
    fn a_probe_that_began_its_reply_closes_a_breaker_and_its_failure_reopens_it() {
        use Outcome::{Answered, Failed, Started, Unknown};
        let five = [(0, Failed); 5];
        check(&[&five[..], &[(1000, Started)]].concat(), 1000, BreakerDecision::Allow);
        check(&[&five[..], &[(1000, Started), (1500, Failed)]].concat(), 1500, reject(ms(2000)));
        check(&[&five[..4], &[(0, Started), (0, Failed)]].concat(), 0, reject(ms(1000)));
        let ended = [(1000, Started), (1500, Answered), (1500, Failed)];
        check(&[&five[..], &ended].concat(), 1500, BreakerDecision::Allow);
        check(&[&five[..], &[(1000, Unknown)]].concat(), 1000, BreakerDecision::Allow);
        check(&[&five[..], &[(500, Unknown)]].concat(), 999, reject(ms(1)));
        check(&[&five[..4], &[(0, Unknown), (0, Failed)]].concat(), 0, reject(ms(1000)));
    }

    #[test]
    fn one_probe_is_allowed_at_a_time_and_another_after_it_times_out() {
        let start = Instant::now();
        let mut breaker = CircuitBreaker::default();
        (0..5).for_each(|_| breaker.record(start, Outcome::Failed));
        assert_eq!(breaker.allow(start + ms(1000), PROBE_MAX), BreakerDecision::Allow);
        assert_eq!(breaker.allow(start + ms(1001), PROBE_MAX), reject(ms(8999)));
        assert_eq!(breaker.allow(start + ms(10_000), PROBE_MAX), BreakerDecision::Allow);
    }

    #[test]
    fn retries_are_a_tenth_of_the_requests_once_the_budget_is_empty() {
        let mut budget = RetryBudget::default();
        assert_eq!((0..100).filter(|_| budget.withdraw()).count(), 10);
        let retries = (0..1000).filter(|_| {
            budget.deposit();
            budget.withdraw()
        });
        assert!((99..=100).contains(&retries.count()));
        (0..1000).for_each(|_| budget.deposit());
        assert_eq!((0..100).filter(|_| budget.withdraw()).count(), 10, "the budget has a capacity");
    }

    #[test]
    fn delays_double_have_jitter_and_respect_retry_after() {
        let first =
            FailedAttempt { retries: 0, retries_max: 9, retry_after: None, time_left: None, random: 0.0 };
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
        assert_eq!(wait(&|failed| failed.time_left = Some(ms(50))), None);
        assert_eq!(wait(&|failed| failed.time_left = Some(ms(51))), Some(ms(50)));
    }
}
