//! `/v1/collections/{name}/documents`: one document, a list of documents, deletion by filter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::check_bytes;
use crate::{Limits, Metadata, RawJson, Result};

/// One document as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StoredDocument")]
pub struct DocumentReply {
    /// The document's id in its collection.
    pub id: String,
    /// The title, if the document has one.
    pub title: Option<String>,
    /// The text, byte for byte as it was sent.
    pub text: String,
    /// The metadata, byte for byte as it was sent; `{}` if none was sent.
    pub metadata: Metadata,
    /// The number of the operation that wrote this version; it increases with every change.
    pub version: u64,
    /// Number of chunks of the document.
    pub chunks: u64,
}

/// The reply of a `DELETE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Deletion")]
pub struct DeletedReply {
    /// Always true; a missing document or collection is a 404.
    pub deleted: bool,
    /// Number of deleted chunks; absent when a collection was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
    /// The number of the last operation, where several gateways share the store: a search at any of them that asks for it by `at_least` does not see the document. Absent
    /// with one gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<u64>,
}

/// Selects documents to delete.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentsDeleteRequest {
    /// Condition on metadata, in the native or OpenAI's filter syntax.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub filter: Option<RawJson>,
    /// Confirms the deletion of all documents, for a request without a condition. Default: false.
    pub all: Option<bool>,
    /// Only count the documents. Default: false.
    pub dry_run: Option<bool>,
}

/// The result of a deletion by filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentsDeleteReply {
    /// Number of searchable documents that match the filter. A lower bound in a Qdrant cluster, where a comparison with a date leaves
    /// more than 10,000 to be looked at one by one.
    pub matched: u64,
    /// Number of deleted documents.
    pub deleted: u64,
    /// Number of matching documents that were not deleted because a newer version is not yet searchable.
    pub skipped: u64,
    /// Number of matching documents beyond the limit of one request; repeat the request to delete them.
    pub remaining: u64,
    /// Whether the documents were only counted.
    pub dry_run: bool,
    /// The number of the last operation, where several gateways share the store: a search at any of them that asks for it by `at_least` does not see the documents. Absent
    /// with one gateway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<u64>,
}

impl DocumentsDeleteRequest {
    /// Validates the request without parsing the filter.
    ///
    /// # Errors
    /// `payload_too_large` for a filter that is too long.
    pub fn check(&self, limits: &Limits) -> Result<()> {
        let bytes = self.filter.as_ref().map_or(0, |filter| filter.text().len());
        check_bytes(&["filter"], "the filter", bytes, limits.filter_bytes_max, "filter_bytes_max")
    }
}
