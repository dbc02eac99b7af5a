//! Metrics and the log.

#![forbid(unsafe_code)]

mod logging;
pub mod metrics;

pub use logging::start as start_log;
pub use metrics::{CollectionGauges, Metrics, Queued};
