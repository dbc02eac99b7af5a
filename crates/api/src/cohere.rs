//! `POST /v1/embed` and `/v2/embed`, compatible with Cohere's API. Unknown fields are ignored: clients send them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rerank::CohereVersion;
use crate::{Count, Limits, Result, TextRole, Texts, Truncate};

/// Texts to embed.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct CohereEmbedRequest {
    /// The id or an alias of a model.
    pub model: String,
    /// The texts.
    pub texts: Texts,
    /// The role of the texts, which determines the model's prompt.
    pub input_type: Option<CohereInputType>,
    /// The types of embeddings in the reply; default: `float`.
    #[serde(default)]
    pub embedding_types: Vec<EmbeddingType>,
    /// Dimension of the embeddings, for models trained for shorter ones (Matryoshka); default: the model's own.
    pub output_dimension: Option<Count>,
    /// How texts longer than the model's input limit are truncated; default: `END`.
    pub truncate: Option<Truncate>,
}

/// The role of texts in Cohere's API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CohereInputType {
    /// Queries.
    SearchQuery,
    /// Documents.
    SearchDocument,
    /// Texts to be classified: without a prompt.
    Classification,
    /// Texts to be clustered: without a prompt.
    Clustering,
}

/// A type of embeddings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingType {
    /// Floats.
    Float,
    /// Signed bytes: each value times 127, divided by the embedding's largest.
    Int8,
    /// Unsigned bytes: `int8` plus 128.
    Uint8,
    /// One bit per value, 1 if it is positive; eight in a byte, the first in the highest bit; less 128.
    Binary,
    /// The same as unsigned bytes.
    Ubinary,
    /// Little-endian floats in base64.
    Base64,
}

impl CohereEmbedRequest {
    /// Validates the request by itself.
    ///
    /// # Errors
    /// Those of [`Texts::check`].
    pub fn check(&self, limits: &Limits) -> Result<()> {
        self.texts.check("texts", limits)
    }

    /// The role of the texts.
    pub fn role(&self) -> Option<TextRole> {
        match self.input_type? {
            CohereInputType::SearchQuery => Some(TextRole::Query),
            CohereInputType::SearchDocument => Some(TextRole::Document),
            CohereInputType::Classification | CohereInputType::Clustering => None,
        }
    }
}

/// The reply of Cohere's API.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CohereEmbedReply {
    /// A new id.
    pub id: String,
    /// `embeddings_floats` for a list, `embeddings_by_type` otherwise; on `/v1/embed` alone.
    pub response_type: Option<String>,
    /// The embeddings, in the order of the texts.
    pub embeddings: CohereEmbeddings,
    /// The texts of the request.
    pub texts: Vec<String>,
    /// Token counts.
    pub meta: CohereMeta,
}

/// Embeddings: a list, on `/v1/embed` without `embedding_types`, or a list per type.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CohereEmbeddings {
    /// Floats.
    Floats(Vec<Vec<f32>>),
    /// By type.
    ByType(Box<EmbeddingsByType>),
}

/// Embeddings by type; those that were not asked for are absent.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EmbeddingsByType {
    /// Floats.
    pub float: Option<Vec<Vec<f32>>>,
    /// Signed bytes.
    pub int8: Option<Vec<Vec<i8>>>,
    /// Unsigned bytes.
    pub uint8: Option<Vec<Vec<u8>>>,
    /// Packed bits as signed bytes.
    pub binary: Option<Vec<Vec<i8>>>,
    /// Packed bits as unsigned bytes.
    pub ubinary: Option<Vec<Vec<u8>>>,
    /// Little-endian floats in base64.
    pub base64: Option<Vec<String>>,
}

/// Cohere's metadata of a request for embeddings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CohereMeta {
    /// The version of the API.
    pub api_version: CohereVersion,
    /// Token counts.
    pub billed_units: CohereUnits,
}

/// The units that Cohere bills.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CohereUnits {
    /// Embedded tokens.
    pub input_tokens: usize,
}

/// The body of errors in Cohere's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CohereError {
    /// The request's id.
    pub id: String,
    /// The failure and its remedy.
    pub message: String,
}
