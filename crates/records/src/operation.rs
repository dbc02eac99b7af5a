//! Operations: the numbered changes of a collection.

/// Records that a document of a collection changed. Applying it brings the index to the document's *current* state in the store, which
/// may be newer than the operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    /// 1, 2, 3, … in each collection, without gaps except for pruned operations.
    pub number: u64,
    /// The kind of change. Informative: applying reads the document's current state instead.
    pub kind: OperationKind,
    /// The id of the changed document.
    pub document_id: String,
}

/// The change by an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::EnumString, strum::IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum OperationKind {
    /// Stored a new document or a new version of one.
    Put,
    /// Deleted a document.
    Delete,
}
