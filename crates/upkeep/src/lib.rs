//! Work on the index of a collection beside the ingest: who may do it, whether the index is of the store, and comparing the two; and the jobs of the
//! ingest in the log.
//!
//! An index that other processes keep can differ from the store in ways that no operation records: points that were lost, that came back late, or that were
//! left behind. [`reconcile_due`] finds such documents and has them brought to the state of the store, by whoever applies changes to the index. The
//! progress is in the store: every gateway shows it, and another one begins again when that gateway dies.

#![forbid(unsafe_code)]

mod checks;
mod difference;
mod earlier;
mod job_log;
mod lease;
mod previous;
mod recall_sampling;
mod reconcile;
mod schedule;

use std::future::Future;

use weir_index::{Engine, Held, IndexError};
use weir_store::{CollectionId, Store, StoreView};

pub use checks::{hide_deleted, unusable};
pub use earlier::Earlier;
pub use job_log::JobLog;
pub use lease::{LEASE_SECONDS, Lease};
pub use previous::{PreviousIndex, find_previous};
pub use recall_sampling::RecallSampling;
pub use schedule::{Schedule, ask, last, reconcile_due};

/// A collection whose index is compared with the store.
pub trait Kept: Send + Sync {
    /// Names it in the store.
    fn id(&self) -> CollectionId;

    /// The name in the API.
    fn name(&self) -> &str;

    /// When it was created, in unix seconds.
    fn created_at(&self) -> f64;

    /// Its index.
    fn engine(&self) -> &Engine;

    /// Its documents, without a filter.
    fn documents(&self) -> &StoreView;

    /// Whether this process may change the index now. If not, it asks for the right to do so, which it may have later if `is_wanted`.
    fn may_change(&self, is_wanted: bool) -> bool;

    /// The store for the writes of this work.
    ///
    /// # Errors
    /// `LeaseLost` when another process has the right to change the index.
    fn worker_store(&self) -> weir_store::Result<Store>;

    /// Brings these documents in the index to their state in the store, as far as the applied operations go. Returns how many were changed.
    ///
    /// # Errors
    /// Errors of the store, the index and the model.
    fn mend(
        &self,
        ids: Vec<String>,
        held: &Held<'_>,
    ) -> impl Future<Output = Result<u64, UpkeepError>> + Send;
}

/// Why work on an index ended early.
#[derive(Debug, thiserror::Error)]
pub enum UpkeepError {
    /// The store failed.
    #[error("the store failed: {0}")]
    Store(#[from] weir_store::Error),
    /// The index failed.
    #[error("the index failed: {0}")]
    Index(#[from] IndexError),
    /// Documents could not be prepared again.
    #[error("documents can't be prepared: {0}")]
    Prepare(String),
    /// Another gateway does the work now.
    #[error("another gateway has taken over the work")]
    TakenOver,
}
