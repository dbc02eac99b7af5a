//! Tantivy's directory of memory-mapped files, by mappings that survive a truncated file.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tantivy::Directory;
use tantivy::directory::error::{DeleteError, LockError, OpenDirectoryError, OpenReadError, OpenWriteError};
use tantivy::directory::{
    DirectoryLock, FileHandle, Lock, MmapDirectory, OwnedBytes, WatchCallback, WatchHandle, WritePtr,
};
use weir_mapped::{ImmutableFile, MappedError, SharedFile};

use super::locks::Locks;

/// A folder of files that Tantivy writes once and then reads. Clones share the mappings.
#[derive(Clone, Debug)]
pub(super) struct GuardedDirectory {
    folder: PathBuf,
    /// Everything but mapping and locks.
    inner: MmapDirectory,
    mapped: Arc<Mutex<HashMap<PathBuf, Weak<ImmutableFile>>>>,
    locks: Arc<Locks>,
}

impl GuardedDirectory {
    pub(super) fn open(folder: &Path) -> Result<GuardedDirectory, OpenDirectoryError> {
        let inner = MmapDirectory::open(folder)?;
        Ok(GuardedDirectory {
            folder: folder.to_owned(),
            inner,
            mapped: Arc::default(),
            locks: Arc::default(),
        })
    }

    /// Checks that all bytes that were read so far were those of the files: see [`weir_mapped::Mapped::check`].
    pub(super) fn check(&self) -> Result<(), MappedError> {
        self.mapped().values().filter_map(Weak::upgrade).try_for_each(|file| file.check())
    }

    /// Whether the files that are mapped exist.
    pub(super) fn has_its_files(&self) -> bool {
        let mapped = self.mapped();
        let mut used = mapped.iter().filter_map(|(path, file)| Some((path, file.upgrade()?)));
        used.all(|(path, file)| std::fs::metadata(path).is_ok_and(|found| found.len() >= file.len() as u64))
    }

    fn mapped(&self) -> MutexGuard<'_, HashMap<PathBuf, Weak<ImmutableFile>>> {
        self.mapped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Directory for GuardedDirectory {
    fn get_file_handle(&self, path: &Path) -> Result<Arc<dyn FileHandle>, OpenReadError> {
        let full = self.folder.join(path);
        let mut mapped = self.mapped();
        let file = match mapped.get(&full).and_then(Weak::upgrade) {
            Some(file) => file,
            None => {
                let file = Arc::new(ImmutableFile::open(&full).map_err(|error| unreadable(error, path))?);
                mapped.retain(|_, file| file.strong_count() > 0);
                mapped.insert(full, Arc::downgrade(&file));
                file
            }
        };
        Ok(Arc::new(OwnedBytes::new(SharedFile::from(file))))
    }

    fn delete(&self, path: &Path) -> Result<(), DeleteError> {
        // a file of the same name is another file
        self.mapped().remove(&self.folder.join(path));
        self.inner.delete(path)
    }

    fn exists(&self, path: &Path) -> Result<bool, OpenReadError> {
        self.inner.exists(path)
    }

    fn open_write(&self, path: &Path) -> Result<WritePtr, OpenWriteError> {
        self.inner.open_write(path)
    }

    fn atomic_read(&self, path: &Path) -> Result<Vec<u8>, OpenReadError> {
        self.inner.atomic_read(path)
    }

    fn atomic_write(&self, path: &Path, data: &[u8]) -> io::Result<()> {
        self.inner.atomic_write(path, data)
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.inner.sync_directory()
    }

    fn acquire_lock(&self, lock: &Lock) -> Result<DirectoryLock, LockError> {
        self.locks.acquire(lock)
    }

    fn watch(&self, callback: WatchCallback) -> tantivy::Result<WatchHandle> {
        self.inner.watch(callback)
    }
}

fn unreadable(error: MappedError, path: &Path) -> OpenReadError {
    let MappedError::Unreadable { source, .. } = error else {
        return OpenReadError::wrap_io_error(io::Error::other(error), path.to_owned());
    };
    match source.kind() == io::ErrorKind::NotFound {
        true => OpenReadError::FileDoesNotExist(path.to_owned()),
        false => OpenReadError::wrap_io_error(source, path.to_owned()),
    }
}
