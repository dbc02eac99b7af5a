//! Commits a batch to disk so that a crash at any instant leaves the state before or after it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

use weir_lexical::{Commit, Lexical};
use weir_ranking::Tombstones;

use super::batch::Batch;
use super::dense;
use super::files::AppendFiles;
use super::head::{Head, head_exists};
use super::open::FolderLock;
use super::record::{ChunkRecord, DocumentRecord};
use crate::{HistoryPoint, IndexError, IndexedChunk, IndexedDocument, Result};

/// Chunk ids have 32 bits, and the last word of tombstones must fit.
const CHUNK_IDS_MAX: u32 = u32::MAX - 64;

/// The file that a process locks while it writes a folder.
pub(crate) const LOCK: &str = "lock";

/// The writer of a folder. There is one.
pub(crate) struct Writer {
    pub(crate) folder: PathBuf,
    pub(crate) files: AppendFiles,
    pub(crate) lexical: Lexical,
    /// The committed state.
    pub(crate) head: Head,
    /// Chunks that are deleted in the committed head and may still have lexical entries.
    pub(crate) stale: Vec<u32>,
    /// Whether the last commit was interrupted and has to be undone.
    pub(crate) needs_recovery: bool,
    /// Whether the committed state is not visible yet, because publishing it failed.
    pub(crate) unpublished: bool,
    /// Excludes other processes, once the folder is open.
    pub(super) _lock: Option<FolderLock>,
}

/// The visible state when a batch was planned, from which the next head is computed.
pub(crate) struct BaseState {
    pub(crate) tombstones: Tombstones,
    pub(crate) documents: u32,
}

impl Writer {
    /// Commits a batch: (1) the append-only files, (2) the lexical index, (3) the head, which is the commit point.
    ///
    /// Lexical entries are deleted only if the committed head marks their chunks as deleted, so that the previous state is intact
    /// until the head is replaced. Returns the offsets of the new documents' records.
    pub(crate) fn commit(
        &mut self,
        batch: &Batch,
        base: BaseState,
        (applied_seq, read_to): (u64, Option<HistoryPoint>),
    ) -> Result<Vec<u64>> {
        if self.needs_recovery {
            self.recover()?;
        }
        let chunk_count = self.chunk_count_after(batch)?;
        self.lexical.expect(batch.puts.iter().map(|document| document.chunks.len()).sum())?;
        self.needs_recovery = true;
        let offsets = batch.puts.iter().map(|document| self.append(document)).collect::<Result<_, _>>()?;
        let files = self.files.sync()?;
        self.lexical.delete(&self.stale)?;
        self.lexical.commit(Commit { applied_seq, chunk_count })?;
        let mut tombstones = base.tombstones;
        tombstones.grow(chunk_count);
        batch.removed.iter().for_each(|removed| tombstones.delete(removed.first_chunk, removed.chunks));
        let documents = base.documents - batch.removed.len() as u32 + batch.puts.len() as u32;
        let head = Head { applied_seq, documents, tombstones, files, read_to: read_to.or(self.head.read_to) };
        head.write(&self.folder)?;
        self.stale = head.tombstones.deleted_since(&self.head.tombstones);
        self.head = head;
        self.needs_recovery = false;
        self.unpublished = true;
        Ok(offsets)
    }

    /// Whether the folder is the one that was locked, and its files have at least their committed lengths.
    pub(crate) fn has_its_files(&self) -> bool {
        let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
        let locked = self._lock.as_ref().and_then(|lock| lock.metadata().ok()).map(identity);
        let found = std::fs::metadata(self.folder.join(LOCK)).ok().map(identity);
        locked == found && head_exists(&self.folder) && self.lexical.has_its_files() && self.files.exist()
    }

    /// Undoes an interrupted commit.
    fn recover(&mut self) -> Result<()> {
        self.files.cut(&self.head.files)?;
        self.lexical.roll_back();
        self.lexical.delete_from(self.head.tombstones.len())?;
        Ok(())
    }

    fn chunk_count_after(&self, batch: &Batch) -> Result<u32> {
        let added: usize = batch.puts.iter().map(|document| document.chunks.len()).sum();
        let too_large = IndexError::TooLarge { what: "the number of chunks", limit: CHUNK_IDS_MAX.into() };
        match u32::try_from(added).ok().and_then(|added| self.head.tombstones.len().checked_add(added)) {
            Some(chunk_count) if chunk_count <= CHUNK_IDS_MAX => Ok(chunk_count),
            _ => Err(too_large),
        }
    }

    fn append(&mut self, document: &IndexedDocument) -> Result<u64> {
        let offset = self.files.documents.len();
        let first_chunk = (self.files.chunks.len() / ChunkRecord::LEN as u64) as u32;
        let record = DocumentRecord {
            version: document.version,
            first_chunk,
            chunks: document.chunks.len() as u32,
            id: &document.id,
            title: document.title.as_deref(),
            metadata: &document.metadata,
            pages: document.pages.as_deref(),
        };
        let mut bytes = Vec::new();
        record.write(&mut bytes).ok_or(TEXT_TOO_LARGE)?;
        self.files.documents.append(&bytes)?;
        for (ordinal, chunk) in (0..).zip(&document.chunks) {
            self.append_chunk(offset, ordinal, chunk)?;
            let title = document.title.as_deref();
            let names = [document.id.as_str(), title.unwrap_or_default()];
            let names = if ordinal == 0 { names.as_slice() } else { &[] };
            self.lexical.add(first_chunk + ordinal, title, &chunk.text, names)?;
        }
        Ok(offset)
    }

    fn append_chunk(&mut self, document: u64, ordinal: u32, chunk: &IndexedChunk) -> Result<()> {
        let record = ChunkRecord {
            document,
            start: chunk.start as u64,
            end: chunk.end as u64,
            text: self.files.texts.len(),
            text_len: u32::try_from(chunk.text.len()).map_err(|_| TEXT_TOO_LARGE)?,
            chunk: ordinal,
        };
        self.files.chunks.append(&record.to_bytes())?;
        self.files.texts.append(chunk.text.as_bytes())?;
        if let (Some(files), Some(embedding)) = (&mut self.files.vectors, &chunk.embedding) {
            dense::append(files, embedding)?;
        }
        Ok(())
    }
}

const TEXT_TOO_LARGE: IndexError =
    IndexError::TooLarge { what: "a text in bytes", limit: u32::MAX as u64 - 1 };
