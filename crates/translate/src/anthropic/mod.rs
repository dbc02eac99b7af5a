//! OpenAI's chat completions from Anthropic's Messages API.

mod reply;
mod request;
mod stream;

use serde::Deserialize;

use crate::TokenUsage;

pub use reply::reply;
pub use request::{TOKENS_MAX, request};
pub(super) use stream::AnthropicStream;

/// Anthropic's counts. Those of a stream are repeated, and replace the earlier ones.
#[derive(Deserialize, Default)]
struct Usage {
    input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    output_tokens_details: Option<OutputDetails>,
}

#[derive(Deserialize, Default)]
struct OutputDetails {
    thinking_tokens: Option<u64>,
}

impl Usage {
    /// Takes the counts that `later` has.
    fn update(&mut self, later: Usage) {
        let Usage { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, .. } = later;
        self.input_tokens = input_tokens.or(self.input_tokens);
        self.cache_read_input_tokens = cache_read_input_tokens.or(self.cache_read_input_tokens);
        self.cache_creation_input_tokens = cache_creation_input_tokens.or(self.cache_creation_input_tokens);
        self.output_tokens = later.output_tokens.or(self.output_tokens);
        if later.output_tokens_details.is_some() {
            self.output_tokens_details = later.output_tokens_details;
        }
    }

    /// The same in OpenAI's terms, where cached tokens are part of the prompt.
    fn tokens(&self) -> TokenUsage {
        let cached = self.cache_read_input_tokens.unwrap_or(0);
        let prompt = [self.input_tokens, self.cache_creation_input_tokens].into_iter().flatten();
        TokenUsage {
            prompt: prompt.fold(cached, u64::saturating_add),
            cached,
            completion: self.output_tokens.unwrap_or(0),
            reasoning: self
                .output_tokens_details
                .as_ref()
                .and_then(|details| details.thinking_tokens)
                .unwrap_or(0),
        }
    }
}

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
