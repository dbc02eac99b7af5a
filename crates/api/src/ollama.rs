//! `POST /api/embed`, `POST /api/embeddings` and `GET /api/tags`, compatible with Ollama's API. Unknown fields are ignored.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Count, Texts};

/// Texts to embed.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct OllamaEmbedRequest {
    /// The id or an alias of a model; `:latest` behind it is ignored.
    pub model: String,
    /// The texts. Without any, and for a single empty text, the reply has no embeddings. An empty text of a list is embedded.
    pub input: Option<Texts>,
    /// Whether texts longer than the model's input limit are truncated or refused; default: true.
    pub truncate: Option<bool>,
    /// Dimension of the embeddings, for models trained for shorter ones (Matryoshka); default: the model's own.
    pub dimensions: Option<Count>,
}

/// A text to embed, in Ollama's older API.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct OllamaPromptRequest {
    /// The id or an alias of a model; `:latest` behind it is ignored.
    pub model: String,
    /// The text; for an empty one the embedding is an empty list.
    pub prompt: Option<String>,
}

/// The embeddings of texts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaEmbedReply {
    /// The model, as named in the request.
    pub model: String,
    /// One embedding per text, in order; an empty list if there is nothing to embed.
    pub embeddings: Vec<Vec<f32>>,
    /// Nanoseconds of the request.
    pub total_duration: u64,
    /// Always 0: models are loaded at the start.
    pub load_duration: u64,
    /// Embedded tokens.
    pub prompt_eval_count: usize,
}

/// The embedding of one text.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaPromptReply {
    /// The embedding; an empty list for an empty text.
    pub embedding: Vec<f32>,
}

/// The models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaTags {
    /// The default model first.
    pub models: Vec<OllamaModel>,
}

/// One model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaModel {
    /// The id.
    pub name: String,
    /// The id.
    pub model: String,
    /// When it was loaded, in the format of RFC 3339.
    pub modified_at: String,
    /// Always 0: the size is not known.
    pub size: u64,
    /// Hash of everything that determines an embedding.
    pub digest: String,
    /// Properties.
    pub details: OllamaDetails,
}

/// Properties of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaDetails {
    /// Always empty.
    pub parent_model: String,
    /// Always empty.
    pub format: String,
    /// `bert`.
    pub family: String,
    /// The same in a list.
    pub families: Vec<String>,
    /// Always empty.
    pub parameter_size: String,
    /// The numeric type of the computation.
    pub quantization_level: String,
}

/// The body of errors in Ollama's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaError {
    /// What failed, and the remedy.
    pub error: String,
}
