//! Jobs: the progress of documents that were submitted together.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    IdempotencyKey, NewDocument, NewOriginal, NewWebhook, Precondition, SubmittedFiles, Timestamp, Webhook,
};

/// Characters of a value that an error shows.
const SHOWN_CHARACTERS_MAX: usize = 100;

/// Documents that are stored in one transaction, with one job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Submission {
    /// The id of the new job, unique in the store.
    pub job_id: String,
    /// The documents to store. If an id occurs more than once, the last document is stored.
    pub documents: Vec<NewDocument>,
    /// Documents that were refused before this call. The job lists them in its `errors`.
    pub rejected: Vec<DocumentError>,
    /// Fields of the metadata in which a stored document must equal the new one that replaces it; the new one is refused
    /// where it does not.
    pub replace_if_equal: Vec<String>,
    /// The condition under which anything of it is stored.
    pub precondition: Option<Precondition>,
    /// Number of documents that are not in `documents` because they are stored already.
    pub unchanged: u64,
    /// The files from which documents were made.
    pub originals: Vec<NewOriginal>,
    /// The key under which the result is kept, so that the same request is not carried out again.
    pub idempotency: Option<IdempotencyKey>,
    /// The address to call at the end of the job.
    pub webhook: Option<NewWebhook>,
    /// The files of the job.
    pub files: SubmittedFiles,
}

impl Submission {
    /// Number of documents, including the refused and the unchanged ones, and of files that are not read.
    pub fn total(&self) -> u64 {
        (self.documents.len() + self.rejected.len() + self.unread()) as u64 + self.unchanged
    }

    /// Number of files that are not read.
    pub fn unread(&self) -> usize {
        match &self.files {
            SubmittedFiles::Unread(unread) => unread.files.len(),
            SubmittedFiles::None | SubmittedFiles::Read(_) => 0,
        }
    }
}

/// Why one document of a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentError {
    /// The document's id.
    pub document_id: String,
    /// A stable error code.
    pub code: String,
    /// The problem of the document and its remedy.
    pub message: String,
}

impl DocumentError {
    /// The error of a document that its submitter may not store: it does not pass the submitter's mandatory filter, or its id belongs to
    /// a document that is hidden from the submitter.
    pub fn not_allowed(document_id: String) -> DocumentError {
        let message = "the caller may not store this document; send metadata that passes the caller's mandatory filter, or choose another id";
        DocumentError { document_id, code: "document_not_allowed".to_owned(), message: message.to_owned() }
    }

    /// The error of a document that would replace one of another source. `stored` and `new` are the values of `field` in
    /// their metadata.
    pub fn conflict(document_id: String, field: &str, stored: &Value, new: &Value) -> DocumentError {
        let shown = |value: &Value| {
            let shown: String = value.to_string().chars().take(SHOWN_CHARACTERS_MAX).collect();
            if value.is_null() { "none".to_owned() } else { shown }
        };
        let (stored, new) = (shown(stored), shown(new));
        let message = format!(
            "another document has this id, with {stored} as `{field}`, not {new}; choose another id (`weir ingest --prefix`), or replace the \
             stored document by leaving out `replace_if_equal` (`weir ingest --replace`)"
        );
        DocumentError { document_id, code: "document_conflict".to_owned(), message }
    }
}

/// A submission that was stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Acceptance {
    /// The job as it was stored.
    pub job: Job,
    /// The version of the last document, whether it was stored or unchanged; `None` if it was refused.
    pub version: Option<u64>,
    /// Whether an earlier submission with the same idempotency key stored it, and this one nothing.
    pub is_repeated: bool,
}

/// The progress of a [`Submission`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The id, chosen by the submission.
    pub id: String,
    /// The name of the collection, which may have been deleted since.
    pub collection: String,
    /// The status.
    pub status: JobStatus,
    /// Number of submitted documents, including the refused ones.
    pub total: u64,
    /// Number of documents that are searchable, unchanged or failed.
    pub processed: u64,
    /// Number of documents that were stored with an id that the collection did not have.
    pub new: u64,
    /// Number of documents that replaced another version.
    pub changed: u64,
    /// Number of documents that were already stored with the same content.
    pub unchanged: u64,
    /// Number of chunks of the new and the changed documents, as of the completion; 0 before.
    pub chunks: u64,
    /// Number of documents that failed; `errors` lists them.
    pub failed: u64,
    /// Why the whole job failed.
    pub error: Option<String>,
    /// Why single documents failed.
    pub errors: Vec<DocumentError>,
    /// When the documents were submitted.
    pub created_at: Timestamp,
    /// When the first document became searchable.
    pub started_at: Option<Timestamp>,
    /// When the job was completed, failed or cancelled.
    pub finished_at: Option<Timestamp>,
    /// Once the applied sequence has reached this number, every document of the job is searchable, including the unchanged ones. 0 while
    /// files are not read.
    pub last_operation: u64,
    /// Number of files whose text is not extracted yet. All of them are read before the first of their documents is stored.
    #[serde(default)]
    pub unread: u64,
    /// Its webhook.
    pub webhook: Option<Webhook>,
}

/// The status of a job.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, strum::EnumString, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum JobStatus {
    /// The documents are durable; none of them is searchable yet.
    Pending,
    /// Some documents are searchable.
    Running,
    /// Every document is searchable or listed in `errors`.
    Completed,
    /// The job as a whole failed.
    Failed,
    /// It was cancelled, or its collection was deleted, before it was completed.
    Cancelled,
}

/// A document of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobDocument {
    /// The document's id.
    pub document_id: String,
    /// The state.
    pub state: JobDocumentState,
    /// Why it failed: an error code.
    pub code: Option<String>,
    /// Why it failed: what is wrong and what to do.
    pub message: Option<String>,
}

/// The state of a document of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum JobDocumentState {
    /// Stored and not searchable yet.
    Pending,
    /// Searchable.
    Searchable,
    /// Not stored, or stored and not searchable because its text could not be embedded.
    Failed,
    /// Stored and not searchable, because the job was cancelled.
    Cancelled,
    /// A later version took its place, or it was deleted.
    Replaced,
}

/// Which documents of a job are listed.
#[derive(Debug, Clone, Default)]
pub struct JobDocumentsQuery {
    /// Those of this state; all without it.
    pub state: Option<JobDocumentState>,
    /// At most this many.
    pub limit: usize,
    /// The `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// Operations above the applied sequence that the index shows already.
    pub applied_early: HashSet<u64>,
}
