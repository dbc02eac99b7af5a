//! Errors of other providers as OpenAI's.

use serde_json::{Value, json};

use crate::write_json;

/// The API that a body comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// Anthropic's Messages API.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
}

/// Bytes of a body without JSON that are repeated in the message.
const TEXT_BYTES_MAX: usize = 1000;

/// Translates the body of a reply with an error status to OpenAI's `{"error":{…}}`. The message is kept.
pub fn error(dialect: Dialect, status: u16, body: &[u8]) -> Vec<u8> {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    // Gemini answers a stream's request with a list.
    let error = match &json {
        Value::Array(list) => list.first().map_or(&Value::Null, |first| &first["error"]),
        _ => &json["error"],
    };
    let message = message(error, status, body);
    let kind = match dialect {
        Dialect::Anthropic => error["type"].as_str(),
        Dialect::Gemini => error["status"].as_str(),
    };
    let (code, param) = match status {
        _ if is_too_long(&message) => (Some("context_length_exceeded"), Some("messages")),
        401 => (Some("invalid_api_key"), None),
        404 => (Some("model_not_found"), Some("model")),
        429 => (Some("rate_limit_exceeded"), None),
        _ => (kind, None),
    };
    let error = json!({"message": message, "type": error_type(status), "param": param, "code": code});
    write_json(&json!({"error": error}))
}

/// The message of an error body; the body's text when it is something else.
pub(super) fn message(error: &Value, status: u16, body: &[u8]) -> String {
    if let Some(message) = error["message"].as_str().or(error.as_str()).filter(|text| !text.is_empty()) {
        return message.to_owned();
    }
    let text = String::from_utf8_lossy(&body[..body.len().min(TEXT_BYTES_MAX)]);
    match text.trim() {
        "" => format!("the provider answered with status {status}"),
        text => format!("the provider answered with status {status}: {text}"),
    }
}

/// Whether a message says that the prompt is longer than the model reads, in Anthropic's or in Gemini's words.
fn is_too_long(message: &str) -> bool {
    ["prompt is too long", "exceed context limit", "input token count"]
        .iter()
        .any(|words| message.contains(words))
}

fn error_type(status: u16) -> &'static str {
    match status {
        403 => "permission_error",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        _ => "server_error",
    }
}
