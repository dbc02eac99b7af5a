//! The tokens that a provider counted, found in replies without reading the rest of them.

use std::sync::LazyLock;

use memchr::memmem;
use serde::Deserialize;
use serde_json::Deserializer;

/// Tokens of one request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens of the prompt, cached ones included.
    pub prompt: u64,
    /// Tokens of the prompt that the provider read from its cache.
    pub cached: u64,
    /// Tokens of the completion, reasoning included.
    pub completion: u64,
    /// Tokens of the completion that are reasoning.
    pub reasoning: u64,
}

/// `usage` of OpenAI's chat completions and responses, and of Anthropic's messages.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Usage {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
    /// Anthropic's `input_tokens` do not include these two.
    cache_read_input_tokens: Option<u64>,
    cache_creation_input_tokens: Option<u64>,
    #[serde(alias = "input_tokens_details")]
    prompt_tokens_details: Option<PromptDetails>,
    #[serde(alias = "output_tokens_details")]
    completion_tokens_details: Option<CompletionDetails>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct PromptDetails {
    cached_tokens: Option<u64>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct CompletionDetails {
    reasoning_tokens: Option<u64>,
}

const KEY: &[u8] = b"\"usage\"";
/// Made once: every event of a stream is searched.
static KEY_FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(KEY));

impl TokenUsage {
    /// Whether a reply or events may have a count.
    pub fn is_named(json: &[u8]) -> bool {
        KEY_FINDER.find(json).is_some()
    }

    /// The counts of the last `"usage": {…}` of a reply or an event. Inside of a JSON text the quotes would be escaped, so that a caller's or a
    /// model's words are never taken for it.
    pub fn find(json: &[u8]) -> Option<TokenUsage> {
        TokenUsage::all(json).last()
    }

    /// What the events of a part of a stream count together: Anthropic counts the prompt in the first one and the completion in a later one.
    pub fn of_events(events: &[u8]) -> Option<TokenUsage> {
        TokenUsage::all(events).reduce(TokenUsage::merged)
    }

    fn all(json: &[u8]) -> impl Iterator<Item = TokenUsage> {
        KEY_FINDER.find_iter(json).filter_map(|at| TokenUsage::behind(&json[at + KEY.len()..]))
    }

    /// The counts that follow the key. Not a part of each caller: it is large.
    #[inline(never)]
    fn behind(key: &[u8]) -> Option<TokenUsage> {
        let value = key.trim_ascii_start().strip_prefix(b":").map(<[u8]>::trim_ascii_start);
        let value = value.filter(|value| value.starts_with(b"{"))?;
        let usage = Deserializer::from_slice(value).into_iter::<Usage>().next()?.ok()?;
        Some(usage.counted())
    }

    /// The larger of each count: some providers send the counts of the prompt first and those of the completion later.
    pub fn merged(self, other: TokenUsage) -> TokenUsage {
        TokenUsage {
            prompt: self.prompt.max(other.prompt),
            cached: self.cached.max(other.cached),
            completion: self.completion.max(other.completion),
            reasoning: self.reasoning.max(other.reasoning),
        }
    }

    /// All tokens.
    pub fn total(self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }
}

impl Usage {
    fn counted(self) -> TokenUsage {
        let read = self.cache_read_input_tokens.unwrap_or_default();
        let beside = read.saturating_add(self.cache_creation_input_tokens.unwrap_or_default());
        let cached = self.prompt_tokens_details.and_then(|details| details.cached_tokens);
        let reasoning = self.completion_tokens_details.and_then(|details| details.reasoning_tokens);
        TokenUsage {
            prompt: self.prompt_tokens.or(self.input_tokens).unwrap_or_default().saturating_add(beside),
            cached: cached.unwrap_or(read),
            completion: self.completion_tokens.or(self.output_tokens).unwrap_or_default(),
            reasoning: reasoning.unwrap_or_default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Option<(u64, u64, u64, u64)>) {
        let found = TokenUsage::find(json.as_bytes());
        let numbers = |usage: TokenUsage| (usage.prompt, usage.cached, usage.completion, usage.reasoning);
        assert_eq!(found.map(numbers), expected, "{json}");
    }

    #[test]
    fn usage_is_found_in_the_replies_of_every_provider() {
        check(
            r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}}"#,
            Some((3, 0, 5, 0)),
        );
        check(
            r#"{"usage" : {"prompt_tokens":3,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":2,"audio_tokens":0},
                "completion_tokens_details":{"reasoning_tokens":4}}, "id": "x"}"#,
            Some((3, 2, 5, 4)),
        );
        check(
            r#"{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":10,"cache_creation_input_tokens":20,"output_tokens":1}}}"#,
            Some((33, 10, 1, 0)),
        );
        check(
            r#"{"response":{"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":1},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2}}}}"#,
            Some((3, 1, 5, 2)),
        );
    }

    #[test]
    fn the_counts_of_events_that_come_together_are_merged() {
        let events = r#"{"type":"message_start","message":{"usage":{"input_tokens":3,"output_tokens":1}}} {"type":"message_delta","usage":{"output_tokens":5}}"#;
        let merged = TokenUsage { prompt: 3, completion: 5, ..TokenUsage::default() };
        assert_eq!(TokenUsage::of_events(events.as_bytes()), Some(merged));
        assert_eq!(TokenUsage::of_events(b"{}"), None);
    }

    #[test]
    fn what_is_no_usage_is_not_counted() {
        check(r#"{"usage":null}"#, None);
        check(r#"{"content":"\"usage\":{\"prompt_tokens\":9}"}"#, None);
        check(r#"{"usage":{"prompt_tokens":"3"}}"#, None);
        check(r#"{"usage":{"prompt_tokens":3}},{"usage":null}"#, Some((3, 0, 0, 0)));
        check("", None);
    }
}
