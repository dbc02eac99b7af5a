//! Where the engines of a process come from.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;

use crate::embedded::{IndexCopies, blocking, remove_folder};
use crate::{
    CpuLimiter, EmbeddedEngine, Engine, EngineKind, EngineSettings, FILTER_CACHE_BYTES_MAX, IndexError,
    OpenIndexes, Opened, QdrantEngines, Result,
};

/// Opens and deletes the engines of all collections, of every kind that this process has. Clones share them. Callers know collections by the
/// ids of the store, and not where their indexes are.
#[derive(Clone)]
pub struct Engines {
    embedded: EmbeddedEngines,
    qdrant: Option<QdrantEngines>,
}

/// The embedded engines of a process, in one folder.
#[derive(Clone)]
struct EmbeddedEngines {
    /// Has a folder for each collection, which has one for each generation.
    folder: PathBuf,
    limiter: CpuLimiter,
    open: OpenIndexes,
    /// Copies for other gateways.
    copies: Option<Arc<IndexCopies>>,
}

/// Names an engine: where it is, and a generation of a collection by the ids of the store. Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineId {
    /// Where it is.
    pub kind: EngineKind,
    /// The collection.
    pub collection: i64,
    /// Its generation.
    pub generation: i64,
}

/// Counts of the engines of a process at one instant.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EnginesInUse {
    /// Indexes whose files are open.
    pub open: usize,
    /// Bytes of the cached results of filters.
    pub filter_cache_bytes: usize,
    /// The bound of these.
    pub filter_cache_bytes_max: usize,
    /// Bytes that are kept of what searches read of points in a cluster, and their bound.
    pub point_cache_bytes: [usize; 2],
    /// Copies for other gateways that were written, that were read, and what has failed of both, since the start.
    pub copies: [u64; 3],
}

impl Engines {
    /// Embedded engines in `folder`, of which at most `open_max` have open files. `limiter` bounds the CPU work of their searches.
    pub fn embedded(folder: impl Into<PathBuf>, limiter: CpuLimiter, open_max: usize) -> Engines {
        let (folder, open) = (folder.into(), OpenIndexes::new(open_max));
        Engines { embedded: EmbeddedEngines { folder, limiter, open, copies: None }, qdrant: None }
    }

    /// The same, with copies in a folder of several gateways: an index that is missing begins with the latest copy, and one that has changed
    /// is copied again after `interval`.
    pub fn with_copies(mut self, folder: PathBuf, interval: Duration) -> Engines {
        self.embedded.copies = Some(Arc::new(IndexCopies::new(folder, interval)));
        self
    }

    /// The same, and those in a Qdrant cluster.
    pub fn with_qdrant(self, qdrant: QdrantEngines) -> Engines {
        Engines { qdrant: Some(qdrant), ..self }
    }

    /// Whether engines of a kind can be opened.
    pub fn has(&self, kind: EngineKind) -> bool {
        kind == EngineKind::Embedded || self.qdrant.is_some()
    }

    /// The kinds of engines that can be opened.
    pub fn kinds(&self) -> impl Iterator<Item = EngineKind> + use<> {
        let qdrant = self.qdrant.as_ref().map(|_| EngineKind::Qdrant);
        [Some(EngineKind::Embedded), qdrant].into_iter().flatten()
    }

    /// Whether some engines are those of other processes too.
    pub fn has_shared(&self) -> bool {
        self.qdrant.is_some()
    }

    fn qdrant(&self) -> Result<&QdrantEngines> {
        let reason = "the collection is in a Qdrant cluster, and none is configured; set `qdrant.urls`";
        self.qdrant.as_ref().ok_or_else(|| IndexError::Engine { reason: reason.to_owned() })
    }

    /// Opens an engine, empty if there is none. `store_last_operation` is the collection's last operation in the store.
    ///
    /// If the content is damaged, of an older format or of other settings, it is removed and the engine starts empty. What other processes use
    /// too is removed with the first batch.
    ///
    /// # Errors
    /// [`IndexError::AheadOfStore`], [`IndexError::Locked`], errors of the engine.
    pub async fn open(
        &self,
        id: EngineId,
        settings: EngineSettings,
        store_last_operation: u64,
    ) -> Result<Opened> {
        match id.kind {
            EngineKind::Embedded => {
                let EmbeddedEngines { limiter, open, copies, .. } = self.embedded.clone();
                let folder = self.embedded.folder_of(id);
                let mut copy = None;
                if let Some(copies) = copies.clone() {
                    let folder = folder.clone();
                    let read = spawn_blocking(move || copies.read(id, &folder, store_last_operation));
                    // a panic is in the log, and the index is made from the store
                    copy = read.await.ok().flatten();
                }
                let (engine, rebuilt) =
                    EmbeddedEngine::open(folder, settings, limiter, open, store_last_operation).await?;
                if let (Some(copies), Some(copy)) = (&copies, copy) {
                    copies.opened(&copy, rebuilt.as_ref());
                }
                let engine = engine.with_copies(copies.map(|copies| (copies, id)));
                Ok(Opened { engine: Engine::Embedded(engine), rebuilt })
            }
            EngineKind::Qdrant => {
                let (engine, rebuilt) = self.qdrant()?.open(id, settings, store_last_operation).await?;
                Ok(Opened { engine: Engine::Qdrant(engine), rebuilt })
            }
        }
    }

    /// Checks that an engine with these settings can be opened now, and makes what all such engines need.
    ///
    /// # Errors
    /// [`IndexError::Unavailable`], and [`IndexError::Engine`] when there is none of this kind, or it is not set up as it has to be.
    pub async fn prepare(&self, kind: EngineKind, settings: &EngineSettings) -> Result<()> {
        match kind {
            EngineKind::Embedded => Ok(()),
            EngineKind::Qdrant => self.qdrant()?.prepare(settings).await,
        }
    }

    /// Checks that the engines that other processes use too can be used now.
    ///
    /// # Errors
    /// [`IndexError::Unavailable`], and [`IndexError::Engine`] when they are not set up as they have to be.
    pub async fn check_shared(&self) -> Result<()> {
        match &self.qdrant {
            Some(engines) => engines.check().await,
            None => Ok(()),
        }
    }

    /// Of the processes in which engines are that other processes use too: how many there are, and how many have answered the last call.
    pub fn nodes(&self) -> (usize, usize) {
        self.qdrant.as_ref().map_or((0, 0), QdrantEngines::nodes)
    }

    /// The generations of a collection of which something is stored, the latest first.
    pub async fn generations(&self, kind: EngineKind, collection: i64) -> Result<Vec<i64>> {
        match kind {
            EngineKind::Embedded => {
                let folder = self.embedded.folder.join(collection.to_string());
                blocking(move || Ok(generations_in(&folder))).await
            }
            EngineKind::Qdrant => self.qdrant()?.generations(collection).await,
        }
    }

    /// Removes what an engine that was closed has stored.
    pub async fn delete(&self, id: EngineId) -> Result<()> {
        match id.kind {
            EngineKind::Embedded => self.embedded.remove(id.collection, Some(id.generation)).await,
            EngineKind::Qdrant => self.qdrant()?.delete(id).await,
        }
    }

    /// Removes what the engines of a collection, which were closed, have stored.
    pub async fn delete_collection(&self, kind: EngineKind, collection: i64) -> Result<()> {
        match kind {
            EngineKind::Embedded => self.embedded.remove(collection, None).await,
            EngineKind::Qdrant => self.qdrant()?.delete_collection(collection).await,
        }
    }

    /// Where the index of a collection after the `last` of the store is, if there is one: a lost store would leave it behind. Of those in files:
    /// others have the id of their service.
    pub async fn foreign_after(&self, last: i64) -> Result<Option<String>> {
        let folder = self.embedded.folder.clone();
        blocking(move || Ok(collection_after(&folder, last))).await
    }

    /// The collections of this service of which engines that other processes use too store something.
    pub async fn shared_collections(&self) -> Result<Vec<(EngineKind, i64)>> {
        match &self.qdrant {
            Some(engines) => {
                let ids = engines.collections().await?;
                Ok(ids.into_iter().map(|id| (EngineKind::Qdrant, id)).collect())
            }
            None => Ok(Vec::new()),
        }
    }

    /// Their counts now.
    pub fn in_use(&self) -> EnginesInUse {
        let open = self.embedded.open.count();
        EnginesInUse {
            open,
            filter_cache_bytes: self.embedded.open.filter_cache_bytes(),
            filter_cache_bytes_max: open * FILTER_CACHE_BYTES_MAX,
            point_cache_bytes: self.qdrant.as_ref().map_or([0; 2], QdrantEngines::cache_bytes),
            copies: self.embedded.copies.as_ref().map_or([0; 3], |copies| copies.counts()),
        }
    }

    /// The limit on the CPU work of searches in this process.
    pub fn search_limiter(&self) -> &CpuLimiter {
        &self.embedded.limiter
    }
}

impl EmbeddedEngines {
    fn folder_of(&self, id: EngineId) -> PathBuf {
        self.folder.join(id.collection.to_string()).join(id.generation.to_string())
    }

    /// Removes the index of a collection, or of one generation of it, and its copies.
    async fn remove(&self, collection: i64, generation: Option<i64>) -> Result<()> {
        let folder = self.folder.join(collection.to_string());
        let folder = generation.map_or(folder.clone(), |generation| folder.join(generation.to_string()));
        let copies = self.copies.clone();
        blocking(move || {
            remove_folder(&folder)?;
            if let Some(copies) = copies {
                copies.remove(collection, generation);
            }
            Ok(())
        })
        .await
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
