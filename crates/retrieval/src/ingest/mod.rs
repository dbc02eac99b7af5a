//! Ingest: documents are accepted into the store, then prepared and applied to the index by a worker.

mod accept;
mod extraction;
mod job_log;
mod known;
mod large;
mod patch;
mod prepare;
mod progress;
mod upload;
mod worker;

pub use accept::IngestOutcome;
pub(crate) use extraction::Extraction;
pub use extraction::isolation;
pub(crate) use job_log::JobLog;
pub(crate) use prepare::{IngestError, Preparer};
pub(crate) use progress::IngestProgress;
pub use upload::UploadedFile;
pub(crate) use worker::run;
