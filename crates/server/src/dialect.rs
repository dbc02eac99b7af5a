//! The API whose conventions a route follows: it decides the shape of errors.

use axum::http::StatusCode;
use serde::Serialize;
use weir_api::{ErrorCode, OpenAiErrorBody, Problem, TeiError, TeiErrorType};

/// The API whose conventions a route follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Our own.
    Native,
    /// OpenAI's.
    OpenAi,
    /// That of Hugging Face's text-embeddings-inference.
    Tei,
}

impl Dialect {
    /// The HTTP status of an error.
    pub(super) fn status(self, code: ErrorCode) -> StatusCode {
        let status = match self {
            Dialect::Native | Dialect::OpenAi => code.status(),
            Dialect::Tei => TeiErrorType::of(code).1,
        };
        StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    /// The body of an error, as JSON.
    pub(super) fn render(self, problem: Problem) -> Vec<u8> {
        match self {
            Dialect::Native => to_json(&problem),
            Dialect::OpenAi => to_json(&OpenAiErrorBody { error: problem.error }),
            Dialect::Tei => {
                let (error_type, _) = TeiErrorType::of(problem.code);
                // this body has no other room for the place
                let error = match problem.error.param {
                    Some(place) => format!("{place}: {}", problem.detail),
                    None => problem.detail,
                };
                to_json(&TeiError { error, error_type })
            }
        }
    }
}

fn to_json(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}
