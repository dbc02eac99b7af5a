//! Ingest: documents are accepted into the store, then prepared and applied to the index by a worker.

mod accept;
mod job_log;
mod large;
mod prepare;
mod progress;
mod worker;

pub use accept::IngestOutcome;
pub(crate) use job_log::JobLog;
pub(crate) use prepare::{IngestError, Preparer};
pub(crate) use progress::IngestProgress;
pub(crate) use worker::run;
