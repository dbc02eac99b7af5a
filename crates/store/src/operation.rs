//! Operations: numbered notes that a document changed.

/// A note that a document of a collection changed. Applying it brings the index to the document's *current* state in
/// the store, which may be newer than the note.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// Its number: 1, 2, 3, … in each collection, without gaps but for those that were pruned.
    pub number: u64,
    /// What was done. For people and statistics: applying looks at the document, not at this.
    pub kind: OperationKind,
    /// The document that changed.
    pub document_id: String,
}

/// What an operation did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationKind {
    /// Stored a new document or a new version of one.
    Put,
    /// Deleted a document.
    Delete,
}

impl OperationKind {
    /// The word for it in the store.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            OperationKind::Put => "put",
            OperationKind::Delete => "delete",
        }
    }

    /// The kind that `word` names.
    pub(crate) fn parse(word: &str) -> Option<OperationKind> {
        [OperationKind::Put, OperationKind::Delete].into_iter().find(|kind| kind.as_str() == word)
    }
}
