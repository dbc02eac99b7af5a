//! The report of a consistency check.

use std::fmt;

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

    pub(crate) fn note(&mut self, problem: Inconsistency) {
        if self.problems.len() < ConsistencyReport::INCONSISTENCIES_MAX {
            self.problems.push(problem);
        }
    }
}

/// An inconsistency of an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inconsistency {
    /// A live chunk has not exactly one lexical entry.
    LexicalEntries {
        /// The chunk's internal id.
        chunk_id: u32,
        /// Number of its entries.
        found: u32,
    },
    /// The lexical index has entries of chunks that were never committed.
    ForeignEntries {
        /// Number of entries.
        found: u32,
    },
    /// The document or text of a chunk cannot be read.
    Unreadable {
        /// The chunk's internal id.
        chunk_id: u32,
    },
    /// Some chunks of a document are live and others deleted.
    HalfDocument {
        /// Internal id of the document's first chunk.
        chunk_id: u32,
    },
    /// The engine's document count is wrong.
    DocumentCount {
        /// The engine's count.
        reported: u32,
        /// The documents in the files.
        counted: u32,
    },
    /// An append-only file differs from its committed checksum.
    File {
        /// The file's name in the folder.
        name: &'static str,
    },
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inconsistency::LexicalEntries { chunk_id, found } => {
                write!(f, "chunk {chunk_id} has {found} lexical entries instead of 1")
            }
            Inconsistency::ForeignEntries { found } => {
                write!(f, "{found} lexical entries belong to no committed chunk")
            }
            Inconsistency::Unreadable { chunk_id } => {
                write!(f, "the document or text of chunk {chunk_id} cannot be read")
            }
            Inconsistency::HalfDocument { chunk_id } => {
                write!(f, "the document of chunk {chunk_id} is partly deleted")
            }
            Inconsistency::DocumentCount { reported, counted } => {
                write!(f, "the document count is {reported}, but the files have {counted} documents")
            }
            Inconsistency::File { name } => {
                write!(f, "file `{name}` differs from its committed checksum")
            }
        }
    }
}
