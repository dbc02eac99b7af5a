//! The providers and their shapes of errors.

use serde_json::{Value, json};

use crate::request::Refusal;

/// The message of an error in a stream.
pub(crate) const ERROR_IN_STREAM: &str = "error requested by a flag or header";

/// The API that a path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Provider {
    OpenAi,
    Anthropic,
    Gemini,
}

impl Provider {
    /// The provider with this path; OpenAI if unknown.
    pub(crate) fn of_path(path: &str) -> Provider {
        if path.starts_with("/v1/messages") {
            Provider::Anthropic
        } else if path.starts_with("/v1beta/") {
            Provider::Gemini
        } else {
            Provider::OpenAi
        }
    }

    /// The header with the id of a request in replies.
    pub(crate) fn id_header(self) -> &'static str {
        match self {
            Provider::Anthropic => "request-id",
            Provider::OpenAi | Provider::Gemini => "x-request-id",
        }
    }

    /// The body of an error.
    pub(crate) fn error_body(self, refusal: &Refusal) -> String {
        let message = &refusal.message;
        let body: Value = match self {
            Provider::OpenAi => {
                let (kind, code) = openai_kind(refusal.status);
                json!({"error": {"message": message, "type": kind, "param": refusal.param, "code": code}})
            }
            Provider::Anthropic => {
                json!({"type": "error", "error": {"type": anthropic_kind(refusal.status), "message": message}})
            }
            Provider::Gemini => {
                let status = gemini_kind(refusal.status);
                json!({"error": {"code": refusal.status, "message": message, "status": status}})
            }
        };
        body.to_string()
    }

    /// The event by which a provider reports an error in a stream, which ends after it.
    pub(crate) fn error_event(self) -> String {
        let refusal = Refusal { status: 503, message: ERROR_IN_STREAM.to_owned(), param: None };
        let body = self.error_body(&refusal);
        match self {
            Provider::OpenAi => format!("data: {body}\n\n"),
            Provider::Anthropic => format!("event: error\ndata: {body}\n\n"),
            Provider::Gemini => format!("data: {body}\r\n\r\n"),
        }
    }
}

/// `type` and `code` of an OpenAI error.
fn openai_kind(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => ("invalid_request_error", Some("invalid_api_key")),
        403 => ("permission_error", None),
        404 => ("invalid_request_error", Some("not_found")),
        429 => ("requests", Some("rate_limit_exceeded")),
        400..=499 => ("invalid_request_error", None),
        503 => ("server_error", Some("overloaded")),
        _ => ("server_error", None),
    }
}

/// `error.type` of an Anthropic error.
fn anthropic_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..=499 => "invalid_request_error",
        503 | 529 => "overloaded_error",
        _ => "api_error",
    }
}

/// `error.status` of a Gemini error.
fn gemini_kind(status: u16) -> &'static str {
    match status {
        401 => "UNAUTHENTICATED",
        403 => "PERMISSION_DENIED",
        404 => "NOT_FOUND",
        429 => "RESOURCE_EXHAUSTED",
        400..=499 => "INVALID_ARGUMENT",
        503 => "UNAVAILABLE",
        504 => "DEADLINE_EXCEEDED",
        _ => "INTERNAL",
    }
}
