//! Which searches are repeated exactly, to measure the recall of the approximate search.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts searches; one is repeated at a time.
#[derive(Debug, Default)]
pub struct RecallSampling {
    searches: AtomicU64,
    is_running: AtomicBool,
}

impl RecallSampling {
    /// Whether this search is one of `every` and no other is being repeated; if so, [`RecallSampling::finish`] has to follow. Never
    /// when `every` is 0.
    pub fn is_due(&self, every: u64) -> bool {
        if every == 0 || !(self.searches.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(every) {
            return false;
        }
        !self.is_running.swap(true, Ordering::Relaxed)
    }

    /// The repetition is over.
    pub fn finish(&self) {
        self.is_running.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_third_search_is_due_unless_one_is_running() {
        let sampling = RecallSampling::default();
        let due = |count: usize| (0..count).map(|_| sampling.is_due(3)).collect::<Vec<_>>();
        assert_eq!(due(4), [false, false, true, false]);
        assert_eq!(due(2), [false, false], "the sixth would be due");
        sampling.finish();
        assert_eq!(due(3), [false, false, true]);
        assert!(!RecallSampling::default().is_due(0));
    }
}
