//! Settings and sizes of one generation of a collection.

use weir_text::Language;

/// Settings of a generation. Another fingerprint, dimension or language requires another generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineSettings {
    /// Values per embedding; 0 for a text-only collection.
    pub dimension: usize,
    /// The language of the text analysis.
    pub language: Language,
    /// Fingerprint of the model that made the embeddings; any constant in a text-only collection.
    pub fingerprint: String,
    /// Memory that the lexical writer fills before it writes a segment; at least 15 MB are used.
    pub writer_memory_bytes: usize,
}

/// Sizes of an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexCounts {
    /// Live documents.
    pub documents: u64,
    /// Their chunks.
    pub chunks: u64,
    /// Chunks of removed and replaced documents that still occupy space.
    pub deleted_chunks: u64,
    /// Segments of the lexical index.
    pub segments: usize,
}
