//! The threads that share the work of one search in a large index. They sleep where there is none.

/// Starts them, as many as there are cores, so that no search has to.
pub(super) fn start() {
    let _ = rayon::current_num_threads();
}

/// How many can work side by side now; the process may have been bound to fewer cores since they were started.
pub(super) fn available() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(rayon::current_num_threads())
}
