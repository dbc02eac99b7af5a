//! The report of a full check of the store.

use crate::Error;

/// The result of reading and checking every row.
#[derive(Debug, Clone, Default)]
pub struct VerifyReport {
    /// Number of collections read.
    pub collections: u64,
    /// Number of documents read.
    pub documents: u64,
    /// Number of operations read.
    pub operations: u64,
    /// Number of chunks read.
    pub chunks: u64,
    /// Number of embeddings read.
    pub embeddings: u64,
    /// The problems found: each is an [`Error::Damaged`] that names the row.
    pub problems: Vec<Error>,
}

impl VerifyReport {
    /// Whether no problem was found.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}
