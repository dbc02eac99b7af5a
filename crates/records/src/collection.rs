//! Collections and their generations.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Timestamp;

/// Identifies a collection. A store never reuses the id of a deleted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CollectionId(pub i64);

/// Identifies a generation. A store never reuses one, so it can name an index folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct GenerationId(pub i64);

/// A named set of documents with one embedding model and settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    /// The id inside the store.
    pub id: CollectionId,
    /// The unique name that callers use.
    pub name: String,
    /// The settings, the string that was given.
    pub settings: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// The current generation, which searches use.
    pub generation: Generation,
    /// The number of the newest operation; 0 before the first.
    pub last_operation: u64,
    /// Operations up to this number have been pruned, except each stored document's last one. An index whose applied sequence is lower
    /// has missed deletions and must be rebuilt.
    pub pruned_to: u64,
}

/// Retention: the newest finished jobs, applied operations and idempotency keys that the store keeps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retention {
    /// Applied operations of a collection, beside the last operation of each stored document, which is always kept. At least one.
    pub operations_max: u64,
    /// Finished jobs of all collections together.
    pub jobs_max: u64,
    /// Results of requests with an idempotency key from before this time are deleted.
    pub idempotency_since: Timestamp,
}

/// A collection's chunks and embeddings by one embedding model. A change of the model starts a new generation.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// The id inside the store.
    pub id: GenerationId,
    /// The fingerprint of the embedding model; empty for a text-only collection.
    pub fingerprint: String,
    /// The highest applied sequence that was recorded. Advisory: the index may be ahead of it, or behind it after its folder was lost.
    pub applied_seq: u64,
    /// The collection's last operation when this generation was started. While the applied sequence is lower, searches miss documents
    /// that the previous generation found.
    pub complete_from: u64,
    /// When it was started.
    pub created_at: Timestamp,
}

impl fmt::Display for CollectionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for GenerationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
