//! Jobs: what was submitted together, and how far it has come.

use serde::{Deserialize, Serialize};

use crate::{NewDocument, Now};

/// Documents handed in together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Submission {
    /// The new job's id, unique in the store.
    pub job_id: String,
    /// The documents to store. When an id comes twice, the last one wins.
    pub documents: Vec<NewDocument>,
    /// The documents that were refused before they came here; the job names them.
    pub rejected: Vec<DocumentError>,
}

/// Why one document of a job failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DocumentError {
    /// The document.
    pub document_id: String,
    /// A stable code.
    pub code: String,
    /// What is wrong with it and what to do.
    pub message: String,
}

/// The state of a submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// The id that the submission came with.
    pub id: String,
    /// The name of the collection, which may be gone.
    pub collection: String,
    /// Where it stands.
    pub status: JobStatus,
    /// Documents handed in, refused ones included.
    pub total: u64,
    /// Documents that are done: searchable, found unchanged, or failed.
    pub processed: u64,
    /// Documents that were already stored with the same content.
    pub unchanged: u64,
    /// Documents that failed; `errors` names them.
    pub failed: u64,
    /// Why the whole job failed.
    pub error: Option<String>,
    /// Why single documents failed.
    pub errors: Vec<DocumentError>,
    /// When it was handed in.
    pub created_at: Now,
    /// When the index took up its first document.
    pub started_at: Option<Now>,
    /// When nothing was left to do.
    pub finished_at: Option<Now>,
    /// When the index has reached this operation, every document of the job is searchable, the unchanged ones too.
    pub last_operation: u64,
}

/// Where a job stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobStatus {
    /// Durable, not taken up yet.
    Pending,
    /// Some documents are searchable.
    Running,
    /// Every document is searchable or named in `errors`.
    Completed,
    /// The job as a whole failed.
    Failed,
    /// The collection was deleted first.
    Cancelled,
}

impl JobStatus {
    const ALL: [JobStatus; 5] = [
        JobStatus::Pending,
        JobStatus::Running,
        JobStatus::Completed,
        JobStatus::Failed,
        JobStatus::Cancelled,
    ];

    /// The word for it in the API and in the store.
    pub fn as_str(self) -> &'static str {
        match self {
            JobStatus::Pending => "pending",
            JobStatus::Running => "running",
            JobStatus::Completed => "completed",
            JobStatus::Failed => "failed",
            JobStatus::Cancelled => "cancelled",
        }
    }

    /// The status that `word` names.
    pub(crate) fn parse(word: &str) -> Option<JobStatus> {
        JobStatus::ALL.into_iter().find(|status| status.as_str() == word)
    }
}
