//! The number of chunks in the cluster by document and version: read in pages, to be compared with the store.

use std::collections::BTreeMap;

use weir_qdrant::api::{Condition, PointId, ScrollPoints};
use weir_qdrant::{FoundPoint, version_of};

use tokio::sync::MutexGuard;

use super::QdrantEngine;
use super::conditions::of_documents;
use super::points::{DOCUMENT, VERSION};
use crate::{Change, Result};

/// Points that are read at once.
const PAGE: u32 = 1000;

/// Lists what an engine has. It changes nothing, and sees changes that are made meanwhile or not.
pub struct Inventory(QdrantEngine);

/// Keeps everybody else in this process from changing the engine, until it is dropped.
pub struct Held<'a> {
    engine: &'a QdrantEngine,
    _one_writer: MutexGuard<'a, ()>,
}

impl Held<'_> {
    /// The last operation that is applied, as long as no other process changes the engine.
    pub fn applied_seq(&self) -> u64 {
        self.engine.applied_seq()
    }

    /// Applies changes that are the effect of operations up to [`Held::applied_seq`].
    ///
    /// # Errors
    /// As [`Engine::apply`](crate::Engine::apply).
    pub async fn apply(&self, changes: Vec<Change>) -> Result<()> {
        Box::pin(self.engine.apply_held(changes, self.applied_seq(), None)).await
    }
}

/// A version of a document as an engine has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexedVersion {
    /// The document's id.
    pub id: String,
    /// The version.
    pub version: u64,
    /// Its chunks that were read.
    pub chunks: u64,
}

/// A page of the points, in the order of the engine.
#[derive(Debug)]
pub struct InventoryPage {
    /// The versions that were read. The chunks of a document may be on several pages.
    pub versions: Vec<IndexedVersion>,
    /// Where the next page begins; `None` after the last.
    pub next: Option<InventoryPlace>,
}

/// Where a page begins.
#[derive(Debug)]
pub struct InventoryPlace(PointId);

impl Inventory {
    pub(crate) fn new(engine: QdrantEngine) -> Inventory {
        Inventory(engine)
    }

    /// Waits until nothing is applied, and holds back what is to be applied next.
    pub async fn hold(&self) -> Held<'_> {
        Held { engine: &self.0, _one_writer: self.0.0.applying.lock().await }
    }

    /// A page of everything.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn page(&self, from: Option<InventoryPlace>) -> Result<InventoryPage> {
        let (points, next) = self.read(None, from.map(|place| place.0)).await?;
        Ok(InventoryPage { versions: counted(&points), next: next.map(InventoryPlace) })
    }

    /// Everything of these documents.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn of(&self, ids: Vec<String>) -> Result<Vec<IndexedVersion>> {
        let condition = of_documents(ids);
        let (mut versions, mut from) = (BTreeMap::new(), None);
        loop {
            let (points, next) = self.read(Some(condition.clone()), from).await?;
            for one in counted(&points) {
                *versions.entry((one.id, one.version)).or_default() += one.chunks;
            }
            from = next;
            if from.is_none() {
                return Ok(listed(versions));
            }
        }
    }

    async fn read(
        &self,
        condition: Option<Condition>,
        offset: Option<PointId>,
    ) -> Result<(Vec<FoundPoint>, Option<PointId>)> {
        let shared = &self.0.0;
        let request = ScrollPoints {
            collection_name: shared.alias.clone(),
            filter: Some(shared.filter(condition)),
            offset,
            limit: Some(PAGE),
            with_payload: Some(vec![DOCUMENT, VERSION].into()),
            ..Default::default()
        };
        Box::pin(shared.client.scroll(request)).await
    }
}

fn counted(points: &[FoundPoint]) -> Vec<IndexedVersion> {
    let mut versions = BTreeMap::new();
    for point in points {
        if let Some(id) = point.text(DOCUMENT) {
            *versions.entry((id.to_owned(), version_of(point))).or_default() += 1;
        }
    }
    listed(versions)
}

fn listed(versions: BTreeMap<(String, u64), u64>) -> Vec<IndexedVersion> {
    let one = |((id, version), chunks)| IndexedVersion { id, version, chunks };
    versions.into_iter().map(one).collect()
}
