//! `GET` and `DELETE /v1/collections/{name}/documents/{id}`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Metadata;

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
