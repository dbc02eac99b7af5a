//! The report of a consistency check.

/// The result of checking every document, chunk and lexical entry of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsistencyReport {
    /// Live documents, counted from the files.
    pub documents: u32,
    /// Live chunks, counted from the files.
    pub chunks: u32,
    /// Chunks of removed and replaced documents that still occupy space.
    pub deleted_chunks: u32,
    /// Lexical entries of deleted chunks, which later batches delete.
    pub stale_entries: u32,
    /// The inconsistencies, at most [`ConsistencyReport::INCONSISTENCIES_MAX`].
    pub problems: Vec<Inconsistency>,
}

impl ConsistencyReport {
    /// Maximum number of inconsistencies in a report.
    pub const INCONSISTENCIES_MAX: usize = 100;

    /// Whether no inconsistency was found.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    /// Adds an inconsistency, unless there are too many.
    pub fn note(&mut self, problem: Inconsistency) {
        if self.problems.len() < ConsistencyReport::INCONSISTENCIES_MAX {
            self.problems.push(problem);
        }
    }
}

/// An inconsistency of an index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inconsistency {
    /// A live chunk has not exactly one lexical entry.
    #[error("chunk {chunk_id} has {found} lexical entries instead of 1")]
    LexicalEntries {
        /// The chunk's internal id.
        chunk_id: u32,
        /// Number of its entries.
        found: u32,
    },
    /// The lexical index has entries of chunks that were never committed.
    #[error("{0} lexical entries belong to no committed chunk")]
    ForeignEntries(u32),
    /// The document or text of a chunk cannot be read.
    #[error("the document or text of chunk {0} cannot be read")]
    Unreadable(u32),
    /// Some chunks of a document are live and others deleted.
    #[error("the document of chunk {0} is partly deleted")]
    HalfDocument(u32),
    /// The engine's document count is wrong.
    #[error("the document count is {reported}, but the files have {counted} documents")]
    DocumentCount {
        /// The engine's count.
        reported: u32,
        /// The documents in the files.
        counted: u32,
    },
    /// A document lacks chunks, or has some too many.
    #[error("document `{document}` has {found} of {expected} chunks")]
    Chunks {
        /// Its id.
        document: String,
        /// Chunks that there are.
        found: u32,
        /// Chunks that there should be.
        expected: u32,
    },
    /// A document has chunks of several versions.
    #[error("document `{document}` has chunks of {count} versions")]
    Versions {
        /// Its id.
        document: String,
        /// How many.
        count: usize,
    },
    /// An append-only file differs from its committed checksum.
    #[error("file `{0}` differs from its committed checksum")]
    File(&'static str),
}
