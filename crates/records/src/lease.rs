//! Which of several gateways does the work of a collection: it has a lease, and the number of the lease fences its writes.

use crate::CollectionId;

/// The right of one gateway to prepare the documents of a collection. A later one for the same collection has a higher number; from then on every
/// write with this one is refused with `Error::LeaseLost`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    /// The collection.
    pub collection: CollectionId,
    /// The number of the lease.
    pub number: u64,
}

/// How far the work of a collection is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Position {
    /// The collection.
    pub collection: CollectionId,
    /// The number of the newest operation; 0 before the first.
    pub last_operation: u64,
    /// See [`Collection::pruned_to`](crate::Collection::pruned_to).
    pub pruned_to: u64,
    /// Chunks and embeddings of the operations up to this one are in the store, as far as their documents have no later version.
    pub prepared_to: u64,
    /// The number of the last lease; 0 before the first.
    pub fence: u64,
    /// Seconds until the last lease ends, by the clock of the database; 0 when it has ended.
    pub lease_seconds: f64,
    /// The `StoreView::operation_identity` of the operation that was asked for.
    pub identity: Option<i64>,
}
