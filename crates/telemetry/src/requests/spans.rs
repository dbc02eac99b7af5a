//! Spans of requests, sent to a collector of traces by OTLP over HTTP, in JSON.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::{Value, json};

use super::RequestRecord;
use crate::metrics::Metrics;

/// Most spans of a request to the collector.
const SPANS_MAX: usize = 512;
/// Requests to the collector that wait; further spans are dropped.
const WAITING_MAX: usize = 8;
const TIMEOUT: Duration = Duration::from_secs(10);
const ATTEMPTS: u32 = 3;
/// How long the end of the process waits for spans that are being sent.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
const REPLY_BYTES_MAX: usize = 64 << 10;

/// Spans that are not sent yet.
pub(super) struct SpanExporter {
    spans: Vec<Value>,
    sender: SyncSender<Export>,
    thread: JoinHandle<()>,
    metrics: Metrics,
}

struct Export {
    body: Bytes,
    spans: usize,
}

impl SpanExporter {
    /// Sends spans to `{base}/v1/traces`.
    pub(super) fn start(base: &str, metrics: Metrics) -> std::io::Result<SpanExporter> {
        let url = format!("{}/v1/traces", base.trim_end_matches('/'));
        let url: Uri = url.parse().map_err(std::io::Error::other)?;
        let (sender, exports) = sync_channel(WAITING_MAX);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let connector =
            HttpsConnectorBuilder::new().with_webpki_roots().https_or_http().enable_http1().build();
        let counters = metrics.clone();
        let thread = std::thread::Builder::new().name("traces".to_owned()).spawn(move || {
            runtime.block_on(async {
                let client = Client::builder(TokioExecutor::new()).build(connector);
                send_all(&client, &url, &exports, &counters).await;
            });
        })?;
        Ok(SpanExporter { spans: Vec::new(), sender, thread, metrics })
    }

    /// Adds the span of a request that is sampled.
    pub(super) fn add(&mut self, record: &RequestRecord) {
        self.spans.extend(span(record));
        if self.spans.len() >= SPANS_MAX {
            self.flush();
        }
    }

    /// Hands the spans over; they are dropped when too many wait.
    pub(super) fn flush(&mut self) {
        if self.spans.is_empty() {
            return;
        }
        let spans = std::mem::take(&mut self.spans);
        let count = spans.len();
        if self.sender.try_send(Export { body: export(spans).to_string().into(), spans: count }).is_err() {
            self.metrics.spans("dropped", count);
        }
    }

    /// Waits a moment for what was handed over.
    pub(super) fn close(mut self) {
        self.flush();
        drop(self.sender);
        let until = Instant::now() + CLOSE_TIMEOUT;
        while !self.thread.is_finished() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

async fn send_all(
    client: &Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: &Uri,
    exports: &Receiver<Export>,
    metrics: &Metrics,
) {
    let mut is_failing = false;
    // nothing else runs on this thread while it waits here
    while let Ok(export) = exports.recv() {
        let mut failure = None;
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            failure = send(client, url, &export.body).await.err();
            if failure.as_ref().is_none_or(|failure| !failure.is_retryable) {
                break;
            }
        }
        metrics.spans(if failure.is_none() { "sent" } else { "dropped" }, export.spans);
        if let Some(failure) = &failure
            && !is_failing
        {
            tracing::warn!(
                reason = failure.reason,
                "traces can't be sent; check `telemetry.traces_url` and its server"
            );
        }
        is_failing = failure.is_some();
    }
}

struct Failure {
    reason: String,
    is_retryable: bool,
}

async fn send(
    client: &Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    url: &Uri,
    body: &Bytes,
) -> Result<(), Failure> {
    let failed = |reason: String| Failure { reason, is_retryable: true };
    let request = Request::builder()
        .method(Method::POST)
        .uri(url)
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body.clone()))
        .map_err(|error| failed(error.to_string()))?;
    let call = async {
        let response = client.request(request).await.map_err(|error| failed(error.to_string()))?;
        let status = response.status();
        // the connection is used again only if the reply was read
        let _ = Limited::new(response.into_body(), REPLY_BYTES_MAX).collect().await;
        match status.is_success() {
            true => Ok(()),
            false => Err(Failure {
                reason: format!("HTTP status {status}"),
                is_retryable: matches!(status.as_u16(), 429 | 502 | 503 | 504),
            }),
        }
    };
    tokio::time::timeout(TIMEOUT, call)
        .await
        .unwrap_or_else(|_| Err(failed(format!("no answer within {TIMEOUT:?}"))))
}

/// The span of a request, if its trace is sampled.
fn span(record: &RequestRecord) -> Option<Value> {
    let trace = record.trace.as_ref().filter(|trace| trace.is_sampled())?;
    let start = (record.at * 1e9) as u64;
    let end = start.saturating_add(u64::try_from(record.duration.as_nanos()).unwrap_or(u64::MAX));
    let operation = operation(record.route);
    let name = match (operation, &record.model) {
        (Some(operation), Some(model)) => format!("{operation} {model}"),
        _ => format!("{} {}", record.method, record.route),
    };
    let mut span = json!({
        "traceId": format!("{:032x}", trace.trace_id),
        "spanId": format!("{:016x}", trace.span_id),
        "name": name,
        "kind": 2, // server
        "startTimeUnixNano": start.to_string(),
        "endTimeUnixNano": end.to_string(),
        "attributes": attributes(record, operation),
        "status": if record.status >= 500 || record.error.is_some_and(|_| record.status < 400) { json!({"code": 2}) } else { json!({}) },
    });
    if let Some(parent) = trace.parent_id {
        span["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(state) = trace.tracestate() {
        span["traceState"] = state.into();
    }
    Some(span)
}

/// The name of the operation in the conventions for generative AI.
fn operation(route: &str) -> Option<&'static str> {
    if route.ends_with("/chat/completions") || route.ends_with("/messages") || route.ends_with("/responses") {
        Some("chat")
    } else if route.ends_with("/embeddings") || route.contains("/embed") {
        Some("embeddings")
    } else {
        None
    }
}

fn attributes(record: &RequestRecord, operation: Option<&'static str>) -> Vec<Value> {
    let text = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    let number = |key: &str, value: u64| json!({"key": key, "value": {"intValue": value.to_string()}});
    let mut attributes = vec![
        text("http.request.method", record.method),
        text("http.route", record.route),
        number("http.response.status_code", record.status.into()),
        text("weir.request.id", &record.request_id),
    ];
    attributes.extend(operation.map(|operation| text("gen_ai.operation.name", operation)));
    attributes.extend(record.provider.map(|name| text("gen_ai.provider.name", name)));
    attributes.extend(record.upstream.as_deref().map(|name| text("weir.upstream", name)));
    attributes.extend(record.model.as_deref().map(|model| text("gen_ai.request.model", model)));
    let counts = [
        ("gen_ai.usage.input_tokens", record.prompt_tokens),
        ("gen_ai.usage.output_tokens", record.completion_tokens),
        ("gen_ai.usage.cache_read.input_tokens", record.cached_tokens),
    ];
    attributes
        .extend(counts.into_iter().filter(|(_, count)| *count > 0).map(|(key, count)| number(key, count)));
    if let Some(first) = record.first_token {
        attributes.push(json!({"key": "gen_ai.response.time_to_first_chunk", "value": {"doubleValue": first.as_secs_f64()}}));
    }
    let status = (record.status >= 400).then(|| record.status.to_string());
    let error = record.error.map(str::to_owned).or(status);
    attributes.extend(error.map(|error| text("error.type", &error)));
    attributes
}

/// The body of a request to the collector.
fn export(spans: Vec<Value>) -> Value {
    let service = |key: &str, value: &str| json!({"key": key, "value": {"stringValue": value}});
    json!({"resourceSpans": [{
        "resource": {"attributes": [service("service.name", "weir"), service("service.version", env!("CARGO_PKG_VERSION"))]},
        "scopeSpans": [{"scope": {"name": "weir"}, "spans": spans}],
    }]})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::trace::TraceContext;

    #[test]
    fn a_span_has_the_attributes_of_the_conventions() {
        let parent =
            TraceContext::parse("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", None).unwrap();
        let record = RequestRecord {
            at: 1_700_000_000.5,
            request_id: "r1".into(),
            method: "POST",
            route: "/v1/chat/completions",
            model: Some("m".into()),
            upstream: Some("eu".into()),
            provider: Some("openai"),
            status: 502,
            error: Some("upstream_error"),
            prompt_tokens: 7,
            duration: Duration::from_millis(250),
            trace: Some(parent.child()),
            ..RequestRecord::default()
        };
        let span = span(&record).unwrap();
        assert_eq!(span["traceId"], "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(span["parentSpanId"], "00f067aa0ba902b7");
        assert_eq!((&span["name"], &span["status"]["code"]), (&json!("chat m"), &json!(2)));
        assert_eq!(span["startTimeUnixNano"], "1700000000500000000");
        assert_eq!(span["endTimeUnixNano"], "1700000000750000000");
        let attributes = span["attributes"].as_array().unwrap();
        let value =
            |key: &str| attributes.iter().find(|one| one["key"] == key).map(|one| one["value"].clone());
        assert_eq!(value("gen_ai.operation.name"), Some(json!({"stringValue": "chat"})));
        assert_eq!(value("gen_ai.provider.name"), Some(json!({"stringValue": "openai"})));
        assert_eq!(value("weir.upstream"), Some(json!({"stringValue": "eu"})));
        assert_eq!(value("gen_ai.request.model"), Some(json!({"stringValue": "m"})));
        assert_eq!(value("gen_ai.usage.input_tokens"), Some(json!({"intValue": "7"})));
        assert_eq!(value("gen_ai.usage.output_tokens"), None);
        assert_eq!(value("error.type"), Some(json!({"stringValue": "upstream_error"})));
        let unsampled = RequestRecord { trace: Some(TraceContext::root(false)), ..record };
        assert_eq!(super::span(&unsampled), None);
    }
}
