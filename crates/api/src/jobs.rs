//! `GET /v1/jobs` and `GET /v1/jobs/{id}`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ErrorCode;

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    /// Accepted and stored; nothing is searchable yet.
    Pending,
    /// Some documents are done.
    Running,
    /// Every document was applied or named as failed.
    Completed,
    /// The job as a whole could not be done; `error` says why.
    Failed,
    /// Stopped on request.
    Cancelled,
}

impl JobStatus {
    /// Whether the job will not change any more.
    pub fn is_finished(self) -> bool {
        matches!(self, JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled)
    }
}

/// A job: the reply of `POST /v1/ingest` and of `GET /v1/jobs/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobReply {
    /// The id to ask for.
    pub job_id: String,
    /// Where it stands.
    pub status: JobStatus,
    /// Documents in the request.
    pub total_documents: u64,
    /// Documents that are done: searchable, or found identical to what was there.
    pub processed_documents: u64,
    /// Documents that were refused or failed; each is named in `errors`.
    pub failed_documents: u64,
    /// Why the whole job failed.
    pub error: Option<String>,
    /// When the job was accepted, in unix seconds.
    pub started_at: f64,
    /// When it reached its last status, in unix seconds.
    pub finished_at: Option<f64>,
    /// The documents that failed, in the order of the request.
    pub errors: Vec<JobDocumentError>,
}

/// One document that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobDocumentError {
    /// The document's id; `documents[3]` (its place in the request, from 0) when it had none that could be read.
    pub document_id: String,
    /// The row of the error table.
    pub code: ErrorCode,
    /// What is wrong and what to do.
    pub message: String,
}
