//! The threads that share the work of one search in a large index. They sleep where there is none.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// To find out how many cores there are, files are read.
const CORES_CACHE_LIFETIME: Duration = Duration::from_secs(1);

/// With so many rows a scan takes about half a millisecond.
const PARALLEL_ROWS_MIN: usize = 200_000;

/// Starts them, as many as there are cores, so that no search has to.
pub(super) fn start() {
    let _ = rayon::current_num_threads();
}

/// How many can work side by side; the process may have been bound to fewer cores since they were started.
fn available() -> usize {
    static ANSWER: Mutex<Option<(Instant, usize)>> = Mutex::new(None);
    let mut answer = ANSWER.lock().unwrap_or_else(PoisonError::into_inner);
    match *answer {
        Some((traced, cores)) if traced.elapsed() < CORES_CACHE_LIFETIME => cores,
        Some(_) | None => {
            let cores = std::thread::available_parallelism().map_or(1, usize::from);
            let cores = cores.min(rayon::current_num_threads());
            *answer = Some((Instant::now(), cores));
            cores
        }
    }
}

/// Whether threads share the work of one search among so many rows: with fewer, waking them takes longer than it saves.
pub(super) fn use_threads(rows: usize) -> bool {
    rows >= PARALLEL_ROWS_MIN && available() > 1
}

/// Does work on threads of its own, so that no search waits for it.
pub(super) fn on_temporary_pool<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match rayon::ThreadPoolBuilder::new().num_threads(available()).build() {
        Ok(threads) => threads.install(work),
        // the system gives none
        Err(_) => work(),
    }
}
