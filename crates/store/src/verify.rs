//! What a full check of the store found.

use crate::Error;

/// The outcome of reading and checking every row.
#[derive(Debug, Clone, Default)]
pub struct VerifyReport {
    /// Collections read.
    pub collections: u64,
    /// Documents read.
    pub documents: u64,
    /// Operations read.
    pub operations: u64,
    /// Chunks read.
    pub chunks: u64,
    /// Embeddings read.
    pub embeddings: u64,
    /// Everything that is wrong: each an [`Error::Damaged`] that names the row.
    pub problems: Vec<Error>,
}

impl VerifyReport {
    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }
}
