//! Collections and their generations.

use std::fmt;

use crate::Now;

/// Names a collection for as long as it exists; never given out twice by one store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CollectionId(pub i64);

/// Names a generation; never given out twice by one store, so it can name an index folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GenerationId(pub i64);

/// A named set of documents with one embedding model and settings.
#[derive(Debug, Clone, PartialEq)]
pub struct Collection {
    /// Names the collection inside the store.
    pub id: CollectionId,
    /// The name that callers use, unique.
    pub name: String,
    /// The settings, as the string that was given.
    pub settings: String,
    /// When it was created.
    pub created_at: Now,
    /// The generation that is searched.
    pub generation: Generation,
    /// The number of the newest operation; 0 before the first.
    pub last_operation: u64,
    /// Up to this operation only those are left that a document stands for: an index that has come less far has missed
    /// deletions.
    pub pruned_to: u64,
}

/// What is kept of what is done: the newest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Applied operations of a collection, beside those that its documents stand for; at least one.
    pub operations: u64,
    /// Finished jobs of all collections.
    pub jobs: u64,
}

/// One way of preparing a collection: a model fingerprint and everything derived with it.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// Names the generation.
    pub id: GenerationId,
    /// The fingerprint of the embedding model; empty for a text-only collection.
    pub fingerprint: String,
    /// The highest operation number that the index is known to hold. Advisory: the index itself knows better.
    pub indexed: u64,
    /// The collection's last operation when this generation was started: before the index has reached it, searches would
    /// miss what the generation before found.
    pub complete_from: u64,
    /// When it was started.
    pub created_at: Now,
}

/// How much a collection holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Stored documents.
    pub documents: u64,
    /// Prepared chunks in the current generation. A replaced document counts its old chunks until it is prepared anew.
    pub chunks: u64,
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
