//! `GET /v1/models`, in the shape of OpenAI's API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ListObject;

/// All models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelsReply {
    /// Always `list`.
    pub object: ListObject,
    /// The models, the default one first, and those that rerank last.
    pub data: Vec<ModelReply>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ModelReply {
    /// The id.
    pub id: String,
    /// Always `model`.
    pub object: ModelObject,
    /// When it was loaded, in unix seconds.
    pub created: u64,
    /// Always `weir`.
    pub owned_by: String,
    /// Other names for it.
    pub alias: Vec<String>,
    /// What it can do.
    pub capabilities: Vec<Capability>,
    /// Floats of an embedding; null as long as an upstream has not told, and for a model that makes none.
    pub dimensions: Option<usize>,
    /// Tokens of a text, or of query and text together, that it reads, the special ones included; null for a model without such a
    /// limit.
    pub max_input_tokens: Option<usize>,
    /// Hash of everything that decides an embedding or a score.
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

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Capability {
    /// It embeds texts.
    Embeddings,
    /// It says how well a text answers a query.
    Rerank,
}
