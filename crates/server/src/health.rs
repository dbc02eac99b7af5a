//! Health, readiness, metrics: answered without a model, and without a key later on.

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_api::{HealthReply, ReadyReply};
use weir_policy::Caller;

use super::Gateway;
use super::body::Json;
use weir_telemetry::metrics::CollectionGauges;

/// Alive, and how much there is to search.
pub(super) async fn healthz(State(gateway): State<Gateway>) -> Json<HealthReply> {
    let all = gateway.collections.all(&Caller::system());
    Json(HealthReply {
        status: "ok".to_owned(),
        model_loaded: gateway.models.default_model().is_some(),
        document_count: all.iter().map(|collection| collection.engine.counts().documents).sum(),
    })
}

/// Alive.
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// Whether every part is there: otherwise 503 with the parts that are not.
pub(super) async fn readyz(State(gateway): State<Gateway>) -> Response {
    let all = gateway.collections.all(&Caller::system());
    let mut failing = Vec::new();
    for collection in &all {
        if collection.is_rebuilding() {
            failing.push(format!("the index of collection `{}` is being rebuilt", collection.name));
        }
        if let Some(failure) = collection.failure() {
            failing.push(format!("ingest into collection `{}` fails: {failure}", collection.name));
        }
    }
    let ready = failing.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, Json(ReadyReply { ready, failing })).into_response()
}

/// Everything that is counted, for Prometheus.
pub(super) async fn metrics(State(gateway): State<Gateway>) -> Response {
    let mut gauges = Vec::new();
    for collection in gateway.collections.all(&Caller::system()) {
        let counts = collection.engine.counts();
        gauges.push(CollectionGauges {
            name: collection.name.clone(),
            documents: counts.documents,
            chunks: counts.chunks,
            pending: collection.pending_operations(),
            index_segments: counts.segments,
            index_bytes: collection.engine.disk_bytes().await.unwrap_or(0),
        });
    }
    let text =
        gateway.metrics.render(gateway.scheduler.queued_tokens(), gateway.scheduler.cache_bytes(), &gauges);
    ([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
        .into_response()
}
