//! What a check of a whole index found.

use std::fmt;

/// The result of checking every document, chunk and lexical entry of one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsistencyReport {
    /// Documents that can be found, counted from the files.
    pub documents: u32,
    /// Chunks that can be found, counted from the files.
    pub chunks: u32,
    /// Chunks of removed and replaced documents that still take room.
    pub deleted_chunks: u32,
    /// Lexical entries of dead chunks, which the next batches delete.
    pub stale_entries: u32,
    /// What is wrong, at most [`ConsistencyReport::INCONSISTENCIES_MAX`].
    pub problems: Vec<Inconsistency>,
}

impl ConsistencyReport {
    /// A report names no more problems than this.
    pub const INCONSISTENCIES_MAX: usize = 100;

    /// Whether nothing is wrong.
    pub fn is_sound(&self) -> bool {
        self.problems.is_empty()
    }

    pub(crate) fn note(&mut self, problem: Inconsistency) {
        if self.problems.len() < ConsistencyReport::INCONSISTENCIES_MAX {
            self.problems.push(problem);
        }
    }
}

/// Something that must not be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Inconsistency {
    /// A live chunk has no lexical entry, or several.
    LexicalEntries {
        /// The chunk's slot.
        chunk_id: u32,
        /// Entries that were found; there must be one.
        found: u32,
    },
    /// The lexical leg has entries of slots that were never committed.
    ForeignEntries {
        /// How many.
        found: u32,
    },
    /// A slot does not lead to a readable document and text.
    Unreadable {
        /// The slot.
        chunk_id: u32,
    },
    /// Some chunks of the document are live and others are not.
    HalfDocument {
        /// The document's first slot.
        chunk_id: u32,
    },
    /// The document count that the engine reports is not the counted one.
    DocumentCount {
        /// What the engine reports.
        reported: u32,
        /// What was counted.
        counted: u32,
    },
    /// The bytes of an append-only file are not those that were committed.
    File {
        /// The file's name in the folder.
        name: &'static str,
    },
}

impl fmt::Display for Inconsistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inconsistency::LexicalEntries { chunk_id, found } => {
                write!(f, "slot {chunk_id} has {found} lexical entries instead of 1")
            }
            Inconsistency::ForeignEntries { found } => {
                write!(f, "{found} lexical entries belong to no committed slot")
            }
            Inconsistency::Unreadable { chunk_id } => {
                write!(f, "slot {chunk_id} does not lead to a document and its text")
            }
            Inconsistency::HalfDocument { chunk_id } => {
                write!(f, "the document at slot {chunk_id} is live in part")
            }
            Inconsistency::DocumentCount { reported, counted } => {
                write!(f, "{reported} documents are reported and {counted} are there")
            }
            Inconsistency::File { name } => {
                write!(f, "the bytes of `{name}` are not those that were committed")
            }
        }
    }
}
