//! Types of stored records, independent of any database.

#![forbid(unsafe_code)]

mod collection;
mod document;
mod feedback;
mod idempotency;
mod job;
mod key;
mod lease;
mod operation;
mod original;
mod query_log;
mod unread;
mod upkeep;
mod webhook;

pub use collection::{Collection, CollectionId, Generation, GenerationId, Retention};
pub use document::{
    ChunkSpan, DeletedDocument, DocumentState, FileSource, KnownFile, NewDocument, Precondition,
    PreparedDocument, StoredDocument, TextHash, VersionTest,
};
pub use feedback::{Feedback, FeedbackBatch, FeedbackFilter, FeedbackLimits, NewFeedback, ProcessedFeedback};
pub use idempotency::IdempotencyKey;
pub use job::{
    Acceptance, DocumentError, Job, JobDocument, JobDocumentState, JobDocumentsQuery, JobStatus, Submission,
};
pub use key::{
    AuditEntry, HeldBudget, LeaseAsk, LedgerWrite, LedgerWritten, NewAuditEntry, NewKey, Spent, StoredKey,
};
pub use lease::{Fence, Position};
pub use operation::{Operation, OperationKind};
pub use original::{NewOriginal, Original};
pub use query_log::{LoggedQuery, QueryCount, QueryReport};
pub use unread::{JobWithFiles, SubmittedFiles, UnreadFile, UnreadFiles};
pub use upkeep::{PreparedVersion, Upkeep, UpkeepKind};
pub use webhook::{DueWebhook, NewWebhook, Webhook, WebhookOutcome};

/// A point in time in unix seconds, with fractions. The caller's clock, never the store's.
pub type Timestamp = f64;
