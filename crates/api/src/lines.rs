//! The reply of `POST /v1/ingest` to a stream of lines, each a document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ErrorCode, JobReply};

/// The media type of lines of JSON.
pub const LINES_MEDIA_TYPE: &str = "application/x-ndjson";

/// The reply of `POST /v1/ingest`: a job, or the outcome of a stream of lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum IngestReply {
    /// The job of a request with documents or files.
    Job(Box<JobReply>),
    /// The outcome of lines.
    Lines(Box<LinesReply>),
}

/// The outcome of a stream of documents, one on each line. With `Accept: application/x-ndjson` it is sent for each batch that is on disk:
/// counts are those of the whole stream so far, `jobs` and `errors` those since the line before.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "IngestLines")]
pub struct LinesReply {
    /// The acknowledged lines: each line up to this one, counted from 1, is on disk, or its document has failed.
    pub lines: u64,
    /// Number of documents on disk: new, changed and unchanged ones.
    pub documents: u64,
    /// Number of documents whose id is new in the collection.
    pub new_documents: u64,
    /// Number of documents that replace another version.
    pub changed_documents: u64,
    /// Number of documents that are identical to the stored version.
    pub unchanged_documents: u64,
    /// Number of lines and documents that failed.
    pub failed_documents: u64,
    /// The ids of the jobs that make the documents searchable, at most the first 10,000.
    pub jobs: Vec<String>,
    /// The failed lines, at most the first 100.
    pub errors: Vec<LineError>,
    /// Whether the stream has been read to its end.
    pub done: bool,
    /// Why the stream was not read to its end. The lines after `lines` are to be sent again.
    pub error: Option<LinesFailure>,
}

/// A line whose document was not stored.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LineError {
    /// The number of the line, from 1.
    pub line: u64,
    /// The document's id, if it can be read.
    pub document_id: Option<String>,
    /// The error code.
    pub code: ErrorCode,
    /// The failure and its remedy.
    pub message: String,
}

/// Why a stream of lines was not read to its end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinesFailure {
    /// The error code.
    pub code: ErrorCode,
    /// The failure and its remedy.
    pub message: String,
}
