//! The calls on points.

use std::collections::HashMap;

use qdrant_client::qdrant::facet_value::Variant;
use qdrant_client::qdrant::point_id::PointIdOptions;
use qdrant_client::qdrant::points_selector::PointsSelectorOneOf;
use qdrant_client::qdrant::value::Kind;
use qdrant_client::qdrant::vector_output::Vector;
use qdrant_client::qdrant::vectors_output::VectorsOptions;
use qdrant_client::qdrant::{
    CountPoints, DeletePoints, FacetCounts, FacetHit, Filter, GetPoints, PointId, PointStruct,
    PointsOperationResponse, PointsSelector, QueryBatchPoints, QueryPoints, ScrollPoints, UpdateStatus,
    UpsertPoints, Value, VectorsOutput, WithPayloadSelector, WithVectorsSelector, WriteOrdering,
    WriteOrderingType,
};

use crate::collection::{DENSE, SPARSE};
use crate::{Qdrant, QdrantError, Result};

/// Points of one change. A change of more is made in several calls.
pub const BATCH_POINTS_MAX: usize = 128;

/// Values that [`Qdrant::values`] returns.
pub const VALUES_MAX: u64 = 100_000;

/// A point that was found or read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoundPoint {
    /// Its id.
    pub id: String,
    /// Of a search; otherwise 0.
    pub score: f32,
    /// The fields that were asked for.
    pub payload: HashMap<String, Value>,
    /// The vector [`DENSE`], if it was asked for.
    pub dense: Option<Vec<f32>>,
    /// The vector [`SPARSE`], if it was asked for.
    pub sparse: Option<HashMap<u32, f32>>,
}

impl FoundPoint {
    /// A text of the payload.
    pub fn text(&self, field: &str) -> Option<&str> {
        match self.payload.get(field)?.kind.as_ref()? {
            Kind::StringValue(text) => Some(text),
            Kind::NullValue(_)
            | Kind::DoubleValue(_)
            | Kind::IntegerValue(_)
            | Kind::BoolValue(_)
            | Kind::StructValue(_)
            | Kind::ListValue(_) => None,
        }
    }

    /// An integer of the payload.
    pub fn integer(&self, field: &str) -> Option<i64> {
        match self.payload.get(field)?.kind.as_ref()? {
            Kind::IntegerValue(integer) => Some(*integer),
            Kind::NullValue(_)
            | Kind::DoubleValue(_)
            | Kind::StringValue(_)
            | Kind::BoolValue(_)
            | Kind::StructValue(_)
            | Kind::ListValue(_) => None,
        }
    }

    fn new(
        id: Option<PointId>,
        payload: HashMap<String, Value>,
        score: f32,
        vectors: Option<VectorsOutput>,
    ) -> FoundPoint {
        let id = match id.and_then(|id| id.point_id_options) {
            Some(PointIdOptions::Uuid(uuid)) => uuid,
            Some(PointIdOptions::Num(number)) => number.to_string(),
            None => String::new(),
        };
        let mut point = FoundPoint { id, score, payload, dense: None, sparse: None };
        if let Some(VectorsOptions::Vectors(mut named)) = vectors.and_then(|vectors| vectors.vectors_options)
        {
            // also from the fields of earlier versions
            let mut take = |name: &str| named.vectors.remove(name).map(|vector| vector.into_vector());
            if let Some(Vector::Dense(dense)) = take(DENSE) {
                point.dense = Some(dense.data);
            }
            if let Some(Vector::Sparse(sparse)) = take(SPARSE) {
                point.sparse = Some(sparse.indices.into_iter().zip(sparse.values).collect());
            }
        }
        point
    }
}

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
        let answer = self
            .read(CALL, request, |node, request| {
                let mut points = node.points();
                async move { points.query_batch(request).await }
            })
            .await?;
        if answer.result.len() != count {
            return Err(QdrantError::Malformed { call: CALL, what: "result for each query" });
        }
        let of_one = |result: qdrant_client::qdrant::BatchResult| {
            let points = result.result.into_iter();
            points.map(|one| FoundPoint::new(one.id, one.payload, one.score, one.vectors)).collect()
        };
        Ok(answer.result.into_iter().map(of_one).collect())
    }

    /// A page of points in the order of their ids, and where the next begins.
    ///
    /// # Errors
    /// Those of calls.
    pub async fn scroll(&self, request: ScrollPoints) -> Result<(Vec<FoundPoint>, Option<PointId>)> {
        let answer = self
            .read("scroll", request, |node, request| {
                let mut points = node.points();
                async move { points.scroll(request).await }
            })
            .await?;
        let points = answer.result.into_iter();
        let points = points.map(|one| FoundPoint::new(one.id, one.payload, 0.0, one.vectors)).collect();
        Ok((points, answer.next_page_offset))
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
        ids: Vec<String>,
        with_payload: WithPayloadSelector,
        with_vectors: WithVectorsSelector,
    ) -> Result<Vec<FoundPoint>> {
        let request = GetPoints {
            collection_name: collection.to_owned(),
            ids: ids.into_iter().map(PointId::from).collect(),
            with_payload: Some(with_payload),
            with_vectors: Some(with_vectors),
            ..Default::default()
        };
        let answer = self
            .read("get", request, |node, request| {
                let mut points = node.points();
                async move { points.get(request).await }
            })
            .await?;
        let points = answer.result.into_iter();
        Ok(points.map(|one| FoundPoint::new(one.id, one.payload, 0.0, one.vectors)).collect())
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
        let send = |node: &crate::node::Node, request| {
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
        let send = |node: &crate::node::Node, request| {
            let mut points = node.points();
            async move { points.delete(request).await }
        };
        self.write("delete", request, send, incomplete).await.map(drop)
    }
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
