//! The calls on points.

use bytes::Bytes;
use qdrant_client::qdrant::facet_value::Variant;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::{
    CountPoints, DeletePoints, FacetCounts, FacetHit, Filter, GetPoints, PointId, PointStruct,
    PointsOperationResponse, PointsSelector, QueryBatchPoints, QueryPoints, ScrollPoints, UpdateStatus,
    UpsertPoints, WithPayloadSelector, WithVectorsSelector, WriteOrdering, WriteOrderingType,
};
use uuid::Uuid;

use crate::node::Node;
use crate::replies::{FoundPoint, GetReply, QueryBatchReply, ScrollReply};
use crate::{Qdrant, QdrantError, Result};

/// Points of one change. A change of more is made in several calls.
pub const BATCH_POINTS_MAX: usize = 128;

/// Values that [`Qdrant::values`] returns.
pub const VALUES_MAX: u64 = 100_000;

impl Qdrant {
    /// Answers several queries at once, in their order.
    ///
    /// # Errors
    /// Those of calls.
    pub async fn query(&self, collection: &str, queries: Vec<QueryPoints>) -> Result<Vec<Vec<FoundPoint>>> {
        const CALL: &str = "query";
        let count = queries.len();
        let query_points = queries
            .into_iter()
            .map(|query| QueryPoints { collection_name: collection.to_owned(), ..query })
            .collect();
        let request =
            QueryBatchPoints { collection_name: collection.to_owned(), query_points, ..Default::default() };
        let send =
            |node: &Node, request| node.unary::<_, QueryBatchReply>("/qdrant.Points/QueryBatch", request);
        let answer = self.read(CALL, request, send).await?;
        if answer.results.len() != count {
            return Err(QdrantError::Malformed { call: CALL, what: "result for each query" });
        }
        answer.results.into_iter().map(|result| found(CALL, result.points, FoundPoint::scored)).collect()
    }

    /// A page of points in the order of their ids, and where the next begins.
    ///
    /// # Errors
    /// Those of calls.
    pub async fn scroll(&self, request: ScrollPoints) -> Result<(Vec<FoundPoint>, Option<PointId>)> {
        const CALL: &str = "scroll";
        let send = |node: &Node, request| node.unary::<_, ScrollReply>("/qdrant.Points/Scroll", request);
        let answer = self.read(CALL, request, send).await?;
        Ok((found(CALL, answer.points, FoundPoint::read)?, answer.next_page_offset))
    }

    /// The exact number of points that pass a filter.
    ///
    /// # Errors
    /// Those of calls.
    pub async fn count(&self, collection: &str, filter: Filter) -> Result<u64> {
        const CALL: &str = "count";
        let request = CountPoints {
            collection_name: collection.to_owned(),
            filter: Some(filter),
            exact: Some(true),
            ..Default::default()
        };
        let answer = self
            .read(CALL, request, |node, request| {
                let mut points = node.points();
                async move { points.count(request).await }
            })
            .await?;
        let result = answer.result.ok_or(QdrantError::Malformed { call: CALL, what: "result" })?;
        Ok(result.count)
    }

    /// The values that an indexed field of payloads has in the points that pass a filter; at most [`VALUES_MAX`].
    ///
    /// # Errors
    /// Those of calls.
    pub async fn values(&self, collection: &str, field: &str, filter: Option<Filter>) -> Result<Vec<String>> {
        let request = FacetCounts {
            collection_name: collection.to_owned(),
            key: field.to_owned(),
            filter,
            limit: Some(VALUES_MAX),
            exact: Some(true),
            ..Default::default()
        };
        let answer = self
            .read("facet", request, |node, request| {
                let mut points = node.points();
                async move { points.facet(request).await }
            })
            .await?;
        let text = |hit: FacetHit| match hit.value?.variant? {
            Variant::StringValue(text) => Some(text),
            Variant::IntegerValue(_) | Variant::BoolValue(_) => None,
        };
        Ok(answer.hits.into_iter().filter_map(text).collect())
    }

    /// The points of these ids that exist, in no particular order.
    ///
    /// # Errors
    /// Those of calls.
    pub async fn get(
        &self,
        collection: &str,
        ids: Vec<Uuid>,
        with_payload: WithPayloadSelector,
        with_vectors: WithVectorsSelector,
    ) -> Result<Vec<FoundPoint>> {
        const CALL: &str = "get";
        let request = GetPoints {
            collection_name: collection.to_owned(),
            ids: ids.into_iter().map(|id| PointId::from(id.to_string())).collect(),
            with_payload: Some(with_payload),
            with_vectors: Some(with_vectors),
            ..Default::default()
        };
        let send = |node: &Node, request| node.unary::<_, GetReply>("/qdrant.Points/Get", request);
        let answer = self.read(CALL, request, send).await?;
        found(CALL, answer.points, FoundPoint::read)
    }

    /// Adds points, and replaces those of the same ids that pass `replaced`. Returns when they can be found.
    ///
    /// # Errors
    /// Those of calls. Some of the points may be stored then.
    pub async fn upsert(
        &self,
        collection: &str,
        points: Vec<PointStruct>,
        replaced: Option<Filter>,
        ordering: WriteOrderingType,
    ) -> Result<()> {
        let request = UpsertPoints {
            collection_name: collection.to_owned(),
            wait: Some(true),
            points,
            ordering: Some(WriteOrdering { r#type: ordering.into() }),
            update_filter: replaced,
            ..Default::default()
        };
        let send = |node: &Node, request| {
            let mut points = node.points();
            async move { points.upsert(request).await }
        };
        self.write("upsert", request, send, incomplete).await.map(drop)
    }

    /// Deletes the points that pass a filter. Returns when they are not found any more.
    ///
    /// # Errors
    /// Those of calls. Some of the points may be deleted then.
    pub async fn delete(&self, collection: &str, filter: Filter, ordering: WriteOrderingType) -> Result<()> {
        let selector = PointsSelector { points_selector_one_of: Some(PointsSelectorOneOf::Filter(filter)) };
        let request = DeletePoints {
            collection_name: collection.to_owned(),
            wait: Some(true),
            points: Some(selector),
            ordering: Some(WriteOrdering { r#type: ordering.into() }),
            ..Default::default()
        };
        let send = |node: &Node, request| {
            let mut points = node.points();
            async move { points.delete(request).await }
        };
        self.write("delete", request, send, incomplete).await.map(drop)
    }
}

/// The points of a reply.
fn found(
    call: &'static str,
    points: Vec<Bytes>,
    read: impl Fn(Bytes) -> Option<FoundPoint>,
) -> Result<Vec<FoundPoint>> {
    let points: Option<Vec<FoundPoint>> = points.into_iter().map(read).collect();
    points.ok_or(QdrantError::Malformed { call, what: "point that can be read" })
}

/// Why a change is not done: every status but `Completed`.
fn incomplete(answer: &PointsOperationResponse) -> Option<String> {
    let Some(result) = &answer.result else { return Some("a reply without a result".to_owned()) };
    match UpdateStatus::try_from(result.status) {
        Ok(UpdateStatus::Completed) => None,
        Ok(status) => Some(format!("the change is {}, not Completed", status.as_str_name())),
        Err(_) => Some(format!("the change has the unknown status {}", result.status)),
    }
}
