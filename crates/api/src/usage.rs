//! `GET /v1/usage`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The usage of a range of days.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "UsageReport")]
pub struct UsageReportReply {
    /// The first day, as `2026-01-31`, in UTC.
    pub first_day: String,
    /// The last day.
    pub last_day: String,
    /// Where the sums come from.
    #[serde(default)]
    pub source: UsageSource,
    /// A sum for each key, model and day that `group_by` asks for, sorted by day, key and model; up to 10,000.
    pub data: Vec<UsageSumReply>,
}

/// Where sums over requests come from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageSource {
    /// The database of the request log.
    #[default]
    Database,
    /// The gateway that answers: PostgreSQL can't be read, and these are its own requests since it keeps their sums.
    Gateway,
}

/// A sum over requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "UsageSum")]
pub struct UsageSumReply {
    /// The day, in sums by day.
    pub day: Option<String>,
    /// The number of the API key, in sums by key; null for requests without one.
    pub key: Option<i64>,
    /// The name of the key.
    pub key_name: Option<String>,
    /// The model, in sums by model; null for requests without one.
    pub model: Option<String>,
    /// Requests of any kind.
    pub requests: u64,
    /// Those that failed.
    pub errors: u64,
    /// Tokens of prompts and texts.
    pub prompt_tokens: u64,
    /// Those of them that the provider had cached.
    pub cached_tokens: u64,
    /// Tokens of completions.
    pub completion_tokens: u64,
    /// Cost in the currency of the price table.
    pub cost: f64,
    /// Usage and cost by class of tokens and calls.
    #[serde(default)]
    pub classes: Vec<UsageClassReply>,
}

/// The sum of one class of tokens or calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "UsageClass")]
pub struct UsageClassReply {
    /// The name of its field in `[[prices]]`: `input`, `cached_input`, `cache_write`, `cache_write_1h`, `input_audio`,
    /// `input_image`, `output`, `reasoning`, `output_audio`, `output_image` or `search`. Each token is in one class.
    pub name: String,
    /// Tokens, or calls.
    pub units: u64,
    /// Their cost in the currency of the price table.
    pub cost: f64,
}
