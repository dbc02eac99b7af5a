//! Where the engines of a process come from.

use std::path::{Path, PathBuf};

use crate::embedded::blocking;
use crate::{
    CpuLimiter, EmbeddedEngine, Engine, EngineSettings, FILTER_CACHE_BYTES_MAX, IndexError, OpenIndexes,
    Opened, QdrantEngines, Result,
};

/// Opens and deletes the engines of all collections. Clones share them. Callers know collections by the ids of the store, and not where
/// their indexes are.
#[derive(Clone)]
#[non_exhaustive]
pub enum Engines {
    /// In this process, with files in the folder of the data directory.
    Embedded(EmbeddedEngines),
    /// In a Qdrant cluster.
    Qdrant(QdrantEngines),
}

/// The embedded engines of a process, in one folder.
#[derive(Clone)]
pub struct EmbeddedEngines {
    /// Has a folder for each collection, which has one for each generation.
    folder: PathBuf,
    limiter: CpuLimiter,
    open: OpenIndexes,
}

/// Names an engine: a generation of a collection, by the ids of the store. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EngineId {
    /// The collection.
    pub collection: i64,
    /// Its generation.
    pub generation: i64,
}

/// What the engines of a process hold at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EnginesInUse {
    /// Indexes whose files are open.
    pub open: usize,
    /// Bytes of the cached results of filters.
    pub filter_cache_bytes: usize,
    /// The bound of these.
    pub filter_cache_bytes_max: usize,
}

impl Engines {
    /// Embedded engines in `folder`, of which at most `open_max` have open files. `limiter` bounds the CPU work of their searches.
    pub fn embedded(folder: impl Into<PathBuf>, limiter: CpuLimiter, open_max: usize) -> Engines {
        Engines::Embedded(EmbeddedEngines {
            folder: folder.into(),
            limiter,
            open: OpenIndexes::new(open_max),
        })
    }

    /// Opens an engine, empty if there is none. `store_last_operation` is the collection's last operation in the store.
    ///
    /// If the content is damaged, of an older format or of other settings, it is removed and the engine starts empty.
    ///
    /// # Errors
    /// [`IndexError::AheadOfStore`], [`IndexError::Locked`], errors of the engine.
    pub async fn open(
        &self,
        id: EngineId,
        settings: EngineSettings,
        store_last_operation: u64,
    ) -> Result<Opened> {
        match self {
            Engines::Embedded(engines) => {
                let EmbeddedEngines { limiter, open, .. } = engines.clone();
                let folder = engines.folder_of(id);
                let (engine, rebuilt) =
                    EmbeddedEngine::open(folder, settings, limiter, open, store_last_operation).await?;
                Ok(Opened { engine: Engine::Embedded(engine), rebuilt })
            }
            Engines::Qdrant(engines) => {
                let (engine, rebuilt) = engines.open(id, settings, store_last_operation).await?;
                Ok(Opened { engine: Engine::Qdrant(engine), rebuilt })
            }
        }
    }

    /// The generations of a collection of which something is stored, the latest first.
    pub async fn generations(&self, collection: i64) -> Result<Vec<i64>> {
        match self {
            Engines::Embedded(engines) => {
                let folder = engines.folder.join(collection.to_string());
                blocking(move || Ok(generations_in(&folder))).await
            }
            // so that no earlier one answers while documents are split again
            Engines::Qdrant(_) => Ok(Vec::new()),
        }
    }

    /// Removes what an engine that was closed has stored.
    pub async fn delete(&self, id: EngineId) -> Result<()> {
        match self {
            Engines::Embedded(engines) => remove_folder(engines.folder_of(id)).await,
            Engines::Qdrant(engines) => engines.delete(id).await,
        }
    }

    /// Removes what the engines of a collection, which were closed, have stored.
    pub async fn delete_collection(&self, collection: i64) -> Result<()> {
        match self {
            Engines::Embedded(engines) => remove_folder(engines.folder.join(collection.to_string())).await,
            Engines::Qdrant(engines) => engines.delete_collection(collection).await,
        }
    }

    /// Where the index of a collection after the `last` of the store is, if there is one: a lost store would leave it behind.
    pub async fn foreign_after(&self, last: i64) -> Result<Option<String>> {
        match self {
            Engines::Embedded(engines) => {
                let folder = engines.folder.clone();
                blocking(move || Ok(collection_after(&folder, last))).await
            }
            // points have the id of their service
            Engines::Qdrant(_) => Ok(None),
        }
    }

    /// What they hold now.
    pub fn in_use(&self) -> EnginesInUse {
        match self {
            Engines::Embedded(engines) => {
                let open = engines.open.count();
                EnginesInUse {
                    open,
                    filter_cache_bytes: engines.open.filter_cache_bytes(),
                    filter_cache_bytes_max: open * FILTER_CACHE_BYTES_MAX,
                }
            }
            Engines::Qdrant(_) => EnginesInUse::default(),
        }
    }

    /// The limit on the CPU work of searches in this process.
    pub fn search_limiter(&self) -> &CpuLimiter {
        match self {
            Engines::Embedded(engines) => &engines.limiter,
            Engines::Qdrant(engines) => engines.limiter(),
        }
    }
}

impl EmbeddedEngines {
    fn folder_of(&self, id: EngineId) -> PathBuf {
        self.folder.join(id.collection.to_string()).join(id.generation.to_string())
    }
}

fn collection_after(folder: &Path, last: i64) -> Option<String> {
    let id_of = |path: &Path| path.file_name()?.to_str()?.parse().ok();
    let mut paths = std::fs::read_dir(folder).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let foreign = paths.find(|path| id_of(path).is_some_and(|id: i64| id > last))?;
    Some(foreign.display().to_string())
}

/// The folders whose names are numbers, the highest first.
fn generations_in(folder: &Path) -> Vec<i64> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut numbers: Vec<i64> = numbers.collect();
    numbers.sort_unstable_by(|a, b| b.cmp(a));
    numbers
}

async fn remove_folder(folder: PathBuf) -> Result<()> {
    blocking(move || match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(IndexError::file("remove the index folder", &folder)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    })
    .await
}
