//! `GET /healthz`, `GET /livez` and `GET /readyz`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The reply of `GET /healthz`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Health")]
pub struct HealthReply {
    /// Always `ok`.
    pub status: String,
    /// Whether the default model is loaded.
    pub model_loaded: bool,
    /// Number of documents in all collections; absent if keys are required, and the request shows none without restrictions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_count: Option<u64>,
}

/// The reply of `GET /readyz`: status 200 when ready, 503 otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Readiness")]
pub struct ReadyReply {
    /// Whether requests are accepted: the model is loaded, and the store and every index are open.
    pub ready: bool,
    /// The parts that are not ready, each as a short sentence; empty when ready. If keys are required, collections are named, and `damaged`
    /// is filled, only for a key without restrictions.
    pub failing: Vec<String>,
    /// Faults that leave the gateway ready, each as a short sentence: the database or the Redis that gateways share can't be
    /// reached, which no other gateway would change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded: Vec<String>,
    /// Rows of the store that are damaged, the first 100. Each fails alone: lists skip it. `weir doctor` finds all of them; ingesting a
    /// document again replaces its row.
    #[serde(default)]
    pub damaged: Vec<String>,
}
