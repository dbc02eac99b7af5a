//! One request to an upstream, and its circuit breaker.

use std::io::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body};
use weir_policy::upstream::{BreakerDecision, CircuitBreaker, Outcome};

use super::{Ask, UpstreamError, wire};
use crate::models::scale_to_length_one;
use weir_config::{Secret, UpstreamConfig, is_on_this_machine};
use weir_telemetry::metrics::Metrics;

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes of a reply, at most.
const REPLY_BYTES_MAX: u64 = 256 << 20;
/// Bytes of an error's body that are read, at most.
const ERROR_BYTES_MAX: u64 = 64 << 10;
/// A probe whose outcome nobody recorded counts as lost so long after its timeout.
const PROBE_GRACE: Duration = Duration::from_secs(1);

/// Who calls an upstream. It blocks.
pub(super) struct Caller {
    pub(super) settings: UpstreamConfig,
    id: String,
    /// The model's id and the server's address, for messages.
    shown: String,
    key: Option<Secret>,
    agent: Agent,
    breaker: Mutex<CircuitBreaker>,
    metrics: Metrics,
}

impl Caller {
    pub(super) fn new(id: &str, settings: &UpstreamConfig, metrics: Metrics) -> Result<Caller, String> {
        let key = settings.api_key.as_ref().map(|key| key.secret().cloned()).transpose()?;
        let mut config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0) // a key must not wander
            .max_idle_connections(settings.concurrent_requests_max)
            .max_idle_connections_per_host(settings.concurrent_requests_max)
            .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")))
            .timeout_connect(Some(CONNECT_TIMEOUT));
        if is_on_this_machine(&settings.url) {
            config = config.proxy(None);
        }
        Ok(Caller {
            settings: settings.clone(),
            id: id.to_owned(),
            shown: format!("`{id}` ({})", settings.url),
            key,
            agent: config.build().into(),
            breaker: Mutex::default(),
            metrics,
        })
    }

    /// Whether the breaker would let a request through now.
    pub(super) fn would_admit(&self) -> BreakerDecision {
        self.breaker().would_allow(Instant::now())
    }

    fn breaker(&self) -> MutexGuard<'_, CircuitBreaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open(&self, retry_after: Duration) -> UpstreamError {
        let error = UpstreamError::Open { upstream: self.shown.clone(), retry_after };
        self.metrics.upstream_failed(&self.id, &error.label());
        error
    }

    pub(super) fn timeout(&self, waited: Duration) -> UpstreamError {
        UpstreamError::Timeout { upstream: self.shown.clone(), waited }
    }

    pub(super) fn reply(&self, reason: impl Into<String>) -> UpstreamError {
        UpstreamError::Reply { upstream: self.shown.clone(), reason: reason.into() }
    }

    /// A row for each text, by one request that ends before `until`. The breaker and the metrics learn how it went.
    pub(super) fn call(&self, ask: &Ask, until: Option<Instant>) -> Result<Vec<Vec<f32>>, UpstreamError> {
        let now = Instant::now();
        let own = Duration::from_millis(self.settings.timeout_ms);
        let timeout = until.map_or(own, |until| own.min(until.saturating_duration_since(now)));
        if timeout.is_zero() {
            return Err(self.timeout(timeout));
        }
        if let BreakerDecision::Reject { retry_after } = self.breaker().allow(now, timeout + PROBE_GRACE) {
            return Err(self.open(retry_after));
        }
        let made = self.request(ask, timeout);
        // a caller in a hurry says nothing about the upstream's health
        let is_cut_short = timeout < own && matches!(made, Err(UpstreamError::Timeout { .. }));
        if !is_cut_short {
            let is_failure = made.as_ref().is_err_and(UpstreamError::is_failure);
            let outcome = if is_failure { Outcome::Failed } else { Outcome::Answered };
            self.breaker().record(Instant::now(), outcome);
        }
        made.inspect_err(|error| {
            self.metrics.upstream_failed(&self.id, &error.label());
            tracing::warn!(model = self.id, %error, "a request to an upstream failed");
        })
    }

    fn request(&self, ask: &Ask, timeout: Duration) -> Result<Vec<Vec<f32>>, UpstreamError> {
        let UpstreamConfig { protocol, url, normalize, .. } = &self.settings;
        let address = format!("{url}{}", wire::path(*protocol));
        let mut request = self
            .agent
            .post(&address)
            .config()
            .timeout_global(Some(timeout))
            .build()
            .header("content-type", "application/json")
            .header("accept", "application/json");
        if let Some(key) = &self.key {
            request = request.header("authorization", format!("Bearer {}", key.reveal()));
        }
        let sent = request.send(wire::request(&self.settings, ask));
        let response = sent.map_err(|error| self.unreached(&error, timeout))?;
        let mut rows = self.read(response, ask.texts.len(), timeout)?;
        let what = if protocol.is_reranking() { "a score" } else { "an embedding" };
        for row in &mut rows {
            if row.is_empty() || !row.iter().all(|x| x.is_finite()) {
                return Err(
                    self.reply(format!("{what} that is empty or holds something else than finite numbers"))
                );
            }
            if *normalize && !protocol.is_reranking() {
                scale_to_length_one(row);
            }
        }
        Ok(rows)
    }

    fn read(
        &self,
        mut response: Response<Body>,
        count: usize,
        timeout: Duration,
    ) -> Result<Vec<Vec<f32>>, UpstreamError> {
        let status = response.status();
        if !status.is_success() {
            let retry_after = retry_after(response.headers());
            let mut body = Vec::new();
            // what can't be read of it is not missed
            drop(response.body_mut().as_reader().take(ERROR_BYTES_MAX).read_to_end(&mut body));
            return Err(self.refused(status.as_u16(), &body, retry_after));
        }
        let body = response.body_mut().with_config().limit(REPLY_BYTES_MAX).read_to_vec();
        let body = body.map_err(|error| self.unreached(&error, timeout))?;
        wire::rows(self.settings.protocol, &body, count).map_err(|reason| self.reply(reason))
    }

    fn refused(&self, status: u16, body: &[u8], retry_after: Option<Duration>) -> UpstreamError {
        // first of all: a message may be cut in the middle of the key
        let body = self.freed(&String::from_utf8_lossy(body));
        let (upstream, said) = (self.shown.clone(), self.freed(&wire::said(body.as_bytes())));
        match status {
            429 => UpstreamError::Limited { upstream, said, retry_after },
            _ => UpstreamError::Status { upstream, status, said, retry_after },
        }
    }

    fn unreached(&self, error: &ureq::Error, timeout: Duration) -> UpstreamError {
        let connect = |reason| UpstreamError::Connect { upstream: self.shown.clone(), reason };
        if let ureq::Error::Timeout(ureq::Timeout::Connect | ureq::Timeout::Resolve) = error {
            return connect("connecting took too long".to_owned());
        }
        if let ureq::Error::Timeout(_) = error {
            return self.timeout(timeout);
        }
        if let ureq::Error::BodyExceedsLimit(_) = error {
            return self.reply(format!("more than {REPLY_BYTES_MAX} bytes"));
        }
        connect(self.freed(&error.to_string()))
    }

    /// `text` without the key.
    fn freed(&self, text: &str) -> String {
        self.key.as_ref().map_or_else(|| text.to_owned(), |key| key.removed_from(text))
    }
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    wire::retry_after(text("retry-after-ms"), text("retry-after"), SystemTime::now())
}
