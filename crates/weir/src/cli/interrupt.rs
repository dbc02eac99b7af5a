//! Ctrl-C: the first cancels the command, which may clean up; the second ends the process at once.

use tokio_util::sync::CancellationToken;

use super::failure::EXIT_INTERRUPTED;

/// A token that the first Ctrl-C sets. The signal handler has a thread of its own, so that a second Ctrl-C works even while
/// the command blocks.
pub(super) fn cancelled_by_ctrl_c() -> CancellationToken {
    let token = CancellationToken::new();
    let shared = token.clone();
    // fails only when a handler is installed already, and each command installs one once
    let _ = ctrlc::set_handler(move || {
        if shared.is_cancelled() {
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
        shared.cancel();
    });
    token
}
