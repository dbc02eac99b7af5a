//! `[[prices]]`: what the tokens and the calls of a model cost.

use serde::{Deserialize, Serialize};

/// Highest price per million tokens.
const PRICE_MAX: f64 = 1e6;
/// Highest price of one search.
const SEARCH_PRICE_MAX: f64 = 1e3;
/// Highest number of tokens in a condition or a limit of a price.
const TOKENS_MAX: u64 = 100_000_000;
/// Price of a token that is written to a cache for five minutes, and for an hour, relative to one that is not.
const CACHE_WRITE_FACTOR: f64 = 1.25;
const CACHE_WRITE_1H_FACTOR: f64 = 2.0;

/// A class of tokens or calls that providers charge at a price of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChargeClass {
    /// Tokens of the prompt of no other class.
    Input,
    /// Tokens of the prompt that the provider read from its cache.
    CachedInput,
    /// Tokens of the prompt that the provider wrote to its cache for five minutes.
    CacheWrite,
    /// The same for an hour.
    CacheWrite1h,
    /// Tokens of the prompt that are audio.
    InputAudio,
    /// Tokens of the prompt that are images.
    InputImage,
    /// Tokens of the completion of no other class.
    Output,
    /// Tokens of the completion that are reasoning.
    Reasoning,
    /// Tokens of the completion that are audio.
    OutputAudio,
    /// Tokens of the completion that are images.
    OutputImage,
    /// Searches that the provider made.
    Search,
}

impl ChargeClass {
    /// Every class.
    pub const ALL: [ChargeClass; 11] = [
        ChargeClass::Input,
        ChargeClass::CachedInput,
        ChargeClass::CacheWrite,
        ChargeClass::CacheWrite1h,
        ChargeClass::InputAudio,
        ChargeClass::InputImage,
        ChargeClass::Output,
        ChargeClass::Reasoning,
        ChargeClass::OutputAudio,
        ChargeClass::OutputImage,
        ChargeClass::Search,
    ];

    /// The name of the field of `[[prices]]`, which reports use as well.
    pub fn name(self) -> &'static str {
        match self {
            ChargeClass::Input => "input",
            ChargeClass::CachedInput => "cached_input",
            ChargeClass::CacheWrite => "cache_write",
            ChargeClass::CacheWrite1h => "cache_write_1h",
            ChargeClass::InputAudio => "input_audio",
            ChargeClass::InputImage => "input_image",
            ChargeClass::Output => "output",
            ChargeClass::Reasoning => "reasoning",
            ChargeClass::OutputAudio => "output_audio",
            ChargeClass::OutputImage => "output_image",
            ChargeClass::Search => "search",
        }
    }
}

/// The prices of a model, in units of one currency per million tokens.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The upstream's name of the model; `*` at its end stands for anything.
    pub model: String,
    /// The id of the upstream; empty: any.
    #[serde(default)]
    pub upstream: String,
    /// The service tier that the price is for; empty: any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub service_tier: String,
    /// The price is for requests whose prompt has more tokens.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub above_tokens: u64,
    /// Of tokens of the prompt.
    pub input: f64,
    /// Of tokens of the prompt that the provider had cached; absent: as `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<f64>,
    /// Of tokens of the prompt that are cached for five minutes; absent: 1.25 times `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<f64>,
    /// Of tokens of the prompt that are cached for an hour; absent: twice `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write_1h: Option<f64>,
    /// Of tokens of the prompt that are audio; absent: as `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_audio: Option<f64>,
    /// Of tokens of the prompt that are images; absent: as `input`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_image: Option<f64>,
    /// Of tokens of the completion.
    pub output: f64,
    /// Of tokens of the completion that are reasoning; absent: as `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning: Option<f64>,
    /// Of tokens of the completion that are audio; absent: as `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_audio: Option<f64>,
    /// Of tokens of the completion that are images; absent: as `output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_image: Option<f64>,
    /// Of one search that the provider makes; absent: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<f64>,
    /// The context length of the model, for reservations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
    /// The longest completion of the model, for reservations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_tokens_max: Option<u64>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Price {
    /// The price of a million tokens of a class, or of one search.
    pub fn of(&self, class: ChargeClass) -> f64 {
        match class {
            ChargeClass::Input => self.input,
            ChargeClass::CachedInput => self.cached_input.unwrap_or(self.input),
            ChargeClass::CacheWrite => self.cache_write.unwrap_or(self.input * CACHE_WRITE_FACTOR),
            ChargeClass::CacheWrite1h => self.cache_write_1h.unwrap_or(self.input * CACHE_WRITE_1H_FACTOR),
            ChargeClass::InputAudio => self.input_audio.unwrap_or(self.input),
            ChargeClass::InputImage => self.input_image.unwrap_or(self.input),
            ChargeClass::Output => self.output,
            ChargeClass::Reasoning => self.reasoning.unwrap_or(self.output),
            ChargeClass::OutputAudio => self.output_audio.unwrap_or(self.output),
            ChargeClass::OutputImage => self.output_image.unwrap_or(self.output),
            ChargeClass::Search => self.search.unwrap_or(0.0),
        }
    }

    /// Problems of its numbers, with the remedy.
    pub(super) fn problems(&self) -> Vec<(String, &'static str)> {
        let model = &self.model;
        let mut problems = Vec::new();
        let of_tokens = [
            Some(self.input),
            self.cached_input,
            self.cache_write,
            self.cache_write_1h,
            self.input_audio,
            self.input_image,
            Some(self.output),
            self.reasoning,
            self.output_audio,
            self.output_image,
        ];
        let is_in_range = of_tokens.into_iter().flatten().all(|price| (0.0..=PRICE_MAX).contains(&price));
        if !is_in_range || !(0.0..=SEARCH_PRICE_MAX).contains(&self.search.unwrap_or(0.0)) {
            problems.push((
                format!("the prices of `{model}` are out of range"),
                "they are from 0 to 1000000 per million tokens, and from 0 to 1000 for a search",
            ));
        }
        let limits = [Some(self.above_tokens), self.context_tokens, self.output_tokens_max];
        if limits.into_iter().flatten().any(|tokens| tokens > TOKENS_MAX)
            || self.context_tokens == Some(0)
            || self.output_tokens_max == Some(0)
        {
            problems.push((
                format!("a number of tokens in a price of `{model}` is out of range"),
                "`above_tokens`, `context_tokens` and `output_tokens_max` are at most 100000000, and the last two at least 1",
            ));
        }
        problems
    }

    /// The conditions under which it is used. Two prices with the same ones contradict each other.
    pub(super) fn conditions(&self) -> (&str, &str, &str, u64) {
        (&self.model, &self.upstream, &self.service_tier, self.above_tokens)
    }
}
