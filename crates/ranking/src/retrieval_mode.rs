//! The retrievers of a search.

use serde::{Deserialize, Serialize};

/// The retrievers of a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetrievalMode {
    /// Both, fused.
    Hybrid,
    /// The lexical retriever (BM25) alone.
    Lexical,
    /// The dense retriever (embeddings) alone.
    Dense,
}
