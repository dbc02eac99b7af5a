//! Anthropic's Messages API from providers with OpenAI's chat completions: what Anthropic's clients use any model through.

mod reply;
mod request;
mod stream;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::TokenUsage;
use crate::write_json;

pub use reply::reply;
pub use request::request;
pub(super) use stream::MessagesStream;

/// OpenAI's counts.
#[derive(Deserialize, Default)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    prompt_tokens_details: Option<PromptDetails>,
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize, Default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

impl Usage {
    fn tokens(&self) -> TokenUsage {
        TokenUsage {
            prompt: self.prompt_tokens.unwrap_or(0),
            cached: self
                .prompt_tokens_details
                .as_ref()
                .and_then(|details| details.cached_tokens)
                .unwrap_or(0),
            completion: self.completion_tokens.unwrap_or(0),
            reasoning: self
                .completion_tokens_details
                .as_ref()
                .and_then(|details| details.reasoning_tokens)
                .unwrap_or(0),
        }
    }
}

/// The same in Anthropic's terms, where cached tokens are not part of the input.
fn usage_json(usage: TokenUsage) -> Value {
    json!({
        "input_tokens": usage.prompt.saturating_sub(usage.cached),
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached,
        "output_tokens": usage.completion,
    })
}

/// Anthropic's word for a `finish_reason`. Some servers answer `stop` after calls.
fn stop_reason(finish_reason: &str, has_calls: bool) -> &'static str {
    match finish_reason {
        "length" => "max_tokens",
        "content_filter" => "refusal",
        "tool_calls" | "function_call" => "tool_use",
        _ if has_calls => "tool_use",
        _ => "end_turn",
    }
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
