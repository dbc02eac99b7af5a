//! The API whose conventions a route follows: it decides the shape of errors.

use axum::http::StatusCode;
use serde::Serialize;
use weir_api::{
    AnthropicErrorBody, CohereError, ErrorCode, OllamaError, OpenAiErrorBody, Problem, RerankError, TeiError,
    TeiErrorType,
};

/// The API whose conventions a route follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Our own.
    Native,
    /// OpenAI's.
    OpenAi,
    /// That of Hugging Face's text-embeddings-inference.
    Tei,
    /// Cohere's.
    Cohere,
    /// Anthropic's.
    Anthropic,
    /// Ollama's.
    Ollama,
    /// Of Cohere, Jina and OpenAI at once, on routes that clients of all of them call.
    Rerank,
}

impl Dialect {
    /// Every dialect.
    pub(super) const ALL: [Dialect; 7] = [
        Dialect::Anthropic,
        Dialect::Native,
        Dialect::OpenAi,
        Dialect::Tei,
        Dialect::Cohere,
        Dialect::Ollama,
        Dialect::Rerank,
    ];

    /// The HTTP status of an error.
    pub(super) fn status(self, code: ErrorCode) -> StatusCode {
        let status = match self {
            Dialect::Native
            | Dialect::Anthropic
            | Dialect::OpenAi
            | Dialect::Cohere
            | Dialect::Ollama
            | Dialect::Rerank => code.status(),
            Dialect::Tei => TeiErrorType::of(code).1,
        };
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body of an error, as JSON.
    pub(super) fn render(self, problem: Problem) -> Vec<u8> {
        match self {
            Dialect::Native => to_json(&problem),
            Dialect::OpenAi => to_json(&OpenAiErrorBody { error: problem.error }),
            Dialect::Anthropic => {
                to_json(&AnthropicErrorBody::of(problem.code, with_place(&problem), problem.request_id))
            }
            Dialect::Cohere => to_json(&CohereError { id: id_of(&problem), message: with_place(&problem) }),
            Dialect::Ollama => to_json(&OllamaError { error: with_place(&problem) }),
            Dialect::Rerank => to_json(&RerankError {
                id: id_of(&problem),
                message: with_place(&problem),
                detail: with_place(&problem),
                error: problem.error,
            }),
            Dialect::Tei => {
                let (error_type, _) = TeiErrorType::of(problem.code);
                to_json(&TeiError { error: with_place(&problem), error_type })
            }
        }
    }
}

/// The parameter, if one is wrong, and the detail: for error bodies with a single text.
fn with_place(problem: &Problem) -> String {
    match &problem.error.param {
        Some(place) => format!("{place}: {}", problem.detail),
        None => problem.detail.clone(),
    }
}

fn id_of(problem: &Problem) -> String {
    problem.request_id.clone().unwrap_or_default()
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}
