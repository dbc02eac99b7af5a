//! `/v1/collections`: handlers.

use axum::extract::{RawQuery, Request};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use weir_api::{CollectionReply, CollectionSettings, DeletedReply, List, ReconciliationReply};
use weir_retrieval::Reindexing;

use super::access;
use super::body::{self, CallContext, Json, Reply};
use super::context::Segments;
use crate::Result;

/// All collections, by name.
pub(super) async fn list(call: CallContext) -> Reply<List<CollectionReply>> {
    Ok(Json(call.retrieval.collection_list(&call.caller).await?))
}

/// One collection.
pub(super) async fn get(call: CallContext, Segments([name]): Segments<1>) -> Reply<CollectionReply> {
    Ok(Json(call.retrieval.collection(&call.caller, &name).await?))
}

/// Creates a collection; the same settings again answer 200, others 409. With `rechunk` and `move`, its index is made again by other chunking or
/// in another engine.
pub(super) async fn put(
    call: CallContext,
    Segments([name]): Segments<1>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response> {
    let [rechunk, r#move] = body::flags(query.as_deref(), ["rechunk", "move"])?;
    let reindexing = Reindexing { rechunk, r#move };
    let bytes = body::read(&call, request).await?;
    // a PUT without a body means the defaults
    let body: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    let settings: CollectionSettings = weir_api::parse(body)?;
    let (reply, created) = call.retrieval.put_collection(&call.caller, &name, &settings, reindexing).await?;
    let actions = [
        (created, "collection.create"),
        (!created && reindexing.rechunk, "collection.rechunk"),
        (!created && reindexing.r#move, "collection.move"),
    ];
    for (_, action) in actions.into_iter().filter(|(is_done, _)| *is_done) {
        access::record(&call, action, &name).await;
    }
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(reply)).into_response())
}

/// Deletes a collection and everything in it.
pub(super) async fn delete(call: CallContext, Segments([name]): Segments<1>) -> Reply<DeletedReply> {
    let deleted = call.retrieval.delete_collection(&call.caller, &name).await?;
    access::record(&call, "collection.delete", &name).await;
    Ok(Json(deleted))
}

/// Has an index in a cluster compared with the store.
pub(super) async fn reconcile(call: CallContext, Segments([name]): Segments<1>) -> Result<Response> {
    let asked = call.retrieval.reconcile(&call.caller, &name).await?;
    access::record(&call, "collection.reconcile", &name).await;
    Ok((StatusCode::ACCEPTED, Json(asked)).into_response())
}

/// The last such comparison.
pub(super) async fn reconciliation(
    call: CallContext,
    Segments([name]): Segments<1>,
) -> Reply<ReconciliationReply> {
    Ok(Json(call.retrieval.reconciliation(&call.caller, &name).await?))
}
