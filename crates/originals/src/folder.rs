//! Kept files in the folder `originals` of the data directory, by the SHA-256 of their bytes. A file that is being stored is left alone by sweeps.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_api::{ErrorCode, Invalid};
use weir_config::Config;
use weir_extraction::Content;
use weir_refusal::RequestError;
use weir_store::{Original, Store};
use weir_telemetry::metrics::Metrics;

use super::no_room;

/// The folder in the data directory.
pub(super) const FOLDER: &str = "originals";

/// The kept files.
#[derive(Clone)]
pub struct Folder(Arc<FolderInner>);

struct FolderInner {
    folder: PathBuf,
    bytes_max: u64,
    bytes: AtomicU64,
    files: AtomicI64,
    in_use: Mutex<InUse>,
    metrics: Metrics,
}

#[derive(Default)]
struct InUse {
    /// Files whose document is being stored, by their SHA-256, and how many documents.
    counts: HashMap<String, usize>,
    /// Files whose documents were stored since the sweep began.
    stored: HashSet<String>,
}

/// A file whose document is being stored.
pub(super) struct FileInUse {
    folder: Folder,
    sha256: String,
}

impl Drop for FileInUse {
    fn drop(&mut self) {
        let mut in_use = self.folder.in_use();
        if let Some(count) = in_use.counts.get_mut(&self.sha256) {
            *count -= 1;
            if *count == 0 {
                in_use.counts.remove(&self.sha256);
            }
        }
        in_use.stored.insert(self.sha256.clone());
    }
}

impl Folder {
    pub(super) fn new(config: &Config, metrics: Metrics) -> Folder {
        let folder = config.server.data_dir.join(FOLDER);
        let whole = files(&folder).filter(|path| path.extension().is_none());
        let sizes: Vec<u64> = whole.map(|path| path.metadata().map_or(0, |about| about.len())).collect();
        let inner = FolderInner {
            folder,
            bytes_max: config.extract.originals_bytes_max,
            bytes: AtomicU64::default(),
            files: AtomicI64::default(),
            in_use: Mutex::default(),
            metrics,
        };
        inner.bytes.store(sizes.iter().sum(), Ordering::Relaxed);
        inner.count(sizes.len() as i64, sizes.iter().sum());
        Folder(Arc::new(inner))
    }

    /// Copies a file into the folder and syncs it, unless it is there.
    ///
    /// # Errors
    /// `insufficient_storage` beyond the limit and on a full disk; `store_unavailable`.
    pub(super) async fn keep(
        &self,
        mut file: Box<dyn Content>,
        original: Original,
    ) -> Result<FileInUse, Invalid> {
        *self.in_use().counts.entry(original.sha256.clone()).or_default() += 1;
        let kept = FileInUse { folder: self.clone(), sha256: original.sha256.clone() };
        let work = move || {
            let inner = &kept.folder.0;
            let outcome = inner.copy(&mut *file, &original);
            inner.metrics.original(if outcome.is_ok() { "kept" } else { "refused" });
            outcome.map(|()| kept)
        };
        let copied = tokio::task::spawn_blocking(work).await;
        copied.unwrap_or_else(|_| Err(Invalid::whole(ErrorCode::Internal, RequestError::INTERNAL)))
    }

    /// A kept file.
    pub(super) async fn open(&self, sha256: &str) -> io::Result<File> {
        let path = self.0.path(sha256);
        tokio::task::spawn_blocking(move || File::open(path)).await.map_err(io::Error::other)?
    }

    /// Removes the files that no document has.
    pub(super) async fn sweep(&self, store: &Store) -> Result<(), weir_store::Error> {
        self.in_use().stored.clear();
        let inner = self.0.clone();
        let paths = tokio::task::spawn_blocking(move || files(&inner.folder).collect::<Vec<_>>()).await;
        for path in paths.unwrap_or_default() {
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            // a part of a file that is being copied has its name, and an ending
            let (sha256, is_part) = name.split_once('.').map_or((name, false), |(sha256, _)| (sha256, true));
            if !is_part && store.has_original(sha256).await? {
                continue;
            }
            let in_use = self.in_use();
            if in_use.counts.contains_key(sha256) || in_use.stored.contains(sha256) {
                continue;
            }
            let bytes = path.metadata().map_or(0, |about| about.len());
            match std::fs::remove_file(&path) {
                Ok(()) if is_part => {}
                Ok(()) => {
                    self.0.metrics.original("removed");
                    self.0.count(-1, self.0.bytes.fetch_sub(bytes, Ordering::Relaxed).saturating_sub(bytes));
                }
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "a file without a document was not removed")
                }
            }
        }
        Ok(())
    }

    fn in_use(&self) -> MutexGuard<'_, InUse> {
        self.0.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FolderInner {
    fn path(&self, sha256: &str) -> PathBuf {
        path_in(&self.folder, sha256)
    }

    fn copy(&self, file: &mut dyn Content, original: &Original) -> Result<(), Invalid> {
        let path = self.path(&original.sha256);
        let is_there = path.metadata().is_ok_and(|about| about.len() == original.bytes);
        if is_there {
            return Ok(());
        }
        if self.bytes.load(Ordering::Relaxed).saturating_add(original.bytes) > self.bytes_max {
            return Err(no_room(self.bytes_max));
        }
        copy_synced(file, &path).map_err(|error| {
            let kind = error.kind();
            let is_full = matches!(
                kind,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
            );
            let code = if is_full { ErrorCode::InsufficientStorage } else { ErrorCode::StoreUnavailable };
            Invalid::whole(code, format!("the file could not be kept in the data directory: {error}"))
        })?;
        self.count(1, self.bytes.fetch_add(original.bytes, Ordering::Relaxed) + original.bytes);
        Ok(())
    }

    /// Takes note of a file more or less, and of the bytes of all.
    fn count(&self, change: i64, bytes: u64) {
        let files = self.files.fetch_add(change, Ordering::Relaxed) + change;
        self.metrics.originals(files, bytes);
    }
}

/// Copies a file under a name that appears when all of it is on disk.
pub(super) fn copy_synced(mut file: &mut dyn Content, path: &Path) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(folder)?;
    let part = path.with_extension(format!("part-{}", uuid::Uuid::new_v4().simple()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut copied = || -> io::Result<()> {
        let mut copy = options.open(&part)?;
        file.rewind()?;
        io::copy(&mut file, &mut copy)?;
        copy.sync_all()?;
        std::fs::rename(&part, path)?;
        File::open(folder)?.sync_all()
    };
    copied().inspect_err(|_| {
        // it is swept otherwise
        let _ = std::fs::remove_file(&part);
    })
}

/// All files of the folder.
pub(super) fn files(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries =
        |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries(folder).filter(|path| path.is_dir()).flat_map(move |folder| entries(&folder).collect::<Vec<_>>())
}

/// Where a kept file is: in two levels, so that no folder has all files.
pub(super) fn path_in(folder: &Path, sha256: &str) -> PathBuf {
    folder.join(sha256.get(..2).unwrap_or("00")).join(sha256)
}
