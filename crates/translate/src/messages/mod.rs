//! Anthropic's Messages API from providers with OpenAI's chat completions: what Anthropic's clients use any model through.

mod calls;
mod content;
mod delta;
mod mistral;
mod model;
mod reasoning;
mod reply;
mod request;
mod stream;

use serde_json::{Value, json};

use crate::TokenUsage;
use crate::write_json;

pub(super) use calls::Calls;
pub(super) use delta::{CallDelta, Delta, Piece, provider_error};
pub(super) use model::Model;
pub use reasoning::without_made_reasoning;
pub use reply::reply;
pub use request::request;
pub(super) use stream::MessagesStream;

/// Bytes of the id of a reply within those of its calls: calls have numbers of up to four digits.
const ID_REPLY_BYTES: usize = 30;

/// The same in Anthropic's terms, where tokens of the cache are not part of the input.
fn usage_json(usage: TokenUsage) -> Value {
    json!({
        "input_tokens": usage.prompt.saturating_sub(usage.cached).saturating_sub(usage.cache_write),
        "cache_creation_input_tokens": usage.cache_write,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.completion,
    })
}

/// Anthropic's word for a `finish_reason`. Some servers answer `stop` after calls, and OpenAI with a refusal.
fn stop_reason(finish_reason: &str, has_calls: bool, refuses: bool) -> &'static str {
    match finish_reason {
        "length" | "max_tokens" | "model_length" => "max_tokens",
        "content_filter" => "refusal",
        "tool_calls" | "function_call" => "tool_use",
        _ if has_calls => "tool_use",
        _ if refuses => "refusal",
        _ => "end_turn",
    }
}

/// An id for the call of this number in a reply whose provider gave none: unique, because later requests have calls of several replies. At most 40
/// characters, as OpenAI takes.
pub(crate) fn made_id(reply: &str, number: usize) -> String {
    let reply = reply.strip_prefix("chatcmpl-").unwrap_or(reply);
    let end = reply.floor_char_boundary(ID_REPLY_BYTES);
    format!("call_{}_{number}", &reply[..end])
}

/// Translates the body of a reply with an error status to Anthropic's `{"type":"error",…}`. The message is kept.
pub fn error(status: u16, body: &[u8]) -> Vec<u8> {
    let json: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = super::error::message(&json["error"], status, body);
    let kind = match status {
        401 => "authentication_error",
        402 => "billing_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        400..500 => "invalid_request_error",
        503 | 529 => "overloaded_error",
        504 => "timeout_error",
        _ => "api_error",
    };
    write_json(&json!({"type": "error", "error": {"type": kind, "message": message}}))
}
