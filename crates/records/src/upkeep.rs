//! Work on the index of a collection beside the ingest, and what is compared with an index.

use crate::CollectionId;

/// A kind of work. A collection has at most one of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum UpkeepKind {
    /// Comparing an index with the store.
    Reconcile,
    /// That some gateway searches an earlier generation of the index, which all gateways use: its revision changes as long as one does.
    EarlierSearched,
}

/// Request, progress and findings, in the words of the gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Upkeep {
    /// The collection.
    pub collection: CollectionId,
    /// Higher after every change; 0 would be that of no work.
    pub revision: u64,
    /// As it was written.
    pub state: String,
}

/// A document as an index should have it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedVersion {
    /// The document's id.
    pub id: String,
    /// Its version, the number of the operation that stored it.
    pub version: u64,
    /// The chunks that are stored for that version in the current generation; 0 until it is prepared.
    pub chunks: u64,
}
