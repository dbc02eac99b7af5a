//! `POST /embed` and `GET /info`, compatible with Hugging Face's text-embeddings-inference (TEI).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Count, ErrorCode, Invalid, Limits, Result, TextRole, Texts, Truncate};

/// Texts to embed with the default model. Unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct EmbedRequest {
    /// The texts; required unless there are `texts`.
    pub inputs: Option<Texts>,
    /// The texts, for a reply `{"embeddings": […]}` in place of a list.
    pub texts: Option<Texts>,
    /// Whether texts longer than the model's input limit are truncated or refused; default: true. A value of `truncate`
    /// of `/v1/embeddings` is also accepted and overrides `truncation_direction`.
    pub truncate: Option<EmbedTruncate>,
    /// The side on which texts are truncated; default: `Right`.
    pub truncation_direction: Option<TruncationDirection>,
    /// The role of the texts, which determines the model's prompt; default: no prompt.
    pub prompt_name: Option<TextRole>,
    /// Whether embeddings are normalised to length one; default: true.
    pub normalize: Option<bool>,
    /// Dimension of the embeddings, for models trained for shorter ones (Matryoshka); default: the model's own.
    pub dimensions: Option<Count>,
}

/// The reply to `texts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TextsReply {
    /// An embedding for each text, in order.
    pub embeddings: Vec<Vec<f32>>,
}

/// The reply of `POST /embed`: a list of embeddings for `inputs`, an object with them for `texts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EmbedReply {
    /// For `inputs`.
    List(Vec<Vec<f32>>),
    /// For `texts`.
    Object(TextsReply),
}

/// Texts whose tokens are embedded. Unknown fields are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct EmbedAllRequest {
    /// The texts.
    pub inputs: Texts,
    /// The role of the texts, which determines the model's prompt; default: no prompt.
    pub prompt_name: Option<TextRole>,
}

/// A sentence, and sentences to compare it with.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct SimilarityRequest {
    /// The sentences.
    pub inputs: SimilarityInputs,
    /// How they are embedded.
    pub parameters: Option<SimilarityParameters>,
}

/// The sentences to compare.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct SimilarityInputs {
    /// The sentence that is compared with all others.
    pub source_sentence: String,
    /// The others.
    pub sentences: Texts,
}

/// How sentences are embedded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct SimilarityParameters {
    /// Whether long sentences are truncated or refused; default: true.
    pub truncate: Option<EmbedTruncate>,
    /// The side on which sentences are truncated; default: `Right`.
    pub truncation_direction: Option<TruncationDirection>,
    /// The role of the sentences, which determines the model's prompt; default: no prompt.
    pub prompt_name: Option<TextRole>,
}

/// Texts to split into tokens.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct TokenizeRequest {
    /// The texts.
    pub inputs: Texts,
    /// Whether special tokens are added; default: true.
    pub add_special_tokens: Option<bool>,
    /// The role of the texts, which determines the model's prompt; default: no prompt.
    pub prompt_name: Option<TextRole>,
}

/// A token of a text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeiToken {
    /// Its id.
    pub id: u32,
    /// The part of the text, or the name of a special token.
    pub text: String,
    /// Whether it is a special token.
    pub special: bool,
    /// First byte in the text; null for a special token.
    pub start: Option<usize>,
    /// End in the text, exclusive; null for a special token.
    pub stop: Option<usize>,
}

/// Tokens to be joined to texts.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct DecodeRequest {
    /// The ids of one text, or of several.
    pub ids: TokenIds,
    /// Whether special tokens are left out; default: true.
    pub skip_special_tokens: Option<bool>,
}

/// Token ids of one text, or of several.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a list of token ids, or a list of such lists")]
pub enum TokenIds {
    /// Of one text.
    One(Vec<u32>),
    /// Of several.
    Many(Vec<Vec<u32>>),
}

/// Texts, or pairs of texts, to classify.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct PredictRequest {
    /// The texts.
    pub inputs: PredictInputs,
    /// Whether scores are logits; default: false.
    pub raw_scores: Option<bool>,
    /// Whether long inputs are truncated or refused; default: true.
    pub truncate: Option<bool>,
    /// Always `Right`: inputs lose their end.
    pub truncation_direction: Option<TruncationDirection>,
}

/// One text, one pair, or a list of either.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "a text, a pair of texts, or a list of lists of one or two texts")]
pub enum PredictInputs {
    /// One text.
    Text(String),
    /// A pair.
    Pair(Vec<String>),
    /// Texts and pairs.
    Many(Vec<Vec<String>>),
}

/// The labels of one input, the best first.
pub type Labels = Vec<Label>;

/// A label with its score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Label {
    /// The label.
    pub label: String,
    /// Its probability, or its logit.
    pub score: f32,
}

/// The labels of one input, or of several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PredictReply {
    /// Of one input.
    One(Labels),
    /// Of several, in order.
    Many(Vec<Labels>),
}

/// How long texts are truncated: TEI's boolean, or a value of `/v1/embeddings`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "`true`, `false`, `end`, `start`, `split` or `error`")]
pub enum EmbedTruncate {
    /// Whether long texts are truncated.
    Enabled(bool),
    /// How long texts are truncated.
    Mode(Truncate),
}

/// The side on which a text is truncated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TruncationDirection {
    /// The start is cut off.
    #[serde(alias = "left")]
    Left,
    /// The end is cut off.
    #[default]
    #[serde(alias = "right")]
    Right,
}

impl EmbedRequest {
    /// Takes the texts, and the name of their field.
    ///
    /// # Errors
    /// Those of the texts; `invalid_parameter` without texts, and with both fields.
    pub fn take_texts(&mut self, limits: &Limits) -> Result<(Texts, &'static str)> {
        let (texts, field) = match (self.inputs.take(), self.texts.take()) {
            (Some(texts), None) => (texts, "inputs"),
            (None, Some(texts)) => (texts, "texts"),
            (given, _) => {
                let what = if given.is_some() {
                    "`inputs` and `texts` are both sent"
                } else {
                    "missing field `inputs`"
                };
                let message = format!(
                    "{what}; send `inputs` for a list of embeddings, or `texts` for {{\"embeddings\": […]}}"
                );
                return Err(Invalid::at(ErrorCode::InvalidParameter, &["inputs"], message));
            }
        };
        texts.check(field, limits)?;
        Ok((texts, field))
    }

    /// How texts longer than the model's input limit are truncated.
    pub fn truncate(&self) -> Truncate {
        EmbedTruncate::resolve(self.truncate, self.truncation_direction)
    }
}

impl SimilarityParameters {
    /// How sentences longer than the model's input limit are truncated.
    pub fn truncate(&self) -> Truncate {
        EmbedTruncate::resolve(self.truncate, self.truncation_direction)
    }
}

impl EmbedTruncate {
    /// How long texts are truncated, by the fields `truncate` and `truncation_direction` of a request.
    pub(crate) fn resolve(
        truncate: Option<EmbedTruncate>,
        direction: Option<TruncationDirection>,
    ) -> Truncate {
        match (truncate, direction.unwrap_or_default()) {
            (Some(EmbedTruncate::Mode(truncate)), _) => truncate,
            (Some(EmbedTruncate::Enabled(false)), _) => Truncate::Error,
            (Some(EmbedTruncate::Enabled(true)) | None, TruncationDirection::Left) => Truncate::Start,
            (Some(EmbedTruncate::Enabled(true)) | None, TruncationDirection::Right) => Truncate::End,
        }
    }
}

/// The reply of `GET /info`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ServerInfo")]
pub struct InfoReply {
    /// Id of the default model.
    pub model_id: String,
    /// Hash of everything that determines an embedding.
    pub model_sha: Option<String>,
    /// The numeric type of the computation.
    pub model_dtype: String,
    /// The model's name in requests.
    pub served_model_name: String,
    /// The kind of model.
    pub model_type: InfoModelType,
    /// Most concurrent requests.
    pub max_concurrent_requests: usize,
    /// Most tokens of a text, including special tokens.
    pub max_input_length: usize,
    /// Most tokens of a request.
    pub max_batch_tokens: usize,
    /// Always null: batches are limited by tokens only.
    pub max_batch_requests: Option<usize>,
    /// Most texts of a request.
    pub max_client_batch_size: usize,
    /// Always true: long texts are truncated unless the request sets `truncate` to false.
    pub auto_truncate: bool,
    /// Number of tokenizer threads.
    pub tokenization_workers: usize,
    /// The version of Weir.
    pub version: String,
    /// Always null.
    pub sha: Option<String>,
    /// Always null.
    pub docker_label: Option<String>,
}

/// The kind of a model; TEI has further kinds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InfoModelType {
    /// An embedding model.
    Embedding(InfoEmbedding),
}

/// Properties of an embedding model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InfoEmbedding {
    /// How token embeddings are pooled.
    pub pooling: String,
}

/// The body of every error reply on TEI's routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeiError {
    /// The failure and its remedy.
    pub error: String,
    /// The class of the error.
    pub error_type: TeiErrorType,
}

/// The classes of TEI's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TeiErrorType {
    /// A component is not ready: 503.
    Unhealthy,
    /// An error of the server: 424.
    Backend,
    /// The server is at its capacity: 429.
    Overloaded,
    /// The request is invalid: 422.
    Validation,
    /// The request has no text, or an empty one: 400.
    Empty,
}

impl TeiErrorType {
    /// The class of a code, and TEI's HTTP status for it.
    pub fn of(code: ErrorCode) -> (TeiErrorType, u16) {
        match (code, code.status()) {
            (ErrorCode::EmptyInput, _) => (TeiErrorType::Empty, 400),
            (
                ErrorCode::RateLimitExceeded
                | ErrorCode::Overloaded
                | ErrorCode::DeadlineExceeded
                | ErrorCode::UpstreamTimeout,
                _,
            ) => (TeiErrorType::Overloaded, 429),
            (_, 503) => (TeiErrorType::Unhealthy, 503),
            (_, 400) => (TeiErrorType::Validation, 422),
            (_, status @ 401..500) => (TeiErrorType::Validation, status),
            (_, _) => (TeiErrorType::Backend, 424),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_class_and_status_of_tei() {
        let check =
            |code, expected: (TeiErrorType, u16)| assert_eq!(TeiErrorType::of(code), expected, "{code}");
        check(ErrorCode::InvalidJson, (TeiErrorType::Validation, 422));
        check(ErrorCode::ContextLengthExceeded, (TeiErrorType::Validation, 422));
        check(ErrorCode::TokenInputUnsupported, (TeiErrorType::Validation, 422));
        check(ErrorCode::PayloadTooLarge, (TeiErrorType::Validation, 413));
        check(ErrorCode::MethodNotAllowed, (TeiErrorType::Validation, 405));
        check(ErrorCode::EmptyInput, (TeiErrorType::Empty, 400));
        check(ErrorCode::Overloaded, (TeiErrorType::Overloaded, 429));
        check(ErrorCode::DeadlineExceeded, (TeiErrorType::Overloaded, 429));
        check(ErrorCode::StoreUnavailable, (TeiErrorType::Unhealthy, 503));
        check(ErrorCode::Internal, (TeiErrorType::Backend, 424));
    }

    #[test]
    fn texts_are_truncated_on_the_right_by_default() {
        let truncate = |more: &str| {
            let body = format!("{{\"inputs\":\"a\"{more}}}");
            crate::parse::<EmbedRequest>(body.as_bytes()).unwrap().truncate()
        };
        assert_eq!(truncate(""), Truncate::End);
        assert_eq!(truncate(r#","truncate":null,"truncation_direction":null"#), Truncate::End);
        assert_eq!(truncate(r#","truncation_direction":"left""#), Truncate::Start);
        assert_eq!(truncate(r#","truncate":true,"truncation_direction":"Left""#), Truncate::Start);
        assert_eq!(truncate(r#","truncate":false,"truncation_direction":"Left""#), Truncate::Error);
        assert_eq!(truncate(r#","truncate":"split""#), Truncate::Split);
        assert_eq!(truncate(r#","truncate":"start","truncation_direction":"Right""#), Truncate::Start);
    }
}
