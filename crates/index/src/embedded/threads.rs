//! The thread pool (rayon's global one) that computes one search of a large index in parallel.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Determining the number of cores reads files, so the result is cached.
const CORES_CACHE_LIFETIME: Duration = Duration::from_secs(1);

/// A scan of this many rows takes about half a millisecond.
const PARALLEL_ROWS_MIN: usize = 200_000;

/// Starts the pool, one thread per core, so that no search has to.
pub(super) fn start() {
    let _ = rayon::current_num_threads();
}

/// Number of threads that can run in parallel; the process may have been bound to fewer cores since the pool started.
fn available() -> usize {
    static ANSWER: Mutex<Option<(Instant, usize)>> = Mutex::new(None);
    let mut answer = ANSWER.lock().unwrap_or_else(PoisonError::into_inner);
    match *answer {
        Some((determined, cores)) if determined.elapsed() < CORES_CACHE_LIFETIME => cores,
        Some(_) | None => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let cores = cores.min(rayon::current_num_threads());
            *answer = Some((Instant::now(), cores));
            cores
        }
    }
}

/// Whether to compute a search among `rows` rows in parallel: for fewer rows, waking threads takes longer than it saves.
pub(super) fn use_threads(rows: usize) -> bool {
    rows >= PARALLEL_ROWS_MIN && available() > 1
}

/// Runs work on a temporary pool, so that no search waits for it.
pub(super) fn on_temporary_pool<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().num_threads(available()).build() {
        Ok(threads) => threads.install(work),
        // the system refused a thread
        Err(_) => work(),
    }
}
