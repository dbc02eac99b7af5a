//! Admission to the interactive lane.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::pool::QueueLoad;
use super::request::InferenceError;

/// Decisions are counted over windows of this length.
const WINDOW: Duration = Duration::from_millis(25);
/// Minimum of the wait limit under any load (or one micro-batch, if longer). A shorter queue would leave threads idle until the next
/// request is read.
const WAIT_LIMIT_MIN: Duration = Duration::from_millis(5);
/// Lower bound of the admitted share when `retry_after` is computed: at most 100 times the wait.
const SHARE_MIN: f64 = 0.01;
/// The lane is overloaded when a smaller share of requests is admitted.
const OVERLOAD_SHARE: f64 = 0.5;

/// Limits on the tokens and the wait of the queue.
///
/// `wait_max` absorbs bursts. Under sustained overload a long queue adds latency but no throughput. The wait limit is therefore `wait_max`
/// times the square of the recently admitted share: it is minimal when a tenth is admitted, and still absorbs bursts when most are. The
/// idea is CoDel's (Nichols and Jacobson, "Controlling queue delay", 2012).
pub(super) struct Admission {
    tokens_max: usize,
    wait_max: Duration,
    window: Mutex<Window>,
}

/// The decisions since `start`.
struct Window {
    start: Instant,
    admitted: u32,
    refused: u32,
    /// Share of requests admitted in the previous window.
    previous_share: f64,
}

impl Admission {
    pub(super) fn new(tokens_max: usize, wait_max: Duration) -> Admission {
        let window = Window { start: Instant::now(), admitted: 0, refused: 0, previous_share: 1.0 };
        Admission { tokens_max, wait_max, window: Mutex::new(window) }
    }

    /// Admits `tokens` to the queue. An empty queue accepts any number.
    ///
    /// # Errors
    /// [`InferenceError::QueueFull`], [`InferenceError::QueueTooSlow`].
    pub(super) fn admit(&self, load: QueueLoad, tokens: usize) -> Result<(), InferenceError> {
        let now = Instant::now();
        self.check_at(now, load, tokens)?;
        self.window(now).admitted += 1;
        Ok(())
    }

    fn check_at(&self, now: Instant, load: QueueLoad, tokens: usize) -> Result<(), InferenceError> {
        let QueueLoad { queued_tokens: queued, wait, batch_time } = load;
        if queued == 0 {
            return Ok(());
        }
        let mut window = self.window(now);
        let share = window.previous_share;
        let limit_min = WAIT_LIMIT_MIN.max(batch_time).min(self.wait_max);
        let limit = self.wait_max.mul_f64(share.powi(2)).max(limit_min);
        let error = if queued + tokens > self.tokens_max {
            InferenceError::QueueFull { queued, limit: self.tokens_max }
        } else if wait > limit {
            InferenceError::QueueTooSlow { wait, limit, retry_after: wait.div_f64(share.max(SHARE_MIN)) }
        } else {
            return Ok(());
        };
        window.refused += 1;
        Err(error)
    }

    /// Whether most requests are refused.
    pub(super) fn is_overloaded(&self) -> bool {
        self.is_overloaded_at(Instant::now())
    }

    fn is_overloaded_at(&self, now: Instant) -> bool {
        self.window(now).previous_share < OVERLOAD_SHARE
    }

    /// The window of `now`.
    fn window(&self, now: Instant) -> MutexGuard<'_, Window> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.advance(now);
        window
    }
}

impl Window {
    /// Starts a new window if this one is over. A window without decisions resets the share to 1.
    fn advance(&mut self, now: Instant) {
        let age = now.saturating_duration_since(self.start);
        if age < WINDOW {
            return;
        }
        // + 1 on both sides, so that a single refused request gives one half, not zero
        let share = f64::from(self.admitted + 1) / f64::from(self.admitted + self.refused + 1);
        let is_stale = age >= 2 * WINDOW || self.admitted + self.refused == 0;
        let previous_share = if is_stale { 1.0 } else { share };
        *self = Window { start: now, admitted: 0, refused: 0, previous_share };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(40);

    fn load(wait_ms: u64) -> QueueLoad {
        QueueLoad { queued_tokens: 10, wait: Duration::from_millis(wait_ms), batch_time: Duration::ZERO }
    }

    /// The shortest wait, in milliseconds, that is refused.
    fn limit(admission: &Admission, now: Instant) -> u64 {
        (0..).find(|wait| admission.check_at(now, load(*wait), 1).is_err()).unwrap()
    }

    #[test]
    fn refused_requests_lower_the_wait_limit_of_the_next_window() {
        let admission = Admission::new(1000, LIMIT);
        assert_eq!(limit(&admission, Instant::now()), 41);
        let retry_after = |share: f64| {
            admission.window.lock().unwrap().previous_share = share;
            match admission.admit(load(100), 1) {
                Err(InferenceError::QueueTooSlow { retry_after, .. }) => retry_after.as_millis(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!([1.0, 0.5, 0.1, 0.0].map(retry_after), [100, 200, 1000, 10_000]);
        let after = |age: Duration, [admitted, refused]: [u32; 2]| {
            let start = Instant::now();
            *admission.window.lock().unwrap() = Window { start, admitted, refused, previous_share: 1.0 };
            (limit(&admission, start + age), admission.is_overloaded_at(start + age))
        };
        assert_eq!(after(WINDOW / 2, [1, 9]), (41, false), "the window is not over");
        assert_eq!(after(WINDOW, [6, 4]), (17, false));
        assert_eq!(after(WINDOW, [4, 6]), (9, true));
        assert_eq!(after(WINDOW, [0, 1]), (11, false), "a single refusal");
        assert_eq!(after(WINDOW, [1, 99]), (6, true), "the limit keeps its minimum");
        assert_eq!(after(2 * WINDOW, [1, 99]), (41, false), "the refusals are stale");
        let slow = |wait_ms| QueueLoad { batch_time: Duration::from_millis(20), ..load(wait_ms) };
        assert_eq!(after(WINDOW, [1, 99]).0, 6);
        let now = admission.window.lock().unwrap().start;
        assert!(admission.check_at(now, slow(20), 1).is_ok(), "the wait for one micro-batch is accepted");
        assert!(admission.check_at(now, slow(21), 1).is_err());
    }

    #[test]
    fn each_decision_is_counted_once() {
        let admission = Admission::new(1000, LIMIT);
        let counted = || {
            let window = admission.window.lock().unwrap();
            (window.admitted, window.refused)
        };
        assert!(admission.admit(load(1), 1).is_ok());
        assert!(admission.admit(load(1), 1000).is_err());
        assert_eq!(counted(), (1, 1));
        assert!(
            admission.admit(QueueLoad { queued_tokens: 0, ..load(80) }, 2000).is_ok(),
            "the queue is empty"
        );
    }
}
