//! Files that were received and are not read yet: in the folder `uploads` of the data directory, those of a request in one file, so that a
//! request syncs once. The store knows which job has which file. One without a job is removed by a sweep.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Seek as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use weir_api::{ErrorCode, FileOptions};
use weir_config::Config;
use weir_extraction::Section;
use weir_store::{Store, UnreadFile, UnreadFiles};
use weir_telemetry::metrics::Metrics;

use super::upload::UploadedFile;
use crate::clock::now;
use crate::{Result, maybe_spawn_blocking};
use weir_refusal::RequestError;

/// The folder in the data directory.
const FOLDER: &str = "uploads";
/// The ending of files that are being written.
const PART: &str = "part";
/// Bytes that are copied at one time.
const COPIED_BYTES: usize = 256 << 10;

/// The received files.
#[derive(Clone)]
pub(crate) struct Uploads(Arc<UploadsInner>);

struct UploadsInner {
    folder: PathBuf,
    bytes_max: u64,
    failed_kept_s: f64,
    bytes: AtomicU64,
    metrics: Metrics,
    /// Those whose job is being stored.
    in_use: Mutex<HashSet<String>>,
}

/// The stored details of a file, as JSON.
#[derive(Serialize, Deserialize)]
pub(super) struct FileDetails {
    pub(super) name: String,
    pub(super) options: FileOptions,
    pub(super) sha256: String,
    pub(super) bytes: u64,
    /// Where it begins.
    start: u64,
    /// Whether it is kept beside its document.
    pub(super) keeps: bool,
}

/// Received files until their job is stored.
pub(super) struct Received {
    uploads: Uploads,
    pub(super) files: UnreadFiles,
}

impl Drop for Received {
    fn drop(&mut self) {
        self.uploads.in_use().remove(&self.files.place);
    }
}

impl FileDetails {
    /// The file, of those of its request.
    pub(super) fn of(&self, all: &Arc<File>) -> Section {
        Section::new(all.clone(), self.start, self.bytes)
    }
}

impl Uploads {
    pub(crate) fn new(config: &Config, metrics: Metrics) -> Uploads {
        let folder = config.server.data_dir.join(FOLDER);
        let bytes = paths(&folder).iter().map(|path| bytes_of(path)).sum();
        metrics.upload_bytes(bytes);
        Uploads(Arc::new(UploadsInner {
            folder,
            bytes_max: config.extract.uploads_bytes_max,
            failed_kept_s: f64::from(config.extract.failed_kept_s),
            bytes: AtomicU64::new(bytes),
            metrics,
            in_use: Mutex::default(),
        }))
    }

    /// Copies the files of a request to `place` and syncs them. With each: whether it is kept beside its document.
    ///
    /// # Errors
    /// `overloaded` beyond the limit, `insufficient_storage` on a full disk, `store_unavailable`.
    pub(super) async fn receive(
        &self,
        store: &Store,
        place: &str,
        files: Vec<(UploadedFile, bool)>,
    ) -> Result<Received> {
        let total: u64 = files.iter().map(|(file, _)| file.content.bytes()).sum();
        let is_full = || self.0.bytes.load(Ordering::Relaxed).saturating_add(total) > self.0.bytes_max;
        if is_full() {
            // those that failed make room
            self.remove_unused(store, f64::INFINITY).await?;
        }
        if is_full() {
            let message = format!(
                "the files that are not read yet would have more bytes than the limit `extract.uploads_bytes_max`, which is {}",
                self.0.bytes_max
            );
            return Err(RequestError::new(ErrorCode::Overloaded, message));
        }
        self.in_use().insert(place.to_owned());
        let mut received = Received {
            uploads: self.clone(),
            files: UnreadFiles { place: place.to_owned(), ..UnreadFiles::default() },
        };
        let path = self.0.folder.join(place);
        let copied = maybe_spawn_blocking(true, move || copy_synced(files, &path)).await?;
        received.files.files = copied.map_err(|error| not_written(&error))?;
        self.0.metrics.upload_bytes(self.0.bytes.fetch_add(total, Ordering::Relaxed) + total);
        Ok(received)
    }

    /// The files at a place.
    pub(super) async fn open(&self, place: &str) -> io::Result<Arc<File>> {
        let path = self.0.folder.join(place);
        let opened = tokio::task::spawn_blocking(move || File::open(path)).await;
        opened.map_err(io::Error::other)?.map(Arc::new)
    }

    /// Removes files that no job has.
    pub(super) fn remove(&self, place: &str) {
        let path = self.0.folder.join(place);
        let bytes = bytes_of(&path);
        match std::fs::remove_file(&path) {
            Ok(()) => {
                let before = self.0.bytes.fetch_sub(bytes, Ordering::Relaxed);
                self.0.metrics.upload_bytes(before.saturating_sub(bytes));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                tracing::warn!(file = %path.display(), %error, "uploaded files were not removed")
            }
        }
    }

    /// Removes the files that no job has, and those that failed too long ago.
    pub(crate) async fn sweep(&self, store: &Store) -> Result<(), weir_store::Error> {
        self.remove_unused(store, now() - self.0.failed_kept_s).await
    }

    /// Removes the files that no job has, and those of jobs that ended before `since`.
    async fn remove_unused(&self, store: &Store, since: f64) -> Result<(), weir_store::Error> {
        let inner = self.0.clone();
        let found = tokio::task::spawn_blocking(move || paths(&inner.folder)).await.unwrap_or_default();
        if found.is_empty() {
            return Ok(());
        }
        // in this order: those whose job is stored meanwhile are in one of the two
        let mut used = self.in_use().clone();
        let mut expired = Vec::new();
        for job in store.jobs_with_files().await? {
            match job.finished_at.is_some_and(|finished_at| finished_at < since) {
                true => expired.push(job.job_id),
                false => drop(used.insert(job.files.place)),
            }
        }
        if !expired.is_empty() {
            store.forget_files(expired).await?;
        }
        for path in found {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let place = name.strip_suffix(&format!(".{PART}")).unwrap_or(name);
            if !used.contains(place) {
                self.remove(name);
            }
        }
        Ok(())
    }

    fn in_use(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.in_use.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Copies files one after the other, under a name that appears when all of them are on disk.
fn copy_synced(files: Vec<(UploadedFile, bool)>, path: &Path) -> io::Result<Vec<UnreadFile>> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    std::fs::create_dir_all(folder)?;
    let part = path.with_extension(PART);
    let copied = copy_all(files, &part).and_then(|described| {
        std::fs::rename(&part, path)?;
        File::open(folder)?.sync_all()?;
        Ok(described)
    });
    copied.inspect_err(|_| {
        // they are swept otherwise
        let _ = std::fs::remove_file(&part);
    })
}

fn copy_all(files: Vec<(UploadedFile, bool)>, part: &Path) -> io::Result<Vec<UnreadFile>> {
    let copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part)?;
    let mut copy = BufWriter::with_capacity(COPIED_BYTES, copy);
    let (mut described, mut start) = (Vec::with_capacity(files.len()), 0);
    for (mut file, keeps) in files {
        let document_id = file.document_id();
        file.content.rewind()?;
        let bytes = io::copy(&mut file.content, &mut copy)?;
        let UploadedFile { name, options, sha256, .. } = file;
        let details = FileDetails { name, options, sha256, bytes, start, keeps };
        let details = serde_json::to_string(&details).map_err(io::Error::other)?;
        described.push(UnreadFile { document_id, details });
        start += bytes;
    }
    copy.into_inner().map_err(|error| error.into_error())?.sync_all()?;
    Ok(described)
}

fn paths(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn bytes_of(path: &Path) -> u64 {
    path.metadata().map_or(0, |about| about.len())
}

fn not_written(error: &io::Error) -> RequestError {
    use io::ErrorKind as Kind;
    let is_full = matches!(error.kind(), Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge);
    let code = if is_full { ErrorCode::InsufficientStorage } else { ErrorCode::StoreUnavailable };
    RequestError::new(code, format!("the files could not be written to the data directory: {error}"))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, SeekFrom};

    use super::*;

    #[test]
    fn a_section_ends_where_its_file_ends() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("all");
        std::fs::write(&path, b"onetwothree").unwrap();
        let mut two = Section::new(Arc::new(File::open(&path).unwrap()), 3, 3);
        assert_eq!((two.head(2), two.head(9)), (b"tw".to_vec(), b"two".to_vec()));
        let mut text = String::new();
        two.read_to_string(&mut text).unwrap();
        assert_eq!(text, "two");
        two.rewind().unwrap();
        two.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), two.seek(SeekFrom::End(-1)).unwrap()), ("twotwo", 2));
    }
}
