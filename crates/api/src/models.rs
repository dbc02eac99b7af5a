//! `GET /v1/models`, compatible with OpenAI's API.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::ListObject;

/// All models.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ModelList")]
pub struct ModelsReply {
    /// Always `list`.
    pub object: ListObject,
    /// The models: the default one first, then rerankers, then those for chat.
    pub data: Vec<ModelReply>,
}

/// The reply to a request for the models: OpenAI's list, or Anthropic's for requests with the header `anthropic-version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AnyModelsReply {
    /// OpenAI's.
    OpenAi(ModelsReply),
    /// Anthropic's.
    Anthropic(AnthropicModelsReply),
}

/// The reply to a request for one model, in the same APIs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum AnyModelReply {
    /// OpenAI's.
    OpenAi(ModelReply),
    /// Anthropic's.
    Anthropic(AnthropicModel),
}

/// A page of the models in Anthropic's API: those for chat, unless the request names another capability.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "AnthropicModelList")]
pub struct AnthropicModelsReply {
    /// The models of the page.
    pub data: Vec<AnthropicModel>,
    /// Whether there are more in the direction of the page.
    pub has_more: bool,
    /// The first id of the page, for `before_id`.
    pub first_id: Option<String>,
    /// The last id of the page, for `after_id`.
    pub last_id: Option<String>,
}

/// One model in Anthropic's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnthropicModel {
    /// Always `model`.
    #[serde(rename = "type")]
    pub kind: ModelObject,
    /// The id.
    pub id: String,
    /// The id.
    pub display_name: String,
    /// The time of loading in the format of RFC 3339; that of zero seconds for a model of an upstream.
    pub created_at: String,
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
    /// Hash of everything that determines the model's output; empty for a model of an upstream that answers chat requests.
    pub fingerprint: String,
}

/// The reply of `GET /v1/embedder`: what another gateway needs to send texts to an embedding model, and to split and count them as it does.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EmbedderDescription")]
pub struct EmbedderReply {
    /// The id of the model.
    pub model: String,
    /// Hash of everything that determines an embedding, without prompts.
    pub fingerprint: String,
    /// Dimension of the embeddings.
    pub dimension: usize,
    /// Shorter dimensions that the model was trained for.
    pub dimensions: Vec<usize>,
    /// Most tokens of a text, including special tokens; null if there is no limit.
    pub max_input_tokens: Option<usize>,
    /// Whether embeddings have length one.
    pub normalized: bool,
    /// The prompts of the model.
    pub prompts: EmbedderPrompts,
    /// The tokenizer, in the form of Hugging Face's `tokenizer.json`; null for a model without one.
    #[schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")]
    pub tokenizer: Option<Box<RawValue>>,
}

/// Prefixes that a model expects before texts; empty for most models.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct EmbedderPrompts {
    /// Prefix of queries.
    pub query: String,
    /// Prefix of documents.
    pub document: String,
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
    /// Labels texts and pairs of texts.
    Classify,
    /// Answers chat requests, by an upstream.
    Chat,
}

impl Capability {
    /// Every capability.
    pub const ALL: [Capability; 4] =
        [Capability::Chat, Capability::Embeddings, Capability::Rerank, Capability::Classify];

    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Capability::Embeddings => "embeddings",
            Capability::Rerank => "rerank",
            Capability::Classify => "classify",
            Capability::Chat => "chat",
        }
    }
}
