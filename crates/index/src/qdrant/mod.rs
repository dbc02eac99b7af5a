//! The engine in a Qdrant cluster: for collections that are larger than one machine.
//!
//! Collections of one model share a Qdrant collection. Each generation of a collection is a tenant in it: every call names the tenant, and
//! every point that comes back is checked for it, for the filter and for removals that the cluster has not seen yet. A point for itself says
//! up to which operation the changes are applied.
//!
//! Differences from the embedded engine: a batch becomes visible document by document, not at once; a search that finds that a document
//! vanished between two of its calls is made again; lexical scores use a fixed mean length of chunks.

mod apply;
mod cluster;
mod conditions;
mod engines;
mod head;
mod inventory;
mod names;
mod points;
mod rarity;
mod retriever;
mod rows;
mod search;
mod sets;
mod statistics;
mod terms;
#[cfg(test)]
mod tests;
mod verify;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use weir_policy::Caller;
use weir_qdrant::api::{Condition, Filter};
use weir_qdrant::{Layout, PointsPerUnit};
use weir_query::Reading;
use weir_ranking::relevance::{HitFeatures, LearnedRelevance, LearnedSummary, ScoreBaseline};

use crate::embedded::{RecentQueries, lock};
use crate::restricted::RestrictedQuery;
use crate::{
    Change, ConsistencyReport, EngineSettings, HistoryPoint, IndexCounts, IndexError, IndexResult, Result,
    pipeline,
};
use cluster::Cluster;
use conditions::{Bound, first_chunks, of_tenant, older, translated};
use points::Tenant;
use rarity::KnownRarity;
use rows::ReadCache;
use search::QdrantSearch;
use statistics::Statistics;

pub use engines::{QdrantEngines, QdrantPlacement};
pub use inventory::{Held, IndexedVersion, Inventory, InventoryPage, InventoryPlace};

/// How often a search is made whose documents vanish between its calls.
const ATTEMPTS: usize = 16;
/// For how long the sizes are taken as they were counted.
const COUNTED_FOR: Duration = Duration::from_secs(5);

/// The engine of one generation of a collection. Clones share it. See [`crate::Engine`] for its functions.
#[derive(Clone)]
pub struct QdrantEngine(Arc<Shared>);

struct Shared {
    client: Cluster,
    /// The alias of the Qdrant collection.
    alias: String,
    layout: Layout,
    tenant: Tenant,
    settings: EngineSettings,
    state: Mutex<EngineState>,
    /// Held while changes are applied: one batch at a time.
    applying: tokio::sync::Mutex<()>,
    statistics: Statistics,
    points_per_unit: PointsPerUnit,
    cache: ReadCache,
    rarity: Mutex<KnownRarity>,
    learned: Mutex<Arc<LearnedRelevance>>,
    observed: Mutex<(RecentQueries, ScoreBaseline)>,
}

#[derive(Debug, Default)]
struct EngineState {
    applied_seq: u64,
    read_to: Option<HistoryPoint>,
    /// Documents whose removal was not applied yet, with its number.
    hidden: HashMap<String, u64>,
    /// The chunks that were counted last, and when.
    counted: Option<(Instant, u64)>,
    is_closed: bool,
    /// Whether there is nothing but what this process has applied. Otherwise points are removed before the first batch is applied.
    is_emptied: bool,
}

impl QdrantEngine {
    pub(crate) async fn remove_now(&self, document_id: &str, operation: u64) -> Result<bool> {
        {
            let mut state = lock(&self.0.state);
            if operation <= state.applied_seq {
                return Ok(false);
            }
            let latest = state.hidden.entry(document_id.to_owned()).or_insert(operation);
            *latest = operation.max(*latest);
        }
        let filter = self.0.filter([older(document_id, operation)]);
        let was_live = self.0.client.count(&self.0.alias, filter).await? > 0;
        if was_live {
            // for the searches of other gateways
            self.0.remove([(document_id.to_owned(), operation)].into()).await?;
        }
        Ok(was_live)
    }

    pub(crate) fn dimension(&self) -> usize {
        self.0.settings.dimension
    }

    pub(crate) async fn search(&self, query: RestrictedQuery) -> Result<IndexResult> {
        for _ in 1..ATTEMPTS {
            let search = QdrantSearch::new(&self.0, &query, query.query.trace.as_deref()).await?;
            match pipeline::search(&search, &query.query).await {
                Err(_) if search.has_changed() => {}
                result => return result,
            }
        }
        let search = QdrantSearch::new(&self.0, &query, query.query.trace.as_deref()).await?;
        pipeline::search(&search, &query.query).await
    }

    pub(crate) async fn features(
        &self,
        query: RestrictedQuery,
        document_id: &str,
    ) -> Result<Option<HitFeatures>> {
        let search = QdrantSearch::new(&self.0, &query, Some(document_id)).await?;
        pipeline::features(&search, &query.query).await
    }

    /// Operators are not supported: every query is a text.
    pub(crate) async fn read_query(&self, _: &Caller, text: &str) -> Result<Reading> {
        Ok(Reading::text(text))
    }

    pub(crate) fn set_learned_relevance(&self, learned: LearnedRelevance) {
        *lock(&self.0.learned) = Arc::new(learned);
    }

    pub(crate) fn learned_relevance(&self) -> (LearnedSummary, (f32, f32)) {
        (lock(&self.0.learned).summary(), lock(&self.0.observed).1.deviation_from_prior())
    }

    pub(crate) async fn reset_baseline(&self) -> Result<()> {
        *lock(&self.0.observed) = Default::default();
        Ok(())
    }

    pub(crate) fn applied_seq(&self) -> u64 {
        lock(&self.0.state).applied_seq
    }

    pub(crate) async fn read_to(&self) -> Result<Option<HistoryPoint>> {
        Ok(lock(&self.0.state).read_to)
    }

    pub(crate) async fn counts(&self) -> Result<IndexCounts> {
        self.counts_of(None).await
    }

    /// Of the documents that a filter certainly passes.
    pub(crate) async fn counts_of(&self, mandatory: Option<&weir_filter::Filter>) -> Result<IndexCounts> {
        let condition = mandatory.map(|filter| translated(filter, Bound::Lower)).transpose()?;
        let count = |filter| self.0.client.count(&self.0.alias, filter);
        let first = self.0.filter(condition.iter().cloned().chain([first_chunks()]));
        let (documents, chunks) = tokio::join!(count(first), count(self.0.filter(condition)));
        Ok(IndexCounts { documents: documents?, chunks: chunks?, deleted_chunks: 0, segments: 0 })
    }

    pub(crate) async fn disk_bytes(&self) -> Result<u64> {
        Ok(0)
    }

    pub(crate) async fn flush(&self) -> Result<()> {
        Ok(())
    }

    pub(crate) async fn ensure_open(&self) -> Result<()> {
        Ok(())
    }

    /// Checks that the cluster still has what was applied.
    pub(crate) async fn check_files(&self) -> Result<()> {
        let applied_seq = self.applied_seq();
        if applied_seq == 0 {
            return Ok(());
        }
        match self.0.current_head(applied_seq).await? {
            Some(head) if head.applied_seq >= applied_seq => Ok(()),
            Some(_) | None => self.discard().await,
        }
    }

    /// See [`crate::Engine::refresh`].
    pub(crate) async fn refresh(&self) -> Result<()> {
        let head = self.0.current_head(self.applied_seq()).await?;
        let (applied_seq, read_to) = head.map_or((0, None), |head| (head.applied_seq, head.read_to));
        let mut state = lock(&self.0.state);
        if applied_seq != state.applied_seq {
            (state.applied_seq, state.read_to, state.counted) = (applied_seq, read_to, None);
            state.hidden.retain(|_, removal| *removal > applied_seq);
            state.is_emptied = false;
        }
        Ok(())
    }

    pub(crate) async fn discard(&self) -> Result<()> {
        let _one_writer = self.0.applying.lock().await;
        self.0.remove_all().await?;
        match self.0.forget() {
            0 => Ok(()),
            _ => Err(self.0.lost()),
        }
    }

    pub(crate) async fn compact_if_due(&self, _: Duration) -> Result<bool> {
        Ok(false)
    }

    pub(crate) async fn close(&self) -> Result<()> {
        lock(&self.0.state).is_closed = true;
        Ok(())
    }

    pub(crate) async fn verify(&self) -> Result<ConsistencyReport> {
        self.0.verify().await
    }

    pub(crate) async fn apply(
        &self,
        changes: Vec<Change>,
        applied_seq: u64,
        read_to: Option<HistoryPoint>,
    ) -> Result<()> {
        let _one_writer = self.0.applying.lock().await;
        self.apply_held(changes, applied_seq, read_to).await
    }

    /// The same, for whoever holds `applying`.
    async fn apply_held(
        &self,
        changes: Vec<Change>,
        applied_seq: u64,
        read_to: Option<HistoryPoint>,
    ) -> Result<()> {
        changes.iter().try_for_each(|change| change.check(self.0.settings.dimension))?;
        self.0.apply(changes, applied_seq, read_to).await
    }
}

impl Shared {
    /// Takes it that there are no points; returns what was applied.
    fn forget(&self) -> u64 {
        let mut state = lock(&self.state);
        (state.read_to, state.counted, state.is_emptied) = (None, None, true);
        std::mem::take(&mut state.applied_seq)
    }

    fn lost(&self) -> IndexError {
        IndexError::Lost {
            folder: self.alias.clone().into(),
            reason: "its points are gone, or were removed".to_owned(),
        }
    }

    /// The points of the tenant that meet all conditions.
    fn filter(&self, conditions: impl IntoIterator<Item = Condition>) -> Filter {
        Filter::must(std::iter::once(of_tenant(&self.tenant.name)).chain(conditions))
    }

    /// The chunks of the collection, as they were counted lately.
    async fn live_chunks(&self) -> Result<u64> {
        if let Some((at, count)) = lock(&self.state).counted
            && at.elapsed() < COUNTED_FOR
        {
            return Ok(count);
        }
        let count = self.client.count(&self.alias, self.filter([])).await?;
        lock(&self.state).counted = Some((Instant::now(), count));
        Ok(count)
    }

    fn is_hidden(&self, document: &str) -> bool {
        lock(&self.state).hidden.contains_key(document)
    }
}
