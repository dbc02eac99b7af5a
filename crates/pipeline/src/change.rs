//! Input: documents with their chunks, and removals.

use crate::{IndexError, Result};

/// Largest absolute value of an embedding: that of a half.
const VALUE_MAX: f32 = 65504.0;

/// One change to a collection, in the order of the store's operations.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Adds the document, or replaces an older `version` of it.
    Put(IndexedDocument),
    /// Removes the document if it exists.
    Remove {
        /// The document's id.
        id: String,
        /// The operation behind the last one that is known to remove it: what a later one puts is kept. Where each batch is applied at one
        /// instant, in order, this says nothing more.
        before: u64,
    },
}

impl Change {
    /// Checks that each chunk has an embedding of `dimension` values; none, if that is 0.
    pub fn check(&self, dimension: usize) -> Result<()> {
        let Change::Put(document) = self else { return Ok(()) };
        document.chunks.iter().try_for_each(|chunk| match &chunk.embedding {
            Some(embedding) => check_embedding(embedding, dimension),
            None if dimension == 0 => Ok(()),
            None => Err(IndexError::EmbeddingMissing(dimension)),
        })
    }
}

/// An operation of a store, with the random number that the store gave it. Where two stores have the same one, their histories are the same
/// up to it, whatever happened since: a store that was restored from a backup gives the same operation numbers to other changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryPoint {
    /// The number of the operation.
    pub operation: u64,
    /// The random number.
    pub identity: i64,
}

/// A document, cut into chunks. A document without chunks (only white space) is not indexed and cannot be found.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexedDocument {
    /// The id chosen by the user, or generated.
    pub id: String,
    /// Increases with every replacement; a `Put` that is not newer changes nothing.
    pub version: u64,
    /// Ranked together with each chunk's text.
    pub title: Option<String>,
    /// The user's JSON, returned unchanged.
    pub metadata: String,
    /// The pages of the text, in a form that the index does not read; `None` for a text without pages.
    pub pages: Option<String>,
    /// In the order of the text.
    pub chunks: Vec<IndexedChunk>,
}

/// A part of a document, embedded and ranked as a unit.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexedChunk {
    /// First byte of the chunk in the document's text.
    pub start: usize,
    /// End of the chunk, exclusive.
    pub end: usize,
    /// The document's bytes from `start` to `end`.
    pub text: String,
    /// As many values as the collection's dimension; `None` in a text-only collection.
    pub embedding: Option<Vec<f32>>,
}

/// Checks that an embedding has `dimension` values, each within the range of a half.
pub fn check_embedding(embedding: &[f32], dimension: usize) -> Result<()> {
    if embedding.len() != dimension {
        return Err(IndexError::EmbeddingLength { expected: dimension, actual: embedding.len() });
    }
    // false for NaN as well
    match embedding.iter().all(|value| value.abs() <= VALUE_MAX) {
        true => Ok(()),
        false => Err(IndexError::EmbeddingNotFinite),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_of_wrong_length_or_with_invalid_values_are_rejected() {
        let check = check_embedding;
        assert!(matches!(check(&[1.0], 2), Err(IndexError::EmbeddingLength { expected: 2, actual: 1 })));
        for odd in [f32::NAN, f32::INFINITY, 65505.0] {
            assert!(matches!(check(&[0.0, odd], 2), Err(IndexError::EmbeddingNotFinite)), "{odd}");
        }
        check(&[-65504.0, 0.0], 2).unwrap();
    }
}
