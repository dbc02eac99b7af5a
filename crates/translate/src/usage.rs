//! The tokens that a provider counted, in the shapes of every provider.

use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::json;

/// The largest count that is believed: several times the longest context of any model.
const TOKENS_MAX: u64 = 100_000_000;
/// The largest count of searches that is believed.
const SEARCHES_MAX: u64 = 10_000;

/// Tokens of one request, by the classes that providers charge differently.
///
/// `cached`, `cache_write`, `prompt_audio` and `prompt_image` are parts of `prompt`; `reasoning`, `completion_audio` and `completion_image` are
/// parts of `completion`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenUsage {
    /// Tokens of the prompt; those that were read from a cache or written to one are included.
    pub prompt: u64,
    /// Tokens of the prompt that the provider read from its cache.
    pub cached: u64,
    /// Tokens of the prompt that the provider wrote to its cache.
    pub cache_write: u64,
    /// The part of `cache_write` that is kept for an hour; the rest is kept for five minutes.
    pub cache_write_1h: u64,
    /// Tokens of the prompt that are audio.
    pub prompt_audio: u64,
    /// Tokens of the prompt that are images.
    pub prompt_image: u64,
    /// Tokens of the completion, reasoning included.
    pub completion: u64,
    /// Tokens of the completion that are reasoning.
    pub reasoning: u64,
    /// Tokens of the completion that are audio.
    pub completion_audio: u64,
    /// Tokens of the completion that are images.
    pub completion_image: u64,
    /// Searches that the provider made, which it charges for each.
    pub searches: u64,
    /// The service tier that the provider served the request in, if it names one.
    pub tier: Option<ServiceTier>,
}

/// The name of a service tier: short, in the letters of the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServiceTier {
    bytes: [u8; ServiceTier::BYTES_MAX],
    len: u8,
}

impl ServiceTier {
    const BYTES_MAX: usize = 23;

    /// A tier by its name; `None` for one that is longer than any known.
    pub fn new(name: &str) -> Option<ServiceTier> {
        let mut bytes = [0; ServiceTier::BYTES_MAX];
        bytes.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
        Some(ServiceTier { bytes, len: name.len() as u8 })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        let bytes = self.bytes.get(..usize::from(self.len)).unwrap_or_default();
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// The tier of a field, if there is one.
    pub fn of(value: Option<json::Value<'_>>) -> Option<ServiceTier> {
        ServiceTier::new(&value?.as_str()?).filter(|tier| tier.len > 0)
    }
}

impl TokenUsage {
    /// The counts of a reply or an event, where its API has them. Words of the caller or of the model are never taken for them.
    pub fn of(reply: json::Value<'_>) -> Option<TokenUsage> {
        // of Anthropic's first event, of the events of OpenAI's responses, of Groq's chunks
        let within = ["message", "response", "x_groq"].into_iter();
        let of_choices = || {
            // Moonshot's chunks
            let choices = reply.get("choices")?.items();
            choices.filter_map(TokenUsage::beside).reduce(TokenUsage::merged)
        };
        TokenUsage::beside(reply)
            .or_else(|| reply.get("usageMetadata").map(TokenUsage::of_gemini))
            .or_else(|| within.filter_map(|name| reply.get(name)).find_map(TokenUsage::beside))
            .or_else(of_choices)
    }

    /// The counts of a `usageMetadata` object of Gemini's, without their parts: of replies that can't be read otherwise.
    fn of_gemini(usage: json::Value<'_>) -> TokenUsage {
        let sum = |names: [&str; 2]| names.into_iter().filter_map(|name| count(usage.get(name)?)).sum();
        let usage = TokenUsage {
            prompt: sum(["promptTokenCount", "toolUsePromptTokenCount"]),
            completion: sum(["candidatesTokenCount", "thoughtsTokenCount"]),
            ..TokenUsage::default()
        };
        usage.bounded()
    }

    /// The counts of the field `usage` of an object.
    fn beside(holder: json::Value<'_>) -> Option<TokenUsage> {
        let usage = TokenUsage::read(holder.get("usage")?)?;
        // OpenAI's responses have the searches among the items, and not in the usage; to open a page costs nothing
        let items = holder.get("output").into_iter().flat_map(json::Value::items);
        let is_search = |item: &json::Value<'_>| {
            let action = item.at(&["action", "type"]);
            let opens = action.is_some_and(|action| action.is("open_page") || action.is("find_in_page"));
            item.get("type").is_some_and(|kind| kind.is("web_search_call")) && !opens
        };
        let searches = items.filter(is_search).count() as u64;
        let tier = usage.tier.or_else(|| ServiceTier::of(holder.get("service_tier")));
        Some(TokenUsage { searches: usage.searches.max(searches), tier, ..usage })
    }

    /// The counts of a `usage` object that is part of a value that was read otherwise.
    pub(crate) fn of_raw(usage: &RawValue) -> Option<TokenUsage> {
        let text = usage.get().as_bytes();
        TokenUsage::read(json::Tape::parse(text).ok()?.root(text))
    }

    /// The counts of a `usage` object of OpenAI's chat completions or responses, of Anthropic's messages, or of an API that follows them.
    fn read(usage: json::Value<'_>) -> Option<TokenUsage> {
        let first = |names: &[&str]| names.iter().find_map(|name| count(usage.get(name)?));
        // some proxies have the names of both APIs, and a 0 in those of one
        let (prompt, input) = (first(&["prompt_tokens"]), first(&["input_tokens"]));
        let prompt = prompt.filter(|&prompt| prompt > 0 || input.is_none());
        let completion = first(&["completion_tokens"]).max(first(&["output_tokens"]));
        let total = first(&["total_tokens"]);
        prompt.or(input).or(completion).or(total)?;
        let of_prompt = ["prompt_tokens_details", "input_tokens_details", "prompt_token_details"]
            .map(|name| usage.get(name));
        let of_completion =
            ["completion_tokens_details", "output_tokens_details"].map(|name| usage.get(name));
        let details = |name: &str| of_prompt.into_iter().flatten().find_map(|part| count(part.get(name)?));
        let of_cached = |name: &str| {
            let cached = |part: json::Value<'_>| count(part.at(&["cached_tokens_details", name])?);
            of_prompt.into_iter().flatten().find_map(cached).unwrap_or(0)
        };
        let not_cached = |name: &str| details(name).unwrap_or(0).saturating_sub(of_cached(name));
        let output_details = |name: &str| {
            of_completion.into_iter().flatten().find_map(|part| count(part.get(name)?)).unwrap_or(0)
        };
        let written_for = |name: &str| {
            // LiteLLM has Anthropic's among the details of the prompt
            let of_litellm = |part: json::Value<'_>| count(part.at(&["cache_creation_token_details", name])?);
            let own = usage.at(&["cache_creation", name]).and_then(count);
            own.or_else(|| of_prompt.into_iter().flatten().find_map(of_litellm)).unwrap_or(0)
        };
        // some servers have a 0 in one of them
        let cached =
            ["cache_read_input_tokens", "cached_tokens", "prompt_cache_hit_tokens", "num_cached_tokens"]
                .map(|name| first(&[name]))
                .into_iter()
                .fold(details("cached_tokens"), Option::max);
        let (write_5m, write_1h) =
            (written_for("ephemeral_5m_input_tokens"), written_for("ephemeral_1h_input_tokens"));
        let written = details("cache_write_tokens")
            .or_else(|| details("cache_creation_tokens"))
            .or_else(|| details("cache_creation_input_tokens"))
            .or_else(|| first(&["cache_creation_input_tokens"]));
        let counted = TokenUsage {
            prompt: prompt.or(input).unwrap_or(0),
            cached: cached.unwrap_or(0),
            cache_write: written.unwrap_or(0).max(write_5m + write_1h),
            cache_write_1h: write_1h,
            prompt_audio: not_cached("audio_tokens"),
            prompt_image: not_cached("image_tokens"),
            completion: completion.unwrap_or(0),
            reasoning: output_details("reasoning_tokens")
                .max(output_details("thinking_tokens"))
                .max(first(&["reasoning_tokens"]).unwrap_or(0)),
            completion_audio: output_details("audio_tokens"),
            completion_image: output_details("image_tokens"),
            searches: usage
                .at(&["server_tool_use", "web_search_requests"])
                .and_then(count)
                .or_else(|| first(&["num_search_queries", "num_sources_used"]))
                .unwrap_or(0),
            tier: tier(usage),
        };
        let is_anthropic = prompt.is_none() && usage.get("input_tokens_details").is_none();
        let counted = counted.complete(is_anthropic, total);
        // Anthropic's counts are those of the last step: a summary of what came before is a step of its own
        let steps = usage.get("iterations").into_iter().flat_map(json::Value::items);
        let others = steps.filter(|step| step.get("type").is_some_and(|kind| !kind.is("message")));
        Some(others.filter_map(TokenUsage::read).fold(counted, TokenUsage::plus).bounded())
    }

    /// Adds what a provider counts beside the prompt or the completion, so that the parts are within them.
    fn complete(mut self, is_anthropic: bool, total: Option<u64>) -> TokenUsage {
        let beside = self.cached + self.cache_write;
        if is_anthropic || beside > self.prompt {
            self.prompt += beside;
        }
        let known = self.prompt + self.completion;
        let more = total.unwrap_or(0).saturating_sub(known);
        if self.completion == 0 && self.prompt == 0 {
            self.prompt = more;
        } else if more > 0 && (self.reasoning == 0 || more >= self.reasoning) {
            // xAI names the reasoning beside the completion, Gemini's API for OpenAI's clients has it in the total alone
            self.reasoning = self.reasoning.max(more);
            self.completion += more;
        } else if self.reasoning > self.completion {
            self.completion += self.reasoning;
        }
        self.bounded()
    }

    /// The counts with parts that are not larger than the whole, and no count that is absurd.
    pub(crate) fn bounded(self) -> TokenUsage {
        let prompt = self.prompt.min(TOKENS_MAX);
        let completion = self.completion.min(TOKENS_MAX);
        let cached = self.cached.min(prompt);
        let cache_write = self.cache_write.min(prompt - cached);
        TokenUsage {
            prompt,
            cached,
            cache_write,
            cache_write_1h: self.cache_write_1h.min(cache_write),
            prompt_audio: self.prompt_audio.min(prompt),
            prompt_image: self.prompt_image.min(prompt),
            completion,
            reasoning: self.reasoning.min(completion),
            completion_audio: self.completion_audio.min(completion),
            completion_image: self.completion_image.min(completion),
            searches: self.searches.min(SEARCHES_MAX),
            tier: self.tier,
        }
    }

    /// The larger of each count: some providers send the counts of the prompt first and those of the completion later.
    pub fn merged(self, other: TokenUsage) -> TokenUsage {
        TokenUsage {
            prompt: self.prompt.max(other.prompt),
            cached: self.cached.max(other.cached),
            cache_write: self.cache_write.max(other.cache_write),
            cache_write_1h: self.cache_write_1h.max(other.cache_write_1h),
            prompt_audio: self.prompt_audio.max(other.prompt_audio),
            prompt_image: self.prompt_image.max(other.prompt_image),
            completion: self.completion.max(other.completion),
            reasoning: self.reasoning.max(other.reasoning),
            completion_audio: self.completion_audio.max(other.completion_audio),
            completion_image: self.completion_image.max(other.completion_image),
            searches: self.searches.max(other.searches),
            tier: other.tier.or(self.tier),
        }
    }

    /// The counts of two steps of one request.
    fn plus(self, other: TokenUsage) -> TokenUsage {
        TokenUsage {
            prompt: self.prompt + other.prompt,
            cached: self.cached + other.cached,
            cache_write: self.cache_write + other.cache_write,
            cache_write_1h: self.cache_write_1h + other.cache_write_1h,
            completion: self.completion + other.completion,
            reasoning: self.reasoning + other.reasoning,
            ..self
        }
    }

    /// With an estimated completion if the provider has counted none.
    pub fn with_answer(self, estimate: u64) -> TokenUsage {
        match self.completion {
            0 => TokenUsage { completion: estimate, ..self },
            _ => self,
        }
    }

    /// All tokens.
    pub fn total(self) -> u64 {
        self.prompt.saturating_add(self.completion)
    }

    /// Tokens of the prompt that are text, and neither read from a cache nor written to one.
    pub fn fresh(self) -> u64 {
        let parts = [self.cached, self.cache_write, self.prompt_audio, self.prompt_image];
        parts.into_iter().fold(self.prompt, u64::saturating_sub)
    }

    /// The part of `cache_write` that is kept for five minutes.
    pub fn cache_write_5m(self) -> u64 {
        self.cache_write.saturating_sub(self.cache_write_1h)
    }
}

/// The tier that a `usage` object names. Anthropic's fast mode has prices of its own, as a tier has.
fn tier(usage: json::Value<'_>) -> Option<ServiceTier> {
    let speed = usage.get("speed").filter(|speed| speed.is("fast"));
    ServiceTier::of(speed.or_else(|| usage.get("service_tier")))
}

/// The count that a value is, if it is one.
fn count(value: json::Value<'_>) -> Option<u64> {
    believed(value.as_u64(), value.as_f64())
}

/// A count: a number that is not negative. A fraction is rounded up, and a count that no model reaches is cut.
fn believed(whole: Option<u64>, number: Option<f64>) -> Option<u64> {
    let count = whole.or_else(|| {
        let number = number.filter(|number| *number >= 0.0)?;
        Some(number.ceil() as u64) // saturates
    })?;
    Some(count.min(TOKENS_MAX))
}

/// A count that is read in its place; 0 for what is no count.
#[derive(Default)]
pub(crate) struct Count(pub(crate) u64);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Count, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Count(believed(value.as_u64(), value.as_f64()).unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str, expected: Option<TokenUsage>) {
        let tape = json::Tape::parse(json.as_bytes()).unwrap();
        assert_eq!(TokenUsage::of(tape.root(json.as_bytes())), expected, "{json}");
    }

    /// A `usage` object must count this.
    fn counts(usage: &str, expected: TokenUsage) {
        check(&format!(r#"{{"usage":{usage}}}"#), Some(expected));
    }

    fn of(prompt: u64, completion: u64) -> TokenUsage {
        TokenUsage { prompt, completion, ..TokenUsage::default() }
    }

    #[test]
    fn openai_counts_parts_of_the_prompt_and_of_the_completion() {
        check(
            r#"{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8}}"#,
            Some(of(3, 5)),
        );
        counts(
            r#"{"prompt_tokens":30,"completion_tokens":50,"total_tokens":80,"prompt_tokens_details":{"cached_tokens":2,"audio_tokens":7,"image_tokens":8},"completion_tokens_details":{"reasoning_tokens":4,"audio_tokens":5}}"#,
            TokenUsage {
                cached: 2,
                prompt_audio: 7,
                prompt_image: 8,
                reasoning: 4,
                completion_audio: 5,
                ..of(30, 50)
            },
        );
        check(
            r#"{"response":{"usage":{"input_tokens":3,"input_tokens_details":{"cached_tokens":1,"cache_write_tokens":2},"output_tokens":5,"output_tokens_details":{"reasoning_tokens":2}}}}"#,
            Some(TokenUsage { cached: 1, cache_write: 2, reasoning: 2, ..of(3, 5) }),
        );
        counts(
            r#"{"prompt_tokens":2000,"completion_tokens":100,"total_tokens":2100,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":1900}}"#,
            TokenUsage { cache_write: 1900, ..of(2000, 100) },
        );
    }

    #[test]
    fn steps_parts_of_the_cache_and_searches_are_counted_once() {
        counts(
            r#"{"input_tokens":23000,"output_tokens":1000,"iterations":[{"type":"compaction","input_tokens":180000,"output_tokens":3500},{"type":"message","input_tokens":23000,"output_tokens":1000}]}"#,
            of(203_000, 4_500),
        );
        counts(
            r#"{"prompt_tokens":1000,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":300,"audio_tokens":242,"cached_tokens_details":{"audio_tokens":100}}}"#,
            TokenUsage { cached: 300, prompt_audio: 142, ..of(1000, 5) },
        );
        check(
            r#"{"output":[{"type":"web_search_call","action":{"type":"search"}},{"type":"web_search_call","action":{"type":"open_page"}},{"type":"web_search_call"}],"usage":{"input_tokens":3,"input_tokens_details":{},"output_tokens":5}}"#,
            Some(TokenUsage { searches: 2, ..of(3, 5) }),
        );
        check(
            r#"{"candidates":[],"usageMetadata":{"promptTokenCount":1000,"thoughtsTokenCount":5000}}"#,
            Some(of(1000, 5000)),
        );
    }

    #[test]
    fn anthropic_counts_its_cache_beside_the_input() {
        let usage = r#"{"input_tokens":100,"cache_creation_input_tokens":2000,"cache_read_input_tokens":1000,"cache_creation":{"ephemeral_5m_input_tokens":1000,"ephemeral_1h_input_tokens":1000},"output_tokens":50,"server_tool_use":{"web_search_requests":2}}"#;
        let expected =
            TokenUsage { cached: 1000, cache_write: 2000, cache_write_1h: 1000, searches: 2, ..of(3100, 50) };
        counts(usage, expected);
        assert_eq!((expected.fresh(), expected.cache_write_5m()), (100, 1000));
        check(
            r#"{"type":"message_start","message":{"usage":{"input_tokens":3,"cache_read_input_tokens":10,"cache_creation_input_tokens":20,"output_tokens":1}}}"#,
            Some(TokenUsage { cached: 10, cache_write: 20, ..of(33, 1) }),
        );
        counts(
            r#"{"input_tokens":3,"output_tokens":5,"output_tokens_details":{"thinking_tokens":4}}"#,
            TokenUsage { reasoning: 4, ..of(3, 5) },
        );
    }

    #[test]
    fn other_providers_have_names_and_places_of_their_own() {
        // Moonshot
        counts(
            r#"{"prompt_tokens":1336,"completion_tokens":31,"total_tokens":1367,"cached_tokens":1280}"#,
            TokenUsage { cached: 1280, ..of(1336, 31) },
        );
        // Mistral's other names, and a 0 beside the count
        for cached in [
            r#""num_cached_tokens":1280"#,
            r#""prompt_token_details":{"cached_tokens":1280}"#,
            r#""prompt_tokens_details":{"cached_tokens":0},"cached_tokens":1280"#,
        ] {
            counts(
                &format!(r#"{{"prompt_tokens":1336,"completion_tokens":31,{cached}}}"#),
                TokenUsage { cached: 1280, ..of(1336, 31) },
            );
        }
        // the names of both APIs, with zeros in one
        for (used, unused) in [("input", "prompt"), ("prompt", "input")] {
            let (output, other) =
                if used == "input" { ("output", "completion") } else { ("completion", "output") };
            counts(
                &format!(
                    r#"{{"{unused}_tokens":0,"{other}_tokens":0,"{used}_tokens":1000,"{output}_tokens":100}}"#
                ),
                of(1000, 100),
            );
        }
        // LiteLLM's details of what Anthropic writes to its cache
        counts(
            r#"{"prompt_tokens":2000,"completion_tokens":100,"prompt_tokens_details":{"cached_tokens":50,"cache_creation_tokens":1900,"cache_creation_token_details":{"ephemeral_5m_input_tokens":900,"ephemeral_1h_input_tokens":1000}}}"#,
            TokenUsage { cached: 50, cache_write: 1900, cache_write_1h: 1000, ..of(2000, 100) },
        );
        check(
            r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":9,"completion_tokens":2,"cached_tokens":4}}]}"#,
            Some(TokenUsage { cached: 4, ..of(9, 2) }),
        );
        // DeepSeek
        counts(
            r#"{"prompt_tokens":1000,"completion_tokens":5,"prompt_cache_hit_tokens":900,"prompt_cache_miss_tokens":100}"#,
            TokenUsage { cached: 900, ..of(1000, 5) },
        );
        // Groq
        check(
            r#"{"choices":[],"x_groq":{"id":"r","usage":{"prompt_tokens":3,"completion_tokens":5}}}"#,
            Some(of(3, 5)),
        );
        // proxies that name both shapes: what OpenAI calls the prompt has everything
        counts(
            r#"{"prompt_tokens":100,"completion_tokens":5,"cache_read_input_tokens":60,"cache_creation_input_tokens":30}"#,
            TokenUsage { cached: 60, cache_write: 30, ..of(100, 5) },
        );
        // DashScope, LiteLLM
        for name in ["cache_creation_input_tokens", "cache_creation_tokens"] {
            counts(
                &format!(
                    r#"{{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{{"cached_tokens":60,"{name}":30}}}}"#
                ),
                TokenUsage { cached: 60, cache_write: 30, ..of(100, 5) },
            );
        }
        // OpenAI's responses
        let response = r#"{"output":[{"type":"web_search_call","id":"w"},{"type":"message","content":[]},{"type":"web_search_call"}],"usage":{"input_tokens":3,"input_tokens_details":{},"output_tokens":5}}"#;
        for json in [response.to_owned(), format!(r#"{{"type":"response.completed","response":{response}}}"#)]
        {
            check(&json, Some(TokenUsage { searches: 2, ..of(3, 5) }));
        }
        // Perplexity
        counts(
            r#"{"prompt_tokens":3,"completion_tokens":5,"num_search_queries":2}"#,
            TokenUsage { searches: 2, ..of(3, 5) },
        );
    }

    #[test]
    fn reasoning_beside_the_completion_is_added_to_it() {
        // xAI
        counts(
            r#"{"prompt_tokens":12,"completion_tokens":1,"total_tokens":399,"completion_tokens_details":{"reasoning_tokens":386}}"#,
            TokenUsage { reasoning: 386, ..of(12, 387) },
        );
        counts(
            r#"{"prompt_tokens":12,"completion_tokens":1,"completion_tokens_details":{"reasoning_tokens":386}}"#,
            TokenUsage { reasoning: 386, ..of(12, 387) },
        );
        // Gemini's API for OpenAI's clients
        counts(
            r#"{"prompt_tokens":10,"completion_tokens":8,"total_tokens":500}"#,
            TokenUsage { reasoning: 482, ..of(10, 490) },
        );
    }

    #[test]
    fn absurd_counts_are_cut_and_what_is_no_count_is_ignored() {
        let max = u64::MAX;
        counts(
            &format!(r#"{{"prompt_tokens":{max},"completion_tokens":{max},"total_tokens":{max}}}"#),
            of(TOKENS_MAX, TOKENS_MAX),
        );
        counts(
            &format!(
                r#"{{"input_tokens":{max},"output_tokens":1e300,"cache_read_input_tokens":{max},"cache_creation_input_tokens":{max}}}"#
            ),
            TokenUsage { cached: TOKENS_MAX, ..of(TOKENS_MAX, TOKENS_MAX) },
        );
        counts(r#"{"prompt_tokens":-3,"completion_tokens":2.2}"#, of(0, 3));
        counts(r#"{"prompt_tokens":3,"completion_tokens":"5","prompt_tokens_details":[]}"#, of(3, 0));
        counts(
            r#"{"prompt_tokens":3,"completion_tokens":5,"total_tokens":8,"prompt_tokens_details":{"audio_tokens":9},"completion_tokens_details":{"audio_tokens":9}}"#,
            TokenUsage { prompt_audio: 3, completion_audio: 5, ..of(3, 5) },
        );
        for usage in ["null", "{}", "[]", r#"{"prompt_tokens":"3"}"#, r#"{"prompt_tokens":1e999}"#] {
            check(&format!(r#"{{"usage":{usage}}}"#), None);
        }
    }

    #[test]
    fn the_service_tier_is_that_of_the_reply() {
        let tier = ServiceTier::new("priority");
        let usage = TokenUsage { tier, ..of(3, 5) };
        let expected = Some(usage);
        check(r#"{"service_tier":"priority","usage":{"prompt_tokens":3,"completion_tokens":5}}"#, expected);
        check(r#"{"usage":{"input_tokens":3,"output_tokens":5,"service_tier":"priority"}}"#, expected);
        check(
            r#"{"response":{"service_tier":"priority","usage":{"input_tokens":3,"output_tokens":5}}}"#,
            expected,
        );
        counts(
            r#"{"input_tokens":3,"output_tokens":5,"service_tier":"standard","speed":"fast"}"#,
            TokenUsage { tier: ServiceTier::new("fast"), ..of(3, 5) },
        );
        assert_eq!(tier.unwrap().name(), "priority");
        assert_eq!(ServiceTier::new(&"x".repeat(24)), None);
        assert_eq!(of(1, 2).merged(usage).tier, tier);
    }

    #[test]
    fn the_counts_of_events_are_merged() {
        let first = TokenUsage { prompt: 3, completion: 1, ..TokenUsage::default() };
        let merged = first.merged(TokenUsage { completion: 5, ..TokenUsage::default() });
        assert_eq!(merged, of(3, 5));
    }

    #[test]
    fn words_of_the_caller_or_the_model_are_not_counted() {
        check(r#"{"content":"\"usage\":{\"prompt_tokens\":9}"}"#, None);
        check(
            r#"{"usage":{"input_tokens":1,"output_tokens":2},"content":[{"type":"tool_use","input":{"usage":{"input_tokens":9}}}]}"#,
            Some(of(1, 2)),
        );
    }
}
