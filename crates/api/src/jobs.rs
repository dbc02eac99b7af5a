//! `/v1/jobs`: jobs, and their documents.

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
    /// Cancelled, or its collection was deleted. What was searchable by then stays so.
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
    /// Number of documents that were not made searchable because the job was cancelled.
    #[serde(default)]
    pub cancelled_documents: u64,
    /// Number of documents whose id is new in the collection, including those that failed after they were stored.
    pub new_documents: u64,
    /// Number of documents that replace another version, including those that failed after they were stored.
    pub changed_documents: u64,
    /// Number of documents that are identical to the stored version.
    pub unchanged_documents: u64,
    /// Number of files whose text is not extracted yet. The documents of all files of a job are stored when none is left.
    #[serde(default)]
    pub unread_files: u64,
    /// Number of chunks of the new and the changed documents; 0 until the job is completed.
    pub chunks: u64,
    /// Share of the job that is done, from 0 to 1. It advances within a document, by its embedded chunks.
    #[serde(default)]
    pub progress: f64,
    /// Chunks of the collection that were embedded per second, in the last half minute; null while nothing advances, and when the job is finished.
    #[serde(default)]
    pub chunks_per_second: Option<f64>,
    /// Estimated time until the job is finished, with those before it; null while nothing advances, and when the job is finished.
    #[serde(default)]
    pub eta_seconds: Option<f64>,
    /// Why the job does not advance, such as a model whose upstream does not answer. Null while it advances.
    #[serde(default)]
    pub waiting_for: Option<String>,
    /// Since when the job does not advance, in unix seconds. Null while it advances.
    #[serde(default)]
    pub waiting_since: Option<f64>,
    /// Why the whole job failed; null otherwise.
    pub error: Option<String>,
    /// Time of acceptance, in unix seconds.
    pub started_at: f64,
    /// Time of completion, failure or cancellation, in unix seconds; null before.
    pub finished_at: Option<f64>,
    /// The number of the last operation, where several gateways share the store: a search at any of them that asks for it by `at_least` sees the documents. Absent
    /// with one gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<u64>,
    /// The version of the document, in the reply of a `PUT` or `PATCH` of one; else absent. It is the `ETag` of the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// The call that reports the end of the job; absent if the request named no `webhook_url`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<JobWebhook>,
    /// The failed documents, in the order of the request.
    pub errors: Vec<JobDocumentError>,
}

/// The webhook of a job. Its address is not shown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobWebhook {
    /// The status.
    pub status: WebhookStatus,
    /// Attempts that were begun.
    pub attempts: u64,
    /// When the next attempt begins, in unix seconds; null if there is none.
    pub next_attempt_at: Option<f64>,
    /// When it was delivered or given up, in unix seconds; null before.
    pub finished_at: Option<f64>,
    /// Why the last attempt failed; null otherwise.
    pub error: Option<String>,
}

/// The status of the webhook of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WebhookStatus {
    /// The job has not ended.
    Waiting,
    /// It is being sent, or is sent again later.
    Pending,
    /// The receiver took it.
    Delivered,
    /// It was given up; `error` has the reason.
    Failed,
}

/// The state of a document of a job.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum JobDocumentState {
    /// Stored, not searchable yet.
    Pending,
    /// Searchable.
    Searchable,
    /// Not stored, or stored and not searchable; `code` and `message` have the reason.
    Failed,
    /// Stored and not searchable, because the job was cancelled.
    Cancelled,
    /// A later version took its place, or it was deleted.
    Replaced,
}

/// A document of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobDocument {
    /// The document's id; `documents[3]` (its index in the request, from 0) if it has no readable id.
    pub document_id: String,
    /// The state.
    pub state: JobDocumentState,
    /// The error code of a failed document; null otherwise.
    pub code: Option<ErrorCode>,
    /// The failure and its remedy; null for other documents.
    pub message: Option<String>,
}

/// A failed document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JobDocumentError {
    /// The document's id; `documents[3]` (its index in the request, from 0) if it has no readable id.
    pub document_id: String,
    /// The error code.
    pub code: ErrorCode,
    /// The failure and its remedy.
    pub message: String,
}
