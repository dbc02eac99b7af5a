//! Files that were received and whose text is not extracted yet.

use serde::{Deserialize, Serialize};

/// The files of a job. Their bytes are outside of the database.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadFiles {
    /// The place of their bytes.
    pub place: String,
    /// Of the submission that stores their documents: see [`Submission::replace_if_equal`](crate::Submission::replace_if_equal).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace_if_equal: Vec<String>,
    /// The files.
    pub files: Vec<UnreadFile>,
}

/// A file of a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadFile {
    /// The id of its document.
    pub document_id: String,
    /// Further details, in a form that the store does not read.
    pub details: String,
}

/// The files of a submission.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum SubmittedFiles {
    /// None: the documents are known.
    #[default]
    None,
    /// Their text is not extracted yet. The submission has no documents; the job waits for those of [`SubmittedFiles::Read`].
    Unread(UnreadFiles),
    /// The text of the job's files is extracted: the documents of the submission are theirs. The files that failed are kept, to be tried again.
    Read(Option<UnreadFiles>),
}

/// A job with files, which are not read yet or have failed.
#[derive(Debug, Clone, PartialEq)]
pub struct JobWithFiles {
    /// The id of the job.
    pub job_id: String,
    /// The collection.
    pub collection: crate::CollectionId,
    /// When the job ended.
    pub finished_at: Option<crate::Timestamp>,
    /// Its files.
    pub files: UnreadFiles,
}
