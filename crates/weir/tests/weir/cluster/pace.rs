//! Requests at a constant rate, whether the ones before were answered or not.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The instants at which requests of one kind are sent, by any of the threads that wait for them.
pub(crate) struct Pace {
    per_second: u32,
    started: Instant,
    /// The number of the next request.
    next: AtomicU64,
    /// By how much a request was sent too late, at most, because all threads waited for replies.
    behind_us: AtomicU64,
}

impl Pace {
    /// Starts now.
    pub(crate) fn new(per_second: u32) -> Pace {
        Pace { per_second, started: Instant::now(), next: AtomicU64::new(0), behind_us: AtomicU64::new(0) }
    }

    /// Waits until the next request is due; its number. `None`: they are stopped.
    pub(crate) fn wait(&self, stop: &AtomicBool) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let due = self.started + Duration::from_secs(number) / self.per_second;
        loop {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let now = Instant::now();
            if now >= due {
                let behind = now.duration_since(due).as_micros();
                self.behind_us.fetch_max(u64::try_from(behind).unwrap_or(u64::MAX), Ordering::Relaxed);
                return Some(number);
            }
            std::thread::sleep((due - now).min(Duration::from_millis(50)));
        }
    }

    /// Requests per second that were sent, of those that were to be, and how late one was.
    pub(crate) fn report(&self, sent: u64, took: Duration) -> String {
        let reached = sent as f64 / took.as_secs_f64();
        let behind = Duration::from_micros(self.behind_us.load(Ordering::Relaxed));
        format!("{sent} sent, {reached:.1} of {} a second, at most {behind:.1?} late", self.per_second)
    }
}
