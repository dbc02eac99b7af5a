//! `/v1/collections/{name}/documents`: one document, a list of them, and deleting by filter.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::limits::check_bytes;
use crate::{Invalid, Limits, Metadata, RawJson};

/// One document as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentReply {
    /// The document's id in its collection.
    pub id: String,
    /// The title, when it was sent with one.
    pub title: Option<String>,
    /// The text, byte for byte as it was sent.
    pub text: String,
    /// The metadata as it was sent; `{}` when none was.
    pub metadata: Metadata,
    /// The number of the operation that made this version: it grows with every change.
    pub version: u64,
    /// Into how many chunks the text was cut.
    pub chunks: u64,
}

/// The reply of a `DELETE`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeletedReply {
    /// Always true; what isn't there is a 404.
    pub deleted: bool,
    /// How many chunks went with the document; absent when a collection was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunks: Option<u64>,
}

/// Which documents are to be deleted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DocumentsDeleteRequest {
    /// Conditions on metadata, in either form of the filter language.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub filter: Option<RawJson>,
    /// Whether a filter without any condition, or none, is meant: every document. False when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub all: Option<bool>,
    /// Whether they are only counted. False when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}

/// What was deleted by a filter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DocumentsDeleteReply {
    /// Searchable documents that passed the filter.
    pub matched: u64,
    /// Those that are gone now.
    pub deleted: u64,
    /// Those that have changed meanwhile and were left; what they have become is searchable soon.
    pub skipped: u64,
    /// Those beyond the limit of one request: send it again.
    pub remaining: u64,
    /// Whether they were only counted.
    pub dry_run: bool,
}

impl DocumentsDeleteRequest {
    /// Checks what can be checked without reading the filter.
    ///
    /// # Errors
    /// A filter that is too long.
    pub fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        let bytes = self.filter.as_ref().map_or(0, |filter| filter.text().len());
        check_bytes(&["filter"], "the filter", bytes, limits.filter_bytes_max, "filter_bytes_max")
    }
}
