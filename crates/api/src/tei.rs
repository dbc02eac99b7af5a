//! `POST /embed` and `GET /info`, in the shape of Hugging Face's text-embeddings-inference (TEI).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Count, ErrorCode, Invalid, Limits, TextRole, Texts, Truncate};

/// Texts to embed with the default model. Fields that Weir doesn't know are ignored.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct EmbedRequest {
    /// The texts.
    pub inputs: Texts,
    /// Whether texts that are longer than the model reads are cut (true when absent) or refused. One of the words that
    /// `/v1/embeddings` knows does as well, and alone decides.
    #[serde(default)]
    pub truncate: Option<EmbedTruncate>,
    /// The side on which they are cut; the right one when absent.
    #[serde(default)]
    pub truncation_direction: Option<TruncationDirection>,
    /// The role of the texts, which chooses the model's prompt; none when absent.
    #[serde(default)]
    pub prompt_name: Option<TextRole>,
    /// Whether embeddings get length one; true when absent.
    #[serde(default)]
    pub normalize: Option<bool>,
    /// Floats of an embedding, for models that were trained to be cut; the model's own when absent.
    #[serde(default)]
    pub dimensions: Option<Count>,
}

/// What happens to long texts: TEI's way to say it, or ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum EmbedTruncate {
    /// Whether they are cut.
    Cut(bool),
    /// What is done about them.
    How(Truncate),
}

/// The side on which a text is cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TruncationDirection {
    /// Its start is left out.
    #[serde(alias = "left")]
    Left,
    /// Its end is left out.
    #[default]
    #[serde(alias = "right")]
    Right,
}

impl EmbedRequest {
    /// Checks everything that can be checked without looking anything up.
    ///
    /// # Errors
    /// The first thing that is wrong with the texts.
    pub fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        self.inputs.check("inputs", limits)
    }

    /// What happens to texts that are longer than the model reads.
    pub fn truncate(&self) -> Truncate {
        match (self.truncate, self.truncation_direction.unwrap_or_default()) {
            (Some(EmbedTruncate::How(truncate)), _) => truncate,
            (Some(EmbedTruncate::Cut(false)), _) => Truncate::Error,
            (Some(EmbedTruncate::Cut(true)) | None, TruncationDirection::Left) => Truncate::Start,
            (Some(EmbedTruncate::Cut(true)) | None, TruncationDirection::Right) => Truncate::End,
        }
    }
}

/// The reply of `GET /info`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InfoReply {
    /// The default model.
    pub model_id: String,
    /// Hash of everything that decides an embedding.
    pub model_sha: Option<String>,
    /// The numbers that the model computes with.
    pub model_dtype: String,
    /// The name that callers use.
    pub served_model_name: String,
    /// What the model does.
    pub model_type: InfoModelType,
    /// Requests that are taken at one instant.
    pub max_concurrent_requests: usize,
    /// Tokens of a text that the model reads, the special ones included.
    pub max_input_length: usize,
    /// Tokens that one request may bring.
    pub max_batch_tokens: usize,
    /// Always null: a batch has no limit but its tokens.
    pub max_batch_requests: Option<usize>,
    /// Texts in one request.
    pub max_client_batch_size: usize,
    /// Always true: what is too long is cut unless the request says otherwise.
    pub auto_truncate: bool,
    /// Threads that make tokens.
    pub tokenization_workers: usize,
    /// The version of Weir.
    pub version: String,
    /// Always null.
    pub sha: Option<String>,
    /// Always null.
    pub docker_label: Option<String>,
}

/// What a model does: TEI has other kinds too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InfoModelType {
    /// It embeds.
    Embedding(InfoEmbedding),
}

/// How a model embeds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InfoEmbedding {
    /// How the token vectors of a text become one.
    pub pooling: String,
}

/// The body of every error reply on TEI's routes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TeiError {
    /// What happened and what to do about it.
    pub error: String,
    /// The class.
    pub error_type: TeiErrorType,
}

/// The classes of TEI's errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TeiErrorType {
    /// Something isn't ready: 503.
    Unhealthy,
    /// A fault of the server: 424.
    Backend,
    /// The server has as much work as it takes: 429.
    Overloaded,
    /// The request is wrong: 422.
    Validation,
    /// There is nothing to embed: 400.
    Empty,
}

impl TeiErrorType {
    /// The class of a code, and the HTTP status that TEI's clients expect.
    pub fn of(code: ErrorCode) -> (TeiErrorType, u16) {
        match (code, code.status()) {
            (ErrorCode::EmptyInput, _) => (TeiErrorType::Empty, 400),
            (ErrorCode::Overloaded | ErrorCode::DeadlineExceeded | ErrorCode::UpstreamTimeout, _) => {
                (TeiErrorType::Overloaded, 429)
            }
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
    fn each_code_has_the_class_and_the_status_that_clients_of_tei_know() {
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
    fn texts_are_cut_on_the_right_unless_the_request_says_otherwise() {
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
