//! Compaction: the live documents are copied to a new index, because the append-only files keep what was deleted.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::record::DocumentRecord;
use super::snapshot::Snapshot;
use super::{BASELINE_FILE, Embedded, format};
use crate::{Change, IndexError, IndexedChunk, IndexedDocument, Result};

/// Chunks per batch of the copy.
const CHUNKS_PER_BATCH: usize = 4_096;

impl Embedded {
    /// How long ago the index was made, or last compacted.
    pub(crate) fn age(folder: &Path) -> Option<Duration> {
        let made = std::fs::metadata(folder.join(format::NAME)).and_then(|metadata| metadata.modified());
        // one that was made in the future, by a clock that was wrong, is as old as can be
        Some(SystemTime::now().duration_since(made.ok()?).unwrap_or(Duration::MAX))
    }

    /// Copies the live documents to a new index in `target`, which does not exist. Returns the applied sequence of both.
    pub(crate) fn copy_live(&self, target: &Path) -> Result<u64> {
        let snapshot = self.snapshot();
        let (copy, _) = Embedded::open(target, self.settings().clone(), u64::MAX)?;
        let (mut batch, mut chunks, mut offset) = (Vec::new(), 0, 0);
        while offset < snapshot.files.documents.len() as u64 {
            let (record, next) = DocumentRecord::read(&snapshot.files.documents, offset)
                .ok_or_else(|| IndexError::damaged(self.folder(), "file `documents` ends in a document"))?;
            offset = next;
            if !snapshot.tombstones.is_live(record.first_chunk) {
                continue;
            }
            chunks += record.chunks as usize;
            let document = snapshot.indexed(&record);
            batch.push(Change::Put(document.ok_or_else(|| self.missing_row())?));
            if chunks >= CHUNKS_PER_BATCH {
                chunks = 0;
                snapshot.check()?;
                copy.apply_read_to(std::mem::take(&mut batch), snapshot.applied_seq, snapshot.read_to)?;
            }
        }
        snapshot.check()?;
        copy.apply_read_to(batch, snapshot.applied_seq, snapshot.read_to)?;
        copy.flush()?;
        copy.close()?;
        // a missing baseline is estimated again
        let _ = std::fs::copy(self.folder().join(BASELINE_FILE), target.join(BASELINE_FILE));
        Ok(snapshot.applied_seq)
    }
}

impl Snapshot {
    /// The document of a record, as it was applied, with embeddings in half precision.
    fn indexed(&self, record: &DocumentRecord<'_>) -> Option<IndexedDocument> {
        let chunk = |chunk_id| {
            let chunk = self.chunk(chunk_id)?.record;
            let (start, end) = (usize::try_from(chunk.start).ok()?, usize::try_from(chunk.end).ok()?);
            let embedding = match &self.files.vectors {
                Some(_) => Some(self.embedding(chunk_id)?),
                None => None,
            };
            Some(IndexedChunk { start, end, text: self.text(&chunk)?, embedding })
        };
        let chunks = (record.first_chunk..record.first_chunk + record.chunks).map(chunk);
        Some(IndexedDocument {
            id: record.id.to_owned(),
            version: record.version,
            title: record.title.map(str::to_owned),
            metadata: record.metadata.to_owned(),
            pages: record.pages.map(str::to_owned),
            chunks: chunks.collect::<Option<Vec<_>>>()?,
        })
    }
}
