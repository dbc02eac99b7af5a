//! Opens and deletes engines of a cluster.

use std::collections::{BTreeSet, HashSet};
use std::sync::{Arc, Mutex};

use weir_qdrant::api::{Condition, Filter, WriteOrderingType};
use weir_qdrant::{Layout, PointsPerUnit, Qdrant, TENANT, digest, has_any_text, has_text};

use super::cluster::Cluster;
use super::head::HEAD;
use super::points::{OWNER, Tenant};
use super::rows::ReadCache;
use super::statistics::Statistics;
use super::{EngineState, QdrantEngine, Shared};
use crate::embedded::lock;
use crate::{EngineId, EngineKind, EngineSettings, IndexError, RebuildReason, Result};

/// Where collections are placed in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QdrantPlacement {
    /// The prefix of the aliases of Qdrant collections.
    pub prefix: String,
    /// The id of the service, so that two services in one cluster share no collection.
    pub service: String,
    /// Shards of a new Qdrant collection.
    pub shards: u32,
    /// Copies of each shard.
    pub copies: u32,
    /// Copies that must have taken a change before it is acknowledged.
    pub copies_written: u32,
}

/// The engines of a process in one cluster. Clones share them.
#[derive(Clone)]
pub struct QdrantEngines {
    client: Cluster,
    placement: Arc<QdrantPlacement>,
    cache: ReadCache,
    /// Aliases whose collections were checked.
    checked: Arc<Mutex<HashSet<String>>>,
}

impl QdrantEngines {
    /// Engines in a cluster, which [`Qdrant::check`] has found usable. They keep `cache_bytes_max` bytes of what searches read.
    pub fn new(client: Qdrant, placement: QdrantPlacement, cache_bytes_max: usize) -> QdrantEngines {
        QdrantEngines {
            client: Cluster::new(client),
            placement: Arc::new(placement),
            cache: ReadCache::new(cache_bytes_max),
            checked: Arc::default(),
        }
    }

    /// See [`crate::Engines::nodes`].
    pub(crate) fn nodes(&self) -> (usize, usize) {
        self.client.nodes()
    }

    /// Bytes of what is kept of points, and their bound.
    pub(crate) fn cache_bytes(&self) -> [usize; 2] {
        self.cache.bytes()
    }

    /// See [`crate::Engines::check_shared`].
    pub(crate) async fn check(&self) -> Result<()> {
        self.client.check().await
    }

    /// See [`crate::Engines::open`].
    pub(crate) async fn open(
        &self,
        id: EngineId,
        settings: EngineSettings,
        store_last_operation: u64,
    ) -> Result<(QdrantEngine, Option<RebuildReason>)> {
        let layout = self.layout(&settings);
        self.ensure(&layout).await?;
        let shared = Shared {
            client: self.client.clone(),
            alias: layout.alias.clone(),
            layout,
            tenant: self.tenant(id),
            settings,
            state: Mutex::default(),
            applying: tokio::sync::Mutex::default(),
            statistics: Statistics::default(),
            points_per_unit: PointsPerUnit::default(),
            cache: self.cache.clone(),
            rarity: Mutex::default(),
            learned: Mutex::default(),
            observed: Mutex::default(),
        };
        // what can't be used is removed before the first batch is applied: another gateway may be about to fill it
        let rebuilt = match shared.read_head().await? {
            None => Some(RebuildReason::Missing),
            Some(head) => match head.unfit(&shared.settings)? {
                Some(reason) => Some(reason),
                None if head.applied_seq > store_last_operation => {
                    let (applied_seq, store) = (head.applied_seq, store_last_operation);
                    return Err(IndexError::AheadOfStore { applied_seq, store });
                }
                None => {
                    let (applied_seq, read_to) = (head.applied_seq, head.read_to);
                    *lock(&shared.state) = EngineState { applied_seq, read_to, ..EngineState::default() };
                    None
                }
            },
        };
        Ok((QdrantEngine(Arc::new(shared)), rebuilt))
    }

    /// See [`crate::Engines::prepare`].
    pub(crate) async fn prepare(&self, settings: &EngineSettings) -> Result<()> {
        self.client.check().await?;
        self.ensure(&self.layout(settings)).await
    }

    async fn ensure(&self, layout: &Layout) -> Result<()> {
        if !lock(&self.checked).contains(&layout.alias) {
            self.client.ensure(layout).await?;
            lock(&self.checked).insert(layout.alias.clone());
        }
        Ok(())
    }

    /// The generations of a collection of which there are points, the latest first.
    pub(crate) async fn generations(&self, collection: i64) -> Result<Vec<i64>> {
        let owner = self.tenant(EngineId { kind: EngineKind::Qdrant, collection, generation: 0 }).owner;
        let filter = Filter::must([has_text(OWNER, &*owner)]);
        let tenants = self.values_of(TENANT, Some(filter)).await?;
        let number = |tenant: &String| {
            let generation = tenant.strip_prefix(&owner)?.strip_prefix('/')?;
            generation.strip_suffix(HEAD).unwrap_or(generation).parse().ok()
        };
        let mut generations: Vec<i64> = tenants.iter().filter_map(number).collect();
        generations.sort_unstable_by(|a, b| b.cmp(a));
        generations.dedup();
        Ok(generations)
    }

    /// The collections of the service of which there are points.
    pub(crate) async fn collections(&self) -> Result<Vec<i64>> {
        let owners = self.values_of(OWNER, None).await?;
        let number =
            |owner: &String| owner.strip_prefix(&self.placement.service)?.strip_prefix('/')?.parse().ok();
        Ok(owners.iter().filter_map(number).collect())
    }

    /// The values of an indexed field in all Qdrant collections.
    async fn values_of(&self, field: &str, filter: Option<Filter>) -> Result<BTreeSet<String>> {
        let mut values = BTreeSet::new();
        for alias in self.client.aliases(&format!("{}-", self.placement.prefix)).await? {
            values.extend(self.client.values(&alias, field, filter.clone()).await?);
        }
        Ok(values)
    }

    pub(crate) async fn delete(&self, id: EngineId) -> Result<()> {
        let tenant = self.tenant(id).name;
        let tenants = vec![format!("{tenant}{HEAD}"), tenant];
        self.delete_where(has_any_text(TENANT, tenants)).await
    }

    pub(crate) async fn delete_collection(&self, collection: i64) -> Result<()> {
        let owner = self.tenant(EngineId { kind: EngineKind::Qdrant, collection, generation: 0 }).owner;
        self.delete_where(has_text(OWNER, owner)).await
    }

    /// Deletes points wherever they are: generations of a collection can have different models.
    async fn delete_where(&self, condition: Condition) -> Result<()> {
        let filter = Filter::must([condition]);
        for alias in self.client.aliases(&format!("{}-", self.placement.prefix)).await? {
            self.client.delete(&alias, filter.clone(), WriteOrderingType::Strong).await?;
        }
        Ok(())
    }

    fn tenant(&self, id: EngineId) -> Tenant {
        let owner = format!("{}/{}", self.placement.service, id.collection);
        Tenant { name: format!("{owner}/{}", id.generation), owner }
    }

    fn layout(&self, settings: &EngineSettings) -> Layout {
        let QdrantPlacement { prefix, shards, copies, copies_written, .. } = &*self.placement;
        let alias = match settings.dimension {
            0 => format!("{prefix}-text"),
            dimension => format!("{prefix}-{dimension}-{}", digest(&settings.fingerprint)),
        };
        Layout {
            alias,
            dimension: settings.dimension as u64,
            shards: *shards,
            copies: *copies,
            copies_written: *copies_written,
        }
    }
}
