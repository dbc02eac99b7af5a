//! The routes under `/api/`, compatible with Ollama's API. The routes that embed ignore unknown fields; those for chat refuse them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

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

/// A conversation to continue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaChatRequest {
    /// The name of a route, or `UPSTREAM/NAME`; `:latest` behind it is ignored.
    pub model: String,
    /// The messages; none only checks that there is the model.
    #[serde(default)]
    pub messages: Vec<Map<String, Value>>,
    /// The functions that the model may call.
    #[serde(default)]
    pub tools: Option<Vec<Map<String, Value>>>,
    /// The fields that both routes for chat have.
    #[serde(flatten)]
    pub options: OllamaChatOptions,
}

/// A prompt to answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaGenerateRequest {
    /// The name of a route, or `UPSTREAM/NAME`; `:latest` behind it is ignored.
    pub model: String,
    /// The prompt; none only checks that there is the model.
    #[serde(default)]
    pub prompt: Option<String>,
    /// The text behind the answer; needs an upstream with OpenAI's completions.
    #[serde(default)]
    pub suffix: Option<String>,
    /// Instructions before the prompt.
    #[serde(default)]
    pub system: Option<String>,
    /// Images in base64: PNG, JPEG, GIF or WebP.
    #[serde(default)]
    pub images: Option<Vec<String>>,
    /// Whether the prompt is sent without a template; needs an upstream with OpenAI's completions.
    #[serde(default)]
    pub raw: Option<bool>,
    /// The fields that both routes for chat have.
    #[serde(flatten)]
    pub options: OllamaChatOptions,
}

/// The fields that both routes for chat have.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaChatOptions {
    /// Whether the reply is a stream of lines of JSON; default: true.
    #[serde(default)]
    pub stream: Option<bool>,
    /// `json`, or a JSON schema of the answer.
    #[serde(default)]
    pub format: Option<Value>,
    /// Options such as `temperature`, `num_predict` and `stop`.
    #[serde(default)]
    pub options: Option<Map<String, Value>>,
    /// Whether the model thinks before it answers: true, false, `low`, `medium`, `high` or `max`.
    #[serde(default)]
    pub think: Option<Value>,
    /// Ignored: upstreams keep their models loaded as they are configured.
    #[serde(default)]
    pub keep_alive: Option<Value>,
}

/// The model whose properties are asked for.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema)]
pub struct OllamaShowRequest {
    /// Its id, an alias, or the name of a route; `:latest` behind it is ignored.
    #[serde(default)]
    pub model: String,
    /// The same, in earlier versions.
    #[serde(default)]
    pub name: String,
}

/// The properties of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaShowReply {
    /// Properties.
    pub details: OllamaDetails,
    /// The architecture; the input limit and the dimension of a model that embeds.
    pub model_info: Map<String, Value>,
    /// Kinds of requests to the model: `embedding`; `completion`, `tools` and `vision` of a route, whose upstream may refuse the last two.
    pub capabilities: Vec<String>,
    /// When it was loaded, in the format of RFC 3339.
    pub modified_at: String,
}

/// The version of Ollama's API that is followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaVersion {
    /// The version.
    pub version: String,
}

/// The models in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaProcesses {
    /// The models that embed, the default one first.
    pub models: Vec<OllamaProcess>,
}

/// A model in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaProcess {
    /// The id.
    pub name: String,
    /// The id.
    pub model: String,
    /// Always 0: the size is not known.
    pub size: u64,
    /// Hash of everything that determines an embedding.
    pub digest: String,
    /// Properties.
    pub details: OllamaDetails,
    /// A time far ahead: models stay loaded.
    pub expires_at: String,
    /// Always 0: models run on the CPU.
    pub size_vram: u64,
    /// Most tokens of a text; 0 if there is no limit.
    pub context_length: usize,
}

/// The models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaTags {
    /// The models that embed, the default one first, then those for chat.
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
    /// Hash of everything that determines an embedding; empty for a model of an upstream.
    pub digest: String,
    /// Properties.
    pub details: OllamaDetails,
    /// `embedding`, or `completion`.
    pub capabilities: Vec<String>,
}

/// Properties of a model.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OllamaDetails {
    /// Always empty.
    pub parent_model: String,
    /// Always empty.
    pub format: String,
    /// `bert` for a model that embeds; empty for one of an upstream.
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
    /// The failure and its remedy.
    pub error: String,
}
