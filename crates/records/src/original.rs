//! The file from which a document was made.

/// The file from which a document was made, if it was kept. Its bytes are in the data directory or in the store, by their SHA-256.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Original {
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Its media type.
    pub media_type: String,
    /// Its name, without folders.
    pub name: String,
    /// Its size.
    pub bytes: u64,
}

/// The file from which a submitted document was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewOriginal {
    /// The document's id.
    pub document_id: String,
    /// The SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// The file, if it is kept. A document that was made from another file has no kept one afterwards.
    pub kept: Option<Original>,
}
