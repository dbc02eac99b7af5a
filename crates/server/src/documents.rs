//! `/v1/collections/{name}/documents`: handlers.

use axum::extract::RawQuery;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_api::{DeletedReply, DocumentReply, DocumentsDeleteReply, DocumentsDeleteRequest, List};
use weir_retrieval::{DOCUMENTS_PAGE, DocumentsQuery};

use super::body::{Body, CallContext, Json, Reply, page_limit, query_pairs, unknown_parameter};
use super::conditions;
use super::context::{PermitOf, Segments};
use crate::Result;

/// A document may have the last segment of a route as its id.
const DELETE: &str = "delete";

/// A page of documents.
pub(super) async fn list(
    call: CallContext,
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

/// One document, with its version as entity tag; 304 to a reader that has this version.
pub(super) async fn get(
    call: CallContext,
    Segments([name, id]): Segments<2>,
    headers: HeaderMap,
) -> Result<Response> {
    let document = call.retrieval.document(&call.caller, &name, &id).await?;
    let tag = [(header::ETAG, conditions::tag(document.version))];
    if conditions::is_known(&headers, document.version)? {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    Ok((tag, Json(document)).into_response())
}

/// Deletes one document.
pub(super) async fn delete(
    call: CallContext,
    Segments([name, id]): Segments<2>,
    headers: HeaderMap,
) -> Reply<DeletedReply> {
    let test = conditions::test(&headers)?;
    Ok(Json(call.retrieval.delete_document(&call.caller, &name, &id, test).await?))
}

/// Deletes the documents that match a filter.
pub(super) async fn delete_by_filter(
    call: CallContext,
    PermitOf(permit): PermitOf,
    Segments([name]): Segments<1>,
    Body(request): Body<DocumentsDeleteRequest>,
) -> Reply<DocumentsDeleteReply> {
    Ok(Json(call.retrieval.delete_documents(&call.caller, &permit, &name, request).await?))
}

/// The document with the id `delete`.
pub(super) async fn get_named_delete(
    call: CallContext,
    Segments([name]): Segments<1>,
    headers: HeaderMap,
) -> Result<Response> {
    get(call, Segments([name, DELETE.to_owned()]), headers).await
}

/// Deletes the document with the id `delete`.
pub(super) async fn delete_named_delete(
    call: CallContext,
    Segments([name]): Segments<1>,
    headers: HeaderMap,
) -> Reply<DeletedReply> {
    delete(call, Segments([name, DELETE.to_owned()]), headers).await
}
