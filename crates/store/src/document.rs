//! Documents, and the chunks prepared from them.

/// The hash of a chunk's text as it was embedded, 32 bytes; with a model fingerprint it names an embedding.
pub type TextHash = [u8; 32];

/// A document as it is handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewDocument {
    /// The document's id, unique in its collection.
    pub id: String,
    /// The title; absent and empty differ.
    pub title: Option<String>,
    /// The text.
    pub text: String,
    /// The metadata, a JSON object as the string that was given.
    pub metadata: String,
}

/// A document as it is stored, with the chunks prepared from this version of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredDocument {
    /// The document's id.
    pub id: String,
    /// The title.
    pub title: Option<String>,
    /// The text.
    pub text: String,
    /// The metadata, as the string that was given.
    pub metadata: String,
    /// The number of the operation that made this version.
    pub version: u64,
    /// The chunks in the current generation, in order; empty when this version has not been prepared.
    pub chunks: Vec<ChunkSpan>,
}

/// Where a chunk stands in its document's text, and which text was embedded for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSpan {
    /// The first byte.
    pub start: u64,
    /// The byte after the last.
    pub end: u64,
    /// Names the embedding, together with the generation's fingerprint.
    pub text_hash: TextHash,
}

/// What the worker made of one version of a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    /// The document.
    pub document_id: String,
    /// The version that was prepared.
    pub version: u64,
    /// Its chunks, in order.
    pub chunks: Vec<ChunkSpan>,
}

/// What deleting a document did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deleted {
    /// The number of the operation that notes it.
    pub operation: u64,
    /// How many prepared chunks went with it.
    pub chunks: u64,
}

impl NewDocument {
    /// A BLAKE3 hash over title, text and metadata: equal content, equal hash. The id is no part of it.
    pub(crate) fn content_hash(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let title = self.title.as_deref();
        hasher.update(&[u8::from(title.is_some())]);
        for field in [title.unwrap_or_default(), &self.text, &self.metadata] {
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field.as_bytes());
        }
        hasher.finalize().into()
    }
}
