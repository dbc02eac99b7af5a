//! The asynchronous interface to an index, whatever implements it.

use std::path::PathBuf;
use std::time::Duration;

use tokio::task::spawn_blocking;
use weir_policy::Caller;
use weir_query::Reading;
use weir_ranking::relevance::{HitFeatures, LearnedRelevance, LearnedSummary};

use crate::limiter::catch_panic;
use crate::{
    Change, ConsistencyReport, CpuLimiter, Embedded, EngineSettings, HistoryPoint, IndexCounts, IndexError,
    IndexQuery, IndexResult, OnDemand, OpenIndexes, RebuildReason, Recall, Result,
};

/// One generation of one collection, searchable. Clones share the engine.
///
/// Every engine returns the text of its hits, shows a batch of changes all at once in both retrievers, and hides a document as soon
/// as [`Engine::remove_now`] returns. [`Capabilities`] are the properties that differ.
#[derive(Clone)]
pub enum Engine {
    /// In this process, files in one folder.
    Embedded {
        /// The index.
        index: OnDemand,
        /// The limit on the CPU work of its searches.
        limiter: CpuLimiter,
    },
}

/// An opened engine.
pub struct Opened {
    /// Ready to search and to apply changes; replay the store's operations after [`Engine::applied_seq`].
    pub engine: Engine,
    /// Why the previous content could not be used. The engine is then empty, and its applied sequence is 0.
    pub rebuilt: Option<RebuildReason>,
}

/// The properties in which engines differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The dense ranking compares every embedding exactly, so that measuring its [`Recall`] is pointless.
    pub exact_dense: bool,
    /// [`IndexQuery::pin`] and [`IndexQuery::as_of`] let later pages see the snapshot of the first.
    pub pinned_snapshots: bool,
}

impl Engine {
    /// Opens the embedded engine in `folder`, which is created if it is missing, and keeps it open until it is closed.
    ///
    /// # Errors
    /// As [`Engine::open_on_demand`].
    pub async fn open_embedded(
        folder: impl Into<PathBuf>,
        settings: EngineSettings,
        limiter: CpuLimiter,
        store_last_operation: u64,
    ) -> Result<Opened> {
        let open = OpenIndexes::new(usize::MAX);
        Engine::open_on_demand(folder, settings, limiter, open, store_last_operation).await
    }

    /// Opens the embedded engine in `folder`, which is created if it is missing. Its files are open while it is used: see [`OpenIndexes`].
    /// Every function that needs them can fail with [`IndexError::Lost`], after which the operations after [`Engine::applied_seq`] are to be
    /// applied again.
    ///
    /// If the content is missing, damaged, of an older format or of other settings, it is removed and the engine starts empty.
    /// `store_last_operation` is the collection's last operation in the store. `limiter` is shared by all engines of the process.
    ///
    /// # Errors
    /// [`IndexError::AheadOfStore`], [`IndexError::Locked`], and errors of the file system.
    pub async fn open_on_demand(
        folder: impl Into<PathBuf>,
        settings: EngineSettings,
        limiter: CpuLimiter,
        open: OpenIndexes,
        store_last_operation: u64,
    ) -> Result<Opened> {
        let folder = folder.into();
        let (index, rebuilt) =
            blocking(move || OnDemand::start(folder, settings, open, store_last_operation)).await?;
        Ok(Opened { engine: Engine::Embedded { index, limiter }, rebuilt })
    }

    /// Applies a batch of changes in order and records `applied_seq` as the last operation applied, and `read_to`, the store's last operation
    /// after the changes were read: see [`Engine::read_to`].
    ///
    /// The whole batch becomes visible at once, in both retrievers, when it is on disk. Applying the same batch again changes
    /// nothing.
    ///
    /// # Errors
    /// [`IndexError::OutOfOrder`] if `applied_seq` is lower than [`Engine::applied_seq`]; an embedding that does not fit the
    /// collection; errors of the file system. After an error nothing of the batch is visible, and it can be applied again.
    pub async fn apply(
        &self,
        changes: Vec<Change>,
        applied_seq: u64,
        read_to: Option<HistoryPoint>,
    ) -> Result<()> {
        let Engine::Embedded { index, .. } = self.clone();
        blocking(move || index.run(|index| index.apply_read_to(changes, applied_seq, read_to))).await
    }

    /// Hides a document from both retrievers at once; returns whether it was live.
    ///
    /// `operation` is the number of the removal, which must be in the store already. Until a batch reaches it, earlier changes do
    /// not bring the document back; the batch that contains the removal makes it durable.
    pub async fn remove_now(&self, document_id: &str, operation: u64) -> Result<bool> {
        let Engine::Embedded { index: on_demand, .. } = self;
        loop {
            let index = self.opened().await?;
            let was_live = index.remove_now(document_id, operation)?;
            // otherwise another was opened meanwhile, which may not have the removal
            if on_demand.is_current(&index) {
                return Ok(was_live);
            }
        }
    }

    /// Searches one snapshot, within the limit on CPU work.
    ///
    /// # Errors
    /// A missing or unfit embedding, an invalid parameter, damaged files, [`IndexError::Panicked`].
    pub async fn search(&self, caller: &Caller, query: IndexQuery) -> Result<IndexResult> {
        let index = self.opened().await?;
        let Engine::Embedded { limiter, index: on_demand } = self;
        let query = index.restrict(caller, query)?;
        let searching = index.clone();
        let result = limiter.run(move || searching.search_restricted(&query)).await;
        if result.is_err() {
            return on_demand.checked_in_background(index, result).await;
        }
        if index.claim_baseline_save() {
            let index = index.clone();
            // not awaited: a search must not wait for a file. A failure is repeated, and reported, by `close`
            spawn_blocking(move || index.save_baseline());
        }
        result
    }

    /// Reads a query that may be pasted text, by the documents that exist for the caller: see [`weir_query::parse_auto`].
    ///
    /// # Errors
    /// Damaged files, [`IndexError::Panicked`].
    pub async fn read_query(&self, caller: &Caller, text: &str) -> Result<Reading> {
        let index = self.opened().await?;
        if let Some(reading) = index.read_query_alone(text) {
            return Ok(reading);
        }
        let Engine::Embedded { limiter, index: on_demand } = self;
        let (reading, caller, text) = (index.clone(), caller.clone(), text.to_owned());
        let result = limiter.run_background(move || reading.read_query(&caller, &text)).await;
        on_demand.checked_in_background(index, result).await
    }

    /// Replaces what was learned from users' judgments of earlier hits. It is not stored: call this after opening.
    pub fn set_learned_relevance(&self, learned: LearnedRelevance) {
        let Engine::Embedded { index, .. } = self;
        index.set_learned_relevance(learned);
    }

    /// What was learned from judgments; and from searches: the deviations of the mean cosine and the mean drop of scores from their priors.
    pub fn learned_relevance(&self) -> (LearnedSummary, (f32, f32)) {
        let Engine::Embedded { index, .. } = self;
        index.learned_relevance()
    }

    /// Forgets what was learned from searches.
    ///
    /// # Errors
    /// When the file of the score baseline can't be written.
    pub async fn reset_baseline(&self) -> Result<()> {
        let Engine::Embedded { index, .. } = self.clone();
        blocking(move || index.run(Embedded::reset_baseline)).await
    }

    /// The features from which the relevance of a document in this search is computed, on whichever page it is: to be stored with
    /// feedback. `None` if no retriever has it among its candidates, or the collection lacks it.
    pub async fn features(
        &self,
        caller: &Caller,
        query: IndexQuery,
        document_id: &str,
    ) -> Result<Option<HitFeatures>> {
        let index = self.opened().await?;
        let Engine::Embedded { limiter, index: on_demand } = self;
        let query = index.restrict(caller, query)?;
        let document_id = document_id.to_owned();
        let searching = index.clone();
        let result =
            limiter.run_background(move || searching.features_restricted(&query, &document_id)).await;
        on_demand.checked_in_background(index, result).await
    }

    /// Compares the first `limit` chunks of the dense ranking with those of an exact comparison. `None` without an embedding.
    /// Reads every embedding: for samples, in the background.
    pub async fn recall(&self, caller: &Caller, query: IndexQuery) -> Result<Option<Recall>> {
        let index = self.opened().await?;
        let Engine::Embedded { limiter, .. } = self;
        let query = index.restrict(caller, query)?;
        let probe = limiter.run_background(move || index.recall_probe(&query)).await?;
        let Some(mut probe) = probe else { return Ok(None) };
        loop {
            // a permit for each step, so that searches do not wait for all of them
            let step = move || probe.step().map(|is_more| (probe, is_more));
            let (next, is_more) = limiter.run_background(step).await?;
            if !is_more {
                return Ok(Some(next.finish()));
            }
            probe = next;
        }
    }

    /// The last operation whose effect is visible and on disk; 0 in an empty engine.
    pub fn applied_seq(&self) -> u64 {
        let Engine::Embedded { index, .. } = self;
        index.applied_seq()
    }

    /// The last operation whose effect the index can show: changes are read in their current state, which can be newer than
    /// [`Engine::applied_seq`]. A store without exactly this operation has another history, and the index is not of it. `None` if no batch
    /// recorded one.
    pub fn read_to(&self) -> Option<HistoryPoint> {
        let Engine::Embedded { index, .. } = self;
        index.summary().read_to
    }

    /// The current sizes.
    pub fn counts(&self) -> IndexCounts {
        let Engine::Embedded { index, .. } = self;
        index.summary().counts
    }

    /// The properties of this engine.
    pub fn capabilities(&self) -> Capabilities {
        match self {
            // the scan of 4-bit codes is approximate
            Engine::Embedded { .. } => Capabilities { exact_dense: false, pinned_snapshots: true },
        }
    }

    /// Bytes on disk.
    pub async fn disk_bytes(&self) -> Result<u64> {
        let Engine::Embedded { index, .. } = self.clone();
        blocking(move || index.disk_bytes()).await
    }

    /// Waits for running merges, merges the remaining small segments, and shows the result: searches are faster then. Call it when
    /// no changes are waiting. Batches may be applied meanwhile; none needs it to be durable.
    pub async fn flush(&self) -> Result<()> {
        let Engine::Embedded { index, .. } = self.clone();
        // closing an index does the same
        blocking(move || index.if_open()?.map_or(Ok(()), |index| index.flush())).await
    }

    /// Opens the index if it is not open.
    pub async fn ensure_open(&self) -> Result<()> {
        self.opened().await.map(drop)
    }

    async fn opened(&self) -> Result<Embedded> {
        let Engine::Embedded { index, .. } = self;
        match index.if_open()? {
            Some(index) => Ok(index),
            None => {
                let index = index.clone();
                blocking(move || index.open()).await
            }
        }
    }

    /// Checks that the files still exist with their lengths, without reading them. If one does not, the index is opened again: checked, and
    /// emptied if it cannot be used.
    ///
    /// # Errors
    /// [`IndexError::Lost`] if it was emptied; errors of the file system.
    pub async fn check_files(&self) -> Result<()> {
        let Engine::Embedded { index, .. } = self.clone();
        blocking(move || index.check_files()).await
    }

    /// Empties the index, to be filled again from the store.
    ///
    /// # Errors
    /// [`IndexError::Lost`] when that is done, if there was anything; errors of the file system.
    pub async fn discard(&self) -> Result<()> {
        let Engine::Embedded { index, .. } = self.clone();
        blocking(move || index.discard()).await
    }

    /// Removes what was deleted from the files, by writing them again, if the last time was at least `interval` ago; whether it did. Searches
    /// go on meanwhile. Not to be called while a batch is applied.
    ///
    /// # Errors
    /// [`IndexError::Lost`]; errors of the file system.
    pub async fn compact_if_due(&self, interval: Duration) -> Result<bool> {
        let Engine::Embedded { index, .. } = self.clone();
        blocking(move || if index.is_compaction_due(interval) { index.compact() } else { Ok(false) }).await
    }

    /// Ends background work and saves the score baseline. Searches are still answered; applying returns [`IndexError::Closed`].
    pub async fn close(&self) -> Result<()> {
        let Engine::Embedded { index, .. } = self.clone();
        blocking(move || index.close()).await
    }

    /// Checks files against checksums, each live chunk against its document and its one lexical entry, and the counts.
    ///
    /// # Errors
    /// Errors of reading; inconsistencies are listed in the report.
    pub async fn verify(&self) -> Result<ConsistencyReport> {
        let Engine::Embedded { index, .. } = self.clone();
        blocking(move || index.run(Embedded::verify)).await
    }
}

impl OnDemand {
    /// [`OnDemand::checked`] for a result that is not an error in most cases.
    async fn checked_in_background<T: Send + 'static>(
        &self,
        index: Embedded,
        result: Result<T>,
    ) -> Result<T> {
        if result.is_ok() && index.check_reads().is_ok() {
            return result;
        }
        let on_demand = self.clone();
        blocking(move || on_demand.checked(&index, result)).await
    }
}

/// Runs work that computes or waits for disks on a blocking thread.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    spawn_blocking(|| catch_panic(work)).await.unwrap_or(Err(IndexError::Interrupted))
}
