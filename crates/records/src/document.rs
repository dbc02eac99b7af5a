//! Documents, and the chunks prepared from them.

use serde::{Deserialize, Serialize};

/// The hash of the text that was embedded for a chunk, 32 bytes. Together with a model fingerprint it identifies an embedding.
pub type TextHash = [u8; 32];

/// A document to be stored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// The title that the chunks are embedded with, where that is not `title`: the title was changed and nothing was embedded again. Empty
    /// for chunks that are embedded without a title.
    pub embedded_title: Option<String>,
    /// The embedding that was sent with the document, as little-endian `f32`.
    pub vector: Option<Vec<u8>>,
    /// The file that the text was extracted from. Not a part of the content.
    pub source: Option<FileSource>,
}

/// The file that a document was read from, by which the same file is recognised without reading it again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSource {
    /// A hash of everything that determines the documents of the file: its bytes, its name, the settings and the reader.
    pub hash: [u8; 32],
    /// The ids of the documents of its attachments, which have the same hash.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<String>,
}

/// A file whose documents are stored as it would store them again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownFile {
    /// The ids of its documents.
    pub ids: Vec<String>,
    /// The version of the first one, that of the file itself.
    pub version: u64,
}

/// The condition under which one document is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Precondition {
    /// The document's id.
    pub document_id: String,
    /// The condition on its version.
    pub test: VersionTest,
}

/// A condition on the version of a stored document. A hidden document counts as absent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VersionTest {
    /// The document exists.
    Exists,
    /// The document does not exist.
    Absent,
    /// The document exists in one of these versions.
    OneOf(Vec<u64>),
    /// The document does not exist, or in none of these versions.
    NoneOf(Vec<u64>),
}

impl VersionTest {
    /// Whether a document passes that is stored in `version`, or absent.
    pub fn is_met(&self, version: Option<u64>) -> bool {
        let is_in = |versions: &[u64]| version.is_some_and(|version| versions.contains(&version));
        match self {
            VersionTest::Exists => version.is_some(),
            VersionTest::Absent => version.is_none(),
            VersionTest::OneOf(versions) => is_in(versions),
            VersionTest::NoneOf(versions) => !is_in(versions),
        }
    }
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
    /// See [`NewDocument::embedded_title`].
    pub embedded_title: Option<String>,
    /// See [`NewDocument::vector`].
    pub vector: Option<Vec<u8>>,
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
    /// BLAKE3 over everything but the id and the file. Fields that are absent leave it as it was before there were such fields.
    pub fn content_hash(&self) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        let title = self.title.as_deref();
        hasher.update(&[u8::from(title.is_some())]);
        let pages = self.pages.as_deref();
        for field in [title.unwrap_or_default(), &self.text, &self.metadata].into_iter().chain(pages) {
            hasher.update(&(field.len() as u64).to_le_bytes());
            hasher.update(field.as_bytes());
        }
        let tagged = [
            (&b"embedded title"[..], self.embedded_title.as_deref().map(str::as_bytes)),
            (b"vector", self.vector.as_deref()),
        ];
        for (tag, field) in tagged {
            if let Some(field) = field {
                hasher.update(tag).update(&(field.len() as u64).to_le_bytes()).update(field);
            }
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
