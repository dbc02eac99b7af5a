//! Refusing in batches.
//!
//! At many times the load that the cores can bear, most of what happens is refusing, and most of what that takes is changing over: for
//! each request the system takes a core from a thread that computes, and gives it back. So while requests are refused, a thread of
//! the runtime that has nothing to do rests for a moment before it looks for more, and answers together what came meanwhile: as
//! network cards coalesce interrupts.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long a thread rests, and how much later what comes meanwhile may be answered.
const REST: Duration = Duration::from_micros(500);
/// As long as the last refusal is no older, more are expected.
const EXPECTED: Duration = Duration::from_millis(2);

/// Knows whether requests are being refused. Cloning gives another handle to the same.
#[derive(Clone)]
pub struct Coalescing {
    started: Instant,
    /// When more refusals are expected no longer, in microseconds from the start.
    until: Arc<AtomicU64>,
}

impl Default for Coalescing {
    /// Nothing is refused yet.
    fn default() -> Coalescing {
        Coalescing { started: Instant::now(), until: Arc::default() }
    }
}

impl Coalescing {
    /// A request was refused for want of cores.
    pub fn refused(&self) {
        self.until.store(self.micros() + EXPECTED.as_micros() as u64, Ordering::Relaxed);
    }

    /// Rests while more refusals are expected. For threads without work.
    pub fn rest(&self) {
        if self.is_expecting() {
            std::thread::sleep(REST);
        }
    }

    pub(super) fn is_expecting(&self) -> bool {
        self.micros() < self.until.load(Ordering::Relaxed)
    }

    fn micros(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_rest_after_a_refusal_and_only_for_a_while() {
        let coalescing = Coalescing::default();
        assert!(!coalescing.is_expecting());
        coalescing.clone().refused();
        assert!(coalescing.is_expecting());
        std::thread::sleep(EXPECTED);
        assert!(!coalescing.is_expecting());
    }
}
