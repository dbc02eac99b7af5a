//! Health, metrics, and the description of the API.

use http::StatusCode;
use weir_api::{HealthReply, ReadyReply};

use crate::call::ApiCall;
use crate::{Client, Result};

impl Client {
    /// Whether the gateway answers, and the number of its documents.
    pub async fn health(&self) -> Result<HealthReply> {
        self.value(ApiCall::get("/healthz")).await
    }

    /// Whether the gateway takes requests, and the parts that are not ready. It is no error if it does not.
    pub async fn readiness(&self) -> Result<ReadyReply> {
        self.value(ApiCall::get("/readyz").accepting(StatusCode::SERVICE_UNAVAILABLE)).await
    }

    /// A text, while the process runs.
    pub async fn liveness(&self) -> Result<String> {
        self.text(ApiCall::get("/livez")).await
    }

    /// Metrics in the format of Prometheus.
    pub async fn metrics(&self) -> Result<String> {
        self.text(ApiCall::get("/metrics")).await
    }

    /// The gateway's description of its API, in OpenAPI 3.1.
    pub async fn openapi(&self) -> Result<serde_json::Value> {
        self.value(ApiCall::get("/openapi.json")).await
    }
}
