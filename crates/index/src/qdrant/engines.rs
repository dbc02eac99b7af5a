//! Opens and deletes engines of a cluster.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use weir_qdrant::api::{Condition, Filter, WriteOrderingType};
use weir_qdrant::{Layout, Qdrant, TENANT, digest};

use super::cluster::Cluster;
use super::points::{OWNER, Tenant};
use super::statistics::Statistics;
use super::{QdrantEngine, Shared, State};
use crate::embedded::lock;
use crate::{CpuLimiter, EngineId, EngineSettings, IndexError, RebuildReason, Result};

/// Where collections are placed in a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QdrantPlacement {
    /// What the aliases of Qdrant collections begin with.
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
    /// Aliases whose collections were checked.
    checked: Arc<Mutex<HashSet<String>>>,
    limiter: CpuLimiter,
}

impl QdrantEngines {
    /// Engines in a cluster, which [`Qdrant::check`] has found usable.
    pub fn new(client: Qdrant, placement: QdrantPlacement, limiter: CpuLimiter) -> QdrantEngines {
        QdrantEngines {
            client: Cluster::new(client),
            placement: Arc::new(placement),
            checked: Arc::default(),
            limiter,
        }
    }

    pub(crate) fn limiter(&self) -> &CpuLimiter {
        &self.limiter
    }

    /// See [`crate::Engines::open`].
    pub(crate) async fn open(
        &self,
        id: EngineId,
        settings: EngineSettings,
        store_last_operation: u64,
    ) -> Result<(QdrantEngine, Option<RebuildReason>)> {
        let layout = self.layout(&settings);
        if !lock(&self.checked).contains(&layout.alias) {
            self.client.ensure(&layout).await?;
            lock(&self.checked).insert(layout.alias.clone());
        }
        let shared = Shared {
            client: self.client.clone(),
            alias: layout.alias,
            tenant: self.tenant(id),
            settings,
            state: Mutex::default(),
            applying: tokio::sync::Mutex::default(),
            statistics: Statistics::default(),
            learned: Mutex::default(),
            observed: Mutex::default(),
        };
        let rebuilt = match shared.read_head().await? {
            None => Some(RebuildReason::Missing),
            Some(head) => match head.unfit(&shared.settings) {
                Some(reason) => Some(reason),
                None if head.applied_seq > store_last_operation => {
                    let (applied_seq, store) = (head.applied_seq, store_last_operation);
                    return Err(IndexError::AheadOfStore { applied_seq, store });
                }
                None => {
                    let (applied_seq, read_to) = (head.applied_seq, head.read_to);
                    *lock(&shared.state) = State { applied_seq, read_to, ..State::default() };
                    None
                }
            },
        };
        if rebuilt.is_some() {
            // also what a first batch has left that did not end
            shared.remove_all().await?;
        }
        Ok((QdrantEngine(Arc::new(shared)), rebuilt))
    }

    pub(crate) async fn delete(&self, id: EngineId) -> Result<()> {
        let tenant = self.tenant(id).name;
        let tenants = vec![format!("{tenant}/head"), tenant];
        self.delete_where(Condition::matches(TENANT, tenants)).await
    }

    pub(crate) async fn delete_collection(&self, collection: i64) -> Result<()> {
        let owner = self.tenant(EngineId { collection, generation: 0 }).owner;
        self.delete_where(Condition::matches(OWNER, owner)).await
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
