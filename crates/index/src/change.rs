//! What comes in: documents with their chunks, and removals.

/// One change to a collection, in the order of the store's operations.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Adds the document, or replaces it when `version` is higher than that of the one that is there.
    Put(IndexedDocument),
    /// Removes the document if it is there.
    Remove {
        /// The document's id.
        id: String,
    },
}

/// A document, cut into chunks. One without chunks (of white space only) is not held: it cannot be found.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexedDocument {
    /// The id that the user gave or got.
    pub id: String,
    /// Grows with every replacement; a `Put` that is not newer changes nothing.
    pub version: u64,
    /// Ranked together with each chunk's text.
    pub title: Option<String>,
    /// The user's JSON, returned as it came.
    pub metadata: String,
    /// In the order of the text.
    pub chunks: Vec<IndexedChunk>,
}

/// A piece of a document that is embedded and ranked.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexedChunk {
    /// First byte of the chunk in the document's text.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
    /// The document's bytes from `start` to `end`.
    pub text: String,
    /// As long as the collection's dimension, or none in a text-only collection.
    pub embedding: Option<Vec<f32>>,
}
