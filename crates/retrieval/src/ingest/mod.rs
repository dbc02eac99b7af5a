//! Ingest: documents are accepted into the store, then prepared and applied to the index by a worker.

mod accept;
mod cancel;
mod extraction;
mod job_log;
mod known;
mod large;
mod lines;
mod patch;
mod prepare;
mod progress;
mod recognition;
mod upload;
mod worker;

pub use accept::IngestOutcome;
pub(crate) use accept::new_job_id;
pub(crate) use cancel::Cancellations;
pub use extraction::isolation;
pub(crate) use extraction::{Content, Extraction};
pub(crate) use job_log::JobLog;
pub use lines::LineIngest;
pub(crate) use prepare::{IngestError, Preparer};
pub(crate) use progress::IngestProgress;
pub use upload::UploadedFile;
pub(crate) use worker::run;
