//! The LLM gateway: `[[upstreams]]`, `[[routes]]`, `[[prices]]` and `[[guardrails]]`, which are read again while the gateway runs.

mod check;
#[cfg(test)]
mod fields;
mod guardrails;
mod price;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_api::SourcesAs;

use crate::environment::Environment;
use crate::secret::ApiKey;

pub(crate) use check::Places;
#[cfg(test)]
pub(crate) use fields::LLM_FIELDS;
pub use guardrails::{Detector, Direction, Guardrail, GuardrailAction, OnFailure, StreamMode};
pub use price::{ChargeClass, Price};

/// The API that an upstream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Provider {
    /// OpenAI's, which many servers implement.
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
    /// Google's Gemini.
    Gemini,
    /// OpenAI's on Azure, with deployments in the path.
    Azure,
    /// Ollama's version of OpenAI's.
    Ollama,
    /// vLLM's version of OpenAI's.
    Vllm,
}

impl Provider {
    /// The name in the configuration and in telemetry.
    pub fn name(self) -> &'static str {
        match self {
            Provider::OpenAi => "openai",
            Provider::Anthropic => "anthropic",
            Provider::Gemini => "gemini",
            Provider::Azure => "azure",
            Provider::Ollama => "ollama",
            Provider::Vllm => "vllm",
        }
    }

    /// The base URL of providers that have one for everybody.
    fn default_url(self) -> Option<&'static str> {
        match self {
            Provider::OpenAi => Some("https://api.openai.com/v1"),
            Provider::Anthropic => Some("https://api.anthropic.com"),
            Provider::Gemini => Some("https://generativelanguage.googleapis.com"),
            Provider::Ollama => Some("http://127.0.0.1:11434/v1"),
            Provider::Azure | Provider::Vllm => None,
        }
    }
}

/// A server that answers chat requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlmUpstream {
    /// Its name in routes, metrics and messages.
    pub id: String,
    /// The API that it speaks.
    pub provider: Provider,
    /// The base URL, without a slash at the end; empty: that of the provider.
    #[serde(default)]
    pub url: String,
    /// Where to read its API key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key: Option<ApiKey>,
    /// A PEM file with certificates that are trusted beside public ones; empty: none.
    #[serde(default)]
    pub ca_file: String,
    /// The `api-version` of Azure.
    #[serde(default = "azure_version")]
    pub api_version: String,
    /// Request headers that are passed on to it, beside those of its provider.
    #[serde(default)]
    pub headers: Vec<String>,
    /// Whether streams are asked for the usage at their end.
    #[serde(default = "yes")]
    pub stream_usage: bool,
    /// Maximum requests at the same time, streams included.
    #[serde(default = "concurrency")]
    pub concurrent_requests_max: usize,
    /// Maximum retries of a request that failed before anything was charged.
    #[serde(default = "retries")]
    pub retries_max: u32,
    /// Time limit of making a connection.
    #[serde(default = "connect_timeout")]
    pub connect_timeout_ms: u64,
    /// Time limit from the request to the head of the reply.
    #[serde(default = "long_timeout")]
    pub header_timeout_ms: u64,
    /// Time limit from the request to the first event of a stream.
    #[serde(default = "long_timeout")]
    pub first_token_timeout_ms: u64,
    /// Time limit between two parts of a reply: by default a minute, and five for `/v1/responses`, whose models may think without a sign.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_timeout_ms: Option<u64>,
    /// Time limit of the whole request.
    #[serde(default = "total_timeout")]
    pub total_timeout_ms: u64,
    /// Maximum bytes of one event of a stream.
    #[serde(default = "event_bytes")]
    pub event_bytes_max: usize,
    /// Whether a reply that breaks before anything of it went to the caller is asked for once more, although the provider may have charged it.
    #[serde(default = "yes")]
    pub retry_broken_replies: bool,
}

fn azure_version() -> String {
    "2024-10-21".to_owned()
}
fn yes() -> bool {
    true
}
fn concurrency() -> usize {
    10_000
}
fn retries() -> u32 {
    2
}
fn connect_timeout() -> u64 {
    5_000
}
fn long_timeout() -> u64 {
    120_000
}
fn event_bytes() -> usize {
    1 << 20
}
fn total_timeout() -> u64 {
    900_000
}

impl LlmUpstream {
    /// The time limit between two parts of a reply. `is_response`: of `/v1/responses`.
    pub fn idle_timeout_ms(&self, is_response: bool) -> u64 {
        self.idle_timeout_ms.unwrap_or(if is_response { 300_000 } else { 60_000 })
    }

    /// Its base URL, without a slash at the end. The version is in it where the paths of the provider lack it, also if no path is configured, and
    /// not in it where each path has it.
    pub fn base_url(&self) -> Cow<'_, str> {
        let default = self.provider.default_url().unwrap_or_default();
        let url = if self.url.is_empty() { default } else { &self.url };
        let url = url.trim_end_matches('/');
        let version = match self.provider {
            Provider::Anthropic => "/v1",
            Provider::Gemini => "/v1beta",
            Provider::Azure => return url.into(),
            Provider::OpenAi | Provider::Ollama | Provider::Vllm => {
                let has_path =
                    url.split_once("://").is_none_or(|(_, rest)| rest.is_empty() || rest.contains('/'));
                return if has_path { url.into() } else { format!("{url}/v1").into() };
            }
        };
        url.strip_suffix(version).unwrap_or(url).into()
    }
}

/// How one of several targets of the same priority is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// At random, by weight.
    #[default]
    Weighted,
    /// The better of two that are drawn by weight: by latency and load (peak EWMA).
    Latency,
}

/// The targets of a model's name.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LlmRoute {
    /// The name that callers send; `*` at its end stands for anything.
    pub model: String,
    /// How targets of the same priority are chosen.
    #[serde(default)]
    pub strategy: Strategy,
    /// A request header whose value always leads to the same target while that is healthy; empty for none.
    #[serde(default)]
    pub sticky_header: String,
    /// Where requests go.
    pub targets: Vec<Target>,
    /// Sources for each chat request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retrieval: Option<RouteRetrieval>,
    /// Whether replies are kept and given again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<RouteCache>,
}

/// Where the chat requests of a route take their sources from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { collection = \"notes\" }")]
pub struct RouteRetrieval {
    /// The collection.
    pub collection: String,
    /// Most sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_k: Option<u64>,
    /// A filter on metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<serde_json::Value>,
    /// Lowest relevance of a source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_relevance: Option<f32>,
    /// Most estimated tokens of all sources.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_max: Option<u64>,
    /// Without any source: reply so instead of calling the model.
    #[serde(default)]
    pub reply_when_empty: bool,
    /// A model that rewrites the last question so that it can be searched alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condense_model: Option<String>,
    /// How replies show their sources.
    #[serde(default)]
    pub sources_as: SourcesAs,
}

/// How the replies of a route are kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { mode = \"exact\" }")]
pub struct RouteCache {
    /// Which requests are equal.
    #[serde(default)]
    pub mode: CacheMode,
    /// How long a reply is kept.
    #[serde(default = "cache_seconds")]
    pub seconds: u64,
    /// Whether callers with different keys share replies; never with different mandatory filters.
    #[serde(default)]
    pub shared: bool,
    /// Lowest estimated probability that two questions mean the same.
    #[serde(default = "cache_similarity")]
    pub similarity: f32,
}

/// Which requests get the same reply.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheMode {
    /// Those with equal bodies.
    #[default]
    Exact,
    /// Also those whose last question means the same.
    Semantic,
}

fn cache_seconds() -> u64 {
    3_600
}
fn cache_similarity() -> f32 {
    0.88
}

/// An upstream of a route.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Target {
    /// The id of the upstream.
    pub upstream: String,
    /// The upstream's name of the model; empty: the name that the caller sent.
    #[serde(default)]
    pub model: String,
    /// Its share of the requests among targets of the same priority.
    #[serde(default = "weight")]
    pub weight: u32,
    /// Targets of a higher number are tried after all of the lower ones failed.
    #[serde(default)]
    pub priority: u32,
    /// A filter on the request's `metadata`; the target takes only requests that match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<serde_json::Value>,
}

fn weight() -> u32 {
    1
}

/// Upstreams, routes and prices.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LlmConfig {
    /// Where chat requests go.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub upstreams: Vec<LlmUpstream>,
    /// The routes of model names.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<LlmRoute>,
    /// Prices of tokens.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prices: Vec<Price>,
    /// The checks of prompts and answers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub guardrails: Vec<Guardrail>,
}

/// The names of the tables.
pub(super) const TABLES: [&str; 4] = ["upstreams", "routes", "prices", "guardrails"];

impl LlmConfig {
    /// Reads the keys of the upstreams and of the moderation servers.
    pub(super) fn read_keys(&mut self, environment: &Environment) {
        let of_upstreams = self.upstreams.iter_mut().filter_map(|upstream| upstream.api_key.as_mut());
        let of_moderation =
            self.guardrails.iter_mut().filter_map(|guardrail| guardrail.moderation_key.as_mut());
        of_upstreams.chain(of_moderation).for_each(|key| key.read(environment));
    }

    /// The keys of the upstreams and of the moderation servers.
    pub(super) fn api_keys(&self) -> impl Iterator<Item = &ApiKey> {
        let of_moderation = self.guardrails.iter().filter_map(|guardrail| guardrail.moderation_key.as_ref());
        self.upstreams.iter().filter_map(|upstream| upstream.api_key.as_ref()).chain(of_moderation)
    }
}

impl Serialize for ApiKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ApiKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ApiKey, D::Error> {
        // the text is not borrowed: TOML may have escapes in it
        ApiKey::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for LlmConfig {
    /// As in a TOML file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&toml::to_string(self).map_err(|_| fmt::Error)?)
    }
}
