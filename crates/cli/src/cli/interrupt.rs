//! Ctrl-C: the first cancels the command or one of its answers, which may clean up; a second before it has done so ends the process at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;
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

/// A token that the first Ctrl-C or SIGTERM sets; a second one ends the process at once.
pub(super) fn cancelled_by_signals() -> CancellationToken {
    use tokio::signal::unix::{SignalKind, signal};
    let token = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        // without a handler the signal ends the process, as it does by default
        let Ok(mut signals) = signal(kind) else { continue };
        let shared = token.clone();
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if shared.is_cancelled() {
                    std::process::exit(i32::from(EXIT_INTERRUPTED));
                }
                shared.cancel();
            }
        });
    }
    token
}

/// Each Ctrl-C, for a command that goes on after it.
#[derive(Default)]
pub(super) struct Interrupts {
    pressed: Notify,
    is_pending: AtomicBool,
}

impl Interrupts {
    /// Returns after the next Ctrl-C, at once if it was before the call.
    pub(super) async fn next(&self) {
        self.pressed.notified().await;
        self.is_pending.store(false, Ordering::SeqCst);
    }
}

/// Takes over Ctrl-C. A second one that comes before the first was taken by [`Interrupts::next`] ends the process.
pub(super) fn interrupts() -> Arc<Interrupts> {
    let interrupts = Arc::new(Interrupts::default());
    let shared = interrupts.clone();
    // fails only when a handler is installed already, and each command installs one once
    let _ = ctrlc::set_handler(move || {
        if shared.is_pending.swap(true, Ordering::SeqCst) {
            std::process::exit(i32::from(EXIT_INTERRUPTED));
        }
        shared.pressed.notify_one();
    });
    interrupts
}
