//! Whether the store's files are still those that were opened.
//!
//! SQLite goes on with files that were removed, replaced or truncated: what it commits then is gone at the next start. Every commit is
//! therefore checked, before and after, by the files' identities and lengths.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::open::DATABASE_FILE;
use crate::{Error, Result};

/// The files of an open store.
#[derive(Debug)]
pub(super) struct FileWatch([WatchedFile; 2]);

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    /// Device and inode; `None` if there was no such file.
    identity: Option<(u64, u64)>,
    /// The length that it never gets below.
    len_min: AtomicU64,
    /// Whether its length never shrinks: that of the write-ahead log does.
    grows: bool,
}

impl FileWatch {
    /// The files of the store in `folder`, which was opened.
    pub(super) fn new(folder: &Path) -> FileWatch {
        let file = |name: String, grows| {
            let path = folder.join(name);
            let identity = std::fs::metadata(&path).ok().map(|found| identity(&found));
            WatchedFile { path, identity, len_min: AtomicU64::new(0), grows }
        };
        FileWatch([file(DATABASE_FILE.to_owned(), true), file(format!("{DATABASE_FILE}-wal"), false)])
    }

    /// # Errors
    /// [`Error::Replaced`] if a file was removed, replaced or truncated.
    pub(super) fn check(&self) -> Result<()> {
        self.0.iter().try_for_each(WatchedFile::check)
    }
}

impl WatchedFile {
    fn check(&self) -> Result<()> {
        let found = std::fs::metadata(&self.path).ok();
        let len = found.as_ref().map_or(0, Metadata::len);
        let is_same = found.as_ref().map(identity) == self.identity;
        if !is_same || self.grows && len < self.len_min.load(Ordering::Relaxed) {
            return Err(Error::Replaced { part: self.path.display().to_string() });
        }
        self.len_min.fetch_max(len, Ordering::Relaxed);
        Ok(())
    }
}

fn identity(found: &Metadata) -> (u64, u64) {
    (found.dev(), found.ino())
}
