//! Work that is being computed: its tokens, and the rates that it shows.

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::floor::Computation;
use super::{MicroBatch, Shared};

/// Weight of the newest micro-batch in the moving average of the rate.
const RATE_WEIGHT: f64 = 0.1;

/// The CPU time of the calling thread.
pub(crate) fn thread_cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Counts tokens as running until it is dropped.
pub(super) struct RunningGuard<'a> {
    shared: &'a Shared,
    pub(super) tokens: usize,
    delaying_tokens: usize,
    /// The measured rate and CPU rate.
    rates: Option<(f64, f64)>,
    /// Whether a caller's thread computes it.
    is_on_caller: bool,
    /// The computation that another thread may repeat.
    computation: Option<Arc<Computation>>,
}

impl<'a> RunningGuard<'a> {
    pub(super) fn new(shared: &'a Shared, batches: &[MicroBatch], is_on_caller: bool) -> RunningGuard<'a> {
        let tokens = batches.iter().map(|batch| batch.tokens).sum();
        let delaying_tokens = batches.iter().map(MicroBatch::delaying_tokens).sum();
        RunningGuard { shared, tokens, delaying_tokens, rates: None, is_on_caller, computation: None }
    }

    /// Lets another thread repeat `computation` until the guard is dropped.
    pub(super) fn begin(&mut self, computation: &Arc<Computation>) {
        self.shared.lock().begun.push(computation.clone());
        self.computation = Some(computation.clone());
    }

    /// Adds the measured rates to the moving averages.
    pub(super) fn finish(mut self, elapsed: Duration, cpu_time: Duration) {
        let rate = |time: Duration| self.tokens as f64 / time.as_secs_f64().max(1e-6);
        self.rates = Some((rate(elapsed), rate(cpu_time)));
    }
}

impl Drop for RunningGuard<'_> {
    fn drop(&mut self) {
        let mut queue = self.shared.lock();
        queue.running_tokens -= self.delaying_tokens;
        queue.on_callers -= usize::from(self.is_on_caller);
        if let Some(computation) = &self.computation {
            queue.begun.retain(|begun| !Arc::ptr_eq(begun, computation));
        }
        match self.rates {
            Some((rate, cpu_rate)) => {
                queue.rate += RATE_WEIGHT * (rate - queue.rate);
                queue.cpu_rate += RATE_WEIGHT * (cpu_rate - queue.cpu_rate);
                queue.is_measured = true;
            }
            None => queue.pass = None, // a parallel pass or a panic
        }
    }
}
