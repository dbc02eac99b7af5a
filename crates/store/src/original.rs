//! The file from which a document was made.

/// The file from which a document was made, if it was kept. Its bytes are outside of the database, by their SHA-256.
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
