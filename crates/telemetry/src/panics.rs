//! Counts and logs panics, wherever they happen.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic::PanicHookInfo;

use crate::Metrics;

/// Counts every panic of the process in `weir_panics_total` and logs it, with the id of the request that it interrupts. Replaces the hook
/// that prints panics to the standard error output.
pub fn count_panics(metrics: &Metrics) {
    let metrics = metrics.clone();
    std::panic::set_hook(Box::new(move |panic| {
        metrics.panicked();
        log(panic);
    }));
}

fn log(panic: &PanicHookInfo<'_>) {
    let payload = panic.payload();
    let message = payload.downcast_ref::<&str>().copied();
    let message =
        message.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or_default();
    let at = panic.location().map(ToString::to_string).unwrap_or_default();
    let thread = std::thread::current().name().unwrap_or_default().to_owned();
    // captured if RUST_BACKTRACE asks for it
    let backtrace = Backtrace::capture();
    let backtrace = (backtrace.status() == BacktraceStatus::Captured).then(|| backtrace.to_string());
    tracing::error!(reason = message, at, thread, backtrace, "panic");
}
