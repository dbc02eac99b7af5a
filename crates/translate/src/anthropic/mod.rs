//! OpenAI's chat completions from Anthropic's Messages API.

mod model;
mod reply;
mod request;
mod stream;

use std::ops::Range;

use serde_json::Value;

use crate::completion::Annotation;

pub use reply::reply;
pub(crate) use request::tool_id;
pub use request::{TOKENS_MAX, limit_max, request};
pub(super) use stream::AnthropicStream;

/// OpenAI's word for a `stop_reason`.
fn finish_reason(stop_reason: &str) -> &'static str {
    match stop_reason {
        "max_tokens" | "model_context_window_exceeded" => "length",
        "tool_use" => "tool_calls",
        "refusal" => "content_filter",
        // end_turn, stop_sequence, pause_turn, and reasons that do not exist yet
        _ => "stop",
    }
}

/// A citation of a text block, if it has an address. `span` are the characters of the block.
fn annotation(citation: &Value, span: &Range<usize>) -> Option<Annotation> {
    let is_address = |text: &&str| text.contains("://");
    let url = citation["url"].as_str().or(citation["source"].as_str()).filter(is_address)?;
    Some(Annotation::url(span.clone(), url, citation["title"].as_str().unwrap_or_default()))
}
