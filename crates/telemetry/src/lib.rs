//! Metrics, the log, and a record per request.

#![forbid(unsafe_code)]

mod logging;
pub mod metrics;
mod panics;
pub mod requests;

pub use logging::start as start_log;
pub use metrics::{CollectionGauges, Metrics, Queued};
pub use panics::count_panics;
