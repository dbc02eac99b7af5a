//! Ctrl-C: the first asks the command to stop at the next good moment, the second ends it at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static IS_ASKED: AtomicBool = AtomicBool::new(false);

/// How long a wait goes on before it looks at the flag again.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Listens for Ctrl-C from now on.
pub(super) fn listen() {
    // Fails only when somebody listens already, and then there is nothing to do.
    let _ = ctrlc::set_handler(|| {
        if IS_ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(130);
        }
    });
}

/// Whether somebody pressed Ctrl-C.
pub(super) fn is_asked() -> bool {
    IS_ASKED.load(Ordering::SeqCst)
}

/// Waits, but not on after Ctrl-C.
pub(super) fn sleep(duration: Duration) {
    let end = Instant::now() + duration;
    while !is_asked() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        std::thread::sleep(left.min(LOOK_EVERY));
    }
}
