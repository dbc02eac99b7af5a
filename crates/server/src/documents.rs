//! `/v1/collections/{name}/documents`: handlers.

use axum::extract::{RawQuery, Request, State};
use weir_api::{DeletedReply, DocumentReply, DocumentsDeleteReply, List};
use weir_retrieval::{DOCUMENTS_PAGE, DocumentsQuery};

use super::Gateway;
use super::body::{self, CallerOf, Json, PermitOf, Segments, page_limit, query_pairs, unknown_parameter};
use super::error::ApiError;

/// A document may have the last segment of a route as its id.
const DELETE: &str = "delete";

/// A page of documents.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    PermitOf(permit): PermitOf,
    Segments([name]): Segments<1>,
    RawQuery(query): RawQuery,
) -> Result<Json<List<DocumentReply>>, ApiError> {
    let mut wanted = DocumentsQuery { limit: DOCUMENTS_PAGE.0, ..DocumentsQuery::default() };
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "filter" => wanted.filter = Some(value),
            "sort" => wanted.sort = Some(value),
            "limit" => wanted.limit = page_limit(&value, DOCUMENTS_PAGE.1)?,
            "cursor" => wanted.cursor = Some(value),
            "after" => wanted.after = Some(value),
            _ => return Err(unknown_parameter(&key, "`filter`, `sort`, `limit`, `cursor` or `after`")),
        }
    }
    Ok(Json(gateway.retrieval.documents(&caller, &permit, &name, wanted).await?))
}

/// One document.
pub(super) async fn get(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name, id]): Segments<2>,
) -> Result<Json<DocumentReply>, ApiError> {
    Ok(Json(gateway.retrieval.document(&caller, &name, &id).await?))
}

/// Deletes one document.
pub(super) async fn delete(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name, id]): Segments<2>,
) -> Result<Json<DeletedReply>, ApiError> {
    Ok(Json(gateway.retrieval.delete_document(&caller, &name, &id).await?))
}

/// Deletes the documents that match a filter.
pub(super) async fn delete_by_filter(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    PermitOf(permit): PermitOf,
    Segments([name]): Segments<1>,
    request: Request,
) -> Result<Json<DocumentsDeleteReply>, ApiError> {
    let bytes = body::read(&gateway, request).await?;
    let request = weir_api::parse(&bytes)?;
    Ok(Json(gateway.retrieval.delete_documents(&caller, &permit, &name, request).await?))
}

/// The document with the id `delete`.
pub(super) async fn get_named_delete(
    gateway: State<Gateway>,
    caller: CallerOf,
    Segments([name]): Segments<1>,
) -> Result<Json<DocumentReply>, ApiError> {
    get(gateway, caller, Segments([name, DELETE.to_owned()])).await
}

/// Deletes the document with the id `delete`.
pub(super) async fn delete_named_delete(
    gateway: State<Gateway>,
    caller: CallerOf,
    Segments([name]): Segments<1>,
) -> Result<Json<DeletedReply>, ApiError> {
    delete(gateway, caller, Segments([name, DELETE.to_owned()])).await
}
