//! The engine in this process: files in one folder, one writer, any number of concurrent searches.
//!
//! Every chunk gets a *chunk id*, an integer that is assigned in order and never reused. It is internal: the row of the chunk in
//! every append-only file, and the value that Tantivy stores for its entry of the chunk. A bitmap marks deleted chunks. The file
//! `head` is the commit point; a [`Snapshot`](snapshot::Snapshot) is the state that one head describes. **Data beyond the head
//! does not exist, whatever other files contain.**
//!
//! A batch is one commit: texts and vectors are appended, Tantivy writes a segment, and the head is replaced last.

mod batch;
mod codes;
mod compact;
mod copies;
mod dense;
mod engine;
mod existing;
mod fields;
mod files;
mod format;
mod head;
mod on_demand;
mod open;
mod pins;
mod pq4;
mod recall;
mod record;
mod relevance;
mod search;
mod snapshot;
mod table;
mod threads;
mod verify;
mod writer;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arc_swap::ArcSwap;
use weir_lexical::{LexicalView, Merge};
use weir_ranking::relevance::LearnedRelevance;

pub(crate) use copies::IndexCopies;
pub use engine::EmbeddedEngine;
pub(crate) use engine::blocking;
pub use fields::FILTER_CACHE_BYTES_MAX;
pub use format::RebuildReason;
pub use on_demand::OpenIndexes;
pub(crate) use on_demand::remove_folder;

use crate::{Change, ConsistencyReport, EngineSettings, HistoryPoint, IndexCounts, IndexError, Result};
use batch::Batch;
use codes::SavedCodes;
use existing::KnownExisting;
use fields::{Fields, LazyFields};
use files::MappedFiles;
use head::{Head, Summary};
use pins::SnapshotPins;
use pq4::Pq4Codes;
use relevance::{BaselineFile, FILE as BASELINE_FILE, FittedStatistics};
pub(crate) use relevance::{RecentQueries, hash_of};
use snapshot::Snapshot;
use table::DocumentTable;
use writer::{BaseState, Writer};

/// The embedded engine. Its functions block and are not limited; [`crate::Engine`] runs them within the limit on CPU work.
#[derive(Clone)]
pub struct Embedded {
    inner: Arc<EmbeddedInner>,
}

struct EmbeddedInner {
    folder: PathBuf,
    settings: EngineSettings,
    /// The state that searches see. Replaced only while `live` is locked.
    snapshot: ArcSwap<Snapshot>,
    /// Statistics of the embeddings; fitted again when the index has doubled.
    fitted: ArcSwap<FittedStatistics>,
    learned: ArcSwap<LearnedRelevance>,
    /// Locked briefly.
    recent_queries: Mutex<RecentQueries>,
    /// Locked briefly.
    baseline: Mutex<BaselineFile>,
    /// Locked while the baseline is written to its file.
    baseline_writer: Mutex<()>,
    /// The content of the file `codes`. Locked while that file is written; `writer` is taken first, and released by then.
    saved_codes: Mutex<SavedCodes>,
    /// Locked briefly. If both locks are needed, `writer` is taken first.
    live: Mutex<LiveDocuments>,
    /// Snapshots that later pages of a search need.
    pins: Mutex<SnapshotPins>,
    /// Statistics of the documents that exist for callers with a mandatory filter.
    existing: KnownExisting,
    /// Locked while a batch is committed; `None` after closing.
    writer: Mutex<Option<Writer>>,
}

/// The live documents of the current snapshot.
struct LiveDocuments {
    table: DocumentTable,
    /// Documents hidden by `remove_now`, with the operation numbers of their removals, which are still to be applied.
    hidden: HashMap<String, u64>,
}

impl Embedded {
    /// See [`EmbeddedEngine::open`].
    pub fn open(
        folder: &Path,
        settings: EngineSettings,
        store_last_operation: u64,
    ) -> Result<(Embedded, Option<RebuildReason>)> {
        let (loaded, rebuilt) = open::open(folder, &settings, store_last_operation)?;
        threads::start();
        let fitted = FittedStatistics::from(&loaded.snapshot, settings.dimension);
        let inner = EmbeddedInner {
            folder: folder.to_owned(),
            settings,
            fitted: ArcSwap::from_pointee(fitted),
            learned: ArcSwap::from_pointee(LearnedRelevance::default()),
            recent_queries: Mutex::default(),
            baseline: Mutex::new(BaselineFile::read(folder)),
            baseline_writer: Mutex::default(),
            saved_codes: Mutex::new(loaded.saved_codes),
            snapshot: ArcSwap::from_pointee(loaded.snapshot),
            live: Mutex::new(LiveDocuments { table: loaded.table, hidden: HashMap::new() }),
            pins: Mutex::default(),
            existing: KnownExisting::default(),
            writer: Mutex::new(Some(loaded.writer)),
        };
        Ok((Embedded { inner: Arc::new(inner) }, rebuilt))
    }

    /// See [`crate::Engine::apply`].
    pub fn apply(&self, changes: Vec<Change>, applied_seq: u64) -> Result<()> {
        self.apply_read_to(changes, applied_seq, None)
    }

    /// See [`crate::Engine::apply`].
    pub fn apply_read_to(
        &self,
        changes: Vec<Change>,
        applied_seq: u64,
        read_to: Option<HistoryPoint>,
    ) -> Result<()> {
        changes.iter().try_for_each(|change| change.check(self.settings().dimension))?;
        let mut writer = lock(&self.inner.writer);
        let writer = writer.as_mut().ok_or(IndexError::Closed)?;
        if applied_seq < writer.head.applied_seq {
            return Err(IndexError::OutOfOrder { applied_seq, current: writer.head.applied_seq });
        }
        if writer.unpublished {
            self.publish_all(writer)?;
        }
        let (batch, base) = self.plan(changes);
        let offsets = writer.commit(&batch, base, (applied_seq, read_to))?;
        self.publish_batch(writer, &batch, &offsets)
    }

    /// See [`crate::Engine::remove_now`].
    pub fn remove_now(&self, document_id: &str, operation: u64) -> Result<bool> {
        let mut live = lock(&self.inner.live);
        let snapshot = self.snapshot();
        if operation <= snapshot.applied_seq {
            return Ok(false);
        }
        let latest = live.hidden.entry(document_id.to_owned()).or_insert(operation);
        *latest = operation.max(*latest);
        let Some(record) = live.table.remove(document_id, &snapshot.files.documents) else {
            return Ok(false);
        };
        let mut tombstones = (*snapshot.tombstones).clone();
        tombstones.delete(record.first_chunk, record.chunks);
        self.publish(Snapshot {
            documents: live.table.len() as u32,
            tombstones: Arc::new(tombstones),
            ..Snapshot::clone(&snapshot)
        });
        Ok(true)
    }

    /// See [`crate::Engine::set_learned_relevance`].
    pub fn set_learned_relevance(&self, learned: Arc<LearnedRelevance>) {
        self.inner.learned.store(learned);
    }

    /// The summary of the folder, by its head alone; `None` if opening would not find it usable.
    pub(crate) fn peek(folder: &Path, settings: &EngineSettings) -> Result<Option<Summary>> {
        if format::check(folder, settings)?.is_some() {
            return Ok(None);
        }
        match Head::read(folder) {
            Ok(head) => Ok(head.map(|head| Summary::of(&head))),
            Err(error) if error.is_damage() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Applied sequence and sizes.
    pub(crate) fn summary(&self) -> Summary {
        let snapshot = self.snapshot();
        Summary { applied_seq: snapshot.applied_seq, read_to: snapshot.read_to, counts: self.counts() }
    }

    /// Whether both are handles to one opened index.
    pub(crate) fn is_same(&self, other: &Embedded) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Whether this is the only handle, and no removal waits for its batch: closing and opening again changes nothing.
    pub(crate) fn is_unused(&self) -> bool {
        Arc::strong_count(&self.inner) == 1 && lock(&self.inner.live).hidden.is_empty()
    }

    /// Whether the files that were opened still exist, with at least their committed lengths. `true` during a commit.
    pub(crate) fn has_its_files(&self) -> bool {
        let Ok(writer) = self.inner.writer.try_lock() else { return true };
        writer.as_ref().is_none_or(Writer::has_its_files)
    }

    /// Checks that all bytes that were read so far were those of the files: call it before a result is used.
    pub(crate) fn check_reads(&self) -> Result<()> {
        self.snapshot().check()
    }

    /// Ends writing without closing anything in order: the files were removed, damaged or copied. Searches are still answered. Returns the
    /// removals of [`Embedded::remove_now`] that wait for their batch.
    pub(crate) fn abandon(&self) -> HashMap<String, u64> {
        drop(lock(&self.inner.writer).take());
        lock(&self.inner.live).hidden.clone()
    }

    /// See [`crate::Engine::applied_seq`].
    pub fn applied_seq(&self) -> u64 {
        self.inner.snapshot.load().applied_seq
    }

    /// See [`crate::Engine::counts`].
    pub fn counts(&self) -> IndexCounts {
        let snapshot = self.inner.snapshot.load();
        IndexCounts {
            documents: snapshot.documents.into(),
            chunks: snapshot.live_chunks().into(),
            deleted_chunks: snapshot.tombstones.deleted().into(),
            segments: snapshot.lexical.segments(),
        }
    }

    /// See [`crate::Engine::disk_bytes`].
    pub fn disk_bytes(&self) -> Result<u64> {
        Embedded::disk_bytes_of(self.folder())
    }

    /// Bytes of the files in a folder.
    pub(crate) fn disk_bytes_of(folder: &Path) -> Result<u64> {
        folder_bytes(folder).map_err(IndexError::file("list folder", folder))
    }

    /// Bytes of the cached results of filters.
    pub(crate) fn filter_cache_bytes(&self) -> usize {
        self.snapshot().fields.cached_bytes()
    }

    /// Heap bytes of the document table.
    pub fn table_bytes(&self) -> usize {
        lock(&self.inner.live).table.heap_bytes()
    }

    /// See [`crate::Engine::flush`].
    pub fn flush(&self) -> Result<()> {
        let merge = match lock(&self.inner.writer).as_mut() {
            Some(Writer { lexical, .. }) => {
                lexical.finish_merges()?;
                lexical.merge_small()?
            }
            None => return Ok(()),
        };
        // not locked meanwhile, so that batches can be applied
        merge.map_or(Ok(()), Merge::wait)?;
        if let Some(writer) = lock(&self.inner.writer).as_mut() {
            // ends the threads of the lexical writer, which the next batch starts again
            writer.lexical.finish_merges()?;
            self.publish_merged(writer)?;
        }
        self.save_codes_if_due();
        Ok(())
    }

    /// See [`crate::Engine::close`].
    pub fn close(&self) -> Result<()> {
        match lock(&self.inner.writer).take() {
            Some(mut writer) => {
                self.save_all_codes(&writer.head.files);
                writer.lexical.finish_merges()?;
                self.publish_merged(&mut writer)?;
                self.save_baseline()
            }
            None => Ok(()),
        }
    }

    /// See [`crate::Engine::verify`].
    pub fn verify(&self) -> Result<ConsistencyReport> {
        let (snapshot, states) = {
            let writer = lock(&self.inner.writer);
            let writer = writer.as_ref().ok_or(IndexError::Closed)?;
            (self.snapshot(), writer.head.files.clone())
        };
        let mut report = snapshot.verify();
        verify::verify_files(self.folder(), &states, &mut report);
        Ok(report)
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.snapshot.load_full()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.inner.folder
    }

    pub(crate) fn settings(&self) -> &EngineSettings {
        &self.inner.settings
    }

    /// Compares the changes with the live documents; also returns the state that the result is based on.
    fn plan(&self, changes: Vec<Change>) -> (Batch, BaseState) {
        let live = lock(&self.inner.live);
        let snapshot = self.snapshot();
        let batch = Batch::plan(changes, &live.table, &snapshot.files.documents);
        let base =
            BaseState { tombstones: (*snapshot.tombstones).clone(), documents: live.table.len() as u32 };
        (batch, base)
    }

    /// Makes a committed batch visible.
    fn publish_batch(&self, writer: &mut Writer, batch: &Batch, offsets: &[u64]) -> Result<()> {
        let files = MappedFiles::open(&self.inner.folder, &writer.head.files)?;
        let view = writer.lexical.view()?;
        let pq4 = self.pq4_of(&files);
        let mut live = lock(&self.inner.live);
        for removed in &batch.removed {
            live.table.remove(&removed.id, &files.documents);
        }
        for &offset in offsets {
            live.table.insert(offset, &files.documents);
        }
        self.publish_head(writer, &mut live, files, pq4, view)
    }

    /// The 4-bit codes of the rows in the files. Takes long if the codebook is trained again; no lock that searches need is held.
    fn pq4_of(&self, files: &MappedFiles) -> Arc<Pq4Codes> {
        let mut pq4 = Arc::clone(&self.snapshot().pq4);
        if let Some(vectors) = &files.vectors {
            Arc::make_mut(&mut pq4).extend(vectors, self.settings().dimension);
        }
        pq4
    }

    /// Makes a batch visible that was committed but failed in [`Self::publish_batch`].
    fn publish_all(&self, writer: &mut Writer) -> Result<()> {
        let files = MappedFiles::open(&self.inner.folder, &writer.head.files)?;
        let view = writer.lexical.view()?;
        let table = open::read_table(&self.inner.folder, &files.documents, &writer.head)?;
        let pq4 = self.pq4_of(&files);
        let mut live = lock(&self.inner.live);
        live.table = table;
        self.publish_head(writer, &mut live, files, pq4, view)
    }

    /// Makes the head visible, without documents whose removal is not applied yet. The table holds the head's documents.
    fn publish_head(
        &self,
        writer: &mut Writer,
        live: &mut LiveDocuments,
        files: MappedFiles,
        pq4: Arc<Pq4Codes>,
        view: LexicalView,
    ) -> Result<()> {
        let (applied_seq, read_to) = (writer.head.applied_seq, writer.head.read_to);
        let mut tombstones = writer.head.tombstones.clone();
        let base = self.snapshot();
        tombstones.delete_all(&base.tombstones);
        let fields = if base.fields.documents_bytes() < files.documents.len() as u64 {
            let mut fields = Fields::clone(&base.fields);
            let extended = fields.extend(&files.documents);
            extended
                .ok_or_else(|| IndexError::damaged(self.folder(), "file `documents` ends in a document"))?;
            Arc::new(LazyFields::of(fields))
        } else {
            Arc::clone(&base.fields)
        };
        live.hidden.retain(|_, removal| *removal > applied_seq);
        for id in live.hidden.keys() {
            if let Some(record) = live.table.remove(id, &files.documents) {
                tombstones.delete(record.first_chunk, record.chunks);
            }
        }
        self.publish(Snapshot {
            applied_seq,
            read_to,
            documents: live.table.len() as u32,
            tombstones: Arc::new(tombstones),
            files: Arc::new(files),
            pq4,
            fields,
            lexical: Arc::new(view),
        });
        writer.unpublished = false;
        Ok(())
    }

    /// Makes merged segments visible.
    fn publish_merged(&self, writer: &mut Writer) -> Result<()> {
        let view = Arc::new(writer.lexical.view()?);
        let _live = lock(&self.inner.live);
        self.publish(Snapshot { lexical: view, ..Snapshot::clone(&self.snapshot()) });
        Ok(())
    }

    /// The caller holds the lock of `live`.
    fn publish(&self, snapshot: Snapshot) {
        if self.inner.fitted.load().is_outgrown_by(&snapshot) {
            self.inner.fitted.store(Arc::new(FittedStatistics::from(&snapshot, self.settings().dimension)));
        }
        self.inner.snapshot.store(Arc::new(snapshot));
        lock(&self.inner.pins).expire(Instant::now());
    }
}

/// Ignores poisoning: a panic leaves the locked data usable, and an interrupted commit is rolled back by the next.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn folder_bytes(folder: &Path) -> std::io::Result<u64> {
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = match entry.metadata() {
            Ok(metadata) => metadata,
            // a merge may remove files meanwhile
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        bytes += if metadata.is_dir() { folder_bytes(&entry.path())? } else { metadata.len() };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IndexedChunk, IndexedDocument};

    fn put(id: &str, version: u64) -> Change {
        let chunk = IndexedChunk { start: 0, end: 5, text: "apple".to_owned(), embedding: None };
        let (id, metadata) = (id.to_owned(), String::new());
        Change::Put(IndexedDocument { id, version, title: None, metadata, pages: None, chunks: vec![chunk] })
    }

    fn text_only() -> (tempfile::TempDir, Embedded) {
        let folder = tempfile::tempdir().unwrap();
        let settings = EngineSettings {
            dimension: 0,
            language: weir_text::Language::English,
            fingerprint: String::new(),
            writer_memory_bytes: 0,
        };
        let (engine, _) = Embedded::open(folder.path(), settings, 0).unwrap();
        (folder, engine)
    }

    fn found(engine: &Embedded) -> Vec<u32> {
        let snapshot = engine.snapshot();
        let visible = weir_ranking::Visible { tombstones: &snapshot.tombstones, selection: None };
        let query = weir_query::Query::Words("apple".to_owned());
        let query = snapshot
            .lexical
            .compile(
                &query,
                weir_lexical::QueryContext {
                    mode: weir_ranking::RetrievalMode::Lexical,
                    existing: visible,
                    totals: None,
                    is_unfinished: false,
                    expanded_terms_max: 64,
                    settings: &crate::LexicalSettings::default(),
                    select: &|_| unreachable!(),
                    text_of: &|_| unreachable!(),
                },
            )
            .unwrap();
        let found = snapshot.lexical.search(&query, visible, None, 10, false).unwrap();
        found.iter().map(|one| one.chunk_id).collect()
    }

    /// Runs the steps of `apply` with removals between commit and publication, which no test could time from outside.
    #[test]
    fn documents_removed_during_a_commit_stay_removed() {
        let (_folder, engine) = text_only();
        engine.apply(vec![put("old", 1), put("kept", 1)], 1).unwrap();

        let mut writer = lock(&engine.inner.writer);
        let writer = writer.as_mut().unwrap();
        let (batch, base) = engine.plan(vec![put("new", 1), put("kept", 2)]);
        let offsets = writer.commit(&batch, base, (2, None)).unwrap();
        assert!(engine.remove_now("old", 3).unwrap());
        assert!(!engine.remove_now("new", 4).unwrap(), "it is not visible yet");
        assert_eq!(found(&engine), [1]);
        engine.publish_batch(writer, &batch, &offsets).unwrap();

        assert_eq!(found(&engine), [3], "the new version of `kept` alone");
        assert_eq!(engine.counts().documents, 1);
        assert_eq!(engine.applied_seq(), 2);
    }

    #[test]
    fn a_committed_but_unpublished_batch_is_published_by_the_next() {
        let (_folder, engine) = text_only();
        engine.apply(vec![put("a", 1)], 1).unwrap();
        {
            let mut writer = lock(&engine.inner.writer);
            let (batch, base) = engine.plan(vec![put("a", 2), put("b", 1)]);
            writer.as_mut().unwrap().commit(&batch, base, (2, None)).unwrap();
        }
        assert_eq!((found(&engine), engine.applied_seq()), (vec![0], 1));
        engine.apply(vec![put("a", 2), put("b", 1), put("c", 1)], 3).unwrap();
        assert_eq!((found(&engine), engine.applied_seq()), (vec![1, 2, 3], 3));
        assert!(engine.verify().unwrap().is_sound());
    }
}
