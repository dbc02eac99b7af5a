//! Whose API a route imitates: this decides the shape of its errors.

use axum::http::StatusCode;
use serde::Serialize;
use weir_api::{ErrorCode, OpenAiErrorBody, Problem, TeiError, TeiErrorType};

/// Whose API a route imitates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// Nobody's: it is our own.
    Native,
    /// OpenAI's.
    OpenAi,
    /// That of Hugging Face's text-embeddings-inference.
    Tei,
}

impl Dialect {
    /// The dialect of a path. Paths under which there is no route are native.
    pub(super) fn of(path: &str) -> Dialect {
        match path {
            "/v1/embeddings" | "/embeddings" | "/v1/models" | "/models" => Dialect::OpenAi,
            "/embed" | "/info" | "/health" => Dialect::Tei,
            _ if path.starts_with("/v1/models/") || path.starts_with("/models/") => Dialect::OpenAi,
            _ => Dialect::Native,
        }
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_has_the_dialect_of_the_api_that_it_imitates() {
        for path in ["/v1/embeddings", "/embeddings", "/v1/models", "/v1/models/a/b", "/models", "/models/a"]
        {
            assert_eq!(Dialect::of(path), Dialect::OpenAi, "{path}");
        }
        for path in ["/embed", "/info", "/health"] {
            assert_eq!(Dialect::of(path), Dialect::Tei, "{path}");
        }
        for path in ["/v1/search", "/healthz", "/v1/modelsx", "/v1/embeddings/a", "/"] {
            assert_eq!(Dialect::of(path), Dialect::Native, "{path}");
        }
    }
}
