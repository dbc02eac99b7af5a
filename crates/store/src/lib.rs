//! The truth: collections, documents, numbered operations, jobs, embeddings, feedback, the query log.
//!
//! Everything else that Weir keeps (the index folders) can be rebuilt from here. Three ideas carry the crate:
//!
//! - **A change is durable before it is answered.** Every writing call returns after the commit that holds it has
//!   reached the disk. A call that returned an error was not acknowledged; nothing of it is visible.
//! - **An operation is a numbered note that a document of a collection changed.** It carries no content. To apply it
//!   is to bring the index to the document's *current* state in the store: present at some version, or absent. So
//!   replaying twice, or replaying an old note about a document that has changed since, is harmless.
//! - **Every row that feeds a replay has a checksum**, verified when it is read. A row that lies is
//!   [`Error::Damaged`], never content.
//!
//! The store has no clock: callers pass the time ([`Now`]). It keeps `settings` and `metadata` as the strings it got.
//! Ids and texts are any Unicode, NUL included, and are compared byte by byte.

#![forbid(unsafe_code)]

mod checksum;
mod collection;
mod document;
mod error;
mod feedback;
mod job;
mod operation;
mod query_log;
mod sqlite;
mod store;
mod verify;

pub use collection::{Collection, CollectionId, Counts, Generation, GenerationId, Kept};
pub use document::{ChunkSpan, Deleted, NewDocument, Prepared, StoredDocument, TextHash};
pub use error::{Error, Result};
pub use feedback::{Feedback, NewFeedback, Voices};
pub use job::{DocumentError, Job, JobStatus, Submission};
pub use operation::{Operation, OperationKind};
pub use query_log::{LoggedQuery, QueryCount, QueryReport};
pub use sqlite::Sqlite;
pub use store::Store;
pub use verify::VerifyReport;

/// A moment in unix seconds, fractions allowed; always handed in by the caller.
pub type Now = f64;
