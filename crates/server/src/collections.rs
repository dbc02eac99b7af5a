//! `/v1/collections` and the documents in them.

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use weir_api::{
    CollectionReply, CollectionSettings, DeletedReply, DocumentReply, ErrorCode, Invalid, List, Metadata,
    check_collection_name,
};
use weir_store::StoredDocument;
use weir_text::Language;

use super::Gateway;
use super::body::{self, CallerOf, Json, Segments};
use super::error::{ApiError, no_embedder};

/// All collections, by name.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
) -> Json<List<CollectionReply>> {
    let all = gateway.collections.all(&caller);
    Json(List::whole(all.iter().map(|collection| collection.reply()).collect()))
}

/// One collection.
pub(super) async fn get(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
) -> Result<Json<CollectionReply>, ApiError> {
    let collection = gateway.collections.get(&caller, &name).ok_or_else(|| ApiError::no_collection(&name))?;
    Ok(Json(collection.reply()))
}

/// Creates a collection; the same settings again answer 200, others 409.
pub(super) async fn put(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
    request: Request,
) -> Result<Response, ApiError> {
    let bytes = body::read(request, gateway.config.limits.body_bytes_max, "body_bytes_max").await?;
    // a PUT without a body means the defaults
    let body: &[u8] = if bytes.is_empty() { b"{}" } else { &bytes };
    let settings: CollectionSettings = weir_api::parse(body)?;
    check_collection_name(&name)?;
    check_settings(&gateway, &settings)?;
    if !caller.sees(&name) {
        return Err(ApiError::no_collection(&name));
    }
    let (collection, created) = gateway.collections.create(&name, &settings).await?;
    if !created && !gateway.collections.has_settings(&collection, &settings) {
        let has = serde_json::to_string(&collection.settings).unwrap_or_default();
        let message = format!("collection `{name}` exists with other settings: {has}");
        return Err(ApiError::new(ErrorCode::CollectionConflict, message));
    }
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    Ok((status, Json(collection.reply())).into_response())
}

fn check_settings(gateway: &Gateway, settings: &CollectionSettings) -> Result<(), ApiError> {
    let defaults = &gateway.config.chunking;
    settings.check(defaults.max_tokens, defaults.overlap_tokens)?;
    gateway.collections.model_for(settings).map_err(|name| no_embedder(&gateway.models, &name))?;
    match &settings.language {
        Some(name) if Language::parse(name).is_none() => {
            let accepted: Vec<&str> = Language::all().iter().map(|language| language.name()).collect();
            let message =
                format!("language is `{}`; it must be one of {}", name.escape_debug(), accepted.join(", "));
            Err(Invalid::at(ErrorCode::InvalidParameter, &["language"], message).into())
        }
        Some(_) | None => Ok(()),
    }
}

/// Deletes a collection with everything in it.
pub(super) async fn delete(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
) -> Result<Json<DeletedReply>, ApiError> {
    if gateway.collections.delete(&caller, &name).await? {
        return Ok(Json(DeletedReply { deleted: true, chunks: None }));
    }
    Err(ApiError::no_collection(&name))
}

/// One document as it is stored.
pub(super) async fn get_document(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name, id]): Segments<2>,
) -> Result<Json<DocumentReply>, ApiError> {
    let collection = gateway.collections.get(&caller, &name).ok_or_else(|| ApiError::no_collection(&name))?;
    let document =
        gateway.store.document(collection.id, &id).await?.ok_or_else(|| no_document(&name, &id))?;
    document_reply(document).map(Json)
}

/// A document as the API shows it.
pub(super) fn document_reply(document: StoredDocument) -> Result<DocumentReply, ApiError> {
    let metadata = Metadata::from_json(document.metadata).map_err(|error| ApiError::internal(&error))?;
    Ok(DocumentReply {
        id: document.id,
        title: document.title,
        text: document.text,
        metadata,
        version: document.version,
        chunks: document.chunks.len() as u64,
    })
}

/// Deletes a document: when this answers, it is gone from the disk and from both legs of search.
pub(super) async fn delete_document(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name, id]): Segments<2>,
) -> Result<Json<DeletedReply>, ApiError> {
    let collection = gateway.collections.get(&caller, &name).ok_or_else(|| ApiError::no_collection(&name))?;
    super::to_the_end(async move {
        let deleted = gateway.store.delete_document(collection.id, &id).await?;
        let deleted = deleted.ok_or_else(|| no_document(&name, &id))?;
        let hidden = collection.engine.remove_now(&id, deleted.operation).await;
        collection.wake(deleted.operation);
        hidden.map_err(|error| ApiError::internal(&error))?;
        Ok(Json(DeletedReply { deleted: true, chunks: Some(deleted.chunks) }))
    })
    .await
}

pub(super) fn no_document(collection: &str, id: &str) -> ApiError {
    let message = format!("there is no document `{}` in collection `{collection}`", id.escape_debug());
    ApiError::new(ErrorCode::DocumentNotFound, message)
}
