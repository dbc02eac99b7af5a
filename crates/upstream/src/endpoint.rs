//! One upstream as errors, metrics and the circuit breaker see it.

use std::error::Error;
use std::iter::successors;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper_util::client::legacy;
use memchr::memmem;
use serde_json::Value;
use tower::timeout::error::Elapsed;
use weir_policy::upstream::{BreakerDecision, CircuitBreaker, FAILURES_MAX, Outcome};
use weir_telemetry::metrics::Metrics;

use crate::error::{message, retry_after, retry_delay};
use crate::{Awaited, Result, UpstreamError};

/// The replacement of a key.
const SECRET: &str = "[secret]";

/// The identity of an upstream and its circuit breaker.
pub(crate) struct Endpoint {
    /// The label in metrics and the log.
    id: String,
    /// For messages to callers.
    name: String,
    /// For the log.
    url: String,
    /// Removed from every message: upstreams quote what they were sent.
    api_key: Option<String>,
    breaker: Mutex<CircuitBreaker>,
    /// For messages while the circuit breaker is open.
    last_failure: Mutex<String>,
    metrics: Metrics,
}

impl Endpoint {
    pub(crate) fn new(
        id: String,
        name: String,
        url: String,
        api_key: Option<String>,
        metrics: Metrics,
    ) -> Endpoint {
        Endpoint {
            id,
            name,
            url,
            api_key,
            breaker: Mutex::default(),
            last_failure: Mutex::new("unknown".to_owned()),
            metrics,
        }
    }

    fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn last_failure(&self) -> MutexGuard<'_, String> {
        self.last_failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the circuit breaker for an attempt that records its outcome within `outcome_within`.
    pub(crate) fn allow(&self, outcome_within: Duration) -> Result<()> {
        let decision = self.breaker().allow(Instant::now(), outcome_within);
        self.check(decision)
    }

    /// Whether the circuit breaker would allow an attempt now.
    pub(crate) fn would_allow(&self) -> Result<()> {
        let decision = self.breaker().would_allow(Instant::now());
        self.check(decision)
    }

    /// Whether the circuit breaker would reject an attempt now.
    pub(crate) fn is_open(&self) -> bool {
        self.breaker().would_allow(Instant::now()) != BreakerDecision::Allow
    }

    fn check(&self, decision: BreakerDecision) -> Result<()> {
        let BreakerDecision::Reject { retry_after } = decision else { return Ok(()) };
        let last_failure = self.last_failure().clone();
        let error = UpstreamError::Open { upstream: self.name.clone(), retry_after, last_failure };
        self.metrics.upstream_failed(&self.id, &error.label());
        Err(error)
    }

    pub(crate) fn record(&self, outcome: Outcome) {
        let (before, after) = {
            let mut breaker = self.breaker();
            let before = breaker.is_closed();
            breaker.record(Instant::now(), outcome);
            (before, breaker.is_closed())
        };
        match (before, after) {
            (true, false) => {
                let failures = FAILURES_MAX;
                tracing::warn!(upstream = self.id, failures, "the circuit breaker of an upstream has opened");
            }
            (false, true) => {
                tracing::info!(upstream = self.id, "the circuit breaker of an upstream has closed")
            }
            (true, true) | (false, false) => {}
        }
    }

    /// Counts and logs a failed attempt.
    pub(crate) fn failed(&self, error: UpstreamError) -> UpstreamError {
        self.metrics.upstream_failed(&self.id, &error.label());
        let failure = error.without_text();
        tracing::warn!(
            upstream = self.id,
            url = self.url,
            error = failure,
            "a request to an upstream failed"
        );
        if error.is_counted_by_breaker() {
            *self.last_failure() = failure;
        }
        error
    }

    pub(crate) fn timeout(&self, awaited: Awaited, waited: Duration) -> UpstreamError {
        UpstreamError::Timeout { upstream: self.name.clone(), awaited, waited }
    }

    /// The error when all permits are taken.
    pub(crate) fn saturated(&self) -> UpstreamError {
        let message = "as many requests are in flight as `concurrent_requests_max` allows".to_owned();
        UpstreamError::Limited { upstream: self.name.clone(), message, retry_after: None }
    }

    pub(crate) fn reply(&self, reason: &str) -> UpstreamError {
        UpstreamError::Reply { upstream: self.name.clone(), reason: self.without_key(reason) }
    }

    /// The error of a connection that could not be made, or broke before the reply.
    pub(crate) fn connect(&self, error: &(dyn Error + 'static)) -> UpstreamError {
        UpstreamError::Connect { upstream: self.name.clone(), reason: reason_of(error) }
    }

    /// The error of a connection that broke within the reply.
    pub(crate) fn broken(&self, error: &(dyn Error + 'static)) -> UpstreamError {
        UpstreamError::Broken { upstream: self.name.clone(), reason: reason_of(error) }
    }

    /// The error of a reply whose status is not a success.
    pub(crate) fn status(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> UpstreamError {
        let body = String::from_utf8_lossy(body);
        // The key goes first: the message may be cut in the middle of it. JSON escapes may have hidden it before.
        let message = self.without_key(&message(&self.without_key(&body)));
        let retry_after = retry_after(headers, SystemTime::now()).or_else(|| retry_delay(&body));
        let upstream = self.name.clone();
        match status {
            StatusCode::TOO_MANY_REQUESTS => UpstreamError::Limited { upstream, message, retry_after },
            _ => UpstreamError::Status { upstream, status: status.as_u16(), message, retry_after },
        }
    }

    pub(crate) fn without_key(&self, text: &str) -> String {
        match self.key() {
            Some(key) => text.replace(key, SECRET),
            None => text.to_owned(),
        }
    }

    fn key(&self) -> Option<&str> {
        self.api_key.as_deref().filter(|key| !key.is_empty())
    }

    /// Bytes of a reply without the key as it is, or as JSON with escaped slashes has it.
    pub(crate) fn bytes_without_key(&self, bytes: Bytes) -> Bytes {
        let Some(key) = self.key() else { return bytes };
        let escaped = key.contains('/').then(|| key.replace('/', "\\/"));
        let mut bytes = bytes;
        for key in std::iter::once(key).chain(escaped.as_deref()) {
            let mut rest = 0;
            let mut out = Vec::new();
            for at in memmem::find_iter(&bytes, key) {
                out.extend_from_slice(&bytes[rest..at]);
                out.extend_from_slice(SECRET.as_bytes());
                rest = at + key.len();
            }
            if rest > 0 {
                out.extend_from_slice(&bytes[rest..]);
                bytes = out.into();
            }
        }
        bytes
    }

    /// The body of an error without the key, whatever its escapes.
    pub(crate) fn error_without_key(&self, body: Bytes) -> Bytes {
        let body = self.bytes_without_key(body);
        let Some(key) = self.key() else { return body };
        let Ok(mut json) = serde_json::from_slice::<Value>(&body) else { return body };
        match replace_in(&mut json, key) {
            true => json.to_string().into(),
            false => body,
        }
    }
}

/// Replaces the key in every string of a value. Whether it was in one.
fn replace_in(value: &mut Value, key: &str) -> bool {
    match value {
        Value::String(text) if text.contains(key) => {
            *text = text.replace(key, SECRET);
            true
        }
        Value::Array(items) => items.iter_mut().fold(false, |any, item| replace_in(item, key) | any),
        Value::Object(object) => {
            let in_names = object.keys().any(|name| name.contains(key));
            if in_names {
                *object = std::mem::take(object)
                    .into_iter()
                    .map(|(name, value)| (name.replace(key, SECRET), value))
                    .collect();
            }
            object.values_mut().fold(in_names, |any, item| replace_in(item, key) | any)
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// All causes of an error but those that name the HTTP library.
fn reason_of(error: &(dyn Error + 'static)) -> String {
    let causes = successors(error.source(), |cause| (*cause).source());
    let causes: Vec<_> =
        causes.filter(|cause| !cause.is::<legacy::Error>() || cause.source().is_none()).collect();
    if causes.iter().any(|cause| cause.is::<Elapsed>()) {
        "connecting took too long".to_owned()
    } else if causes.is_empty() {
        error.to_string()
    } else {
        causes.iter().map(ToString::to_string).collect::<Vec<_>>().join(": ")
    }
}
