//! `/v1/collections`: handlers.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use weir_api::{CollectionReply, CollectionSettings, DeletedReply, List};

use super::Gateway;
use super::body::{self, CallerOf, Json, Segments};
use super::error::ApiError;

/// All collections, by name.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
) -> Result<Json<List<CollectionReply>>, ApiError> {
    Ok(Json(gateway.retrieval.collection_list(&caller).await?))
}

/// One collection.
pub(super) async fn get(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
) -> Result<Json<CollectionReply>, ApiError> {
    Ok(Json(gateway.retrieval.collection(&caller, &name).await?))
}

/// Creates a collection; the same settings again answer 200, others 409.
pub(super) async fn put(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
    request: Request,
) -> Result<Response, ApiError> {
    let bytes = body::read(&gateway, request).await?;
    // a PUT without a body means the defaults
    let body: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    let settings: CollectionSettings = weir_api::parse(body)?;
    let (reply, created) = gateway.retrieval.put_collection(&caller, &name, &settings).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(reply)).into_response())
}

/// Deletes a collection and everything in it.
pub(super) async fn delete(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
) -> Result<Json<DeletedReply>, ApiError> {
    Ok(Json(gateway.retrieval.delete_collection(&caller, &name).await?))
}
