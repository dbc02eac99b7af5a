//! `POST /v1/search`.

use axum::extract::{Request, State};
use tokio::time::Instant;
use weir_api::SearchOrBatchReply;
use weir_retrieval::SearchContext;

use super::Gateway;
use super::body::{self, Json};
use super::error::ApiError;
use super::layers::RequestId;

/// Searches one collection, or answers several searches.
pub(super) async fn search(
    State(gateway): State<Gateway>,
    request: Request,
) -> Result<Json<SearchOrBatchReply>, ApiError> {
    let (caller, permit) = (body::caller(&request)?, body::search_permit(&request)?);
    let caching = body::caching(request.headers());
    let request_id = request.extensions().get::<RequestId>().map(|id| id.0.to_string());
    let bytes = body::read(&gateway, request).await?;
    let started = Instant::now();
    let request = weir_api::parse(&bytes)?;
    drop(bytes);
    let context = SearchContext { caller, caching, started, request_id };
    Ok(Json(gateway.retrieval.search(&permit, request, context).await?))
}
