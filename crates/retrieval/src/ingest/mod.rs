//! Ingest: documents are accepted into the store, then prepared and applied to the index by a worker.

mod accept;
mod cancel;
mod chunker;
mod extraction;
mod job_log;
mod known;
mod large;
mod lines;
mod once;
mod patch;
mod prepare;
mod progress;
mod recognition;
mod share;
mod upload;
mod worker;

pub(crate) use accept::new_job_id;
pub use accept::{IngestOutcome, IngestTerms};
pub(crate) use cancel::Cancellations;
pub(crate) use chunker::Chunker;
pub use extraction::isolation;
pub(crate) use extraction::{Content, Extraction};
pub(crate) use job_log::JobLog;
pub use lines::LineIngest;
pub use once::KeyedRequest;
pub(crate) use once::RunningKeys;
pub(crate) use prepare::{IngestError, Preparer};
pub(crate) use progress::IngestProgress;
pub use upload::UploadedFile;
pub(crate) use upload::{page_map, title_of};
pub(crate) use worker::run;
