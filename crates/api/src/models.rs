//! `GET /v1/models`, compatible with OpenAI's API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ListObject;

/// All models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ModelList")]
pub struct ModelsReply {
    /// Always `list`.
    pub object: ListObject,
    /// The models: the default one first, rerankers last.
    pub data: Vec<ModelReply>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Model")]
pub struct ModelReply {
    /// The id.
    pub id: String,
    /// Always `model`.
    pub object: ModelObject,
    /// Time of loading, in unix seconds.
    pub created: u64,
    /// Always `weir`.
    pub owned_by: String,
    /// Other names of the model.
    pub alias: Vec<String>,
    /// The model's capabilities.
    pub capabilities: Vec<Capability>,
    /// Dimension of the embeddings; null for a reranker, and while an upstream's dimension is unknown.
    pub dimensions: Option<usize>,
    /// Most tokens of a text, or of query and text of a reranker, including special tokens; null if there is no limit.
    pub max_input_tokens: Option<usize>,
    /// Hash of everything that determines the model's output.
    pub fingerprint: String,
}

/// The constant `model`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ModelObject {
    /// The constant.
    #[default]
    Model,
}

/// A capability of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// Embeds texts.
    Embeddings,
    /// Scores how well a text answers a query.
    Rerank,
}
