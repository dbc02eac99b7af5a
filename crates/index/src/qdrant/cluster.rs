//! The calls of the cluster, with the errors of engines.

use std::time::Duration;

use weir_qdrant::api::{
    Filter, PointId, PointStruct, QueryPoints, ScrollPoints, WithPayloadSelector, WithVectorsSelector,
    WriteOrderingType,
};
use weir_qdrant::{FoundPoint, Layout, Qdrant, QdrantError, SetupError, Uuid};

use crate::{IndexError, Result};

/// See the functions of [`Qdrant`].
#[derive(Clone)]
pub(super) struct Cluster(Qdrant);

impl Cluster {
    pub(super) fn new(client: Qdrant) -> Cluster {
        Cluster(client)
    }

    pub(super) fn nodes(&self) -> (usize, usize) {
        self.0.nodes()
    }

    /// Asks each node; those that don't answer are missing only.
    pub(super) async fn check(&self) -> Result<()> {
        self.0.check().await.map(drop).map_err(of_setup)
    }

    pub(super) async fn values(
        &self,
        collection: &str,
        field: &str,
        filter: Option<Filter>,
    ) -> Result<Vec<String>> {
        self.0.values(collection, field, filter).await.map_err(of_call)
    }

    pub(super) async fn ensure(&self, layout: &Layout) -> Result<()> {
        self.0.ensure(layout).await.map_err(of_setup)
    }

    pub(super) async fn aliases(&self, prefix: &str) -> Result<Vec<String>> {
        self.0.aliases(prefix).await.map_err(of_call)
    }

    pub(super) async fn query(
        &self,
        collection: &str,
        queries: Vec<QueryPoints>,
    ) -> Result<Vec<Vec<FoundPoint>>> {
        self.0.query(collection, queries).await.map_err(of_call)
    }

    pub(super) async fn scroll(&self, request: ScrollPoints) -> Result<(Vec<FoundPoint>, Option<PointId>)> {
        self.0.scroll(request).await.map_err(of_call)
    }

    pub(super) async fn count(&self, collection: &str, filter: Filter) -> Result<u64> {
        self.0.count(collection, filter).await.map_err(of_call)
    }

    pub(super) async fn get(
        &self,
        collection: &str,
        ids: Vec<Uuid>,
        with_payload: WithPayloadSelector,
        with_vectors: WithVectorsSelector,
    ) -> Result<Vec<FoundPoint>> {
        self.0.get(collection, ids, with_payload, with_vectors).await.map_err(of_call)
    }

    /// The same; `None` if there is no such collection.
    pub(super) async fn get_if_there(&self, collection: &str, id: Uuid) -> Result<Option<Vec<FoundPoint>>> {
        match self.0.get(collection, vec![id], true.into(), false.into()).await {
            Err(error) if error.is_not_found() => Ok(None),
            points => points.map(Some).map_err(of_call),
        }
    }

    pub(super) async fn upsert(
        &self,
        collection: &str,
        points: Vec<PointStruct>,
        replaced: Option<Filter>,
        ordering: WriteOrderingType,
    ) -> Result<()> {
        self.0.upsert(collection, points, replaced, ordering).await.map_err(of_call)
    }

    pub(super) async fn delete(
        &self,
        collection: &str,
        filter: Filter,
        ordering: WriteOrderingType,
    ) -> Result<()> {
        self.0.delete(collection, filter, ordering).await.map_err(of_call)
    }
}

/// When to try again, where no node has said so.
const RETRY_AFTER: Duration = Duration::from_secs(1);

fn of_call(error: QdrantError) -> IndexError {
    let reason = error.to_string();
    match error {
        // it is made again at the next look at the index
        error if error.is_not_found() => IndexError::Unavailable { reason, retry_after: RETRY_AFTER },
        error if error.is_too_large() => IndexError::NotSupported {
            feature: "results whose fields fill more than 64 MiB",
            remedy: "filter more narrowly, or ask for fewer",
        },
        QdrantError::Unavailable { retry_after, .. } => IndexError::Unavailable { reason, retry_after },
        QdrantError::Refused { .. } | QdrantError::Malformed { .. } => IndexError::Engine { reason },
    }
}

fn of_setup(error: SetupError) -> IndexError {
    match error {
        SetupError::Call(error) => of_call(error),
        SetupError::Unreachable { reason } => IndexError::Unavailable { reason, retry_after: RETRY_AFTER },
        SetupError::NoNodes
        | SetupError::Address { .. }
        | SetupError::Authorities(_)
        | SetupError::KeyForm
        | SetupError::KeyRefused { .. }
        | SetupError::Version { .. }
        | SetupError::AliasElsewhere { .. }
        | SetupError::Different { .. } => IndexError::Engine { reason: error.to_string() },
    }
}
