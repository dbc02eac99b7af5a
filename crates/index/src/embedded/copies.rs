//! Copies of indexes in a folder of several gateways: a new gateway begins with the latest one, and takes from the store what it lacks.
//!
//! A copy is the folder `COLLECTION/GENERATION/OPERATION`, where OPERATION is the last one applied. It is written in a folder `new` beside it,
//! which is renamed when it is whole; the earlier ones are removed then. It is checked as every index that is opened.

use std::cmp::{Ordering, Reverse};
use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant, SystemTime};

use super::format::RebuildReason;
use super::head::{self, Head, sync_folder};
use super::on_demand::{OnDemand, remove_folder};
use super::open::{LEXICAL_FOLDER, with_causes};
use super::{BASELINE_FILE, Embedded, codes, files, format, lock};
use crate::{EngineId, IndexError, Result};

/// Where a copy is written.
const UNFINISHED: &str = "new";
/// Where the files of an index are held while they are copied.
const LINKS: &str = "links";
/// A gateway that has written nothing of a copy for this time is taken for dead.
const UNFINISHED_MAX: Duration = Duration::from_secs(300);
/// Clocks of machines differ by less.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(3_600);
/// Attempts to list the files of the lexical index while none is removed.
const LISTINGS_MAX: usize = 10;

/// The copies of one service.
#[derive(Debug)]
pub(crate) struct IndexCopies {
    folder: PathBuf,
    /// A collection that has changed is copied again after this time.
    interval: Duration,
    written: AtomicU64,
    read: AtomicU64,
    failed: AtomicU64,
    /// Folders of deleted indexes that could not be removed yet, and are not used.
    left: Mutex<Vec<PathBuf>>,
}

/// A whole copy.
struct Copy {
    operation: u64,
    folder: PathBuf,
    age: Duration,
}

impl IndexCopies {
    pub(crate) fn new(folder: PathBuf, interval: Duration) -> IndexCopies {
        let (written, read, failed, left) = Default::default();
        let copies = IndexCopies { folder, interval, written, read, failed, left };
        if let Err(error) = copies.shared() {
            tracing::warn!(error = %with_causes(&error), "no index is copied, and none is begun with a copy");
        }
        copies
    }

    /// Those that were written, those that were read, and what has failed of both.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.written, &self.read, &self.failed].map(|count| count.load(Relaxed))
    }

    fn folder_of(&self, id: EngineId) -> PathBuf {
        self.folder.join(id.collection.to_string()).join(id.generation.to_string())
    }

    /// The folders of the copies of an index, whole or not, and their operations.
    fn folders(&self, id: EngineId) -> Vec<(u64, PathBuf)> {
        let folder = self.folder_of(id);
        let entries = std::fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
        let entries = entries.unwrap_or_else(|error| {
            if error.kind() != ErrorKind::NotFound {
                self.failed.fetch_add(1, Relaxed);
                tracing::warn!(folder = %folder.display(), %error, "the copies of an index cannot be listed");
            }
            Vec::new()
        });
        let operation = |entry: &std::fs::DirEntry| entry.file_name().to_str()?.parse().ok();
        entries.iter().filter_map(|entry| Some((operation(entry)?, entry.path()))).collect()
    }

    /// The copies of an index, the latest first.
    fn all(&self, id: EngineId) -> Vec<Copy> {
        let copy = |(operation, folder): (u64, PathBuf)| {
            let age = age(&std::fs::metadata(folder.join(head::NAME)).ok()?)?;
            Some(Copy { operation, folder, age })
        };
        let mut all: Vec<Copy> = self.folders(id).into_iter().filter_map(copy).collect();
        all.sort_unstable_by_key(|copy| Reverse(copy.operation));
        all
    }

    /// Puts the latest copy into `folder`, if no index is there, and returns where it was. One beyond the last operation of the store is left
    /// alone: that may have lost operations. What fails is logged, and the index is made from the store.
    pub(crate) fn read(&self, id: EngineId, folder: &Path, store_last_operation: u64) -> Option<PathBuf> {
        // what a gateway that was killed has left
        for suffix in [UNFINISHED, LINKS] {
            let _ = remove_folder(&folder.with_extension(suffix));
        }
        let own = self.folder_of(id);
        if head::head_exists(folder) || lock(&self.left).iter().any(|left| own.starts_with(left)) {
            return None;
        }
        let all = self.all(id);
        let copy = all.iter().find(|copy| copy.operation <= store_last_operation);
        let Some(copy) = copy else {
            if let Some(Copy { folder, .. }) = all.first() {
                tracing::warn!(copy = %folder.display(), store_last_operation, "a copy of an index is beyond the store: it is left alone");
            }
            return None;
        };
        let Err(error) = copy.put_into(folder) else { return Some(copy.folder.clone()) };
        let _ = remove_folder(&folder.with_extension(UNFINISHED));
        if error.is_damage() {
            self.reject(&copy.folder, &with_causes(&error));
        } else {
            // such as a full disk here: others may use it
            self.failed.fetch_add(1, Relaxed);
            tracing::warn!(copy = %copy.folder.display(), error = %with_causes(&error), "the copy of an index was not read: the index is made from the store");
        }
        None
    }

    /// A copy that was put into the folder of an index has become that index, or could not be used for a reason.
    pub(crate) fn opened(&self, copy: &Path, rebuilt: Option<&RebuildReason>) {
        match rebuilt {
            None => {
                self.read.fetch_add(1, Relaxed);
                tracing::info!(copy = %copy.display(), "the index was taken from a copy");
            }
            Some(reason) => self.reject(copy, &reason.to_string()),
        }
    }

    fn reject(&self, copy: &Path, reason: &str) {
        self.failed.fetch_add(1, Relaxed);
        tracing::warn!(copy = %copy.display(), reason, "the copy of an index cannot be used: the index is made from the store, and the copy is removed");
        self.remove_folder(copy);
    }

    /// Removes a copy that nobody needs; `false` if it is still there, which is logged and counted.
    fn remove_folder(&self, copy: &Path) -> bool {
        let removed = remove_folder(copy);
        if let Err(error) = &removed {
            self.failed.fetch_add(1, Relaxed);
            tracing::warn!(copy = %copy.display(), error = %with_causes(error), "a copy of an index could not be removed: remove this folder");
        }
        removed.is_ok()
    }

    /// Copies an index that has all operations of the store, if the latest copy is old enough, and has less, or was made before the last
    /// compaction: it still has what that has removed. An index that is twice as long as the copy is copied at once. Does nothing while
    /// another gateway copies it. If it fails, that is logged, and it is tried again.
    pub(crate) fn write_if_due(&self, id: EngineId, index: &OnDemand) {
        self.remove_left();
        if !self.is_due(id, index) {
            return;
        }
        let started = Instant::now();
        match self.write(id, index) {
            // the gateway stops, or the collection was deleted
            Ok(None) | Err(IndexError::Closed) => {}
            Ok(Some(copy)) => {
                self.written.fetch_add(1, Relaxed);
                tracing::info!(copy = %copy.display(), took = ?started.elapsed(), "the index was copied");
            }
            Err(error) => {
                self.failed.fetch_add(1, Relaxed);
                let folder = self.folder_of(id);
                tracing::warn!(folder = %folder.display(), error = %with_causes(&error), "the index was not copied; it is tried again within about a minute");
            }
        }
    }

    fn is_due(&self, id: EngineId, index: &OnDemand) -> bool {
        let applied = index.applied_seq();
        let Some(latest) = self.all(id).into_iter().next() else { return applied > 0 };
        let is_old = latest.age >= self.interval;
        match applied.cmp(&latest.operation) {
            // the store has lost operations, and this index has all that are left
            Ordering::Less => is_old,
            Ordering::Equal => is_old && Embedded::age(index.folder()).is_some_and(|age| age < latest.age),
            Ordering::Greater => is_old || applied / 2 >= latest.operation,
        }
    }

    /// Writes a copy and returns its folder; `None` if another gateway does, or the index has no committed state now.
    fn write(&self, id: EngineId, index: &OnDemand) -> Result<Option<PathBuf>> {
        self.shared()?;
        let new = self.folder_of(id).join(UNFINISHED);
        if !claim(&new).map_err(IndexError::file("create", &new))? {
            return Ok(None);
        }
        let copied = index.run(|index| index.copy_to(&new));
        let published = copied.and_then(|operation| self.publish(id, &new, operation));
        if published.is_err() {
            let _ = remove_folder(&new);
        }
        published
    }

    /// Fails if the folder that gateways share is missing. It is not created: it may be on a file system that is not mounted.
    fn shared(&self) -> Result<()> {
        match self.folder.parent() {
            Some(shared) if !shared.is_dir() => {
                let reason =
                    "it is no folder; create it, or mount its file system (`index.copies_dir`)".to_owned();
                Err(IndexError::file("use", shared)(io::Error::new(ErrorKind::NotADirectory, reason)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Renames a whole copy, and removes the others. Returns its folder.
    fn publish(&self, id: EngineId, new: &Path, operation: Option<u64>) -> Result<Option<PathBuf>> {
        let Some(operation) = operation else { return remove_folder(new).map(|()| None) };
        let folder = self.folder_of(id).join(operation.to_string());
        // one of the same operation has what a compaction has removed since
        remove_folder(&folder)?;
        std::fs::rename(new, &folder).map_err(IndexError::file("rename", new))?;
        for (_, other) in self.folders(id).into_iter().filter(|(other, _)| *other != operation) {
            self.remove_folder(&other);
        }
        Ok(Some(folder))
    }

    /// Removes the copies of a collection, or of one generation of it. What cannot be removed now is logged, and removed when the next index is
    /// copied: the index itself is gone.
    pub(crate) fn remove(&self, collection: i64, generation: Option<i64>) {
        let folder = self.folder.join(collection.to_string());
        let folder = generation.map_or(folder.clone(), |generation| folder.join(generation.to_string()));
        if let Err(error) = self.shared() {
            tracing::warn!(folder = %folder.display(), error = %with_causes(&error), "copies of an index that is deleted are removed when their folder is back");
        } else if self.remove_folder(&folder) {
            return;
        }
        lock(&self.left).push(folder);
    }

    fn remove_left(&self) {
        if self.shared().is_ok() {
            lock(&self.left).retain(|folder| remove_folder(folder).is_err());
        }
    }
}

impl Copy {
    fn put_into(&self, folder: &Path) -> Result<()> {
        let new = folder.with_extension(UNFINISHED);
        remove_folder(&new)?;
        copy_folder(&self.folder, &new).map_err(IndexError::file("read", &self.folder))?;
        if Head::read(&new)?.is_none_or(|head| head.applied_seq != self.operation) {
            return Err(IndexError::damaged(&self.folder, "its name is not its last operation"));
        }
        remove_folder(folder)?;
        std::fs::rename(&new, folder).map_err(IndexError::file("rename", &new))?;
        folder.parent().map_or(Ok(()), sync_folder)
    }
}

impl Embedded {
    /// Copies the committed state to `target`, an empty folder. Returns the operation that it has applied; `None` if the last commit was
    /// interrupted, which the next one undoes. Batches wait only while the files are listed.
    fn copy_to(&self, target: &Path) -> Result<Option<u64>> {
        let links = self.folder().with_extension(LINKS);
        remove_folder(&links)?;
        let head = {
            let writer = lock(&self.inner.writer);
            let writer = writer.as_ref().ok_or(IndexError::Closed)?;
            if writer.needs_recovery {
                return Ok(None);
            }
            self.link_to(&links).map_err(IndexError::file("link the files of the index to", &links))?;
            writer.head.clone()
        };
        let copied = self.copy_links(&links, target, &head);
        remove_folder(&links)?;
        copied?;
        // last: without it, the copy is none
        head.write(target)?;
        Ok(Some(head.applied_seq))
    }

    /// Links all files but the head in a new folder, where they stay when merges remove them here.
    fn link_to(&self, links: &Path) -> io::Result<()> {
        let folder = self.folder();
        std::fs::create_dir(links)?;
        for name in files::names(self.settings().dimension).iter().chain([&format::NAME]) {
            std::fs::hard_link(folder.join(name), links.join(name))?;
        }
        // both are made again if they are missing
        for name in [codes::NAME, BASELINE_FILE] {
            let _ = std::fs::hard_link(folder.join(name), links.join(name));
        }
        let (lexical, linked) = (folder.join(LEXICAL_FOLDER), links.join(LEXICAL_FOLDER));
        for _ in 0..LISTINGS_MAX {
            let segments = std::fs::read(lexical.join(SEGMENTS))?;
            std::fs::create_dir(&linked)?;
            for entry in std::fs::read_dir(&lexical)? {
                let entry = entry?;
                match std::fs::hard_link(entry.path(), linked.join(entry.file_name())) {
                    Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
            // a merge replaces this file before it removes others
            if std::fs::read(lexical.join(SEGMENTS))? == segments
                && std::fs::read(linked.join(SEGMENTS))? == segments
            {
                return Ok(());
            }
            std::fs::remove_dir_all(&linked)?;
        }
        Err(io::Error::new(ErrorKind::ResourceBusy, "merges replace them without a pause"))
    }

    fn copy_links(&self, links: &Path, target: &Path, head: &Head) -> Result<()> {
        let copy = || {
            for (name, state) in files::names(self.settings().dimension).iter().zip(&head.files) {
                let mut committed = File::open(links.join(name))?.take(state.len);
                io::copy(&mut committed, &mut File::create(target.join(name))?)?;
                std::fs::remove_file(links.join(name))?;
            }
            copy_folder(links, target)
        };
        copy().map_err(IndexError::file("write the copy", target))
    }
}

/// The list of segments of the lexical index.
const SEGMENTS: &str = "meta.json";

/// Makes the folder of a copy; `false` if another gateway has, and writes it. One that was left behind is removed.
fn claim(new: &Path) -> io::Result<bool> {
    if let Some(parent) = new.parent() {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::create_dir(new) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if last_written(new)? < UNFINISHED_MAX {
                return Ok(false);
            }
            std::fs::remove_dir_all(new)?;
            std::fs::create_dir(new).map(|()| true)
        }
        result => result.map(|()| true),
    }
}

/// Copies the files of a folder and those of its folders, with their times: the age of an index is that of a file. `to` may exist.
fn copy_folder(from: &Path, to: &Path) -> io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy_folder(&entry.path(), &target)?,
            false => {
                let (mut source, mut target) = (File::open(entry.path())?, File::create(target)?);
                io::copy(&mut source, &mut target)?;
                target.set_modified(entry.metadata()?.modified()?)?;
            }
        }
    }
    Ok(())
}

/// Time since something in a folder, or in its folders, was last written.
fn last_written(folder: &Path) -> io::Result<Duration> {
    let mut least = age(&std::fs::metadata(folder)?).unwrap_or_default();
    for entry in std::fs::read_dir(folder)? {
        let (entry, metadata) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?)))?;
        let written =
            if metadata.is_dir() { last_written(&entry)? } else { age(&metadata).unwrap_or_default() };
        least = least.min(written);
    }
    Ok(least)
}

/// Time since a file was changed. One from the future is new, by another clock, or as old as can be if it is far from it.
fn age(metadata: &Metadata) -> Option<Duration> {
    Some(match SystemTime::now().duration_since(metadata.modified().ok()?) {
        Ok(age) => age,
        Err(ahead) if ahead.duration() < CLOCKS_DIFFER_MAX => Duration::ZERO,
        Err(_) => Duration::MAX,
    })
}
