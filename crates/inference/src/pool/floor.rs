//! The minimum share of the bulk lane.
//!
//! Idle priority gives the threads of the lane only the CPU time that no other thread uses: on a busy host none for minutes, even for a micro-batch that
//! such a thread has begun. So the lane keeps an account. It is credited `inference.bulk_share_min` of the cores while it has work, and charged
//! the CPU time of its threads. While there is credit, threads of normal priority compute for the lane: first the micro-batches that threads of
//! idle priority have begun and not finished, then those that wait.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::{MicroBatch, Shared, ThreadScratch, thread_cpu_time};
use crate::request::Embedded;
use crate::rows::Rows;
use crate::task::{ModelTask, Sequence};
use crate::thread_priority::ThreadPriority;

/// Time without any CPU time for the lane after which it has enough credit. Longer than a micro-batch takes undisturbed.
const STARVED_AFTER: Duration = Duration::from_millis(250);
/// Interval at which a thread of normal priority looks at the account while there is work.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// The CPU time that the lane is due, in seconds.
pub(super) struct FloorAccount {
    /// CPU seconds per second.
    share: f64,
    credit: f64,
    updated: Instant,
    /// Nanoseconds of CPU time of the threads of the lane.
    used: Arc<AtomicU64>,
    /// The part of `used` that was charged.
    charged: u64,
}

impl FloorAccount {
    /// An account that is credited `share` CPU seconds per second.
    pub(super) fn new(share: f64) -> FloorAccount {
        FloorAccount { share, credit: 0.0, updated: Instant::now(), used: Arc::default(), charged: 0 }
    }

    /// Brings the account up to date. Whether the lane is due a micro-batch.
    fn is_due(&mut self, has_work: bool, now: Instant) -> bool {
        let enough = self.share * STARVED_AFTER.as_secs_f64();
        let elapsed = now.saturating_duration_since(self.updated).as_secs_f64();
        let used = self.used.load(Ordering::Relaxed);
        self.credit -= Duration::from_nanos(used - self.charged).as_secs_f64();
        // a debt is forgotten when the share would have paid it in a second: it may be from a time when the cores were idle
        self.credit = self.credit.max(-self.share) + if has_work { self.share * elapsed } else { 0.0 };
        self.credit = self.credit.min(if has_work { enough } else { 0.0 });
        (self.updated, self.charged) = (now, used);
        self.share > 0.0 && self.credit >= enough
    }
}

/// Measures the CPU time of the calling thread.
struct Meter {
    used: Arc<AtomicU64>,
    last: Duration,
}

thread_local! {
    static METER: RefCell<Option<Meter>> = const { RefCell::new(None) };
}

/// Lets [`charge_cpu_time`] charge the calling thread's CPU time to an account.
pub(super) fn meter_thread(account: &FloorAccount) {
    let meter = Meter { used: account.used.clone(), last: thread_cpu_time() };
    METER.set(Some(meter));
}

/// Charges the CPU time of the calling thread since the last call.
pub(crate) fn charge_cpu_time() {
    METER.with_borrow_mut(|meter| {
        let Some(Meter { used, last }) = meter else { return };
        let now = thread_cpu_time();
        let nanos = now.saturating_sub(*last).as_nanos();
        used.fetch_add(u64::try_from(nanos).unwrap_or(u64::MAX), Ordering::Relaxed);
        *last = now;
    });
}

/// Micro-batches of one task that a thread computes together. A second thread may compute them too; the first result is sent.
pub(super) struct Computation {
    pub(super) task: ModelTask,
    pub(super) sequences: Vec<Sequence>,
    replies: Mutex<Vec<Reply>>,
    begun: Instant,
    is_repeated: AtomicBool,
}

/// Where the rows of a micro-batch are sent.
struct Reply {
    sender: oneshot::Sender<Embedded>,
    rows: usize,
    waited: Duration,
    _permit: Option<OwnedSemaphorePermit>,
}

impl Computation {
    /// Takes `batches` out of the queue's statistics. `None` if there are none.
    pub(super) fn begin(batches: Vec<MicroBatch>) -> Option<Computation> {
        let task = batches.first()?.task.clone();
        let (mut sequences, mut replies) = (Vec::new(), Vec::with_capacity(batches.len()));
        for mut batch in batches {
            let (waited, rows) = (batch.dequeue(), batch.sequences.len());
            replies.push(Reply { sender: batch.reply, rows, waited, _permit: batch.permit });
            sequences.extend(batch.sequences);
        }
        let replies = Mutex::new(replies);
        Some(Computation {
            task,
            sequences,
            replies,
            begun: Instant::now(),
            is_repeated: AtomicBool::new(false),
        })
    }

    /// Sends the rows, unless another thread was first.
    pub(super) fn finish(&self, mut rows: Rows) {
        let replies = std::mem::take(&mut *self.replies.lock().unwrap_or_else(PoisonError::into_inner));
        for Reply { sender, rows: count, waited, .. } in replies {
            // fails if the caller has cancelled
            drop(sender.send(Embedded { embeddings: rows.take_front(count), waited }));
        }
    }

    /// Whether the calling thread shall compute it too: its thread has had the time for it several times over.
    fn is_to_be_repeated(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.begun) >= STARVED_AFTER
            && !self.is_repeated.swap(true, Ordering::Relaxed)
    }
}

/// The next work of a thread of normal priority.
enum FloorWork {
    Compute(Vec<MicroBatch>),
    Repeat(Arc<Computation>),
}

impl Shared {
    /// The main function of a thread that computes while the lane has less than its share.
    pub(super) fn run_floor_thread(&self) {
        ThreadPriority::Normal.apply();
        meter_thread(&self.lock().floor);
        let new_scratch = || ThreadScratch::of(ThreadPriority::Normal);
        let mut scratch = new_scratch();
        while let Some(work) = self.next_floor_work() {
            self.settings.metrics.bulk_floor_batch();
            scratch.catch_panic(new_scratch, |scratch| match work {
                FloorWork::Compute(batches) => self.compute(batches, &mut scratch.single),
                FloorWork::Repeat(computation) => {
                    let sequences: Vec<&Sequence> = computation.sequences.iter().collect();
                    if let Some(rows) = self.rows(&computation.task, &sequences, &mut scratch.single) {
                        computation.finish(rows);
                    }
                }
            });
            charge_cpu_time();
        }
    }

    /// Waits until the lane is due; `None` when the pool stops.
    fn next_floor_work(&self) -> Option<FloorWork> {
        let mut queue = self.lock();
        loop {
            if queue.is_stopping {
                return None;
            }
            let now = Instant::now();
            let is_waiting = queue.bulk.next_batch().is_some_and(|batch| !batch.task.is_on_own_threads());
            let has_work = is_waiting || !queue.begun.is_empty();
            if queue.floor.is_due(has_work, now) {
                if let Some(computation) = queue.begun.iter().find(|begun| begun.is_to_be_repeated(now)) {
                    return Some(FloorWork::Repeat(computation.clone()));
                }
                let batches = if is_waiting {
                    queue.take_bulk(self.settings.threads, &self.settings.metrics)
                } else {
                    Vec::new()
                };
                if !batches.is_empty() {
                    return Some(FloorWork::Compute(batches));
                }
            }
            let wait = if has_work { CHECK_EVERY } else { Duration::MAX };
            let waited = self.floor_changed.wait_timeout(queue, wait);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_lane_with_work_is_due_its_share_after_it_got_nothing() {
        let mut account = FloorAccount::new(0.2);
        let start = account.updated;
        let mut is_due = |has_work, at: u32| account.is_due(has_work, start + at * MS);
        assert!(!is_due(false, 10_000), "nothing is credited without work");
        assert!(!is_due(true, 10_200), "200 of 250 ms");
        assert!(is_due(true, 10_250));
        account.used.fetch_add(60_000_000, Ordering::Relaxed);
        let mut is_due = |has_work, at: u32| account.is_due(has_work, start + at * MS);
        assert!(!is_due(true, 10_500), "60 ms were used, 50 of them due");
        assert!(!is_due(true, 10_540), "its share of 290 ms is 58 ms");
        assert!(is_due(true, 10_560), "a fifth of a core: 60 ms every 300 ms");
        assert!(!is_due(false, 10_561));
    }

    #[test]
    fn a_lane_that_gets_more_than_its_share_is_not_due() {
        let mut account = FloorAccount::new(0.2);
        let start = account.updated;
        for second in 1..100 {
            account.used.fetch_add(1_000_000_000, Ordering::Relaxed);
            assert!(!account.is_due(true, start + second * 1000 * MS));
        }
        assert!(!account.is_due(true, start + 99_200 * MS));
        assert!(account.is_due(true, start + 99_250 * MS), "the debt of 79 seconds is forgotten");
    }

    #[test]
    fn nothing_is_due_to_a_share_of_zero() {
        let mut account = FloorAccount::new(0.0);
        let start = account.updated;
        assert!(!account.is_due(true, start + 100_000 * MS));
    }
}
