//! The async door to an index, whatever stands behind it.

use std::path::PathBuf;

use tokio::task::spawn_blocking;
use weir_policy::Caller;
use weir_text::Language;

use crate::relevance::{Calibration, HitFeatures, JudgedHit};
use crate::{
    Change, ConsistencyReport, Embedded, IndexError, IndexQuery, IndexResult, RebuildReason, Recall,
};

/// One generation of one collection, searchable. Cloning gives another handle to the same engine.
#[derive(Clone)]
pub enum Engine {
    /// In this process, files in one folder.
    Embedded(Embedded),
}

/// What a generation is made with. Another fingerprint, dimension or language means another generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineSettings {
    /// Values per embedding; 0 for a text-only collection.
    pub dimension: usize,
    /// How the text is analysed.
    pub language: Language,
    /// The fingerprint of the model that made the embeddings; any constant in a text-only collection.
    pub fingerprint: String,
    /// Memory that the lexical writer fills before it writes a segment; held to 15 MB at least.
    pub writer_memory_bytes: usize,
}

/// An engine that was opened, and whether it has to be filled again.
pub struct Opened {
    /// Ready to search and to apply; replay the store's operations after [`Engine::applied_seq`].
    pub engine: Engine,
    /// Why what was there could not be used. The engine is then empty and has reached operation 0.
    pub rebuilt: Option<RebuildReason>,
}

/// What an engine promises.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The dense ranking is that of comparing every embedding, not of an approximate structure.
    pub exact_dense: bool,
    /// Both legs always show the same documents, and a batch becomes visible all at once.
    pub consistent_snapshots: bool,
    /// [`Engine::remove_now`] hides a document before the next batch is applied.
    pub immediate_removal: bool,
    /// The hits carry their texts.
    pub returns_text: bool,
}

/// How much an engine holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexCounts {
    /// Documents that can be found.
    pub documents: u64,
    /// Their chunks.
    pub chunks: u64,
    /// Chunks of removed and replaced documents that still take room.
    pub deleted_chunks: u64,
    /// Segments of the lexical leg that a search goes through.
    pub segments: usize,
}

impl Engine {
    /// Opens the embedded engine in `folder`, which is created when missing.
    ///
    /// What is missing, damaged, of an older format or made with other settings is wiped, and the engine starts empty.
    /// `store_last_operation` is the collection's last operation in the store.
    ///
    /// # Errors
    /// [`IndexError::AheadOfStore`], [`IndexError::Locked`], and what the file system refuses.
    pub async fn open_embedded(
        folder: impl Into<PathBuf>,
        settings: EngineSettings,
        store_last_operation: u64,
    ) -> Result<Opened, IndexError> {
        let folder = folder.into();
        let (embedded, rebuilt) =
            blocking(move || Embedded::open(&folder, settings, store_last_operation)).await?;
        Ok(Opened { engine: Engine::Embedded(embedded), rebuilt })
    }

    /// Applies a batch of changes in order and records that operation `applied_seq` is the last of them.
    ///
    /// All of the batch becomes visible at once, in both legs, when it is on disk. Applying the same batch again
    /// changes nothing.
    ///
    /// # Errors
    /// [`IndexError::OutOfOrder`] when `applied_seq` is lower than [`Engine::applied_seq`]; an embedding that does not fit the
    /// collection; what the file system refuses. After an error nothing of the batch is visible, and it can be
    /// applied again.
    pub async fn apply(&self, changes: Vec<Change>, applied_seq: u64) -> Result<(), IndexError> {
        match self.clone() {
            Engine::Embedded(embedded) => blocking(move || embedded.apply(changes, applied_seq)).await,
        }
    }

    /// Hides a document from both legs at once; returns whether it was there.
    ///
    /// `operation` is the number of the removal, which has to be in the store already. Until a batch reaches it,
    /// changes that come before it do not bring the document back; the batch that holds the removal makes it durable.
    ///
    /// # Errors
    /// What reading the document table refuses.
    pub async fn remove_now(&self, document_id: &str, operation: u64) -> Result<bool, IndexError> {
        match self {
            Engine::Embedded(embedded) => embedded.remove_now(document_id, operation),
        }
    }

    /// Searches one snapshot.
    ///
    /// # Errors
    /// An embedding that is missing or does not fit, a fusion weight that is not a number, and damage.
    pub async fn search(&self, caller: &Caller, request: IndexQuery) -> Result<IndexResult, IndexError> {
        let (engine, caller) = (self.clone(), caller.clone());
        blocking(move || engine.blocking_search(&caller, &request)).await
    }

    /// As [`search`](Self::search), on the calling thread.
    ///
    /// # Errors
    /// As [`search`](Self::search).
    pub fn blocking_search(&self, caller: &Caller, request: &IndexQuery) -> Result<IndexResult, IndexError> {
        match self {
            Engine::Embedded(embedded) => embedded.search(caller, request),
        }
    }

    /// Whether a query can name this field: a document has had it in its metadata, or it is `title`.
    pub fn has_field(&self, name: &str) -> bool {
        match self {
            Engine::Embedded(embedded) => embedded.has_field(name),
        }
    }

    /// Refines the relevance of hits by all that users have said of earlier ones, and returns what came out.
    ///
    /// Replaces what earlier calls refined. Nothing of it is kept on disk: call it after opening.
    pub fn refine_relevance(&self, feedback: &[JudgedHit]) -> Calibration {
        match self {
            Engine::Embedded(embedded) => embedded.refine_relevance(feedback),
        }
    }

    /// What the relevance of a document in this search is computed from, whatever page it would stand on: to be kept with
    /// feedback. `None` when no leg has it among its candidates, as when the collection does not hold it.
    ///
    /// # Errors
    /// As [`Engine::search`].
    pub async fn features(
        &self,
        caller: &Caller,
        request: IndexQuery,
        document_id: &str,
    ) -> Result<Option<HitFeatures>, IndexError> {
        match self.clone() {
            Engine::Embedded(embedded) => {
                let (caller, document_id) = (caller.clone(), document_id.to_owned());
                blocking(move || embedded.features(&caller, &request, &document_id)).await
            }
        }
    }

    /// Repeats a search's dense leg exactly, and says how much of that the leg found: the first `limit` chunks. `None` without
    /// an embedding. Reads every embedding: for samples, in the background.
    ///
    /// # Errors
    /// As [`Engine::search`].
    pub async fn recall(&self, caller: &Caller, request: IndexQuery) -> Result<Option<Recall>, IndexError> {
        match self.clone() {
            Engine::Embedded(embedded) => {
                let caller = caller.clone();
                blocking(move || embedded.recall(&caller, &request)).await
            }
        }
    }

    /// The last operation whose effect is visible and on disk; 0 in an empty engine.
    pub fn applied_seq(&self) -> u64 {
        match self {
            Engine::Embedded(embedded) => embedded.applied_seq(),
        }
    }

    /// How much is there now.
    pub fn counts(&self) -> IndexCounts {
        match self {
            Engine::Embedded(embedded) => embedded.counts(),
        }
    }

    /// Whether dead chunks outweigh the live ones, so that filling a new generation would pay.
    pub fn needs_rebuild(&self) -> bool {
        match self {
            Engine::Embedded(embedded) => embedded.needs_rebuild(),
        }
    }

    /// What this engine promises.
    pub fn capabilities(&self) -> Capabilities {
        match self {
            Engine::Embedded(_) => Capabilities {
                exact_dense: true,
                consistent_snapshots: true,
                immediate_removal: true,
                returns_text: true,
            },
        }
    }

    /// Bytes that the engine takes on disk.
    ///
    /// # Errors
    /// What listing the folder refuses.
    pub async fn disk_bytes(&self) -> Result<u64, IndexError> {
        match self.clone() {
            Engine::Embedded(embedded) => blocking(move || embedded.disk_bytes()).await,
        }
    }

    /// Waits for segments that are being merged, merges the small ones that are left, and shows the result. Call it when nothing
    /// more is to be applied for now: searches are faster then. Batches are applied meanwhile; every one is on disk without it.
    ///
    /// # Errors
    /// What the background work met.
    pub async fn flush(&self) -> Result<(), IndexError> {
        match self.clone() {
            Engine::Embedded(embedded) => blocking(move || embedded.flush()).await,
        }
    }

    /// Ends the work in the background. Searches go on answering; applying gives [`IndexError::Closed`].
    ///
    /// # Errors
    /// What the background work met.
    pub async fn close(&self) -> Result<(), IndexError> {
        match self.clone() {
            Engine::Embedded(embedded) => blocking(move || embedded.close()).await,
        }
    }

    /// Checks everything against everything: files against checksums, each live chunk against its document and its
    /// one lexical entry, and the counts.
    ///
    /// # Errors
    /// What reading refuses; what is wrong with the content stands in the report.
    pub async fn verify(&self) -> Result<ConsistencyReport, IndexError> {
        match self.clone() {
            Engine::Embedded(embedded) => blocking(move || embedded.verify()).await,
        }
    }
}

/// Runs work that computes or waits for disks on a thread for such work.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, IndexError> + Send + 'static,
) -> Result<T, IndexError> {
    spawn_blocking(work).await.unwrap_or(Err(IndexError::Interrupted))
}
