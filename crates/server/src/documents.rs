//! Many documents: `GET /v1/collections/{name}/documents` and `POST /v1/collections/{name}/documents/delete`.
//!
//! By filter or in an order of fields they see what is searchable, as a search with the same filter does. A list without both
//! is that of the store.

use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use weir_api::{
    DeletedReply, DocumentReply, DocumentsDeleteReply, DocumentsDeleteRequest, ErrorCode, Invalid, List,
    RawJson, Sort,
};
use weir_index::filter::Filter;
use weir_index::{IndexError, Mode, SearchReply, SearchRequest, Total};
use weir_policy::Caller;
use weir_store::GenerationId;

use super::Gateway;
use super::body::{self, CallerOf, Json, Segments, page_limit, query_pairs, unknown_parameter};
use super::collections;
use super::cursor::{Binding, Cursor, RequestHash};
use super::error::ApiError;
use super::search::{read_filter, sort_keys, unknown_in_filter};
use weir_retrieval::collections::OpenCollection;

/// Documents on a page when the caller doesn't say, and at most.
const PAGE: (usize, usize) = (100, 1_000);

/// A page ends early when its texts have so many bytes.
const PAGE_TEXT_BYTES_MAX: usize = 8 << 20;

/// Cursors of a list in the order of ids go on whatever becomes of the index.
const ANY_GENERATION: GenerationId = GenerationId(0);

/// A document may be called as the route is.
const DELETE: &str = "delete";

/// The documents of a collection in the order of their ids, or those that pass a filter in the order of fields.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
    RawQuery(query): RawQuery,
) -> Result<Json<List<DocumentReply>>, ApiError> {
    let wanted = Wanted::read(&gateway, query.as_deref())?;
    if wanted.filter.is_none() && wanted.sort.is_empty() {
        return stored(&gateway, &caller, &name, wanted).await;
    }
    let collection = searchable(&gateway, &caller, &name)?;
    let binding = Binding {
        collection: collection.id,
        generation: collection.preparer.generation,
        request: wanted.hash(),
    };
    let page = wanted.cursor.as_ref().map(|text| gateway.cursors.open(&binding, text)).transpose()?;
    let offset = page.as_ref().map_or(0, |page| page.offset);
    check_depth(&gateway, offset, wanted.limit)?;
    let search = SearchRequest {
        filter: wanted.filter,
        sort: sort_keys(&wanted.sort),
        offset: usize::try_from(offset).unwrap_or(usize::MAX),
        at: page.map(|page| page.reached),
        hold: true,
        ..SearchRequest::new(Mode::Lexical, None, None, wanted.limit)
    };
    let _room = gateway.room_for_search()?;
    let refused = |error| refusal(error, &wanted.filter_text, &wanted.sort);
    let found = collection.engine.search(&caller, search.clone()).await.map_err(refused)?;
    let mut documents = read_documents(&gateway, &collection, &found).await?;
    let mut end = offset + wanted.limit as u64;
    if documents.len() < found.hits.len() {
        // the page ends early: what lies up to there is asked again, because deleted documents have places too
        let limit = documents.len();
        let again = SearchRequest { limit, at: Some(found.reached), ..search };
        let shown = collection.engine.search(&caller, again).await.map_err(refused)?;
        documents.truncate(shown.hits.len());
        end = offset + limit as u64;
    }
    let next = Cursor { reached: found.reached, offset: end, degraded: Vec::new(), order: Vec::new() };
    let next_cursor = (end < count(found.total)).then(|| gateway.cursors.close(&binding, &next));
    Ok(Json(List { data: documents.into_iter().flatten().collect(), next_cursor }))
}

/// The documents as they are stored, in the order of their ids. The cursor of such a page holds its last id.
async fn stored(
    gateway: &Gateway,
    caller: &Caller,
    name: &str,
    wanted: Wanted,
) -> Result<Json<List<DocumentReply>>, ApiError> {
    let collection = gateway.collections.get(caller, name).ok_or_else(|| ApiError::no_collection(name))?;
    let binding = Binding { collection: collection.id, generation: ANY_GENERATION, request: wanted.hash() };
    let after = match &wanted.cursor {
        Some(text) => gateway.cursors.open_after(&binding, text)?,
        None => wanted.after.unwrap_or_default(),
    };
    let (page, is_more) =
        gateway.store.documents_after(collection.id, &after, wanted.limit, PAGE_TEXT_BYTES_MAX).await?;
    let last = page.last().filter(|_| is_more);
    let next_cursor = last.map(|document| gateway.cursors.close_after(&binding, &document.id));
    let data = page.into_iter().map(collections::document_reply).collect::<Result<Vec<_>, _>>()?;
    Ok(Json(List { data, next_cursor }))
}

/// Deletes the documents that pass a filter: when this answers, they are gone from the disk and from search.
pub(super) async fn delete(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
    request: Request,
) -> Result<Json<DocumentsDeleteReply>, ApiError> {
    let bytes = body::read(request, gateway.config.limits.body_bytes_max, "body_bytes_max").await?;
    let request: DocumentsDeleteRequest = weir_api::parse(&bytes)?;
    request.check(&gateway.config.request_limits())?;
    let filter = request.filter.as_ref().map(read_filter).transpose()?;
    let is_everything = filter.as_ref().is_none_or(|filter| filter.paths().next().is_none());
    if is_everything && request.all != Some(true) {
        let message = "the filter has no condition, which would delete every document; say \"all\": true if that is meant";
        return Err(Invalid::at(ErrorCode::InvalidFilter, &["filter"], message).into());
    }
    let collection = searchable(&gateway, &caller, &name)?;
    let limit = gateway.config.limits.delete_documents_max;
    let search = SearchRequest { filter, ..SearchRequest::new(Mode::Lexical, None, None, limit) };
    let room = gateway.room_for_search()?;
    let filter_text = request.filter.as_ref().map_or("", RawJson::text);
    let refused = |error| refusal(error, filter_text, &[]);
    let found = collection.engine.search(&caller, search).await.map_err(refused)?;
    drop(room);
    let matched = count(found.total);
    if request.dry_run == Some(true) {
        let reply =
            DocumentsDeleteReply { matched, deleted: 0, skipped: 0, remaining: matched, dry_run: true };
        return Ok(Json(reply));
    }
    super::to_the_end(async move {
        let (mut deleted, mut skipped) = (0, 0);
        for hit in found.hits {
            match delete_version(&gateway, &collection, &hit.document_id, hit.version).await? {
                true => deleted += 1,
                false => skipped += 1,
            }
        }
        let remaining = matched.saturating_sub(deleted + skipped);
        Ok(Json(DocumentsDeleteReply { matched, deleted, skipped, remaining, dry_run: false }))
    })
    .await
}

/// The document that is called `delete`.
pub(super) async fn get_delete(
    gateway: State<Gateway>,
    caller: CallerOf,
    Segments([name]): Segments<1>,
) -> Result<Json<DocumentReply>, ApiError> {
    collections::get_document(gateway, caller, Segments([name, DELETE.to_owned()])).await
}

/// Deletes the document that is called `delete`.
pub(super) async fn delete_delete(
    gateway: State<Gateway>,
    caller: CallerOf,
    Segments([name]): Segments<1>,
) -> Result<Json<DeletedReply>, ApiError> {
    collections::delete_document(gateway, caller, Segments([name, DELETE.to_owned()])).await
}

/// What a list shall show.
struct Wanted {
    filter_text: String,
    filter: Option<Filter>,
    sort: Vec<Sort>,
    limit: usize,
    cursor: Option<String>,
    after: Option<String>,
}

impl Wanted {
    fn read(gateway: &Gateway, query: Option<&str>) -> Result<Wanted, ApiError> {
        let limits = &gateway.config.limits;
        let mut wanted = Wanted {
            filter_text: String::new(),
            filter: None,
            sort: Vec::new(),
            limit: PAGE.0,
            cursor: None,
            after: None,
        };
        for (key, value) in query_pairs(query) {
            match key.as_str() {
                "filter" => {
                    let json = RawJson::from_text(value.clone()).map_err(|error| {
                        let message = format!("the filter is not JSON: {error}");
                        Invalid::at(ErrorCode::InvalidFilter, &["filter"], message)
                    })?;
                    wanted.filter = Some(read_filter(&json)?);
                    wanted.filter_text = value;
                }
                "sort" => wanted.sort = read_sort(&value, limits.sort_fields_max)?,
                "limit" => wanted.limit = page_limit(&value, PAGE.1)?,
                "cursor" => wanted.cursor = Some(value),
                "after" => wanted.after = Some(value),
                _ => return Err(unknown_parameter(&key, "`filter`, `sort`, `limit`, `cursor` or `after`")),
            }
        }
        wanted.check_after()?;
        Ok(wanted)
    }

    /// Refuses `after`, a place in the order of ids, where another order is asked for or another place is named.
    fn check_after(&self) -> Result<(), Invalid> {
        let is_by_id = self.filter.is_none() && self.sort.is_empty();
        let message = match (&self.after, &self.cursor) {
            (Some(_), Some(_)) => {
                "`after` and `cursor` both say where the page begins; leave out one of them"
            }
            (Some(_), None) if !is_by_id => {
                "`after` is a place in the order of ids; beside `filter` or `sort` send `next_cursor` of the page before as \
                 `cursor`"
            }
            (Some(_) | None, None) | (None, Some(_)) => return Ok(()),
        };
        Err(Invalid::at(ErrorCode::InvalidParameter, &["after"], message))
    }

    fn hash(&self) -> RequestHash {
        let sort = format!("{:?}", self.sort);
        RequestHash::of(&[b"documents", self.filter_text.as_bytes(), sort.as_bytes()])
    }
}

/// `-year,title`
fn read_sort(text: &str, most: usize) -> Result<Vec<Sort>, Invalid> {
    let sort: Vec<Sort> = text.split(',').map(str::trim).map(Sort::from).collect();
    if sort.len() > most {
        let message =
            format!("`sort` names {} fields; the limit `limits.sort_fields_max` is {most}", sort.len());
        return Err(Invalid::at(ErrorCode::BatchTooLarge, &["sort"], message));
    }
    Ok(sort)
}

fn check_depth(gateway: &Gateway, offset: u64, limit: usize) -> Result<(), Invalid> {
    let (end, most) = (offset.saturating_add(limit as u64), gateway.config.limits.list_depth_max);
    if offset == 0 || end <= most {
        return Ok(());
    }
    let message = format!(
        "the page ends at document {end}; the limit `limits.list_depth_max` is {most}. Filter for what comes after the last \
         value instead"
    );
    Err(Invalid::at(ErrorCode::InvalidParameter, &["cursor"], message))
}

fn searchable(gateway: &Gateway, caller: &Caller, name: &str) -> Result<Arc<OpenCollection>, ApiError> {
    let collection = gateway.collections.get(caller, name).ok_or_else(|| ApiError::no_collection(name))?;
    if collection.is_rebuilding() {
        let message = format!("the index of collection `{name}` is being rebuilt");
        return Err(ApiError::new(ErrorCode::CollectionNotReady, message));
    }
    Ok(collection)
}

/// What the index refuses of a list.
fn refusal(error: IndexError, filter_text: &str, sort: &[Sort]) -> ApiError {
    if let IndexError::UnknownField { field, .. } = &error {
        let message = error.to_string();
        if let Some(pointer) = Filter::pointer_to(field, filter_text) {
            return unknown_in_filter(&pointer, &message).into();
        }
        let param = if sort.iter().any(|sort| sort.field == *field) { "sort" } else { "filter" };
        return Invalid::at(ErrorCode::UnknownField, &[param], message).into();
    }
    super::search::refusal(error, &weir_api::SearchRequest::default())
}

fn count(total: Total) -> u64 {
    match total {
        Total::Exact(count) | Total::Window(count) => count,
    }
}

/// The documents of the first hits as they are stored, up to a number of bytes; `None` for what was deleted meanwhile.
async fn read_documents(
    gateway: &Gateway,
    collection: &OpenCollection,
    found: &SearchReply,
) -> Result<Vec<Option<DocumentReply>>, ApiError> {
    let (mut documents, mut bytes) = (Vec::with_capacity(found.hits.len()), 0);
    for hit in &found.hits {
        if bytes >= PAGE_TEXT_BYTES_MAX {
            break;
        }
        let document = gateway.store.document(collection.id, &hit.document_id).await?;
        bytes += document.as_ref().map_or(0, |document| document.text.len() + document.metadata.len());
        documents.push(document.map(collections::document_reply).transpose()?);
    }
    Ok(documents)
}

/// Deletes a document if it is still the one that passed the filter; says whether it did.
async fn delete_version(
    gateway: &Gateway,
    collection: &OpenCollection,
    id: &str,
    version: u64,
) -> Result<bool, ApiError> {
    let document = gateway.store.document(collection.id, id).await?;
    if document.is_none_or(|document| document.version != version) {
        return Ok(false);
    }
    let Some(deleted) = gateway.store.delete_document(collection.id, id).await? else { return Ok(false) };
    let hidden = collection.engine.remove_now(id, deleted.operation).await;
    collection.wake(deleted.operation);
    hidden.map_err(|error| ApiError::internal(&error))?;
    Ok(true)
}
