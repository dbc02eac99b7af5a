//! Files from which documents were made, if they are kept: in the folder `originals` of the data directory, by the SHA-256 of their bytes.
//!
//! The store knows which document has which file. A file without a document is removed by a sweep; one that is being stored is left alone.

#![forbid(unsafe_code)]

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};
use weir_api::{ErrorCode, Invalid};
use weir_config::Config;
use weir_extraction::Content;
use weir_store::{Location, Original, Store};
use weir_telemetry::metrics::Metrics;

/// The folder in the data directory.
const FOLDER: &str = "originals";

/// Problems that a report has: more than anybody reads.
const PROBLEMS_MAX: usize = 100;

/// The kept files.
#[derive(Clone)]
pub struct Originals(Arc<Inner>);

struct Inner {
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

/// A file that is kept while its document is being stored.
pub struct KeptFile {
    originals: Originals,
    /// Its SHA-256, name and size.
    pub original: Original,
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
    /// Those of the data directory.
    pub fn new(config: &Config, metrics: Metrics) -> Originals {
        let folder = config.server.data_dir.join(FOLDER);
        let whole = files(&folder).filter(|path| path.extension().is_none());
        let sizes: Vec<u64> = whole.map(|path| path.metadata().map_or(0, |about| about.len())).collect();
        let inner = Inner {
            folder,
            bytes_max: config.extract.originals_bytes_max,
            bytes: AtomicU64::default(),
            files: AtomicI64::default(),
            in_use: Mutex::default(),
            metrics,
        };
        inner.bytes.store(sizes.iter().sum(), Ordering::Relaxed);
        inner.count(sizes.len() as i64, sizes.iter().sum());
        Originals(Arc::new(inner))
    }

    /// Copies a file into the folder and syncs it, unless it is there.
    ///
    /// # Errors
    /// `insufficient_storage` beyond the limit and on a full disk; `store_unavailable`.
    pub async fn keep(&self, mut file: Box<dyn Content>, original: Original) -> Result<KeptFile, Invalid> {
        *self.in_use().counts.entry(original.sha256.clone()).or_default() += 1;
        let kept = KeptFile { originals: self.clone(), original };
        let work = move || {
            let inner = &kept.originals.0;
            let outcome = inner.copy(&mut *file, &kept.original);
            inner.metrics.original(if outcome.is_ok() { "kept" } else { "refused" });
            outcome.map(|()| kept)
        };
        let copied = tokio::task::spawn_blocking(work).await;
        copied.unwrap_or_else(|_| {
            Err(Invalid::whole(ErrorCode::Internal, "the file could not be kept; the log has the reason"))
        })
    }

    /// A kept file.
    ///
    /// # Errors
    /// When it is missing or can't be read.
    pub async fn open(&self, sha256: &str) -> io::Result<File> {
        let path = self.0.path(sha256);
        tokio::task::spawn_blocking(move || File::open(path)).await.map_err(io::Error::other)?
    }

    /// Removes the files that no document has.
    ///
    /// # Errors
    /// Store errors.
    pub async fn sweep(&self, store: &Store) -> Result<(), weir_store::Error> {
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

impl Inner {
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
fn copy_synced(mut file: &mut dyn Content, path: &Path) -> io::Result<()> {
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
fn files(folder: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    let entries =
        |folder: &Path| std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries(folder).filter(|path| path.is_dir()).flat_map(move |folder| entries(&folder).collect::<Vec<_>>())
}

/// The outcome of [`verify_originals`].
#[derive(Debug, Default)]
pub struct OriginalsReport {
    /// Files that documents have.
    pub files: u64,
    /// Those that are missing, or whose bytes are others than those that were kept.
    pub problems: Vec<String>,
}

/// Reads each kept file of a data directory and compares its SHA-256 with that in the store. Also while a gateway uses both.
///
/// # Errors
/// Store errors.
pub async fn verify_originals(
    data_dir: &Path,
    store: &Location,
) -> Result<OriginalsReport, weir_store::Error> {
    let folder = data_dir.join(FOLDER);
    let mut report = OriginalsReport::default();
    for (sha256, bytes, id) in Store::originals_at(store).await? {
        report.files += 1;
        let problem = match hash_of(&path_in(&folder, &sha256)) {
            Ok((found, _)) if found == sha256 => continue,
            Ok((_, length)) if length != bytes => format!("has {length} of {bytes} bytes"),
            Ok(_) => "has other bytes than were kept".to_owned(),
            Err(error) => format!("can't be read ({error})"),
        };
        if report.problems.len() < PROBLEMS_MAX {
            let problem = format!(
                "the original file {sha256} of document {id:?} {problem}; send the file again with `keep_original`, or restore the folder `{FOLDER}`"
            );
            report.problems.push(problem);
        }
    }
    Ok(report)
}

/// The SHA-256 of a file in hexadecimal, and its bytes.
fn hash_of(path: &Path) -> io::Result<(String, u64)> {
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let (mut file, mut buffer) = (File::open(path)?, vec![0; 64 << 10]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
    Ok((hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), bytes))
}

/// Where a kept file is: in two levels, so that no folder has all files.
fn path_in(folder: &Path, sha256: &str) -> PathBuf {
    folder.join(sha256.get(..2).unwrap_or("00")).join(sha256)
}
