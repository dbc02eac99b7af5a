//! The progress of operations that the index does not show yet, within documents by their embedded chunks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The chunks of documents that are prepared together.
#[derive(Debug, Default)]
pub(crate) struct Preparation {
    chunks: AtomicU64,
    embedded: AtomicU64,
    is_applied: AtomicBool,
}

impl Preparation {
    /// The number of chunks is known; `embedded` of them were embedded before.
    pub(super) fn begin(&self, chunks: usize, embedded: usize) {
        self.embedded.store(embedded as u64, Ordering::Relaxed);
        self.chunks.store(chunks as u64, Ordering::Relaxed);
    }

    pub(super) fn add(&self, embedded: usize) {
        self.embedded.fetch_add(embedded as u64, Ordering::Relaxed);
    }

    fn share(&self) -> f64 {
        let embedded = self.embedded.load(Ordering::Relaxed) as f64;
        embedded / self.chunks.load(Ordering::Relaxed).max(1) as f64
    }
}

/// The preparations of operations after the applied sequence.
#[derive(Debug, Default)]
pub(crate) struct IngestProgress(Mutex<BTreeMap<u64, Arc<Preparation>>>);

impl IngestProgress {
    /// Begins the preparation of the documents of these operations.
    pub(super) fn prepare(&self, operations: impl Iterator<Item = u64>) -> Arc<Preparation> {
        let preparation = Arc::new(Preparation::default());
        self.lock().extend(operations.map(|operation| (operation, preparation.clone())));
        preparation
    }

    /// The operations of `preparation` are in the index; all up to `applied_seq` are.
    pub(super) fn applied(&self, preparation: &Preparation, applied_seq: u64) {
        preparation.is_applied.store(true, Ordering::Relaxed);
        let mut preparations = self.lock();
        *preparations = preparations.split_off(&(applied_seq + 1));
    }

    /// Of these operations, the number that is in the index before its turn, and the sum of the shares of the others that are embedded.
    pub(crate) fn of(&self, operations: std::ops::RangeInclusive<u64>) -> (u64, f64) {
        let (mut applied, mut shares) = (0, 0.0);
        if operations.is_empty() {
            return (applied, shares);
        }
        for preparation in self.lock().range(operations).map(|(_, preparation)| preparation) {
            match preparation.is_applied.load(Ordering::Relaxed) {
                true => applied += 1,
                false => shares += preparation.share(),
            }
        }
        (applied, shares)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Preparation>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_advances_by_chunks_and_by_documents_that_are_applied_before_their_turn() {
        let progress = IngestProgress::default();
        let (large, small) = (progress.prepare([4].into_iter()), progress.prepare(5..8));
        assert_eq!(progress.of(4..=7), (0, 0.0), "nothing is known of the chunks");
        large.begin(8, 1);
        large.add(1);
        small.begin(10, 10);
        assert_eq!(progress.of(4..=6), (0, 2.25));
        progress.applied(&small, 3);
        assert_eq!(progress.of(4..=6), (2, 0.25));
        progress.applied(&large, 7);
        assert_eq!(progress.of(4..=7), (0, 0.0), "the applied sequence counts them");
    }
}
