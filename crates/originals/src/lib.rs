//! Files from which documents were made, if they are kept, by the SHA-256 of their bytes: in the data directory, or in a store that several gateways use.
//!
//! The store knows which document has which file. A file without a document is removed by a sweep.

#![forbid(unsafe_code)]

mod copies;
mod database;
mod folder;

use std::fs::File;
use std::sync::Arc;

use weir_api::{ErrorCode, Invalid};
use weir_config::Config;
use weir_extraction::Content;
use weir_refusal::RequestError;
use weir_store::{Original, Store};
use weir_telemetry::metrics::Metrics;

pub use copies::{OriginalsReport, copy_originals, verify_originals};
pub use database::CopyError;
use database::Database;
use folder::{FileInUse, Folder};

/// The kept files.
#[derive(Clone)]
pub enum Originals {
    /// In the data directory.
    Folder(Folder),
    /// In a store that several gateways use.
    Database(Arc<Database>),
}

/// A file that is kept while its document is being stored.
pub struct KeptFile {
    _in_use: Option<FileInUse>,
    /// Its record in the store.
    pub original: Original,
}

impl Originals {
    /// Those of the data directory, or of the store if it is shared.
    pub fn new(config: &Config, store: &Store, metrics: Metrics) -> Originals {
        match store.is_shared() {
            false => Originals::Folder(Folder::new(config, metrics)),
            true => Originals::Database(Arc::new(Database::new(config, store.clone(), metrics))),
        }
    }

    /// Keeps a file, unless it is there.
    ///
    /// # Errors
    /// `insufficient_storage` beyond the limit and on a full disk; `store_unavailable`.
    pub async fn keep(&self, file: Box<dyn Content>, original: Original) -> Result<KeptFile, Invalid> {
        let in_use = match self {
            Originals::Folder(folder) => Some(folder.keep(file, original.clone()).await?),
            Originals::Database(database) => {
                database.keep(file, &original).await?;
                None
            }
        };
        Ok(KeptFile { _in_use: in_use, original })
    }

    /// The bytes of a kept file.
    ///
    /// # Errors
    /// `internal` if they are not there; store errors.
    pub async fn open(&self, original: &Original) -> Result<File, RequestError> {
        match self {
            Originals::Folder(folder) => {
                folder.open(&original.sha256).await.map_err(|error| RequestError::internal(&error))
            }
            Originals::Database(database) => database.open(original).await,
        }
    }

    /// Removes the files that no document has.
    ///
    /// # Errors
    /// Store errors.
    pub async fn sweep(&self, store: &Store) -> Result<(), weir_store::Error> {
        match self {
            Originals::Folder(folder) => folder.sweep(store).await,
            Originals::Database(database) => database.sweep().await,
        }
    }
}

/// The error of a file beyond the limit.
fn no_room(bytes_max: u64) -> Invalid {
    let message = format!(
        "the kept files would have more bytes than the limit `extract.originals_bytes_max`, which is {bytes_max}; delete documents with files, or send the file without `keep_original`"
    );
    Invalid::whole(ErrorCode::InsufficientStorage, message)
}
