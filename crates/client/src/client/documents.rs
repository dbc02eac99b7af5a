//! `/v1/collections/{name}/documents`.

use http::header::{IF_MATCH, IF_NONE_MATCH};
use weir_api::{
    DeletedReply, Document, DocumentPatch, DocumentReply, DocumentsDeleteReply, DocumentsDeleteRequest,
    JobReply, List, RawJson,
};

use super::collections::collection_path;
use super::pages::{Listing, Pages};
use crate::call::{ApiCall, encode, with_query};
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

/// The condition under which a document is written; otherwise the call fails with `precondition_failed`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Condition {
    /// None.
    #[default]
    Always,
    /// The document exists.
    Exists,
    /// The document does not exist.
    Absent,
    /// The document has this `version`.
    Version(u64),
}

impl Condition {
    fn of(self, call: ApiCall) -> ApiCall {
        match self {
            Condition::Always => call,
            Condition::Exists => call.with_header(IF_MATCH, "*"),
            // a repetition would fail, because the first one changed the version
            Condition::Absent => call.with_header(IF_NONE_MATCH, "*").once(),
            Condition::Version(version) => call.with_value(IF_MATCH, &format!("\"{version}\"")).once(),
        }
    }
}

/// How a request that stores documents is carried out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WriteOptions<'a> {
    /// The condition of a write of one document.
    pub condition: Condition,
    /// A text of 1 to 255 ASCII characters that is new for each request, such as a UUID: a call with the same key and the same content gives
    /// the job of the first, and stores nothing. The call is then repeated also where its reply was lost.
    pub idempotency_key: Option<&'a str>,
    /// The address that the gateway calls at the end of the job.
    pub webhook_url: Option<&'a str>,
}

impl WriteOptions<'_> {
    /// The call under its condition and with its key.
    pub(super) fn of(&self, call: ApiCall) -> Result<ApiCall> {
        let call = self.condition.of(call);
        match self.idempotency_key {
            Some(key) => call.with_idempotency_key(key),
            None => Ok(call),
        }
    }

    fn webhook(&self) -> [(&'static str, Option<String>); 1] {
        [("webhook_url", self.webhook_url.map(str::to_owned))]
    }
}

impl Client {
    /// One document.
    pub async fn document(&self, collection: &str, id: &str) -> Result<DocumentReply> {
        self.value(ApiCall::get(document_path(collection, id))).await
    }

    /// The file from which a document was made, if it was kept (`keep_original`).
    pub async fn original(&self, collection: &str, id: &str) -> Result<Vec<u8>> {
        let call = ApiCall::get(format!("{}/original", document_path(collection, id)));
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
        self.value(ApiCall::delete(document_path(collection, id))).await
    }

    /// Stores one document under its id, if it meets the condition.
    pub async fn put_document(
        &self,
        collection: &str,
        id: &str,
        document: &Document,
        condition: Condition,
    ) -> Result<JobReply> {
        self.put_document_with(collection, id, document, WriteOptions { condition, ..Default::default() })
            .await
    }

    /// The same with a key, or a webhook.
    pub async fn put_document_with(
        &self,
        collection: &str,
        id: &str,
        document: &Document,
        options: WriteOptions<'_>,
    ) -> Result<JobReply> {
        let path = with_query(document_path(collection, id), &options.webhook());
        self.value(options.of(ApiCall::put(path, document))?).await
    }

    /// Changes title and metadata of a document, if it meets the condition. Nothing is embedded again.
    pub async fn patch_document(
        &self,
        collection: &str,
        id: &str,
        patch: &DocumentPatch,
        condition: Condition,
    ) -> Result<JobReply> {
        self.patch_document_with(collection, id, patch, WriteOptions { condition, ..Default::default() })
            .await
    }

    /// The same with a key, or a webhook.
    pub async fn patch_document_with(
        &self,
        collection: &str,
        id: &str,
        patch: &DocumentPatch,
        options: WriteOptions<'_>,
    ) -> Result<JobReply> {
        let path = with_query(document_path(collection, id), &options.webhook());
        self.value(options.of(ApiCall::patch(path, patch))?).await
    }

    /// Deletes one document, if it meets the condition.
    pub async fn delete_document_if(
        &self,
        collection: &str,
        id: &str,
        condition: Condition,
    ) -> Result<DeletedReply> {
        self.value(condition.of(ApiCall::delete(document_path(collection, id)))).await
    }

    /// Deletes the documents that match a filter, up to the gateway's limit for one request.
    pub async fn delete_documents(
        &self,
        collection: &str,
        request: &DocumentsDeleteRequest,
    ) -> Result<DocumentsDeleteReply> {
        let path = format!("{}/documents/delete", collection_path(collection));
        self.value(ApiCall::post(path, request)).await
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
