//! The limit on CPU work of searches: one [`CpuLimiter`] for the engines of all collections.
//!
//! At most as many searches compute at one instant as the limiter has permits, usually one per core; the others wait. More at once
//! would finish no earlier, and each would occupy a thread, its memory and a share of the cores that answer requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::task::block_in_place;

use crate::{IndexError, Result};

/// Searches that may wait per permit without an expected wait, however long searches take.
const FREE_QUEUE_PER_PERMIT: usize = 4;

/// Searches up to this mean time run on a runtime thread without `block_in_place`, which would wake another thread to take over its tasks.
const SHORT_MICROS: u64 = 1_000;

/// Searches up to this mean time run on a runtime thread even with the last permit: to hand one over takes two threads tens of microseconds, and
/// other work of a request holds a runtime thread for as long.
const INSTANT_MICROS: u64 = 200;

/// Assumed mean time before any search was measured: not short.
const INITIAL_MEAN_MICROS: u64 = 2 * SHORT_MICROS;

/// The mean is exponentially weighted: the newest search counts for one part in this many.
const MEAN_DIVISOR: u64 = 10;

/// Limits how many searches compute at one instant. Clones share the limit.
#[derive(Clone)]
pub struct CpuLimiter(Arc<Shared>);

struct Shared {
    permits: Arc<Semaphore>,
    permit_count: usize,
    waiting: AtomicUsize,
    /// Exponentially weighted mean of the time that a search computes.
    mean_micros: AtomicU64,
    /// To the limiter's threads, which end when this is dropped. Never full: each job has a permit.
    jobs: SyncSender<Job>,
}

type Job = Box<dyn FnOnce() + Send>;

impl CpuLimiter {
    /// A limiter with `permits` permits and as many threads of its own, each of which calls `on_thread_start` first, for example to
    /// set its priority. They start here and not when they are needed, because a thread inherits the priority of the one that starts
    /// it, and may lower its own but not raise it.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn start(
        permits: usize,
        on_thread_start: impl Fn() + Clone + Send + 'static,
    ) -> std::io::Result<CpuLimiter> {
        let (jobs, received) = sync_channel(permits);
        let received = Arc::new(Mutex::new(received));
        for _ in 0..permits {
            let (received, on_thread_start) = (received.clone(), on_thread_start.clone());
            std::thread::Builder::new().name("search".to_owned()).spawn(move || {
                on_thread_start();
                run_jobs(&received);
            })?;
        }
        Ok(CpuLimiter(Arc::new(Shared {
            permits: Arc::new(Semaphore::new(permits)),
            permit_count: permits,
            waiting: AtomicUsize::new(0),
            mean_micros: AtomicU64::new(INITIAL_MEAN_MICROS),
            jobs,
        })))
    }

    /// The expected wait of a search that arrives now; zero while the queue is short.
    pub fn wait(&self) -> Duration {
        let waiting = self.0.waiting.load(Ordering::Relaxed);
        if waiting < FREE_QUEUE_PER_PERMIT * self.0.permit_count {
            return Duration::ZERO;
        }
        let micros = self.mean_micros();
        Duration::from_micros(micros.saturating_mul(waiting as u64) / self.0.permit_count as u64)
    }

    /// Runs a search when a permit is free. Dropping the future before then removes the search from the queue.
    ///
    /// The search runs on the calling runtime thread if no other computes or waits, if searches are short and another permit is free, or if
    /// they are shorter than a hand-over, because waking another thread takes as long as many searches. Otherwise it runs on a thread of the
    /// limiter.
    ///
    /// # Errors
    /// The error of `search`; [`IndexError::Panicked`] if it panics.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        search: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let waiting = WaitingGuard::new(&self.0.waiting);
        let permit = self.permit().await?;
        drop(waiting);
        let started = Instant::now();
        let mean_micros = self.mean_micros();
        let is_short = mean_micros <= SHORT_MICROS;
        let free = self.0.permits.available_permits();
        let is_alone = free + 1 == self.0.permit_count && self.0.waiting.load(Ordering::Relaxed) == 0;
        let result = match is_on_multi_thread_runtime() {
            true if mean_micros <= INSTANT_MICROS => catch_panic(search),
            // the last permit does not run here: one runtime thread stays free to accept and reject requests
            true if is_short && (is_alone || free > 0) => catch_panic(search),
            true if is_alone => block_in_place(|| catch_panic(search)),
            _ => self.on_own_thread(permit, search).await,
        };
        self.record(started.elapsed());
        result
    }

    /// Runs background work on a thread of the limiter when a permit is free. Neither its wait nor its time counts in
    /// [`wait`](CpuLimiter::wait).
    pub(crate) async fn run_background<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let permit = self.permit().await?;
        self.on_own_thread(permit, work).await
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit> {
        self.0.permits.clone().acquire_owned().await.map_err(|_| IndexError::Interrupted)
    }

    /// The work keeps its permit until it ends, also if nobody waits for its result any more.
    async fn on_own_thread<T: Send + 'static>(
        &self,
        permit: OwnedSemaphorePermit,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (reply, result) = oneshot::channel();
        let job = Box::new(move || {
            let result = catch_panic(work);
            drop(permit);
            // fails if the caller has gone
            let _ = reply.send(result);
        });
        self.0.jobs.send(job).map_err(|_| IndexError::Interrupted)?;
        result.await.unwrap_or(Err(IndexError::Interrupted))
    }

    fn mean_micros(&self) -> u64 {
        self.0.mean_micros.load(Ordering::Relaxed)
    }

    fn record(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX) / MEAN_DIVISOR;
        let before = self.mean_micros();
        // two searches that end at one instant may overwrite one another's time, which is harmless
        self.0.mean_micros.store(before - before.div_ceil(MEAN_DIVISOR) + micros, Ordering::Relaxed);
    }
}

/// The loop of a thread, until the limiter is dropped.
fn run_jobs(jobs: &Mutex<Receiver<Job>>) {
    loop {
        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        match job {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

/// Turns a panic into an error; the panic hook has logged it. A panic leaves engines usable: their locks ignore poisoning.
pub(crate) fn catch_panic<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(Err(IndexError::Panicked))
}

/// Whether the runtime has other threads to run its tasks while this one computes.
fn is_on_multi_thread_runtime() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread)
}

/// Counts a waiting search until it is dropped.
struct WaitingGuard<'a>(&'a AtomicUsize);

impl<'a> WaitingGuard<'a> {
    fn new(waiting: &'a AtomicUsize) -> WaitingGuard<'a> {
        waiting.fetch_add(1, Ordering::Relaxed);
        WaitingGuard(waiting)
    }
}

impl Drop for WaitingGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
