//! One comparison of an index with the store, in two passes of bounded pages. The first goes through the documents of the store and finds points that are
//! missing, or of earlier versions; the second goes through the points and finds those of documents that the store does not have.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use weir_api::{ReconciliationReply, ReconciliationStatus};
use weir_index::{IndexError, IndexedVersion, Inventory};
use weir_store::UpkeepKind;
use weir_telemetry::metrics::Metrics;

use crate::difference::{Difference, differences};
use crate::{Kept, UpkeepError};

/// Documents of the store that are compared at once.
const DOCUMENTS_PAGE: usize = 256;
/// Documents that are mended at once: their texts are in memory.
const MENDED_TOGETHER: usize = 16;
/// How often the progress is stored.
const SAVE_EVERY: Duration = Duration::from_secs(2);

/// A comparison on its way.
pub(crate) struct Run<'a, K> {
    kept: &'a K,
    inventory: Inventory,
    metrics: &'a Metrics,
    points_per_s: u64,
    report: ReconciliationReply,
    /// That of the report in the store.
    revision: u64,
    saved: Instant,
}

impl<'a, K: Kept> Run<'a, K> {
    pub(crate) fn new(
        kept: &'a K,
        inventory: Inventory,
        metrics: &'a Metrics,
        points_per_s: u64,
        (report, revision): (ReconciliationReply, u64),
    ) -> Run<'a, K> {
        Run { kept, inventory, metrics, points_per_s, report, revision, saved: Instant::now() }
    }

    /// Compares everything. The report in the store is that of the end, also after an error.
    ///
    /// # Errors
    /// [`UpkeepError`]; after `TakenOver` and `LeaseLost` the report is another gateway's.
    pub(crate) async fn run(mut self, now: impl Fn() -> f64) -> Result<ReconciliationReply, UpkeepError> {
        self.save().await?;
        let result = match self.compare_documents().await {
            Ok(()) => self.compare_points().await,
            failed => failed,
        };
        self.report.finished_at = Some(now());
        (self.report.status, self.report.error) = match &result {
            Ok(()) => (ReconciliationStatus::Completed, None),
            Err(error) => (ReconciliationStatus::Failed, Some(told(error))),
        };
        match result {
            Err(error @ (UpkeepError::TakenOver | UpkeepError::Store(weir_store::Error::LeaseLost))) => {
                Err(error)
            }
            result => {
                self.save().await?;
                result.map(|()| self.report)
            }
        }
    }

    async fn compare_documents(&mut self) -> Result<(), UpkeepError> {
        let mut after = String::new();
        loop {
            let started = Instant::now();
            let applied_seq = self.kept.engine().applied_seq();
            let page = self.kept.documents().versions_after(&after, DOCUMENTS_PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after.clone_from(&last.id);
            let is_last = page.len() < DOCUMENTS_PAGE;
            let ids = page.iter().map(|one| one.id.clone()).collect();
            let indexed = self.inventory.of(ids).await?;
            self.report.documents += page.len() as u64;
            let stored: Vec<_> = page.into_iter().map(|one| (one.id.clone(), Some(one))).collect();
            self.mend(differences(&stored, &indexed, applied_seq)).await?;
            self.pace(started, chunks_of(&indexed).max(stored.len() as u64)).await?;
            if is_last {
                return Ok(());
            }
        }
    }

    async fn compare_points(&mut self) -> Result<(), UpkeepError> {
        let mut from = None;
        loop {
            let started = Instant::now();
            let applied_seq = self.kept.engine().applied_seq();
            let page = self.inventory.page(from).await?;
            let count = chunks_of(&page.versions);
            self.report.points += count;
            let of_applied = page.versions.into_iter().filter(|one| one.version <= applied_seq);
            let ids: BTreeSet<String> = of_applied.map(|one| one.id).collect();
            let ids: Vec<String> = ids.into_iter().collect();
            let stored = self.kept.documents().versions(ids.clone()).await?;
            let absent = ids.into_iter().zip(stored).filter(|(_, stored)| stored.is_none());
            let suspects = absent.map(|(id, _)| Difference { id, is_deleted: true, ..Difference::default() });
            self.mend(suspects.collect()).await?;
            self.pace(started, count).await?;
            from = page.next;
            if from.is_none() {
                return Ok(());
            }
        }
    }

    /// Mends the documents that differ when they are looked at once more.
    async fn mend(&mut self, suspects: Vec<Difference>) -> Result<(), UpkeepError> {
        for some in suspects.chunks(MENDED_TOGETHER) {
            self.mend_some(some.iter().map(|one| one.id.clone()).collect()).await?;
        }
        Ok(())
    }

    async fn mend_some(&mut self, ids: Vec<String>) -> Result<(), UpkeepError> {
        let held = self.inventory.hold().await;
        let applied_seq = held.applied_seq();
        let stored = self.kept.documents().versions(ids.clone()).await?;
        let indexed = self.inventory.of(ids.clone()).await?;
        let stored: Vec<_> = ids.into_iter().zip(stored).collect();
        let found = differences(&stored, &indexed, applied_seq);
        if found.is_empty() {
            return Ok(());
        }
        let ids = found.iter().map(|one| one.id.clone()).collect();
        self.report.mended += self.kept.mend(ids, &held).await?;
        let count = |is_so: fn(&Difference) -> bool| found.iter().filter(|one| is_so(one)).count() as u64;
        let (deleted, lost) = (count(|one| one.is_deleted), count(|one| one.is_lost));
        let earlier = count(|one| one.is_earlier);
        self.report.deleted += deleted;
        self.report.lost += lost;
        self.report.earlier += earlier;
        for (reason, count) in [("deleted", deleted), ("lost", lost), ("earlier", earlier)] {
            self.metrics.reconciled(reason, count);
        }
        Ok(())
    }

    /// Waits as long as `points` have, from `started` on, and stores the progress.
    async fn pace(&mut self, started: Instant, points: u64) -> Result<(), UpkeepError> {
        if !self.kept.may_change(true) {
            return Err(UpkeepError::TakenOver);
        }
        if self.saved.elapsed() >= SAVE_EVERY {
            self.save().await?;
        }
        let due = Duration::from_secs_f64(points as f64 / self.points_per_s as f64);
        tokio::time::sleep(due.saturating_sub(started.elapsed())).await;
        Ok(())
    }

    async fn save(&mut self) -> Result<(), UpkeepError> {
        let state = serde_json::to_string(&self.report).unwrap_or_default();
        let store = self.kept.worker_store()?;
        let saved =
            store.replace_upkeep(self.kept.id(), UpkeepKind::Reconcile, self.revision, &state).await?;
        self.revision = saved.ok_or(UpkeepError::TakenOver)?;
        self.saved = Instant::now();
        Ok(())
    }
}

/// The message of an error for callers. The log has the addresses.
fn told(error: &UpkeepError) -> String {
    match error {
        UpkeepError::Index(IndexError::Unavailable { .. }) => {
            "the engine of the collection does not answer; it is tried again".to_owned()
        }
        UpkeepError::Index(_) => "the index failed; the log of the gateway has the reason".to_owned(),
        UpkeepError::Store(_) | UpkeepError::Prepare(_) | UpkeepError::TakenOver => error.to_string(),
    }
}

fn chunks_of(versions: &[IndexedVersion]) -> u64 {
    versions.iter().map(|one| one.chunks).sum()
}
