//! `GET /v1/jobs` and `GET /v1/jobs/{id}`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ErrorCode;

/// The status of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum JobStatus {
    /// Accepted and stored; no document is searchable yet.
    Pending,
    /// Some documents are processed.
    Running,
    /// Every document is searchable, or listed in `errors`.
    Completed,
    /// The whole job failed; `error` has the reason.
    Failed,
    /// Stopped on request.
    Cancelled,
}

impl JobStatus {
    /// Whether the status is final.
    pub fn is_finished(self) -> bool {
        matches!(self, JobStatus::Completed | JobStatus::Failed | JobStatus::Cancelled)
    }
}

/// A job: the reply of `POST /v1/ingest` and of `GET /v1/jobs/{id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Job")]
pub struct JobReply {
    /// The job's id.
    pub job_id: String,
    /// The collection of the documents.
    pub collection: String,
    /// The status.
    pub status: JobStatus,
    /// Number of documents in the request.
    pub total_documents: u64,
    /// Number of processed documents: searchable, or identical to the stored version.
    pub processed_documents: u64,
    /// Number of failed documents, each listed in `errors`.
    pub failed_documents: u64,
    /// Number of documents whose id is new in the collection, including those that failed after they were stored.
    pub new_documents: u64,
    /// Number of documents that replace another version, including those that failed after they were stored.
    pub changed_documents: u64,
    /// Number of documents that are identical to the stored version.
    pub unchanged_documents: u64,
    /// Number of chunks of the new and the changed documents; 0 until the job is completed.
    pub chunks: u64,
    /// Share of the job that is done, from 0 to 1. It advances within a document, by its embedded chunks.
    #[serde(default)]
    pub progress: f64,
    /// Why the whole job failed; null otherwise.
    pub error: Option<String>,
    /// Time of acceptance, in unix seconds.
    pub started_at: f64,
    /// Time of completion, failure or cancellation, in unix seconds; null before.
    pub finished_at: Option<f64>,
    /// The version of the document, in the reply of a `PUT` or `PATCH` of one; else absent. It is the `ETag` of the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The failed documents, in the order of the request.
    pub errors: Vec<JobDocumentError>,
}

/// A failed document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobDocumentError {
    /// The document's id; `documents[3]` (its index in the request, from 0) if it has no readable id.
    pub document_id: String,
    /// The error code.
    pub code: ErrorCode,
    /// What failed, and the remedy.
    pub message: String,
}
