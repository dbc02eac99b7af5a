//! The state that a search sees: lexical index, files and tombstones of one moment.

use std::sync::Arc;

use half::f16;
use weir_lexical::LexicalView;
use weir_ranking::Tombstones;

use super::fields::LazyFields;
use super::files::MappedFiles;
use super::pq4::Pq4Codes;
use super::record::{ChunkRecord, DocumentRecord};
use crate::{HistoryPoint, IndexError, Result};

/// The state of an index at one moment. It never changes, whatever is applied later.
#[derive(Clone)]
pub(crate) struct Snapshot {
    pub(crate) applied_seq: u64,
    /// See [`crate::Engine::read_to`].
    pub(crate) read_to: Option<HistoryPoint>,
    /// Live documents.
    pub(crate) documents: u32,
    pub(crate) tombstones: Arc<Tombstones>,
    pub(crate) files: Arc<MappedFiles>,
    /// 4-bit codes of `files.vectors`.
    pub(crate) pq4: Arc<Pq4Codes>,
    /// Metadata of `files.documents`.
    pub(crate) fields: Arc<LazyFields>,
    pub(crate) lexical: Arc<LexicalView>,
}

/// A chunk and its document, borrowed from the mapped files.
pub(crate) struct Chunk<'a> {
    pub(crate) record: ChunkRecord,
    pub(crate) document: DocumentRecord<'a>,
}

impl Snapshot {
    /// Checks that all bytes that were read so far were those of the files. A truncated file reads as zeros: call it before a result is used.
    pub(crate) fn check(&self) -> Result<()> {
        self.files.check()?;
        self.lexical.check()?;
        match self.fields.is_damaged() {
            true => Err(IndexError::damaged(self.files.documents.path(), "it changed while it was read")),
            false => Ok(()),
        }
    }

    /// Prefetches the record of a chunk.
    pub(crate) fn prefetch(&self, chunk_id: u32) {
        let start = chunk_id as usize * ChunkRecord::LEN;
        if let Some(record) = self.files.chunks.get(start..start + ChunkRecord::LEN) {
            weir_kernels::prefetch(record);
        }
    }

    /// The document of a chunk, identified by its first chunk id.
    pub(crate) fn document_of(&self, chunk_id: u32) -> Option<u32> {
        chunk_id.checked_sub(ChunkRecord::read(&self.files.chunks, chunk_id)?.chunk)
    }

    /// Reads a chunk; `None` if the files contradict each other, which the checks at opening exclude.
    pub(crate) fn chunk(&self, chunk_id: u32) -> Option<Chunk<'_>> {
        let record = ChunkRecord::read(&self.files.chunks, chunk_id)?;
        let (document, _) = DocumentRecord::read(&self.files.documents, record.document)?;
        Some(Chunk { record, document })
    }

    /// Reads a chunk's text; `None` as [`Snapshot::chunk`].
    pub(crate) fn text(&self, record: &ChunkRecord) -> Option<String> {
        let mut bytes = vec![0; record.text_len as usize];
        self.files.texts.read_into(record.text, &mut bytes)?;
        String::from_utf8(bytes).ok()
    }

    /// The title of a chunk's document, and its text on the next line; `None` as [`Snapshot::chunk`].
    pub(crate) fn title_and_text(&self, chunk_id: u32) -> Option<String> {
        let chunk = self.chunk(chunk_id)?;
        Some(format!("{}\n{}", chunk.document.title.unwrap_or_default(), self.text(&chunk.record)?))
    }

    /// Reads a chunk's embedding; `None` in a text-only collection, and as [`Snapshot::chunk`].
    pub(crate) fn embedding(&self, chunk_id: u32) -> Option<Vec<f32>> {
        let vectors = self.files.vectors.as_ref()?;
        let row_bytes = vectors.f16.len() / u64::from(self.tombstones.len().max(1));
        let mut bytes = vec![0; usize::try_from(row_bytes).ok()?];
        vectors.f16.read_into(u64::from(chunk_id) * row_bytes, &mut bytes)?;
        Some(bytes.as_chunks().0.iter().map(|half| f16::from_le_bytes(*half).to_f32()).collect())
    }

    /// Number of live chunks.
    pub(crate) fn live_chunks(&self) -> u32 {
        self.tombstones.len() - self.tombstones.deleted()
    }
}
