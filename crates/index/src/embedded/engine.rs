//! The embedded engine behind [`crate::Engine`]: runs its blocking functions on threads that may block, and searches within the limit on CPU work.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use weir_policy::Caller;
use weir_query::Reading;
use weir_ranking::relevance::{HitFeatures, LearnedRelevance, LearnedSummary};

use super::on_demand::{OnDemand, OpenIndexes};
use super::{Embedded, IndexCopies};
use crate::limiter::catch_panic;
use crate::restricted::RestrictedQuery;
use crate::{
    Change, ConsistencyReport, CpuLimiter, EngineId, EngineSettings, HistoryPoint, IndexCounts, IndexError,
    IndexResult, RebuildReason, Recall, Result,
};

/// The embedded engine of one folder. See [`crate::Engine`] for its functions.
#[derive(Clone)]
pub struct EmbeddedEngine {
    index: OnDemand,
    /// The limit on the CPU work of its searches.
    limiter: CpuLimiter,
    /// Where it is copied to, and its name there.
    copies: Option<(Arc<IndexCopies>, EngineId)>,
}

impl EmbeddedEngine {
    /// Opens the engine in `folder`, which is created if it is missing. Its files are open while it is used: see [`OpenIndexes`].
    ///
    /// If the content is missing, damaged, of an older format or of other settings, it is removed and the engine starts empty; also returns
    /// the reason.
    /// `store_last_operation` is the collection's last operation in the store. `limiter` is shared by all engines of the process.
    ///
    /// # Errors
    /// [`IndexError::AheadOfStore`], [`IndexError::Locked`], and errors of the file system.
    pub async fn open(
        folder: impl Into<PathBuf>,
        settings: EngineSettings,
        limiter: CpuLimiter,
        open: OpenIndexes,
        store_last_operation: u64,
    ) -> Result<(EmbeddedEngine, Option<RebuildReason>)> {
        let folder = folder.into();
        let (index, rebuilt) =
            blocking(move || OnDemand::start(folder, settings, open, store_last_operation)).await?;
        Ok((EmbeddedEngine { index, limiter, copies: None }, rebuilt))
    }

    /// An index that was opened and stays open.
    pub fn of(index: Embedded, limiter: CpuLimiter) -> EmbeddedEngine {
        EmbeddedEngine { index: OnDemand::of(index), limiter, copies: None }
    }

    /// The same, copied for other gateways.
    pub(crate) fn with_copies(self, copies: Option<(Arc<IndexCopies>, EngineId)>) -> EmbeddedEngine {
        EmbeddedEngine { copies, ..self }
    }

    pub(crate) async fn apply(
        &self,
        changes: Vec<Change>,
        applied_seq: u64,
        read_to: Option<HistoryPoint>,
    ) -> Result<()> {
        self.blocking(move |index| index.run(|index| index.apply_read_to(changes, applied_seq, read_to)))
            .await
    }

    pub(crate) async fn remove_now(&self, document_id: &str, operation: u64) -> Result<bool> {
        loop {
            let index = self.opened().await?;
            let was_live = index.remove_now(document_id, operation)?;
            // otherwise another was opened meanwhile, which may not have the removal
            if self.index.is_current(&index) {
                return Ok(was_live);
            }
        }
    }

    /// Values per embedding.
    pub(crate) fn dimension(&self) -> usize {
        self.index.dimension()
    }

    pub(crate) async fn search(&self, query: RestrictedQuery) -> Result<IndexResult> {
        let index = self.opened().await?;
        let searching = index.clone();
        let result = self.limiter.run(move || searching.search_restricted(&query)).await;
        if result.is_err() {
            return self.checked(index, result).await;
        }
        if index.claim_baseline_save() {
            let index = index.clone();
            // not awaited: a search must not wait for a file. A failure is repeated, and reported, by `close`
            spawn_blocking(move || index.save_baseline());
        }
        result
    }

    pub(crate) async fn read_query(&self, caller: &Caller, text: &str) -> Result<Reading> {
        let index = self.opened().await?;
        if let Some(reading) = index.read_query_alone(text) {
            return Ok(reading);
        }
        let (reading, caller, text) = (index.clone(), caller.clone(), text.to_owned());
        let result = self.limiter.run_background(move || reading.read_query(&caller, &text)).await;
        self.checked(index, result).await
    }

    pub(crate) fn set_learned_relevance(&self, learned: LearnedRelevance) {
        self.index.set_learned_relevance(learned);
    }

    pub(crate) fn learned_relevance(&self) -> (LearnedSummary, (f32, f32)) {
        self.index.learned_relevance()
    }

    pub(crate) async fn reset_baseline(&self) -> Result<()> {
        self.blocking(|index| index.run(Embedded::reset_baseline)).await
    }

    pub(crate) async fn features(
        &self,
        query: RestrictedQuery,
        document_id: &str,
    ) -> Result<Option<HitFeatures>> {
        let index = self.opened().await?;
        let document_id = document_id.to_owned();
        let searching = index.clone();
        let result =
            self.limiter.run_background(move || searching.features_restricted(&query, &document_id)).await;
        self.checked(index, result).await
    }

    pub(crate) async fn recall(&self, query: RestrictedQuery) -> Result<Option<Recall>> {
        let index = self.opened().await?;
        let probe = self.limiter.run_background(move || index.recall_probe(&query)).await?;
        let Some(mut probe) = probe else { return Ok(None) };
        loop {
            // a permit for each step, so that searches do not wait for all of them
            let step = move || probe.step().map(|is_more| (probe, is_more));
            let (next, is_more) = self.limiter.run_background(step).await?;
            if !is_more {
                return Ok(Some(next.finish()));
            }
            probe = next;
        }
    }

    pub(crate) fn applied_seq(&self) -> u64 {
        self.index.applied_seq()
    }

    /// Known without opening the files, as the sizes are: waits for nothing.
    pub(crate) async fn read_to(&self) -> Result<Option<HistoryPoint>> {
        Ok(self.index.summary().read_to)
    }

    pub(crate) async fn counts(&self) -> Result<IndexCounts> {
        Ok(self.index.summary().counts)
    }

    pub(crate) async fn disk_bytes(&self) -> Result<u64> {
        self.blocking(|index| index.disk_bytes()).await
    }

    /// Waits for running merges, merges the remaining small segments, and shows the result.
    pub(crate) async fn flush(&self) -> Result<()> {
        // closing an index does the same
        self.blocking(|index| index.if_open()?.map_or(Ok(()), |index| index.flush())).await
    }

    pub(crate) async fn ensure_open(&self) -> Result<()> {
        self.opened().await.map(drop)
    }

    /// Checks that the files still exist with their lengths. If one does not, the index is opened again: checked, and emptied if it cannot
    /// be used.
    pub(crate) async fn check_files(&self) -> Result<()> {
        self.blocking(|index| index.check_files()).await
    }

    pub(crate) async fn discard(&self) -> Result<()> {
        self.blocking(|index| index.discard()).await
    }

    /// Removes what was deleted from the files, by writing them again.
    pub(crate) async fn compact_if_due(&self, interval: Duration) -> Result<bool> {
        self.blocking(
            move |index| if index.is_compaction_due(interval) { index.compact() } else { Ok(false) },
        )
        .await
    }

    /// Copies the files for other gateways, if there is a folder for it and that is due.
    pub(crate) async fn copy_if_due(&self) {
        if let Some((copies, id)) = self.copies.clone() {
            let index = self.index.clone();
            // a panic is in the log
            let _ = spawn_blocking(move || copies.write_if_due(id, &index)).await;
        }
    }

    /// Ends background work and saves the score baseline.
    pub(crate) async fn close(&self) -> Result<()> {
        self.blocking(|index| index.close()).await
    }

    pub(crate) async fn verify(&self) -> Result<ConsistencyReport> {
        self.blocking(|index| index.run(Embedded::verify)).await
    }

    async fn opened(&self) -> Result<Embedded> {
        match self.index.if_open()? {
            Some(index) => Ok(index),
            None => self.blocking(|index| index.open()).await,
        }
    }

    /// [`OnDemand::checked`] for a result that is not an error in most cases.
    async fn checked<T: Send + 'static>(&self, index: Embedded, result: Result<T>) -> Result<T> {
        if result.is_ok() && index.check_reads().is_ok() {
            return result;
        }
        self.blocking(move |on_demand| on_demand.checked(&index, result)).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&OnDemand) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let index = self.index.clone();
        blocking(move || work(&index)).await
    }
}

/// Runs work that computes or waits for disks on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    spawn_blocking(|| catch_panic(work)).await.unwrap_or(Err(IndexError::Interrupted))
}
