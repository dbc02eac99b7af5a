//! Admission to the query lane and the interactive lane.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::pool::QueueLoad;
use super::request::InferenceError;

/// Shortest period over which decisions are counted.
const PERIOD_MIN: Duration = Duration::from_millis(25);
/// The wait limit halves after a period in which a smaller share of requests was admitted; the lane is then overloaded.
const OVERLOAD_SHARE: f64 = 0.5;
/// The wait limit doubles after a period in which at least this share of requests was admitted.
const CALM_SHARE: f64 = 0.9;
/// Lower bound of the admitted share when `retry_after` is computed: at most 100 times the wait.
const SHARE_MIN: f64 = 0.01;

/// Limits on the tokens and the wait of a queue; beyond them the newest requests are refused.
///
/// `wait_max` absorbs bursts. Under sustained overload a long queue only adds latency: a short one serves as many requests. So the limit
/// halves after most requests were refused for as long as the limit itself, down to `wait_min`, and doubles after as long with hardly
/// any refusal. The idea is CoDel's (Nichols and Jacobson, "Controlling queue delay", 2012): a burst drains, a standing queue does not.
pub(super) struct Admission {
    /// The name of `wait_max` among the settings.
    setting: &'static str,
    wait_min: Duration,
    wait_max: Duration,
    tokens_max: usize,
    state: Mutex<AdmissionState>,
}

/// The limit, and the decisions since `start`.
struct AdmissionState {
    limit: Duration,
    start: Instant,
    admitted: u32,
    refused: u32,
    /// Share of requests admitted in the previous period.
    previous_share: f64,
}

impl Admission {
    pub(super) fn new(
        setting: &'static str,
        wait_min: Duration,
        wait_max: Duration,
        tokens_max: usize,
    ) -> Admission {
        let state = AdmissionState {
            limit: wait_max,
            start: Instant::now(),
            admitted: 0,
            refused: 0,
            previous_share: 1.0,
        };
        Admission {
            setting,
            wait_min: wait_min.min(wait_max),
            wait_max,
            tokens_max,
            state: Mutex::new(state),
        }
    }

    /// Whether `tokens` more may be queued by a request that can wait for `patience`. An empty queue accepts any number.
    ///
    /// # Errors
    /// [`InferenceError::QueueFull`], [`InferenceError::QueueTooSlow`].
    pub(super) fn admit(
        &self,
        load: QueueLoad,
        tokens: usize,
        patience: Option<Duration>,
    ) -> Result<(), InferenceError> {
        self.admit_at(Instant::now(), load, tokens, patience.unwrap_or(Duration::MAX))
    }

    fn admit_at(
        &self,
        now: Instant,
        load: QueueLoad,
        tokens: usize,
        patience: Duration,
    ) -> Result<(), InferenceError> {
        let QueueLoad { queued_tokens: queued, wait, batch_time } = load;
        let mut state = self.state(now);
        let limit = state.limit.max(batch_time).min(self.wait_max).min(patience);
        let error = if queued == 0 || (queued + tokens <= self.tokens_max && wait <= limit) {
            state.admitted += 1;
            return Ok(());
        } else if queued + tokens > self.tokens_max {
            InferenceError::QueueFull { queued, limit: self.tokens_max }
        } else {
            let share = state.previous_share.max(SHARE_MIN);
            InferenceError::QueueTooSlow {
                wait,
                limit,
                setting: self.setting,
                retry_after: wait.div_f64(share),
            }
        };
        state.refused += 1;
        Err(error)
    }

    /// Whether most requests are refused.
    pub(super) fn is_overloaded(&self) -> bool {
        self.state(Instant::now()).previous_share < OVERLOAD_SHARE
    }

    /// The state at `now`.
    fn state(&self, now: Instant) -> MutexGuard<'_, AdmissionState> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        while state.end_period(now) {
            state.limit = match state.previous_share {
                share if share < OVERLOAD_SHARE => (state.limit / 2).max(self.wait_min),
                share if share >= CALM_SHARE => (state.limit * 2).min(self.wait_max),
                _ => state.limit,
            };
        }
        state
    }
}

impl AdmissionState {
    /// Starts the next period if this one is over at `now`. The share of a period without decisions is 1.
    fn end_period(&mut self, now: Instant) -> bool {
        let period = self.limit.max(PERIOD_MIN);
        if now.saturating_duration_since(self.start) < period {
            return false;
        }
        // + 1 on both sides: a single refused request is a share of one half, not zero
        self.previous_share = f64::from(self.admitted + 1) / f64::from(self.admitted + self.refused + 1);
        self.start += period;
        (self.admitted, self.refused) = (0, 0);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: Duration = Duration::from_millis(400);
    const MIN: Duration = Duration::from_millis(50);

    fn load(wait_ms: u64) -> QueueLoad {
        QueueLoad { queued_tokens: 10, wait: Duration::from_millis(wait_ms), batch_time: Duration::ZERO }
    }

    /// The wait limits, in milliseconds, after periods in which these numbers of requests were admitted and refused.
    fn limits(periods: &[[u32; 2]]) -> Vec<u64> {
        let admission = Admission::new("setting", MIN, MAX, 1000);
        let mut now = admission.state.lock().unwrap().start;
        let after = |[admitted, refused]: &[u32; 2]| {
            let mut state = admission.state(now);
            (state.admitted, state.refused) = (*admitted, *refused);
            now += state.limit.max(PERIOD_MIN);
            drop(state);
            admission.state(now).limit.as_millis() as u64
        };
        periods.iter().map(after).collect()
    }

    #[test]
    fn the_wait_limit_halves_while_most_requests_are_refused_and_doubles_afterwards() {
        assert_eq!(limits(&[[1, 9], [1, 9], [1, 9], [1, 9]]), [200, 100, 50, 50]);
        assert_eq!(
            limits(&[[1, 9], [1, 9], [6, 4], [10, 1], [0, 0], [0, 0]]),
            [200, 100, 100, 200, 400, 400]
        );
        assert_eq!(limits(&[[0, 1]]), [400], "a single refusal");
    }

    #[test]
    fn a_long_pause_restores_the_wait_limit() {
        let admission = Admission::new("setting", MIN, MAX, 1000);
        let start = {
            let mut state = admission.state.lock().unwrap();
            (state.limit, state.refused) = (MIN, 99);
            state.start
        };
        let after = |ms| admission.state(start + Duration::from_millis(ms)).limit;
        assert_eq!(after(50), MIN);
        assert!(admission.is_overloaded());
        assert_eq!(after(50 + 50), MIN * 2);
        assert_eq!(after(50 + 50 + 100 + 200), MAX);
        assert_eq!(after(1_000_000), MAX);
    }

    #[test]
    fn a_request_is_refused_beyond_the_limits_of_wait_tokens_and_its_own_patience() {
        let admission = Admission::new("setting", MIN, MAX, 1000);
        let now = admission.state.lock().unwrap().start;
        let admit = |load, tokens, patience_ms| {
            admission.admit_at(now, load, tokens, Duration::from_millis(patience_ms))
        };
        assert_eq!(admit(load(400), 990, 1000), Ok(()));
        assert!(matches!(admit(load(401), 1, 1000), Err(InferenceError::QueueTooSlow { limit: MAX, .. })));
        assert!(matches!(admit(load(101), 1, 100), Err(InferenceError::QueueTooSlow { .. })));
        assert_eq!(admit(load(1), 991, 1000), Err(InferenceError::QueueFull { queued: 10, limit: 1000 }));
        assert_eq!(admit(QueueLoad { queued_tokens: 0, ..load(800) }, 2000, 0), Ok(()), "the queue is empty");
        let state = admission.state.lock().unwrap();
        assert_eq!((state.admitted, state.refused), (2, 3), "each decision is counted once");
    }

    #[test]
    fn the_wait_for_one_micro_batch_is_accepted_under_any_load() {
        let admission = Admission::new("setting", MIN, MAX, 1000);
        admission.state.lock().unwrap().limit = MIN;
        let now = admission.state.lock().unwrap().start;
        let slow = |wait_ms| QueueLoad { batch_time: Duration::from_millis(80), ..load(wait_ms) };
        assert_eq!(admission.admit_at(now, slow(80), 1, MAX), Ok(()));
        assert!(admission.admit_at(now, slow(81), 1, MAX).is_err());
    }

    #[test]
    fn a_refused_request_is_told_to_wait_longer_where_fewer_are_admitted() {
        let retry_after = |share: f64| {
            let admission = Admission::new("setting", MIN, MIN, 1000);
            admission.state.lock().unwrap().previous_share = share;
            match admission.admit(load(100), 1, None) {
                Err(InferenceError::QueueTooSlow { retry_after, .. }) => retry_after.as_millis(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([1.0, 0.5, 0.1, 0.0].map(retry_after), [100, 200, 1000, 10_000]);
    }
}
