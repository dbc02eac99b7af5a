//! What comes in: documents with their chunks, and removals.

use std::fmt;

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

/// The name of a chunk in engines outside of this process: the same (collection, document, ordinal) always gives the
/// same id, so that applying twice is harmless.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChunkId([u8; 16]);

impl ChunkId {
    /// The id of chunk `ordinal` (from 0) of a document: the first 16 bytes of BLAKE3 over both names, each preceded
    /// by its length, and the ordinal.
    pub fn new(collection: &str, document: &str, ordinal: u32) -> ChunkId {
        let mut hasher = blake3::Hasher::new();
        for name in [collection, document] {
            hasher.update(&(name.len() as u64).to_le_bytes());
            hasher.update(name.as_bytes());
        }
        hasher.update(&ordinal.to_le_bytes());
        let mut id = [0; 16];
        id.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        ChunkId(id)
    }

    /// The 16 bytes, as a UUID has them.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ChunkId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_id_is_the_same_on_every_machine() {
        assert_eq!(ChunkId::new("docs", "a/b", 7).to_string(), "141da84b638cd1650259284439b7934a");
    }

    #[test]
    fn names_do_not_run_into_each_other() {
        assert_ne!(ChunkId::new("ab", "c", 0), ChunkId::new("a", "bc", 0));
        assert_ne!(ChunkId::new("a", "b", 0), ChunkId::new("a", "b", 1));
    }
}
