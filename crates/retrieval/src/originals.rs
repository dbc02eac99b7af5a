//! Files from which documents were made, if they are kept: in the folder `originals` of the data directory, by the SHA-256 of their bytes.
//!
//! The store knows which document has which file. A file without a document is removed by a sweep; one that is being stored is left alone.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_api::{ErrorCode, Invalid};
use weir_config::Config;
use weir_policy::Caller;
use weir_store::{Original, Store};

use crate::documents::no_document;
use crate::error::RequestError;
use crate::{Parts, Result, Retrieval};

/// The folder in the data directory.
const FOLDER: &str = "originals";
/// The time between two sweeps: so long does the file of a deleted document stay, at most.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// The kept files.
#[derive(Clone)]
pub(crate) struct Originals(Arc<Inner>);

struct Inner {
    folder: PathBuf,
    bytes_max: u64,
    bytes: AtomicU64,
    in_use: Mutex<InUse>,
}

#[derive(Default)]
struct InUse {
    /// Files whose document is being stored, by their SHA-256, and how many documents.
    counts: HashMap<String, usize>,
    /// Files whose documents were stored since the sweep began.
    stored: HashSet<String>,
}

/// A file that is kept while its document is being stored.
pub(crate) struct KeptFile {
    originals: Originals,
    pub(crate) original: Original,
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        let mut in_use = self.originals.in_use();
        let sha256 = &self.original.sha256;
        if let Some(count) = in_use.counts.get_mut(sha256) {
            *count -= 1;
            if *count == 0 {
                in_use.counts.remove(sha256);
            }
        }
        in_use.stored.insert(sha256.clone());
    }
}

impl Originals {
    pub(crate) fn new(config: &Config) -> Originals {
        let folder = config.server.data_dir.join(FOLDER);
        let bytes = files(&folder)
            .filter(|path| path.extension().is_none())
            .map(|path| path.metadata().map_or(0, |about| about.len()))
            .sum();
        Originals(Arc::new(Inner {
            folder,
            bytes_max: config.extract.originals_bytes_max,
            bytes: AtomicU64::new(bytes),
            in_use: Mutex::default(),
        }))
    }

    /// Copies a file into the folder and syncs it, unless it is there. The file is at its beginning afterwards.
    pub(crate) async fn keep(&self, mut file: File, original: Original) -> Result<(File, KeptFile), Invalid> {
        *self.in_use().counts.entry(original.sha256.clone()).or_default() += 1;
        let kept = KeptFile { originals: self.clone(), original };
        let work = move || {
            let inner = &kept.originals.0;
            let outcome = inner.copy(&mut file, &kept.original);
            outcome.map(|()| (file, kept))
        };
        let copied = tokio::task::spawn_blocking(work).await;
        copied.unwrap_or_else(|_| Err(Invalid::whole(ErrorCode::Internal, RequestError::INTERNAL)))
    }

    /// A kept file.
    pub(crate) async fn open(&self, sha256: &str) -> io::Result<File> {
        let path = self.0.path(sha256);
        tokio::task::spawn_blocking(move || File::open(path)).await.map_err(io::Error::other)?
    }

    /// Removes the files that no document has.
    async fn sweep(&self, store: &Store) -> Result<(), weir_store::Error> {
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
                Ok(()) => drop(self.0.bytes.fetch_sub(bytes, Ordering::Relaxed)),
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

impl Inner {
    /// Two levels, so that no folder has all files.
    fn path(&self, sha256: &str) -> PathBuf {
        self.folder.join(sha256.get(..2).unwrap_or("00")).join(sha256)
    }

    fn copy(&self, file: &mut File, original: &Original) -> Result<(), Invalid> {
        let path = self.path(&original.sha256);
        let is_there = path.metadata().is_ok_and(|about| about.len() == original.bytes);
        if is_there {
            return Ok(());
        }
        if self.bytes.load(Ordering::Relaxed).saturating_add(original.bytes) > self.bytes_max {
            let message = format!(
                "the kept files would have more bytes than the limit `extract.originals_bytes_max`, which is {}; delete documents with files, or send the file without `keep_original`",
                self.bytes_max
            );
            return Err(Invalid::whole(ErrorCode::InsufficientStorage, message));
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
        self.bytes.fetch_add(original.bytes, Ordering::Relaxed);
        Ok(())
    }
}

/// Copies a file under a name that appears when all of it is on disk.
fn copy_synced(file: &mut File, path: &Path) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(folder)?;
    let part = path.with_extension(format!("part-{}", uuid::Uuid::new_v4().simple()));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut copied = || -> io::Result<()> {
        let mut copy = options.open(&part)?;
        file.rewind()?;
        io::copy(file, &mut copy)?;
        copy.sync_all()?;
        std::fs::rename(&part, path)?;
        File::open(folder)?.sync_all()?;
        file.rewind()
    };
    copied().inspect_err(|_| {
        // it is swept otherwise
        let _ = std::fs::remove_file(&part);
    })
}

/// All files of the folder.
fn files(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries =
        |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries(folder).filter(|path| path.is_dir()).flat_map(move |folder| entries(&folder).collect::<Vec<_>>())
}

/// Removes files without a document for as long as the gateway runs.
pub(crate) fn start_sweeping(parts: &Arc<Parts>) {
    let parts = Arc::downgrade(parts);
    tokio::spawn(async move {
        loop {
            let Some(parts) = parts.upgrade() else { return };
            let (originals, store) = (parts.originals.clone(), parts.store.clone());
            drop(parts);
            if let Err(error) = originals.sweep(&store).await {
                tracing::warn!(%error, "files without a document were not removed");
            }
            tokio::time::sleep(SWEEP_EVERY).await;
        }
    });
}

impl Retrieval {
    /// The file from which a document was made.
    ///
    /// # Errors
    /// `collection_not_found`; `document_not_found`, also where the file was not kept; store errors.
    pub async fn original(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        id: &str,
    ) -> Result<(Original, File)> {
        let view = self.view(caller, collection)?;
        let Some(original) = view.store().original(id).await? else {
            if view.store().document(id).await?.is_none() {
                return Err(no_document(collection, id));
            }
            let message = format!(
                "the document `{}` has no original; send the file again with `keep_original`",
                id.escape_debug()
            );
            return Err(RequestError::new(ErrorCode::DocumentNotFound, message));
        };
        let file =
            self.originals.open(&original.sha256).await.map_err(|error| RequestError::internal(&error))?;
        Ok((original, file))
    }
}

/// The media type of a file by its name.
pub(crate) fn media_type_of(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    if let Some(format) = weir_documents::Format::of_extension(&ending) {
        return format.media_type();
    }
    match ending.as_str() {
        "txt" | "text" | "log" | "md" | "markdown" => "text/plain; charset=utf-8",
        "html" | "htm" | "xhtml" => "text/html; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "json" => "application/json",
        _ => "application/octet-stream",
    }
}
