//! The progress of operations that the index does not show yet, within documents by their embedded chunks, and its rate.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The rate is that of the last seconds.
const RATE_WINDOW: Duration = Duration::from_secs(30);
/// Less time than this gives no rate.
const RATE_TIME_MIN: Duration = Duration::from_secs(1);
/// Samples are at least this far apart.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);
/// When work begins after a longer pause, the rate before it is forgotten.
const PAUSE_MIN: Duration = Duration::from_secs(5);

/// The chunks of documents that are prepared together.
#[derive(Debug, Default)]
pub struct Preparation {
    chunks: AtomicU64,
    embedded: AtomicU64,
    is_applied: AtomicBool,
    /// The chunks that the collection has embedded.
    total: Arc<AtomicU64>,
}

impl Preparation {
    /// The number of chunks is known; `embedded` of them were embedded before.
    pub fn begin(&self, chunks: usize, embedded: usize) {
        self.embedded.store(embedded as u64, Ordering::Relaxed);
        self.chunks.store(chunks as u64, Ordering::Relaxed);
    }

    /// So many more of its chunks are embedded.
    pub fn add(&self, embedded: usize) {
        self.embedded.fetch_add(embedded as u64, Ordering::Relaxed);
        self.total.fetch_add(embedded as u64, Ordering::Relaxed);
    }

    fn share(&self) -> f64 {
        let embedded = self.embedded.load(Ordering::Relaxed) as f64;
        embedded / self.chunks.load(Ordering::Relaxed).max(1) as f64
    }
}

/// The preparations of operations after the applied sequence.
#[derive(Debug)]
pub struct IngestProgress {
    state: Mutex<ProgressState>,
    /// Chunks embedded since the collection was opened.
    embedded: Arc<AtomicU64>,
}

#[derive(Debug)]
struct ProgressState {
    preparations: BTreeMap<u64, Arc<Preparation>>,
    applied_seq: u64,
    samples: VecDeque<Sample>,
}

/// How far the work was at one time.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Instant,
    chunks: u64,
    /// The applied operations, and the shares of the others that are embedded.
    operations: f64,
}

/// How fast a collection's documents become searchable.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rate {
    /// Chunks that were embedded per second.
    pub chunks_per_second: f64,
    operations_per_second: f64,
    operations: f64,
}

impl Rate {
    /// Seconds until everything up to `operation` is searchable; `None` while nothing advances.
    pub fn seconds_until(&self, operation: u64) -> Option<f64> {
        let left = (operation as f64 - self.operations).max(0.0);
        (self.operations_per_second > 0.0).then(|| left / self.operations_per_second)
    }
}

impl IngestProgress {
    /// That of an index with this applied sequence.
    pub fn new(applied_seq: u64) -> IngestProgress {
        let state = ProgressState { preparations: BTreeMap::new(), applied_seq, samples: VecDeque::new() };
        IngestProgress { state: Mutex::new(state), embedded: Arc::default() }
    }

    /// Begins the preparation of the documents of these operations.
    pub fn prepare(&self, operations: impl Iterator<Item = u64>) -> Arc<Preparation> {
        let preparation = Arc::new(Preparation { total: self.embedded.clone(), ..Preparation::default() });
        let (mut state, now) = (self.lock(), Instant::now());
        if state.samples.back().is_some_and(|last| now - last.at > PAUSE_MIN) {
            state.samples.clear();
        }
        state.preparations.extend(operations.map(|operation| (operation, preparation.clone())));
        self.sample(&mut state, now);
        preparation
    }

    /// The operations of `preparation` are in the index; all up to `applied_seq` are.
    pub fn applied(&self, preparation: &Preparation, applied_seq: u64) {
        preparation.is_applied.store(true, Ordering::Relaxed);
        let mut state = self.lock();
        if applied_seq < state.applied_seq {
            // the index was lost
            state.samples.clear();
        }
        state.applied_seq = applied_seq;
        state.preparations = state.preparations.split_off(&(applied_seq + 1));
        self.sample(&mut state, Instant::now());
    }

    /// All operations up to `applied_seq` are in the index, and this gateway has prepared none of them.
    pub fn applied_elsewhere(&self, applied_seq: u64) {
        self.applied(&Preparation::default(), applied_seq);
    }

    /// Of these operations, the number that is in the index before its turn, and the sum of the shares of the others that are embedded.
    pub fn of(&self, operations: RangeInclusive<u64>) -> (u64, f64) {
        let (mut applied, mut shares) = (0, 0.0);
        if operations.is_empty() {
            return (applied, shares);
        }
        for preparation in self.lock().preparations.range(operations).map(|(_, preparation)| preparation) {
            match preparation.is_applied.load(Ordering::Relaxed) {
                true => applied += 1,
                false => shares += preparation.share(),
            }
        }
        (applied, shares)
    }

    /// Those of these operations that are in the index before their turn.
    pub fn applied_early(&self, operations: RangeInclusive<u64>) -> Vec<u64> {
        if operations.is_empty() {
            return Vec::new();
        }
        let state = self.lock();
        let applied = state.preparations.range(operations);
        let applied = applied.filter(|(_, preparation)| preparation.is_applied.load(Ordering::Relaxed));
        applied.map(|(operation, _)| *operation).collect()
    }

    /// The rate of the last seconds; `None` while too little is known, and while nothing is prepared.
    pub fn rate(&self) -> Option<Rate> {
        let mut state = self.lock();
        if state.preparations.is_empty() {
            return None;
        }
        self.sample(&mut state, Instant::now());
        let (first, last) = (state.samples.front()?, state.samples.back()?);
        let time = last.at - first.at;
        let seconds = time.as_secs_f64();
        (time >= RATE_TIME_MIN).then(|| Rate {
            chunks_per_second: last.chunks.saturating_sub(first.chunks) as f64 / seconds,
            operations_per_second: (last.operations - first.operations) / seconds,
            operations: last.operations,
        })
    }

    fn sample(&self, state: &mut ProgressState, now: Instant) {
        if state.samples.back().is_some_and(|last| now - last.at < SAMPLE_INTERVAL) {
            return;
        }
        let operations =
            state.preparations.values().map(|one| match one.is_applied.load(Ordering::Relaxed) {
                true => 1.0,
                false => one.share(),
            });
        let operations = state.applied_seq as f64 + operations.sum::<f64>();
        let chunks = self.embedded.load(Ordering::Relaxed);
        state.samples.push_back(Sample { at: now, chunks, operations });
        while state.samples.front().is_some_and(|first| now - first.at > RATE_WINDOW) {
            state.samples.pop_front();
        }
    }

    fn lock(&self) -> MutexGuard<'_, ProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_advances_by_chunks_and_by_documents_that_are_applied_before_their_turn() {
        let progress = IngestProgress::new(3);
        let (large, small) = (progress.prepare([4].into_iter()), progress.prepare(5..8));
        assert_eq!(progress.of(4..=7), (0, 0.0), "nothing is known of the chunks");
        large.begin(8, 1);
        large.add(1);
        small.begin(10, 10);
        assert_eq!(progress.of(4..=6), (0, 2.25));
        progress.applied(&small, 3);
        assert_eq!(progress.of(4..=6), (2, 0.25));
        assert_eq!(progress.applied_early(4..=6), [5, 6]);
        progress.applied(&large, 7);
        assert_eq!(progress.of(4..=7), (0, 0.0), "the applied sequence counts them");
    }

    #[test]
    fn the_rate_is_that_of_the_last_seconds() {
        let progress = IngestProgress::new(10);
        let preparation = progress.prepare([11, 12].into_iter());
        preparation.begin(100, 0);
        assert_eq!(progress.rate(), None, "one sample is no rate");
        let earlier = Instant::now() - Duration::from_secs(4);
        progress.lock().samples = VecDeque::from([Sample { at: earlier, chunks: 0, operations: 10.0 }]);
        preparation.add(50);
        let rate = progress.rate().unwrap();
        assert!((rate.chunks_per_second - 12.5).abs() < 0.5, "{rate:?}");
        // half of two operations in four seconds; the other half and three more are left
        assert!((rate.seconds_until(15).unwrap() - 16.0).abs() < 0.5, "{rate:?}");
    }
}
