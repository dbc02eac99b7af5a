//! The calls on points.

use std::collections::BTreeMap;

use qdrant_client::qdrant::points_server::Points;
use qdrant_client::qdrant::{
    BatchResult, CountPoints, CountResponse, CountResult, CreateFieldIndexCollection, DeletePoints,
    FacetCounts, FacetResponse, GetPoints, GetResponse, PointsOperationResponse, QueryBatchPoints,
    QueryBatchResponse, QueryPoints, QueryResponse, RetrievedPoint, ScrollPoints, ScrollResponse,
    UpdateResult, UpdateStatus, UpsertPoints,
};
use tonic::{Request, Status};

use super::{Answer, Recorded, Service, not_implemented};
use crate::ranking::retrieved;
use crate::state::{id_of, point_id};

/// Qdrant's default.
const SCROLL_LIMIT: u32 = 10;

fn changed(status: UpdateStatus) -> PointsOperationResponse {
    let result = UpdateResult { operation_id: Some(0), status: status.into() };
    PointsOperationResponse { result: Some(result), ..Default::default() }
}

/// Without `wait` a change is in the log alone when it is answered.
fn status_for(wait: Option<bool>) -> impl Fn(UpdateStatus) -> PointsOperationResponse {
    move |status| match (wait, status) {
        (Some(true), status) => changed(status),
        (Some(false) | None, _) => changed(UpdateStatus::Acknowledged),
    }
}

#[tonic::async_trait]
impl Points for Service {
    async fn upsert(&self, request: Request<UpsertPoints>) -> Answer<PointsOperationResponse> {
        let recorded = Recorded::Upsert(request.get_ref().clone());
        let status = status_for(request.get_ref().wait);
        self.write(
            "upsert",
            request,
            recorded,
            |state, request| state.collection_mut(&request.collection_name)?.upsert(request),
            status,
        )
        .await
    }

    async fn delete(&self, request: Request<DeletePoints>) -> Answer<PointsOperationResponse> {
        let recorded = Recorded::Delete(request.get_ref().clone());
        let status = status_for(request.get_ref().wait);
        self.write(
            "delete",
            request,
            recorded,
            |state, request| state.collection_mut(&request.collection_name)?.delete(request),
            status,
        )
        .await
    }

    async fn get(&self, request: Request<GetPoints>) -> Answer<GetResponse> {
        let recorded = Recorded::Get(request.get_ref().clone());
        self.read("get", request, recorded, |state, request| {
            let collection = state.collection(&request.collection_name)?;
            let ids = request.ids.iter().map(id_of).collect::<Result<Vec<_>, _>>()?;
            let (payload, vectors) = (request.with_payload.as_ref(), request.with_vectors.as_ref());
            let found = ids.iter().filter_map(|id| Some((id, collection.points.get(id)?)));
            // each point once, in no promised order
            let found: BTreeMap<_, _> = found.collect();
            let result: Vec<RetrievedPoint> =
                found.into_iter().map(|(id, point)| retrieved(id, point, payload, vectors)).collect();
            Ok(GetResponse { result, ..Default::default() })
        })
        .await
    }

    async fn create_field_index(
        &self,
        request: Request<CreateFieldIndexCollection>,
    ) -> Answer<PointsOperationResponse> {
        let status = status_for(request.get_ref().wait);
        self.write(
            "create_field_index",
            request,
            Recorded::Other("create_field_index"),
            |state, request| {
                let collection = state.collection_mut(&request.collection_name)?;
                collection.create_index(request.field_name.clone(), request.field_index_params.clone());
                Ok(())
            },
            status,
        )
        .await
    }

    async fn scroll(&self, request: Request<ScrollPoints>) -> Answer<ScrollResponse> {
        let recorded = Recorded::Scroll(request.get_ref().clone());
        self.read("scroll", request, recorded, |state, request| {
            let collection = state.collection(&request.collection_name)?;
            let from = request.offset.as_ref().map(id_of).transpose()?;
            let limit = request.limit.unwrap_or(SCROLL_LIMIT) as usize;
            let mut ids = collection.passing(request.filter.as_ref())?;
            ids.retain(|id| from.as_ref().is_none_or(|from| id >= from));
            let next_page_offset = match &request.order_by {
                Some(order) => {
                    collection.order(&mut ids, order)?;
                    None
                }
                None => ids.get(limit).map(|id| point_id(id)),
            };
            ids.truncate(limit);
            let (payload, vectors) = (request.with_payload.as_ref(), request.with_vectors.as_ref());
            let result = ids.iter().map(|id| retrieved(id, &collection.points[id], payload, vectors));
            Ok(ScrollResponse { next_page_offset, result: result.collect(), ..Default::default() })
        })
        .await
    }

    async fn count(&self, request: Request<CountPoints>) -> Answer<CountResponse> {
        let recorded = Recorded::Count(request.get_ref().clone());
        self.read("count", request, recorded, |state, request| {
            let collection = state.collection(&request.collection_name)?;
            let count = collection.count(request.filter.as_ref())?;
            Ok(CountResponse { result: Some(CountResult { count }), ..Default::default() })
        })
        .await
    }

    async fn facet(&self, request: Request<FacetCounts>) -> Answer<FacetResponse> {
        self.read("facet", request, Recorded::Other("facet"), |state, request| {
            let hits = state.collection(&request.collection_name)?.facet(request)?;
            Ok(FacetResponse { hits, ..Default::default() })
        })
        .await
    }

    async fn query(&self, request: Request<QueryPoints>) -> Answer<QueryResponse> {
        self.read("query", request, Recorded::Other("query"), |state, request| {
            let result = state.collection(&request.collection_name)?.query(request)?;
            Ok(QueryResponse { result, ..Default::default() })
        })
        .await
    }

    async fn query_batch(&self, request: Request<QueryBatchPoints>) -> Answer<QueryBatchResponse> {
        let recorded = Recorded::QueryBatch(request.get_ref().clone());
        self.read("query_batch", request, recorded, |state, request| {
            let collection = state.collection(&request.collection_name)?;
            let answer = |query: &QueryPoints| Ok(BatchResult { result: collection.query(query)? });
            let result = request.query_points.iter().map(answer).collect::<Result<_, Status>>()?;
            Ok(QueryBatchResponse { result, ..Default::default() })
        })
        .await
    }

    not_implemented! {
        update_vectors(UpdatePointVectors) -> PointsOperationResponse;
        delete_vectors(DeletePointVectors) -> PointsOperationResponse;
        set_payload(SetPayloadPoints) -> PointsOperationResponse;
        overwrite_payload(SetPayloadPoints) -> PointsOperationResponse;
        delete_payload(DeletePayloadPoints) -> PointsOperationResponse;
        clear_payload(ClearPayloadPoints) -> PointsOperationResponse;
        delete_field_index(DeleteFieldIndexCollection) -> PointsOperationResponse;
        create_vector_name(CreateVectorNameRequest) -> PointsOperationResponse;
        delete_vector_name(DeleteVectorNameRequest) -> PointsOperationResponse;
        search(SearchPoints) -> SearchResponse;
        search_batch(SearchBatchPoints) -> SearchBatchResponse;
        search_groups(SearchPointGroups) -> SearchGroupsResponse;
        recommend(RecommendPoints) -> RecommendResponse;
        recommend_batch(RecommendBatchPoints) -> RecommendBatchResponse;
        recommend_groups(RecommendPointGroups) -> RecommendGroupsResponse;
        discover(DiscoverPoints) -> DiscoverResponse;
        discover_batch(DiscoverBatchPoints) -> DiscoverBatchResponse;
        update_batch(UpdateBatchPoints) -> UpdateBatchResponse;
        query_groups(QueryPointGroups) -> QueryGroupsResponse;
        search_matrix_pairs(SearchMatrixPoints) -> SearchMatrixPairsResponse;
        search_matrix_offsets(SearchMatrixPoints) -> SearchMatrixOffsetsResponse;
    }
}
