//! Documents: one, lists of them, deletion.
//!
//! With a filter or an order of fields a list shows what is searchable, like a search with that filter. Without both it shows the store.

use std::sync::Arc;

use weir_api::{
    DeletedReply, DocumentReply, DocumentsDeleteReply, DocumentsDeleteRequest, ErrorCode, Invalid, List,
    Metadata, RawJson, Sort, require,
};
use weir_index::filter::Filter;
use weir_index::{IndexError, IndexQuery, IndexResult, MatchCount};
use weir_policy::Caller;
use weir_ranking::RetrievalMode;
use weir_store::{GenerationId, StoredDocument, VersionTest};

use crate::search::{read_filter, refusal as search_refusal, sort_keys, unknown_in_filter};
use crate::{CollectionView, Result, Retrieval, SearchPermit, run_to_completion};
use weir_cursor::{Binding, Cursor, RequestHash};
use weir_refusal::RequestError;

/// Documents on a page: by default, and at most.
pub const DOCUMENTS_PAGE: (usize, usize) = (100, 1_000);

/// A page ends early when its texts have this many bytes.
const PAGE_TEXT_BYTES_MAX: usize = 8 << 20;

/// Documents that a deletion by filter deletes in one transaction: the others wait for it.
const DELETE_BATCH: usize = 200;

/// Cursors in the order of ids stay valid when the collection is embedded again.
const ANY_GENERATION: GenerationId = GenerationId(0);

/// Which documents a list shows, and from where on.
#[derive(Debug, Default)]
pub struct DocumentsQuery {
    /// A filter, as JSON text.
    pub filter: Option<String>,
    /// Fields to sort by: `-year,title`.
    pub sort: Option<String>,
    /// Documents on the page.
    pub limit: usize,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
    /// The id after which a list in the order of ids begins.
    pub after: Option<String>,
}

/// The same, parsed and checked.
struct Wanted {
    filter_text: String,
    filter: Option<Filter>,
    sort: Vec<Sort>,
    limit: usize,
    cursor: Option<String>,
    after: Option<String>,
}

impl Retrieval {
    /// One document as it is stored.
    ///
    /// # Errors
    /// `collection_not_found`, `document_not_found`; store errors.
    pub async fn document(&self, caller: &Arc<Caller>, collection: &str, id: &str) -> Result<DocumentReply> {
        let view = self.view(caller, collection)?;
        let document = view.store().document(id).await?.ok_or_else(|| no_document(collection, id))?;
        render(document)
    }

    /// A page of the documents of a collection, in the order of their ids or, with `filter` or `sort`, of the searchable ones that match.
    ///
    /// # Errors
    /// `invalid_filter`, `invalid_parameter`, `unknown_field`, `invalid_cursor`, `cursor_expired`, `collection_not_found`,
    /// `collection_not_ready`; store errors.
    pub async fn documents(
        &self,
        caller: &Arc<Caller>,
        _permit: &SearchPermit,
        collection: &str,
        query: DocumentsQuery,
    ) -> Result<List<DocumentReply>> {
        let wanted = Wanted::new(query, self.config.limits.sort_fields_max)?;
        if wanted.filter.is_none() && wanted.sort.is_empty() {
            return self.stored_documents(caller, collection, wanted).await;
        }
        let view = self.searchable_view(caller, collection).await?;
        let binding =
            Binding { collection: view.id(), generation: view.generation(), request: wanted.hash() };
        let page = wanted.cursor.as_ref().map(|text| self.cursors.verify(&binding, text)).transpose()?;
        let offset = page.as_ref().map_or(0, |page| page.offset);
        self.check_depth(offset, wanted.limit)?;
        let query = IndexQuery {
            filter: wanted.filter,
            sort: sort_keys(&wanted.sort),
            offset: usize::try_from(offset).unwrap_or(usize::MAX),
            as_of: page.map(|page| page.applied_seq).filter(|_| view.pins_snapshots()),
            pin: view.pins_snapshots(),
            ..IndexQuery::new(RetrievalMode::Lexical, None, None, wanted.limit)
        };
        let refused = |error| refusal(error, &wanted.filter_text, &wanted.sort);
        let found = view.search(query.clone()).await.map_err(refused)?;
        let mut documents = read_documents(&view, &found).await?;
        let mut end = offset + wanted.limit as u64;
        if documents.len() < found.hits.len() {
            // the page ends early; the search is repeated up to there, because deleted documents have positions too
            let limit = documents.len();
            let again = IndexQuery {
                limit,
                as_of: Some(found.applied_seq).filter(|_| view.pins_snapshots()),
                ..query
            };
            let shown = view.search(again).await.map_err(refused)?;
            documents.truncate(shown.hits.len());
            end = offset + limit as u64;
        }
        let next =
            Cursor { applied_seq: found.applied_seq, offset: end, degraded: Vec::new(), order: Vec::new() };
        let is_more = match found.total {
            MatchCount::Exact(total) => end < total,
            // the list was not read beyond the page
            MatchCount::Window(read) => end <= read,
        };
        let next_cursor = is_more.then(|| self.cursors.sign(&binding, &next));
        Ok(List { data: documents.into_iter().flatten().collect(), next_cursor })
    }

    /// Documents of the store in the order of their ids. The cursor of such a page holds its last id.
    async fn stored_documents(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        wanted: Wanted,
    ) -> Result<List<DocumentReply>> {
        let view = self.view(caller, collection)?;
        let binding = Binding { collection: view.id(), generation: ANY_GENERATION, request: wanted.hash() };
        let after = match &wanted.cursor {
            Some(text) => self.cursors.verify_after(&binding, text)?,
            None => wanted.after.unwrap_or_default(),
        };
        let (page, is_more) = view.store().documents_after(&after, wanted.limit, PAGE_TEXT_BYTES_MAX).await?;
        let last = page.last().filter(|_| is_more);
        let next_cursor = last.map(|document| self.cursors.sign_after(&binding, &document.id));
        let data = page.into_iter().map(render).collect::<Result<Vec<_>, _>>()?;
        Ok(List { data, next_cursor })
    }

    /// Deletes a document, if it meets the condition. On return it is gone from the disk and from both retrievers.
    ///
    /// # Errors
    /// `collection_not_found`, `document_not_found`, `precondition_failed`; store and index errors.
    pub async fn delete_document(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        id: &str,
        test: Option<VersionTest>,
    ) -> Result<DeletedReply> {
        let view = self.view(caller, collection)?;
        self.reading.wait_for_documents(view.id(), &[id]).await;
        let id = id.to_owned();
        run_to_completion(async move {
            let deleted = match test {
                Some(test) => view.delete_document_if(&id, &test).await?,
                None => view.delete_document(&id).await?,
            };
            let deleted = deleted.ok_or_else(|| no_document(view.name(), &id))?;
            let operation = view.is_shared().then_some(deleted.operation);
            Ok(DeletedReply { deleted: true, chunks: Some(deleted.chunks), operation })
        })
        .await
    }

    /// Deletes the documents that match a filter. On return they are gone from the disk and from search.
    ///
    /// # Errors
    /// `invalid_filter`, also for a filter without conditions unless `all` is true; as [`Retrieval::documents`].
    pub async fn delete_documents(
        &self,
        caller: &Arc<Caller>,
        _permit: &SearchPermit,
        collection: &str,
        request: DocumentsDeleteRequest,
    ) -> Result<DocumentsDeleteReply> {
        request.check(&self.config.request_limits())?;
        let filter = request.filter.as_ref().map(read_filter).transpose()?;
        let matches_all = filter.as_ref().is_none_or(|filter| filter.paths().next().is_none());
        if matches_all && request.all != Some(true) {
            let message =
                "the filter has no condition and would delete every document; send \"all\": true to confirm";
            return Err(Invalid::at(ErrorCode::InvalidFilter, &["filter"], message).into());
        }
        let view = self.searchable_view(caller, collection).await?;
        let limit = self.config.limits.delete_documents_max;
        // one more shows whether any are left where the engine does not count all of them
        let query = IndexQuery {
            filter,
            count: true,
            ..IndexQuery::new(RetrievalMode::Lexical, None, None, limit + 1)
        };
        let filter_text = request.filter.as_ref().map_or("", RawJson::text);
        let mut found = view.search(query).await.map_err(|error| refusal(error, filter_text, &[]))?;
        let (MatchCount::Exact(matched) | MatchCount::Window(matched)) = found.total;
        if request.dry_run == Some(true) {
            return Ok(DocumentsDeleteReply {
                matched,
                deleted: 0,
                skipped: 0,
                remaining: matched,
                dry_run: true,
                operation: None,
            });
        }
        run_to_completion(async move {
            found.hits.truncate(limit);
            let (mut deleted, mut skipped, mut last) = (0, 0, None);
            for hits in found.hits.chunks(DELETE_BATCH) {
                let (of_batch, operation) = view.delete_matched(hits).await?;
                last = operation.or(last);
                deleted += of_batch;
                skipped += hits.len() as u64 - of_batch;
            }
            let remaining = matched.saturating_sub(deleted + skipped);
            let operation = last.filter(|_| view.is_shared());
            Ok(DocumentsDeleteReply { matched, deleted, skipped, remaining, dry_run: false, operation })
        })
        .await
    }

    fn check_depth(&self, offset: u64, limit: usize) -> Result<(), Invalid> {
        let (end, most) = (offset.saturating_add(limit as u64), self.config.limits.list_depth_max);
        require(offset == 0 || end <= most, &["cursor"], || {
            format!(
                "the page ends at document {end}; the limit `limits.list_depth_max` is {most}. Filter for values after the last one instead"
            )
        })
    }
}

impl Wanted {
    fn new(query: DocumentsQuery, sort_fields_max: usize) -> Result<Wanted, Invalid> {
        let filter = query.filter.clone().map(|text| {
            RawJson::from_text(text).map_err(|error| {
                let message = format!("the filter is not JSON: {error}");
                Invalid::at(ErrorCode::InvalidFilter, &["filter"], message)
            })
        });
        let wanted = Wanted {
            filter: filter.transpose()?.as_ref().map(read_filter).transpose()?,
            filter_text: query.filter.unwrap_or_default(),
            sort: query.sort.map_or(Ok(Vec::new()), |text| read_sort(&text, sort_fields_max))?,
            limit: query.limit,
            cursor: query.cursor,
            after: query.after,
        };
        wanted.check_after()?;
        Ok(wanted)
    }

    /// Refuses `after`, a position in the order of ids, beside another order or another position.
    fn check_after(&self) -> Result<(), Invalid> {
        let is_by_id = self.filter.is_none() && self.sort.is_empty();
        let is_after = self.after.is_some();
        require(
            !is_after || self.cursor.is_none(),
            &["after"],
            || "`after` and `cursor` both say where the page begins; leave out one of them",
        )?;
        require(
            !is_after || is_by_id,
            &["after"],
            || "`after` is a position in the order of ids; with `filter` or `sort`, send `next_cursor` of the page before as `cursor`",
        )
    }

    fn hash(&self) -> RequestHash {
        let sort = serde_json::to_vec(&self.sort).unwrap_or_default();
        RequestHash::of(&[b"documents", self.filter_text.as_bytes(), &sort])
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

/// The error of the index for a list.
fn refusal(error: IndexError, filter_text: &str, sort: &[Sort]) -> RequestError {
    if let IndexError::UnknownField { field, .. } = &error {
        let message = error.to_string();
        if let Some(pointer) = Filter::pointer_to(field, filter_text) {
            return unknown_in_filter(&pointer, &message).into();
        }
        let param = if sort.iter().any(|sort| sort.field == *field) { "sort" } else { "filter" };
        return Invalid::at(ErrorCode::UnknownField, &[param], message).into();
    }
    search_refusal(error, &weir_api::SearchRequest::default())
}

/// The stored documents of the first hits, up to a number of bytes; `None` for a document deleted since.
async fn read_documents(view: &CollectionView, found: &IndexResult) -> Result<Vec<Option<DocumentReply>>> {
    let (mut documents, mut bytes) = (Vec::with_capacity(found.hits.len()), 0);
    for hit in &found.hits {
        if bytes >= PAGE_TEXT_BYTES_MAX {
            break;
        }
        let document = view.store().document(&hit.document_id).await?;
        bytes += document.as_ref().map_or(0, |document| document.text.len() + document.metadata.len());
        documents.push(document.map(render).transpose()?);
    }
    Ok(documents)
}

/// A document as the API shows it.
fn render(document: StoredDocument) -> Result<DocumentReply> {
    let metadata = Metadata::from_json(document.metadata).map_err(|error| RequestError::internal(&error))?;
    Ok(DocumentReply {
        id: document.id,
        title: document.title,
        text: document.text,
        metadata,
        version: document.version,
        chunks: document.chunks.len() as u64,
    })
}

/// `document_not_found`.
pub(crate) fn no_document(collection: &str, id: &str) -> RequestError {
    let message = format!("there is no document `{}` in collection `{collection}`", id.escape_debug());
    RequestError::new(ErrorCode::DocumentNotFound, message)
}
