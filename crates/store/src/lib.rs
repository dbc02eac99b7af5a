//! The store: collections, documents, numbered operations, jobs, embeddings, feedback and the query log.
//!
//! Everything else that Weir writes to disk (the index folders) can be rebuilt from the store. Three rules hold for every part of it:
//!
//! - **A change is durable before it is acknowledged.** Every writing call returns after its commit has reached the disk. A call that
//!   returned an error was not acknowledged, and none of its changes is visible.
//! - **An operation is a numbered note that a document of a collection changed.** It has no content. Applying it brings the index to
//!   the document's *current* state in the store: present at some version, or absent. Replaying an operation twice, or replaying one
//!   whose document has changed since, is therefore harmless.
//! - **Every row that a replay reads has a checksum**, verified on each read. A row whose checksum does not match is
//!   [`Error::Damaged`] and never returned as content. Lists skip it, and [`Store::damaged_rows`] names it.
//!
//! Content is read through a [`StoreView`] only, which a [`Caller`](weir_policy::Caller) opens: its allow list and its mandatory filter
//! apply to every read, and to every write that names a document.
//!
//! The store has no clock: callers pass the time ([`Timestamp`]). `settings` and `metadata` are stored as the strings that were given.
//! Ids and texts are any Unicode, NUL included, and are compared byte by byte.

#![forbid(unsafe_code)]

#[cfg(test)]
extern crate self as weir_store;

mod access;
mod change;
mod checksum;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]
#[path = "../tests/store/contract/mod.rs"]
mod contract;
mod copy;
mod damage;
mod database;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
mod double;
mod error;
mod kept;
mod location;
mod postgres;
mod scripts;
mod service;
mod sqlite;
mod store;
mod tx;
mod upkeep;
mod value;
mod verify;
mod view;
mod work;

pub use change::{Change, Changes};
pub use error::{Error, Result};
pub use kept::Keeping;
pub use location::Location;
pub use service::Service;
pub use store::Store;
pub use verify::VerifyReport;
pub use view::StoreView;
pub use weir_records::{
    Acceptance, AuditEntry, ChunkSpan, Collection, CollectionId, DeletedDocument, DocumentError,
    DocumentState, DueWebhook, Feedback, FeedbackBatch, FeedbackFilter, FeedbackLimits, Fence, FileSource,
    Generation, GenerationId, HeldBudget, IdempotencyKey, Job, JobDocument, JobDocumentState,
    JobDocumentsQuery, JobStatus, JobWithFiles, KnownFile, LeaseAsk, LedgerWrite, LedgerWritten, LoggedQuery,
    NewAuditEntry, NewDocument, NewFeedback, NewKey, NewOriginal, NewWebhook, Operation, OperationKind,
    Original, Position, Precondition, PreparedDocument, PreparedVersion, ProcessedFeedback, QueryCount,
    QueryReport, Retention, Spent, StoredDocument, StoredKey, Submission, SubmittedFiles, TextHash,
    Timestamp, UnreadFile, UnreadFiles, Upkeep, UpkeepKind, VersionTest, Webhook, WebhookOutcome,
};
