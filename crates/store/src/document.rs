//! Documents, and the chunks prepared from them.

/// The hash of the text that was embedded for a chunk, 32 bytes. Together with a model fingerprint it identifies an embedding.
pub type TextHash = [u8; 32];

/// A document to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDocument {
    /// The document's id, unique in its collection.
    pub id: String,
    /// The title. Absent and empty are different content.
    pub title: Option<String>,
    /// The text.
    pub text: String,
    /// The metadata: a JSON object, as a string.
    pub metadata: String,
    /// The pages of the text, in a form that the store does not read; `None` for a text without pages.
    pub pages: Option<String>,
}

/// A stored document, with the chunks that were prepared from this version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// The document's id.
    pub id: String,
    /// The title.
    pub title: Option<String>,
    /// The text.
    pub text: String,
    /// The metadata: a JSON object, the string that was given.
    pub metadata: String,
    /// The pages of the text, as they were given.
    pub pages: Option<String>,
    /// The number of the operation that stored this version.
    pub version: u64,
    /// The chunks in the current generation, in order; empty while this version is not prepared.
    pub chunks: Vec<ChunkSpan>,
}

/// The position of a chunk in its document's text, and the hash of the text that was embedded for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSpan {
    /// Offset of the first byte.
    pub start: u64,
    /// Offset after the last byte.
    pub end: u64,
    /// Identifies the embedding, together with the generation's fingerprint.
    pub text_hash: TextHash,
}

/// The chunks that the ingest worker cut from one version of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreparedDocument {
    /// The document's id.
    pub document_id: String,
    /// The version that was prepared.
    pub version: u64,
    /// Its chunks, in order.
    pub chunks: Vec<ChunkSpan>,
}

/// The result of deleting a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeletedDocument {
    /// The number of the operation that records the deletion.
    pub operation: u64,
    /// Number of prepared chunks deleted with the document.
    pub chunks: u64,
}

impl NewDocument {
    /// BLAKE3 over title, text, metadata and pages, without the id. Without pages it is that of earlier versions.
    pub(crate) fn content_hash(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let title = self.title.as_deref();
        hasher.update(&[u8::from(title.is_some())]);
        let pages = self.pages.as_deref();
        for field in [title.unwrap_or_default(), &self.text, &self.metadata].into_iter().chain(pages) {
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field.as_bytes());
        }
        hasher.finalize().into()
    }
}

/// A document as the ingest worker reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DocumentState {
    /// It exists.
    Present(StoredDocument),
    /// It was deleted, or is kept out of the index: its job was cancelled.
    Absent,
    /// Its row is damaged; ingesting the document again replaces it.
    Damaged,
}
