//! Ingest: documents are accepted into the store, then prepared and applied to the index by a worker.

mod accept;
mod cancel;
mod known;
mod large;
mod lines;
mod once;
mod patch;
mod prepare;
mod reading;
mod receive;
mod share;
mod unread;
mod upload;
mod worker;

pub(crate) use accept::new_job_id;
pub use accept::{IngestOutcome, IngestTerms};
pub(crate) use cancel::Cancellations;
pub use lines::LineIngest;
pub use once::KeyedRequest;
pub(crate) use once::RunningKeys;
pub(crate) use prepare::{IngestError, Preparer};
pub(crate) use reading::Reading;
pub(crate) use unread::Uploads;
pub use upload::UploadedFile;
pub(crate) use upload::page_map;
pub(crate) use worker::run;
