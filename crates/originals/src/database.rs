//! Kept files in a store that several gateways use: each finds what another one has received.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use weir_api::{ErrorCode, Invalid};
use weir_config::Config;
use weir_extraction::Content;
use weir_refusal::RequestError;
use weir_store::{Error, Keeping, Original, Store};
use weir_telemetry::metrics::Metrics;

use super::folder::{FOLDER, files};
use super::no_room;

/// Bytes of a part.
const PART_BYTES: u64 = 1 << 20;

/// How long a file without a document stays after it was last begun: its document is stored within this time.
const UNUSED_SECONDS: f64 = 3600.0;

/// How long an upload waits for a database that can't be reached.
const UNAVAILABLE_MAX: Duration = Duration::from_secs(30);
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The kept files.
#[derive(Clone)]
pub struct Database {
    store: Store,
    bytes_max: u64,
    /// Where files are put together that are asked for.
    data_dir: PathBuf,
    metrics: Metrics,
}

impl Database {
    pub(super) fn new(config: &Config, store: Store, metrics: Metrics) -> Database {
        let bytes_max = config.extract.originals_bytes_max;
        Database { store, bytes_max, data_dir: config.server.data_dir.clone(), metrics }
    }

    /// Stores a file, unless it is there.
    ///
    /// # Errors
    /// `insufficient_storage` beyond the limit; `store_unavailable`.
    pub(super) async fn keep(&self, file: Box<dyn Content>, original: &Original) -> Result<(), Invalid> {
        let outcome = self.copy(file, original).await;
        self.metrics.original(if outcome.is_ok() { "kept" } else { "refused" });
        outcome
    }

    async fn copy(&self, file: Box<dyn Content>, original: &Original) -> Result<(), Invalid> {
        let Original { sha256, bytes, .. } = original;
        let patience = Patience(Instant::now());
        let begun = loop {
            match self.store.keep_file(sha256, *bytes, self.bytes_max).await {
                Ok(begun) => break begun,
                Err(error) => patience.after(error).await.map_err(not_kept)?,
            }
        };
        match begun {
            Keeping::Complete => return Ok(()),
            Keeping::NoRoom => return Err(no_room(self.bytes_max)),
            Keeping::Begun => {}
        }
        store_parts(&self.store, sha256, file).await.map_err(|error| match error {
            CopyError::Store(error) => not_kept(error),
            CopyError::File(error) => {
                Invalid::whole(ErrorCode::StoreUnavailable, format!("the file could not be read: {error}"))
            }
        })
    }

    /// A kept file, put together in a file without a name.
    pub(super) async fn open(&self, original: &Original) -> Result<File, RequestError> {
        let (store, data_dir) = (&self.store, self.data_dir.clone());
        let made = blocking(move || tempfile::tempfile_in(data_dir)).await;
        let mut file = made.map_err(|error| RequestError::internal(&error))?;
        let mut bytes = 0;
        for number in 0.. {
            let Some(part) = store.file_part(&original.sha256, number).await? else { break };
            bytes += part.len() as u64;
            let written = blocking(move || file.write_all(&part).map(|()| file)).await;
            file = written.map_err(|error| RequestError::internal(&error))?;
        }
        if bytes != original.bytes {
            let error = io::Error::other(format!("{bytes} of {} bytes are in the store", original.bytes));
            return Err(RequestError::internal(&error));
        }
        file.rewind().map_err(|error| RequestError::internal(&error))?;
        Ok(file)
    }

    /// Removes the files that no document has, and counts the others.
    pub(super) async fn sweep(&self) -> Result<(), Error> {
        self.take_from_folder().await?;
        let removed = self.store.remove_unused_files(UNUSED_SECONDS).await?;
        (0..removed).for_each(|_| self.metrics.original("removed"));
        let (files, bytes) = self.store.kept_files().await?;
        self.metrics.originals(i64::try_from(files).unwrap_or(i64::MAX), bytes);
        Ok(())
    }
}

impl Database {
    /// Moves the files that an earlier version has kept in the data directory into the store.
    async fn take_from_folder(&self) -> Result<(), Error> {
        let folder = self.data_dir.join(FOLDER);
        for path in files(&folder) {
            let Some(sha256) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let taken = match self.store.has_original(sha256).await? {
                false => Ok(()),
                true => self.take(sha256, &path).await,
            };
            match taken.and_then(|()| Ok(std::fs::remove_file(&path)?)) {
                Ok(()) => {}
                Err(CopyError::Store(error)) => return Err(error),
                Err(error) => {
                    tracing::warn!(file = %path.display(), %error, "an original file was not moved into the store")
                }
            }
        }
        Ok(())
    }

    async fn take(&self, sha256: &str, path: &Path) -> Result<(), CopyError> {
        let file = File::open(path)?;
        match self.store.keep_file(sha256, file.metadata()?.len(), u64::MAX).await? {
            Keeping::Complete | Keeping::NoRoom => Ok(()),
            Keeping::Begun => store_parts(&self.store, sha256, Box::new(file)).await,
        }
    }
}

/// Why a file was not copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] Error),
    /// The file failed.
    #[error(transparent)]
    File(#[from] io::Error),
}

/// Stores the parts of a file that was begun.
pub(super) async fn store_parts(
    store: &Store,
    sha256: &str,
    mut file: Box<dyn Content>,
) -> Result<(), CopyError> {
    for number in 0.. {
        let read = move || -> io::Result<_> {
            let mut part = Vec::new();
            if number == 0 {
                file.rewind()?;
            }
            (&mut *file).take(PART_BYTES).read_to_end(&mut part)?;
            Ok((file, part))
        };
        let part;
        (file, part) = blocking(read).await?;
        if part.is_empty() {
            break;
        }
        let patience = Patience(Instant::now());
        while let Err(error) = store.keep_part(sha256, number, part.clone()).await {
            patience.after(error).await?;
        }
    }
    let patience = Patience(Instant::now());
    loop {
        match store.finish_file(sha256).await {
            Ok(true) => return Ok(()),
            Ok(false) => return Err(io::Error::other("it took too long; send it again").into()),
            Err(error) => patience.after(error).await?,
        }
    }
}

/// Since when a call is repeated because the database can't be reached: what was extracted from the file is not to be lost for that.
struct Patience(Instant);

impl Patience {
    /// Waits for another attempt.
    ///
    /// # Errors
    /// The error, if there is to be none.
    async fn after(&self, error: Error) -> Result<(), Error> {
        if error.retry_after().is_none() || self.0.elapsed() >= UNAVAILABLE_MAX {
            return Err(error);
        }
        tracing::debug!(%error, "a part of a file is stored again");
        tokio::time::sleep(RETRY_AFTER).await;
        Ok(())
    }
}

fn not_kept(error: Error) -> Invalid {
    let code = RequestError::from(error.clone()).code();
    Invalid::whole(code, format!("the file could not be kept: {error}"))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> io::Result<T> + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
}
