//! Anthropic's Messages API from providers with OpenAI's chat completions: what Anthropic's clients use any model through.
