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
mod collection;
#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used, reason = "a failure here is a failed test")]
#[path = "../tests/store/contract/mod.rs"]
mod contract;
mod copy;
mod damage;
mod database;
mod document;
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failure here is a failed test")]
mod double;
mod error;
mod feedback;
mod idempotency;
mod job;
mod kept;
mod key;
mod lease;
mod location;
mod operation;
mod original;
mod postgres;
mod query_log;
mod scripts;
mod service;
mod sqlite;
mod store;
mod tx;
mod unread;
mod value;
mod verify;
mod view;
mod webhook;
mod work;

pub use change::{Change, Changes};
pub use collection::{Collection, CollectionId, Generation, GenerationId, Retention};
pub use document::{
    ChunkSpan, DeletedDocument, DocumentState, FileSource, KnownFile, NewDocument, Precondition,
    PreparedDocument, StoredDocument, TextHash, VersionTest,
};
pub use error::{Error, Result};
pub use feedback::{Feedback, FeedbackBatch, FeedbackFilter, FeedbackLimits, NewFeedback, ProcessedFeedback};
pub use idempotency::IdempotencyKey;
pub use job::{
    Acceptance, DocumentError, Job, JobDocument, JobDocumentState, JobDocumentsQuery, JobStatus, Submission,
};
pub use kept::Keeping;
pub use key::{
    AuditEntry, HeldBudget, LeaseAsk, LedgerWrite, LedgerWritten, NewAuditEntry, NewKey, Spent, StoredKey,
};
pub use lease::{Fence, Position};
pub use location::Location;
pub use operation::{Operation, OperationKind};
pub use original::{NewOriginal, Original};
pub use query_log::{LoggedQuery, QueryCount, QueryReport};
pub use service::Service;
pub use store::Store;
pub use unread::{JobWithFiles, SubmittedFiles, UnreadFile, UnreadFiles};
pub use verify::VerifyReport;
pub use view::StoreView;
pub use webhook::{DueWebhook, NewWebhook, Webhook, WebhookOutcome};

/// A point in time in unix seconds, with fractions. The caller's clock, never the store's.
pub type Timestamp = f64;
