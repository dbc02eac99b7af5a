//! Quirks: shapes in which single providers differ from the API that they follow.

use crate::behavior::OptionError;

/// One difference of a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "QUIRKS describes each")]
pub enum Quirk {
    UsageInChoice,
    UsageKimi,
    UsageDeepSeek,
    UsageCacheWrite,
    UsageCacheCreation,
    UsageXai,
    Reasoning,
    ReasoningContent,
    ContentList,
    CallsSameIndex,
    CallsWithoutIndex,
    CallsInterleaved,
    EmptyChoices,
    CommentsFirst,
    DataLines,
    Bom,
    ErrorIn200,
    ErrorFirst,
    OpenRouterError,
    ResponseFailed,
    CreditError,
    PaymentRequired,
    KeyError,
    RegionError,
    RetryDelay,
}

/// Every quirk, in the order of the variants: name, API or provider that has it, and effect.
pub const QUIRKS: [(Quirk, &str, &str, &str); 25] = [
    (
        Quirk::UsageInChoice,
        "usage-in-choice",
        "chat of Moonshot",
        "the last choice of a stream has the usage, also if the request does not ask for it; no event of its own has it",
    ),
    (
        Quirk::UsageKimi,
        "usage-kimi",
        "chat of Moonshot",
        "half of the prompt's tokens are cached, in `usage.cached_tokens`",
    ),
    (
        Quirk::UsageDeepSeek,
        "usage-deepseek",
        "chat of DeepSeek",
        "half of the prompt's tokens are cached, in `prompt_cache_hit_tokens`; the others are in `prompt_cache_miss_tokens`",
    ),
    (
        Quirk::UsageCacheWrite,
        "usage-cache-write",
        "OpenAI",
        "half of the prompt's tokens are cached, in `cached_tokens` of the details; the others are written to the cache, in `cache_write_tokens`",
    ),
    (
        Quirk::UsageCacheCreation,
        "usage-cache-creation",
        "Anthropic",
        "beside the input, as many tokens are read from the cache, written for 5 minutes and written for an hour (`cache_creation`)",
    ),
    (
        Quirk::UsageXai,
        "usage-xai",
        "chat of xAI",
        "beside the completion, as many tokens are reasoning; the total has both",
    ),
    (
        Quirk::Reasoning,
        "reasoning",
        "chat of vLLM, Ollama, OpenRouter",
        "the reply begins with the reasoning `because` in the field `reasoning`",
    ),
    (
        Quirk::ReasoningContent,
        "reasoning-content",
        "chat of DeepSeek, Moonshot",
        "the same in the field `reasoning_content`",
    ),
    (
        Quirk::ContentList,
        "content-list",
        "chat of Mistral",
        "`content` is a list: the same reasoning as a part `thinking`, then parts of text",
    ),
    (
        Quirk::CallsSameIndex,
        "calls-same-index",
        "chat of Gemini",
        "two calls of the tool, each whole in one event, both with the index 0",
    ),
    (
        Quirk::CallsWithoutIndex,
        "calls-without-index",
        "chat of other servers",
        "two calls of the tool, each whole in one event, without an index",
    ),
    (
        Quirk::CallsInterleaved,
        "calls-interleaved",
        "chat of other servers",
        "two calls of the tool, whose parts take turns",
    ),
    (
        Quirk::EmptyChoices,
        "empty-choices",
        "chat, Gemini",
        "`choices` or `candidates` are empty, in each event of a stream too",
    ),
    (
        Quirk::CommentsFirst,
        "comments-first",
        "streams of OpenRouter",
        "four comments `: OPENROUTER PROCESSING` before the first event: at once and after each quarter of its delay",
    ),
    (Quirk::DataLines, "data-lines", "streams", "the JSON of each event is in two lines `data:`"),
    (Quirk::Bom, "bom", "streams", "the stream begins with a byte order mark"),
    (
        Quirk::ErrorIn200,
        "error-in-200",
        "completions",
        "the status is 200 and the body an error 429 in JSON, also instead of a stream; `/v1/responses` has the status `failed`",
    ),
    (
        Quirk::ErrorFirst,
        "error-first",
        "streams",
        "the stream is the error event of `error-midstream` and nothing else",
    ),
    (
        Quirk::OpenRouterError,
        "openrouter-error",
        "chat of OpenRouter",
        "the error event of a stream is a chunk with `error` and the `finish_reason` `error`, and `[DONE]` follows",
    ),
    (
        Quirk::ResponseFailed,
        "response-failed",
        "`/v1/responses`",
        "the error event of a stream is `response.failed`; as the first event it follows `response.created`",
    ),
    (
        Quirk::CreditError,
        "credit-error",
        "all",
        "the error of an account without credit: 429 `insufficient_quota`, Anthropic's 400 `credit balance is too low`, Gemini's 403 `requires billing`",
    ),
    (Quirk::PaymentRequired, "payment-required", "DeepSeek, OpenRouter", "402 `Insufficient Balance`"),
    (Quirk::KeyError, "key-error", "all", "the error of a refused key: 401, Gemini's 400 `API_KEY_INVALID`"),
    (
        Quirk::RegionError,
        "region-error",
        "OpenAI, Gemini",
        "the error of a region that is not served: 403 `unsupported_country_region_territory`, Gemini's 400 `User location is not supported`",
    ),
    (
        Quirk::RetryDelay,
        "retry-delay",
        "Gemini",
        "a 429 has the seconds of `retry-after-s` as `retryDelay` in its details, and no `Retry-After`",
    ),
];

/// The quirks of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct QuirkSet(u32);

impl QuirkSet {
    /// The quirks with these names, separated by commas; `none` for none.
    pub(crate) fn parse(names: &str) -> Result<QuirkSet, OptionError> {
        let mut set = QuirkSet::default();
        for name in names.split(',').map(str::trim).filter(|name| *name != "none") {
            let found = QUIRKS.iter().find(|(_, known, ..)| *known == name);
            let (quirk, ..) = found.ok_or_else(|| QuirkSet::unknown(name))?;
            set.0 |= 1 << *quirk as u32;
        }
        Ok(set)
    }

    fn unknown(name: &str) -> OptionError {
        let known: Vec<&str> = QUIRKS.iter().map(|(_, name, ..)| *name).collect();
        let expected = format!("none, or of {}", known.join(", "));
        OptionError::Value { name: "quirk".to_owned(), value: name.to_owned(), expected }
    }

    pub(crate) fn has(self, quirk: Quirk) -> bool {
        self.0 & (1 << quirk as u32) != 0
    }

    pub(crate) fn has_any(self, quirks: &[Quirk]) -> bool {
        quirks.iter().any(|quirk| self.has(*quirk))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_ordered_as_the_variants() {
        for (index, (quirk, name, ..)) in QUIRKS.iter().enumerate() {
            assert_eq!(*quirk as usize, index, "{name}");
        }
    }

    #[test]
    fn names_are_separated_by_commas_and_a_wrong_one_is_named() {
        let set = QuirkSet::parse("bom, data-lines,retry-delay").unwrap();
        let has = |quirk: &Quirk| set.has(*quirk);
        let found: Vec<Quirk> = QUIRKS.iter().map(|row| row.0).filter(has).collect();
        assert_eq!(found, [Quirk::DataLines, Quirk::Bom, Quirk::RetryDelay]);
        assert_eq!(QuirkSet::parse("none"), Ok(QuirkSet::default()));
        let error = QuirkSet::parse("bom,bum").unwrap_err().to_string();
        assert!(error.starts_with("`quirk` is `bum`, but must be none, or of usage-in-choice, "), "{error}");
    }
}
