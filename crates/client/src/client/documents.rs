//! `/v1/collections/{name}/documents`.

use weir_api::{DeletedReply, DocumentReply, DocumentsDeleteReply, DocumentsDeleteRequest, List, RawJson};

use super::collections::collection_path;
use super::pages::{Listing, Pages};
use crate::call::{Call, encode};
use crate::{Client, Result};

/// The documents that are listed, and their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DocumentsQuery {
    /// Condition on metadata; default: all documents.
    pub filter: Option<RawJson>,
    /// Metadata fields to sort by, separated by commas, `-` before a field for descending order; default: by id.
    pub sort: Option<String>,
    /// Documents on a page, 1 to 1,000; default: 100.
    pub limit: Option<u64>,
    /// Without `filter` and `sort`: the id after which the first page starts.
    pub after: Option<String>,
}

impl Client {
    /// One document.
    pub async fn document(&self, collection: &str, id: &str) -> Result<DocumentReply> {
        self.value(Call::get(document_path(collection, id))).await
    }

    /// The file from which a document was made, if it was kept (`keep_original`).
    pub async fn original(&self, collection: &str, id: &str) -> Result<Vec<u8>> {
        let call = Call::get(format!("{}/original", document_path(collection, id)));
        Ok(self.bytes(call).await?.to_vec())
    }

    /// A page of a collection's documents. `cursor` is the `next_cursor` of the page before.
    pub async fn documents(
        &self,
        collection: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<List<DocumentReply>> {
        let query = DocumentsQuery { limit: Some(limit as u64), ..DocumentsQuery::default() };
        self.documents_page(collection, &query, cursor).await
    }

    /// A page of a collection's documents, from the first id after `after` in byte order.
    pub async fn documents_after(
        &self,
        collection: &str,
        limit: usize,
        after: &str,
    ) -> Result<List<DocumentReply>> {
        let after = Some(after.to_owned());
        let query = DocumentsQuery { limit: Some(limit as u64), after, ..DocumentsQuery::default() };
        self.documents_page(collection, &query, None).await
    }

    /// A page of the documents of a query: by id, or the searchable ones that match its filter. `cursor` is the
    /// `next_cursor` of the page before.
    pub async fn documents_page(
        &self,
        collection: &str,
        query: &DocumentsQuery,
        cursor: Option<&str>,
    ) -> Result<List<DocumentReply>> {
        self.value(listing(collection, query).page(cursor)).await
    }

    /// The documents of a query, page by page.
    pub fn document_pages(&self, collection: &str, query: &DocumentsQuery) -> Pages<'_, DocumentReply> {
        Pages::new(self, listing(collection, query))
    }

    /// Deletes one document.
    pub async fn delete_document(&self, collection: &str, id: &str) -> Result<DeletedReply> {
        self.value(Call::delete(document_path(collection, id))).await
    }

    /// Deletes the documents that match a filter, up to the gateway's limit for one request.
    pub async fn delete_documents(
        &self,
        collection: &str,
        request: &DocumentsDeleteRequest,
    ) -> Result<DocumentsDeleteReply> {
        let path = format!("{}/documents/delete", collection_path(collection));
        self.value(Call::post(path, request)).await
    }
}

fn document_path(collection: &str, id: &str) -> String {
    format!("{}/documents/{}", collection_path(collection), encode(id))
}

fn listing(collection: &str, query: &DocumentsQuery) -> Listing {
    let DocumentsQuery { filter, sort, limit, after } = query;
    Listing {
        path: format!("{}/documents", collection_path(collection)),
        parameters: vec![
            ("filter", filter.as_ref().map(|filter| filter.text().to_owned())),
            ("sort", sort.clone()),
            ("limit", limit.map(|limit| limit.to_string())),
            ("after", after.clone()),
        ],
    }
}
