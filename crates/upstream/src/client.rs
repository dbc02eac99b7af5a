//! The client of one upstream: permits, attempts, retries.

use std::borrow::Cow;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::uri::PathAndQuery;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::proxy::matcher::Matcher;
use rustls::ClientConfig;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::BoxError;
use weir_policy::upstream::{FailedAttempt, Outcome, RetryBudget, wait_before_retry};
use weir_telemetry::metrics::Metrics;

use crate::attempt::Attempt;
use crate::connect::{connector, proxy_for, tls};
use crate::endpoint::Endpoint;
use crate::pool::Pool;
use crate::{Awaited, ReplyBody, Result, TimeLimits, UpstreamError};

/// Upper bound of the bytes that are read of an error's body.
const ERROR_BYTES_MAX: usize = 64 << 10;

/// The body of a request: a stream of chunks, or [`Full`] bytes.
pub type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// An upstream and how it is called.
pub struct UpstreamSettings {
    /// Its name in metrics and the log.
    pub id: String,
    /// Its name in messages to callers, after "the upstream".
    pub name: String,
    /// Its address, `http` or `https`, without a slash at the end.
    pub url: String,
    /// Its key.
    pub api_key: Option<String>,
    /// The header that carries the key alone; `None`: `Authorization: Bearer`.
    pub api_key_header: Option<HeaderName>,
    /// A PEM file with certificates that are trusted for `https` beside public ones.
    pub ca_file: Option<PathBuf>,
    /// Upper bound of the time to make a connection.
    pub connect_timeout: Duration,
    /// Upper bound of the requests in flight.
    pub concurrent_requests_max: usize,
    /// Upper bound of the retries of one request.
    pub retries_max: u32,
}

/// Who waits for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Priority {
    /// A caller.
    Interactive,
    /// Nobody; one permit is left to interactive callers.
    Background,
}

/// The right to have one request in flight.
pub struct Permit {
    _any: Option<OwnedSemaphorePermit>,
    _background: Option<OwnedSemaphorePermit>,
}

/// One request.
pub struct UpstreamRequest {
    /// The method.
    pub method: Method,
    /// The path behind the upstream's address.
    pub path: Cow<'static, str>,
    /// The headers, except `Authorization` and `User-Agent`.
    pub headers: HeaderMap,
    /// The body.
    pub body: RequestBody,
    /// The time limits of the attempt.
    pub limits: TimeLimits,
}

impl UpstreamRequest {
    /// A `GET` that is answered by JSON.
    pub fn get(path: &str, limits: TimeLimits) -> UpstreamRequest {
        UpstreamRequest {
            method: Method::GET,
            path: path.to_owned().into(),
            headers: HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static("application/json"))]),
            body: Full::default().map_err(|never| match never {}).boxed_unsync(),
            limits,
        }
    }

    /// A `POST` of JSON that is answered by JSON.
    pub fn post_json(path: &str, body: impl Into<Bytes>, limits: TimeLimits) -> UpstreamRequest {
        let json = HeaderValue::from_static("application/json");
        UpstreamRequest {
            method: Method::POST,
            path: path.to_owned().into(),
            headers: HeaderMap::from_iter([(CONTENT_TYPE, json.clone()), (ACCEPT, json)]),
            body: Full::new(body.into()).map_err(|never| match never {}).boxed_unsync(),
            limits,
        }
    }
}

/// The client of one upstream.
pub struct UpstreamClient {
    endpoint: Arc<Endpoint>,
    /// The path of the address, without a slash at the end.
    base_path: String,
    /// The header with the key.
    credentials: Option<(HeaderName, HeaderValue)>,
    pool: Pool,
    permits: Arc<Semaphore>,
    background_permits: Arc<Semaphore>,
    budget: Mutex<RetryBudget>,
    retries_max: u32,
}

impl UpstreamClient {
    /// A client of the upstream; nothing is sent yet. Proxies are those of the environment.
    ///
    /// # Errors
    /// `url` is not an address, `api_key` cannot be sent in a header, or `ca_file` has no certificates.
    pub fn new(settings: UpstreamSettings, metrics: Metrics) -> Result<UpstreamClient, BoxError> {
        let tls = tls(settings.ca_file.as_deref())?;
        UpstreamClient::with_network(settings, metrics, tls, &Matcher::from_env())
    }

    pub(crate) fn with_network(
        settings: UpstreamSettings,
        metrics: Metrics,
        tls: ClientConfig,
        proxies: &Matcher,
    ) -> Result<UpstreamClient, BoxError> {
        let UpstreamSettings { id, name, url, api_key, concurrent_requests_max, .. } = settings;
        let uri: Uri = url.parse()?;
        metrics.upstream(&id);
        let endpoint = Endpoint::new(id, name, url, api_key.clone(), metrics);
        let proxy = proxy_for(&uri, proxies);
        let address = match (uri.authority(), &proxy) {
            // A tunnel without a port would lead to port 443.
            (Some(host), Some(_)) if host.port().is_none() && uri.scheme_str() == Some("http") => {
                format!("http://{host}:80{}", uri.path()).parse()?
            }
            _ => uri,
        };
        address.authority().ok_or("the address has no host")?;
        let base_path = address.path().trim_end_matches('/').to_owned();
        let connector = connector(tls, proxy, settings.connect_timeout);
        let pool = Pool::new(connector, address, concurrent_requests_max);
        let credentials = |key: String| {
            let (name, value) = match settings.api_key_header {
                Some(name) => (name, HeaderValue::try_from(key)),
                None => (AUTHORIZATION, HeaderValue::try_from(format!("Bearer {key}"))),
            };
            let mut value = value?;
            value.set_sensitive(true);
            Ok::<_, BoxError>((name, value))
        };
        Ok(UpstreamClient {
            endpoint: Arc::new(endpoint),
            base_path,
            credentials: api_key.map(credentials).transpose()?,
            pool,
            permits: Arc::new(Semaphore::new(concurrent_requests_max)),
            background_permits: Arc::new(Semaphore::new(concurrent_requests_max.saturating_sub(1).max(1))),
            budget: Mutex::default(),
            retries_max: settings.retries_max,
        })
    }

    /// Whether a request would have to wait for a permit.
    pub fn is_saturated(&self) -> bool {
        self.permits.available_permits() == 0
    }

    /// Whether the circuit breaker would reject an attempt now.
    pub fn is_open(&self) -> bool {
        self.endpoint.is_open()
    }

    /// Waits for a permit until `deadline`.
    ///
    /// # Errors
    /// [`UpstreamError::Open`] at once, or [`UpstreamError::Timeout`].
    pub async fn permit(&self, priority: Priority, deadline: Option<Instant>) -> Result<Permit> {
        self.endpoint.would_allow()?;
        // The semaphores are never closed.
        let permit = async {
            let background = match priority {
                Priority::Interactive => None,
                Priority::Background => self.background_permits.clone().acquire_owned().await.ok(),
            };
            Permit { _any: self.permits.clone().acquire_owned().await.ok(), _background: background }
        };
        let Some(deadline) = deadline else { return Ok(permit.await) };
        let waited = deadline.saturating_duration_since(Instant::now());
        let permit = tokio::time::timeout_at(deadline.into(), permit).await;
        permit.map_err(|_| self.endpoint.timeout(Awaited::End, waited))
    }

    /// A permit, if one is free.
    ///
    /// # Errors
    /// [`UpstreamError::Open`]; [`UpstreamError::Limited`] when as many requests are in flight as may be.
    pub fn try_permit(&self) -> Result<Permit> {
        self.endpoint.would_allow()?;
        let permit = self.permits.clone().try_acquire_owned();
        let permit = permit.map_err(|_| self.endpoint.failed(self.endpoint.saturated()))?;
        Ok(Permit { _any: Some(permit), _background: None })
    }

    /// Sends the request once. The permit is released at the end of the reply's body.
    ///
    /// # Errors
    /// [`UpstreamError`]; also for every status that is not a success.
    pub async fn send(&self, request: UpstreamRequest, permit: Permit) -> Result<Response<ReplyBody>> {
        let reply = self.exchange(request, permit).await?;
        if reply.status().is_success() { Ok(reply) } else { Err(self.status_error(reply).await) }
    }

    /// Sends the request once and returns the reply whatever its status. The permit is released at the end of the reply's body.
    ///
    /// # Errors
    /// [`UpstreamError`], except for a status.
    pub async fn exchange(&self, request: UpstreamRequest, permit: Permit) -> Result<Response<ReplyBody>> {
        let limits = request.limits;
        let (request, path) = self.render(request).map_err(|error| self.endpoint.connect(&error))?;
        let mut attempt = Attempt::start(self.endpoint.clone(), permit, limits)?;
        let reply = attempt.within_limits(pin!(self.pool.send(request, path))).await?;
        let reply = reply.map_err(|error| {
            let failed = match error.was_sent {
                true => self.endpoint.broken(&error),
                false => self.endpoint.connect(&error),
            };
            attempt.fail(failed)
        })?;
        if reply.status().is_server_error() {
            attempt.record(Outcome::Failed);
        } else if !reply.status().is_success() {
            attempt.record(Outcome::Answered);
        }
        attempt.await_first_byte();
        Ok(reply.map(|body| ReplyBody::new(body, attempt)))
    }

    /// The error of a reply whose status is not a success. It is counted and logged.
    pub async fn status_error(&self, reply: Response<ReplyBody>) -> UpstreamError {
        let (head, body) = reply.into_parts();
        let body = body.read_start(ERROR_BYTES_MAX).await;
        self.refused(head.status, &head.headers, &body)
    }

    /// The error of a reply with this status, which is not a success, and this body. It is counted and logged.
    pub fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> UpstreamError {
        self.endpoint.failed(self.endpoint.status(status, headers, body))
    }

    /// Bytes of a reply without the key of the upstream: servers quote what they were sent.
    pub fn without_key(&self, bytes: Bytes) -> Bytes {
        self.endpoint.bytes_without_key(bytes)
    }

    /// A text of a reply without the key of the upstream.
    pub fn text_without_key(&self, text: &str) -> String {
        self.endpoint.without_key(text)
    }

    /// The body of an error without the key of the upstream, also where JSON escapes parts of it.
    pub fn error_without_key(&self, body: Bytes) -> Bytes {
        self.endpoint.error_without_key(body)
    }

    /// Joins the request with the path of the address, the key and the name of this program.
    fn render(
        &self,
        request: UpstreamRequest,
    ) -> Result<(Request<RequestBody>, PathAndQuery), http::uri::InvalidUri> {
        let UpstreamRequest { method, path, headers, body, .. } = request;
        let path = match path {
            Cow::Borrowed(path) if self.base_path.is_empty() => Bytes::from_static(path.as_bytes()),
            Cow::Borrowed(_) | Cow::Owned(_) => [self.base_path.as_bytes(), path.as_bytes()].concat().into(),
        };
        let path = PathAndQuery::from_maybe_shared(path)?;
        let mut rendered = Request::new(body);
        *rendered.method_mut() = method;
        *rendered.headers_mut() = headers;
        let user_agent = HeaderValue::from_static(concat!("weir/", env!("CARGO_PKG_VERSION")));
        rendered.headers_mut().insert(USER_AGENT, user_agent);
        if let Some((name, value)) = &self.credentials {
            rendered.headers_mut().insert(name, value.clone());
        }
        Ok((rendered, path))
    }

    /// The retries of a new request, which end before `deadline`.
    pub fn retries(&self, deadline: Option<Instant>) -> Retries<'_> {
        self.with_budget(RetryBudget::deposit);
        Retries { client: self, retries: 0, deadline }
    }

    fn with_budget<T>(&self, act: impl FnOnce(&mut RetryBudget) -> T) -> T {
        act(&mut self.budget.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The error of a reply whose first event did not come within `limit`. It is counted and logged.
    pub fn timed_out(&self, limit: Duration) -> UpstreamError {
        self.endpoint.failed(self.endpoint.timeout(Awaited::FirstByte, limit))
    }

    /// The error of a reply that was read and does not fit the request. It is counted and logged.
    pub fn invalid_reply(&self, reason: &str) -> UpstreamError {
        self.endpoint.failed(self.endpoint.reply(reason))
    }
}

/// The retries of one request.
pub struct Retries<'a> {
    client: &'a UpstreamClient,
    retries: u32,
    deadline: Option<Instant>,
}

impl Retries<'_> {
    /// Waits until the next attempt after one that failed.
    ///
    /// # Errors
    /// `error` itself, when the request is not to be retried.
    pub async fn wait(&mut self, error: UpstreamError) -> Result<()> {
        match error.is_retryable() {
            true => self.pause(error).await,
            false => Err(error),
        }
    }

    /// Waits until a further attempt after a reply that broke, and may have been charged.
    ///
    /// # Errors
    /// `error` itself, when the request is not to be retried.
    pub async fn wait_after_break(&mut self, error: UpstreamError) -> Result<()> {
        self.pause(error).await
    }

    async fn pause(&mut self, error: UpstreamError) -> Result<()> {
        let failed = FailedAttempt {
            retries: self.retries,
            retries_max: self.client.retries_max,
            retry_after: error.retry_after(),
            time_left: self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())),
            random: rand::random(),
        };
        let Some(wait) =
            wait_before_retry(&failed).filter(|_| self.client.with_budget(RetryBudget::withdraw))
        else {
            return Err(error);
        };
        self.retries += 1;
        tokio::time::sleep(wait).await;
        Ok(())
    }
}
