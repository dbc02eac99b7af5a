//! `/v1/collections/{name}/documents`: handlers.

use axum::extract::RawQuery;
use weir_api::{DeletedReply, DocumentReply, DocumentsDeleteReply, DocumentsDeleteRequest, List};
use weir_retrieval::{DOCUMENTS_PAGE, DocumentsQuery};

use super::body::{Body, Call, Json, Reply, page_limit, query_pairs, unknown_parameter};
use super::context::{PermitOf, Segments};

/// A document may have the last segment of a route as its id.
const DELETE: &str = "delete";

/// A page of documents.
pub(super) async fn list(
    call: Call,
    PermitOf(permit): PermitOf,
    Segments([name]): Segments<1>,
    RawQuery(query): RawQuery,
) -> Reply<List<DocumentReply>> {
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
    Ok(Json(call.retrieval.documents(&call.caller, &permit, &name, wanted).await?))
}

/// One document.
pub(super) async fn get(call: Call, Segments([name, id]): Segments<2>) -> Reply<DocumentReply> {
    Ok(Json(call.retrieval.document(&call.caller, &name, &id).await?))
}

/// Deletes one document.
pub(super) async fn delete(call: Call, Segments([name, id]): Segments<2>) -> Reply<DeletedReply> {
    Ok(Json(call.retrieval.delete_document(&call.caller, &name, &id).await?))
}

/// Deletes the documents that match a filter.
pub(super) async fn delete_by_filter(
    call: Call,
    PermitOf(permit): PermitOf,
    Segments([name]): Segments<1>,
    Body(request): Body<DocumentsDeleteRequest>,
) -> Reply<DocumentsDeleteReply> {
    Ok(Json(call.retrieval.delete_documents(&call.caller, &permit, &name, request).await?))
}

/// The document with the id `delete`.
pub(super) async fn get_named_delete(call: Call, Segments([name]): Segments<1>) -> Reply<DocumentReply> {
    get(call, Segments([name, DELETE.to_owned()])).await
}

/// Deletes the document with the id `delete`.
pub(super) async fn delete_named_delete(call: Call, Segments([name]): Segments<1>) -> Reply<DeletedReply> {
    delete(call, Segments([name, DELETE.to_owned()])).await
}
