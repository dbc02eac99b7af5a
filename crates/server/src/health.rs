//! Health, readiness and metrics: answered without using a model.

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_access::KEYS_BYTES_MAX;
use weir_api::{HealthReply, ReadyReply};

use super::body::{CallContext, Json};
use super::gateway::Gateway;
use crate::Result;

/// Damaged rows that readiness names.
const DAMAGED_ROWS_MAX: usize = 100;

/// Message of readiness while there is no connection to Redis.
const NO_REDIS: &str = "Redis can't be reached: each gateway counts its share of the limits of keys";

/// Whether the caller may see every document. These routes need no key; only such callers get counts and names of what is stored.
fn sees_all(gateway: &Gateway, headers: &HeaderMap) -> bool {
    gateway.caller(headers).is_some_and(|caller| caller.is_unrestricted())
}

/// Alive, and how much there is to search.
pub(super) async fn healthz(State(gateway): State<Gateway>, headers: HeaderMap) -> Json<HealthReply> {
    let document_count = match sees_all(&gateway, &headers) {
        true => Some(gateway.retrieval.document_count().await),
        false => None,
    };
    Json(HealthReply {
        status: "ok".to_owned(),
        model_loaded: gateway.models.default_model().is_some(),
        document_count,
    })
}

/// Alive.
pub(super) async fn livez() -> &'static str {
    "ok\n"
}

/// Whether every part is there: otherwise 503 with the parts that are not.
pub(super) async fn readyz(State(gateway): State<Gateway>, headers: HeaderMap) -> Response {
    let sees_all = sees_all(&gateway, &headers);
    let mut failing = gateway.retrieval.failing_parts(sees_all);
    // the ledger is in the database
    let without_database = gateway.retrieval.without_database();
    let is_without = without_database.is_some();
    let mut degraded = Vec::from_iter(without_database);
    let of_keys = if is_without { &mut degraded } else { &mut failing };
    of_keys.extend(gateway.keys.failing_parts());
    if gateway.keys.limits_status().is_some_and(|limits| !limits.is_shared) {
        degraded.push(NO_REDIS.to_owned());
    }
    failing.extend(gateway.is_draining().then(|| "the gateway is about to stop".to_owned()));
    let ready = failing.is_empty();
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut damaged = if sees_all { gateway.retrieval.damaged_rows() } else { Vec::new() };
    damaged.truncate(DAMAGED_ROWS_MAX);
    (status, Json(ReadyReply { ready, failing, degraded, damaged })).into_response()
}

/// Everything that is counted, for Prometheus; for a caller with a mandatory filter the documents and chunks of the caller alone.
pub(super) async fn metrics(call: CallContext) -> Result<Response> {
    let gauges = call.retrieval.gauges(&call.caller).await?;
    let (tokens, bytes) = (call.scheduler.queued_tokens(), call.scheduler.cache_bytes());
    let (replies, replies_max) = call.llm.reply_cache();
    call.metrics.table("replies", replies, replies_max);
    call.metrics.table("embeddings", bytes, call.config.inference.cache_bytes_max);
    call.metrics.table("keys", call.keys.bytes(), KEYS_BYTES_MAX);
    if let Some(limits) = call.keys.limits_status() {
        let calls = (limits.asked, limits.failed);
        call.metrics.shared_limits(limits.is_shared, limits.gateways, calls);
    }
    call.metrics.budget_leases_asked(call.keys.budget_leases_asked().unwrap_or(0));
    let shows_model = |model: &str| call.caller.models.contains(model);
    let text = match call.caller.filter() {
        Some(_) => call.metrics.render_documents(&gauges),
        None => call.metrics.render(tokens, bytes, &gauges, shows_model, call.caller.is_unrestricted()),
    };
    let media = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, media)], text).into_response())
}
