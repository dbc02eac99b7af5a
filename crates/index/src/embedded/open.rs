//! Opens a folder; if its content is unusable, empties it and says why.
//!
//! Every byte of the index is checked before the first search, on all cores at once, while the document table, the lexical index
//! and the file `codes` are read. Whatever is made of bytes that turn out to be damaged is dropped. Rows without stored codes are
//! encoded after that, and metadata is read in the background; a search that needs it waits.

use std::fs::{File, Metadata, TryLockError};
use std::path::Path;
use std::sync::Arc;

use weir_lexical::{Commit, Lexical, LexicalView};
use weir_ranking::Tombstones;

use super::codes::{self, SavedCodes};
use super::fields::LazyFields;
use super::files::{self, AppendFiles, MappedFiles};
use super::format::{self, RebuildReason};
use super::head::{Head, sync_folder};
use super::pq4::Pq4Codes;
use super::record::{ChunkRecord, DocumentRecord};
use super::snapshot::Snapshot;
use super::table::DocumentTable;
use super::threads;
use super::writer::{LOCK, Writer};
use crate::{EngineSettings, IndexError, Result};

pub(super) const LEXICAL_FOLDER: &str = "lexical";
/// Files that a folder may contain beside the append-only files. They may all be removed.
const OTHER_FILES: [&str; 10] = [
    "FORMAT",
    "FORMAT.new",
    "head",
    "head.new",
    "score-baseline",
    "score-baseline.new",
    codes::NAME,
    codes::TEMPORARY_NAME,
    // earlier names of the baseline
    "usual",
    "usual.new",
];

/// Smaller indexes are read by one thread: starting others takes longer.
const PARALLEL_BYTES_MIN: u64 = 1 << 20;

/// The parts of an opened folder.
pub(crate) struct Loaded {
    pub(crate) writer: Writer,
    pub(crate) snapshot: Snapshot,
    pub(crate) table: DocumentTable,
    pub(crate) saved_codes: SavedCodes,
}

/// Opens the folder; if its content is unusable, empties it and returns the reason.
pub(crate) fn open(
    folder: &Path,
    settings: &EngineSettings,
    store_last_operation: u64,
) -> Result<(Loaded, Option<RebuildReason>)> {
    std::fs::create_dir_all(folder).map_err(IndexError::file("create folder", folder))?;
    let lock = lock(folder)?;
    let (mut loaded, rebuilt) = match load(folder, settings, store_last_operation) {
        Ok(Found::Usable(loaded)) => (loaded, None),
        Ok(Found::Useless(reason)) => (create(folder, settings)?, Some(reason)),
        Err(error) if error.is_damage() => {
            (create(folder, settings)?, Some(RebuildReason::Damaged(with_causes(&error))))
        }
        Err(error) => return Err(error),
    };
    loaded.writer._lock = Some(lock);
    Ok((*loaded, rebuilt))
}

enum Found {
    Usable(Box<Loaded>),
    Useless(RebuildReason),
}

/// The lock of a folder, until this is dropped.
pub(super) struct FolderLock(File);

impl FolderLock {
    /// Of the locked file.
    pub(super) fn metadata(&self) -> std::io::Result<Metadata> {
        self.0.metadata()
    }
}

impl Drop for FolderLock {
    fn drop(&mut self) {
        // closing is not enough: a child process that is being started has the file too, until it runs its program
        let _ = self.0.unlock();
    }
}

/// Locks the folder for this process. The operating system releases the lock after a crash.
fn lock(folder: &Path) -> Result<FolderLock> {
    let path = folder.join(LOCK);
    let file = File::create(&path).map_err(IndexError::file("create", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(FolderLock(file)),
        Err(TryLockError::WouldBlock) => Err(IndexError::Locked(folder.to_owned())),
        Err(TryLockError::Error(error)) => Err(IndexError::file("lock", &path)(error)),
    }
}

fn load(folder: &Path, settings: &EngineSettings, store_last_operation: u64) -> Result<Found> {
    if let Some(reason) = format::check(folder, settings)? {
        return Ok(Found::Useless(reason));
    }
    let Some(head) = Head::read(folder)? else { return Ok(Found::Useless(RebuildReason::Missing)) };
    if head.applied_seq > store_last_operation {
        return Err(IndexError::AheadOfStore { applied_seq: head.applied_seq, store: store_last_operation });
    }
    check_lengths(folder, settings.dimension, &head)?;
    let mapped = MappedFiles::open(folder, &head.files)?;
    let parts = match head.files.iter().map(|state| state.len).sum::<u64>() {
        0..PARALLEL_BYTES_MIN => Parts::read(folder, settings, &head, &mapped),
        _ => threads::on_temporary_pool(|| Parts::read(folder, settings, &head, &mapped)),
    }?;
    let mut pq4 = parts.pq4;
    let saved_codes = SavedCodes::of(&pq4);
    if let Some(vectors) = &mapped.vectors {
        // after the check: encoding relies on the range of the int8 values
        pq4.extend(vectors, settings.dimension);
    }
    let (lexical, view, stale) = parts.lexical;
    mapped.check()?;
    view.check()?;
    let fields = LazyFields::read_in_background(MappedFiles::open(folder, &head.files)?.documents);
    let snapshot = Snapshot {
        applied_seq: head.applied_seq,
        read_to: head.read_to,
        documents: head.documents,
        tombstones: Arc::new(head.tombstones.clone()),
        files: Arc::new(mapped),
        pq4: Arc::new(pq4),
        fields,
        lexical: Arc::new(view),
    };
    let writer = Writer {
        folder: folder.to_owned(),
        files: AppendFiles::open(folder, &head.files)?,
        lexical,
        head,
        stale,
        needs_recovery: false,
        unpublished: false,
        _lock: None,
    };
    Ok(Found::Usable(Box::new(Loaded { writer, snapshot, table: parts.table, saved_codes })))
}

/// The parts of an index, built from the files of a folder.
struct Parts {
    /// Writer, view, and deleted chunks that still have entries.
    lexical: (Lexical, LexicalView, Vec<u32>),
    table: DocumentTable,
    /// As far as the file `codes` has them.
    pq4: Pq4Codes,
}

impl Parts {
    /// Checks the files and reads them at the same time, within a pool of threads.
    fn read(folder: &Path, settings: &EngineSettings, head: &Head, mapped: &MappedFiles) -> Result<Parts> {
        let (verified, (lexical, (table, pq4))) = rayon::join(
            || mapped.verify(folder, &head.files),
            || {
                rayon::join(
                    || open_lexical(folder, settings, head),
                    || {
                        rayon::join(
                            || read_table(folder, &mapped.documents, head),
                            || read_codes(folder, settings.dimension, head, mapped),
                        )
                    },
                )
            },
        );
        verified?;
        Ok(Parts { lexical: lexical?, table: table?, pq4 })
    }
}

/// Checks that the lengths of the append-only files fit the number of chunks.
fn check_lengths(folder: &Path, dimension: usize, head: &Head) -> Result<()> {
    let names = files::names(dimension);
    let rows = u64::from(head.tombstones.len());
    let row_bytes = [ChunkRecord::LEN, dimension, size_of::<f32>(), 2 * dimension];
    let lengths = head.files.iter().skip(2).map(|state| state.len);
    let expected = row_bytes.iter().map(|&bytes| rows * bytes as u64).take(names.len() - 2);
    if head.files.len() != names.len() || !lengths.eq(expected) {
        return Err(IndexError::damaged(folder, "file lengths in `head` do not match its chunk count"));
    }
    Ok(())
}

/// The stored 4-bit codes; none if the file cannot be used.
fn read_codes(folder: &Path, dimension: usize, head: &Head, mapped: &MappedFiles) -> Pq4Codes {
    let vectors = mapped.vectors.as_ref();
    vectors.and_then(|vectors| codes::read(folder, dimension, vectors, &head.files)).unwrap_or_default()
}

/// Finds the live documents among all that were ever written.
pub(crate) fn read_table(folder: &Path, documents: &[u8], head: &Head) -> Result<DocumentTable> {
    let is_live = |record: &DocumentRecord<'_>| head.tombstones.is_live(record.first_chunk);
    let table = DocumentTable::read(documents, head.documents as usize, is_live);
    table.ok_or_else(|| IndexError::damaged(folder, "file `documents` does not hold the documents of `head`"))
}

/// Opens the lexical index, removes entries that the head does not include, and checks that every live chunk has exactly one
/// entry.
fn open_lexical(
    folder: &Path,
    settings: &EngineSettings,
    head: &Head,
) -> Result<(Lexical, LexicalView, Vec<u32>)> {
    let path = folder.join(LEXICAL_FOLDER);
    let mut lexical = Lexical::open(&path, settings.language, settings.writer_memory_bytes)?;
    let committed = Commit { applied_seq: head.applied_seq, chunk_count: head.tombstones.len() };
    let last = lexical.last_commit()?;
    let last =
        last.ok_or_else(|| IndexError::damaged(&path, "its last commit does not say what it holds"))?;
    if last.applied_seq < committed.applied_seq || last.chunk_count < committed.chunk_count {
        return Err(IndexError::damaged(&path, "its last commit is older than `head`"));
    }
    if last != committed {
        lexical.delete_from(committed.chunk_count)?;
        lexical.commit(committed)?;
    }
    let view = lexical.view()?;
    let stale = check_entries(&view, &head.tombstones)
        .ok_or_else(|| IndexError::damaged(&path, "its entries are not those of the live chunks"))?;
    Ok((lexical, view, stale))
}

/// The deleted chunks that still have entries; `None` unless each live chunk has exactly one entry, and no entry is of an unknown
/// chunk.
fn check_entries(view: &LexicalView, tombstones: &Tombstones) -> Option<Vec<u32>> {
    let mut missing = tombstones.clone();
    let mut stale = Vec::new();
    let mut is_sound = true;
    view.for_each_chunk_id(|chunk_id| {
        if missing.is_live(chunk_id) {
            missing.delete(chunk_id, 1);
        } else if chunk_id < tombstones.len() && !tombstones.is_live(chunk_id) {
            stale.push(chunk_id);
        } else {
            is_sound = false;
        }
    });
    (is_sound && missing.deleted() == missing.len()).then_some(stale)
}

/// Empties the folder, writes an index without documents, and opens it.
fn create(folder: &Path, settings: &EngineSettings) -> Result<Box<Loaded>> {
    wipe(folder)?;
    let lexical = folder.join(LEXICAL_FOLDER);
    std::fs::create_dir_all(&lexical).map_err(IndexError::file("create folder", &lexical))?;
    let files = AppendFiles::create(folder, settings.dimension)?.sync()?;
    drop(Lexical::create(&lexical, settings.language, settings.writer_memory_bytes)?);
    format::write(folder, settings)?;
    Head { files, ..Head::default() }.write(folder)?;
    sync_folder(folder)?;
    match load(folder, settings, 0)? {
        Found::Usable(loaded) => Ok(loaded),
        Found::Useless(_) => Err(IndexError::damaged(folder, "it differs from what was written")),
    }
}

/// Removes only files of ours: the folder may have been given by mistake. The head goes first, so that a partly emptied folder
/// counts as missing.
fn wipe(folder: &Path) -> Result<()> {
    for name in OTHER_FILES.iter().rev().chain(files::ALL) {
        let path = folder.join(name);
        ignore_missing(std::fs::remove_file(&path)).map_err(IndexError::file("remove", &path))?;
    }
    let path = folder.join(LEXICAL_FOLDER);
    ignore_missing(std::fs::remove_dir_all(&path)).map_err(IndexError::file("remove folder", &path))
}

fn ignore_missing(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The message of an error, and those of its causes.
pub(super) fn with_causes(error: &IndexError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_can_be_locked_again_while_a_child_has_the_earlier_lock() {
        let folder = tempfile::tempdir().unwrap();
        let earlier = lock(folder.path()).unwrap();
        assert!(matches!(lock(folder.path()), Err(IndexError::Locked(_))));
        let of_child = earlier.0.try_clone().unwrap();
        drop(earlier);
        assert!(lock(folder.path()).is_ok());
        drop(of_child);
    }
}
