//! Requests for language models, as far as the gateway reads them, and Anthropic's errors.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ErrorCode;

/// A request for a language model. Everything else is passed on to the upstream as it is, or translated for its API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LlmRequest {
    /// The name of a route; `UPSTREAM/NAME` without one.
    pub model: String,
    /// Whether the reply is a stream of server-sent events.
    #[serde(default)]
    pub stream: Option<bool>,
    /// Values that the conditions of routes are compared with.
    #[serde(default)]
    pub metadata: Option<Map<String, Value>>,
}

/// The body of errors in Anthropic's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnthropicErrorBody {
    /// Always `error`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The error.
    pub error: AnthropicError,
    /// The request's id.
    pub request_id: Option<String>,
}

/// An error in Anthropic's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnthropicError {
    /// Its class, which follows from the status.
    #[serde(rename = "type")]
    pub kind: String,
    /// What failed, and the remedy.
    pub message: String,
}

impl AnthropicErrorBody {
    /// The body for an error of the gateway.
    pub fn of(code: ErrorCode, message: String, request_id: Option<String>) -> AnthropicErrorBody {
        let kind = match code.status() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            413 => "request_too_large",
            429 => "rate_limit_error",
            503 => "overloaded_error",
            504 => "timeout_error",
            500.. => "api_error",
            _ => "invalid_request_error",
        };
        let error = AnthropicError { kind: kind.to_owned(), message };
        AnthropicErrorBody { kind: "error".to_owned(), error, request_id }
    }
}
