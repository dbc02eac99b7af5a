//! One call: its request, its attempts, and what becomes of a refusal.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use weir_api::{OpenAiErrorBody, Problem};

use crate::transport::RequestBody;
use crate::{Client, ClientError, Result, TransportError};

/// How long one attempt of a call may take: a large batch on a slow disk takes minutes.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(300);
/// Bytes in a reply, at most.
pub(crate) const REPLY_BYTES_MAX: usize = 1 << 30;
/// Bytes in the reply of an error, at most.
const ERROR_BYTES_MAX: usize = 1 << 20;
/// The first and the longest delay between two attempts where the gateway sends no `Retry-After`.
const DELAY_FIRST: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(5);
/// The longest `Retry-After` that is respected.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);
/// Shorter delays are not reported.
const REPORTED_DELAY_MIN: Duration = Duration::from_secs(1);

/// Identifies a request that is carried out once.
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The same as `Retry-After` in milliseconds.
const RETRY_AFTER_MS: HeaderName = HeaderName::from_static("retry-after-ms");

/// The characters of a path segment or query value that are encoded: all but RFC 3986's unreserved ones.
const RESERVED: AsciiSet = NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// For how long a failed call is repeated.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// While no gateway answers, because it may be starting.
    pub unreachable: Duration,
    /// While the gateway answers 429 or 503.
    pub busy: Duration,
}

impl RetryPolicy {
    /// One attempt, for a command that somebody waits for.
    pub const NONE: RetryPolicy = RetryPolicy { unreachable: Duration::ZERO, busy: Duration::ZERO };
    /// For commands that run for minutes.
    pub const LONG: RetryPolicy =
        RetryPolicy { unreachable: Duration::from_secs(20), busy: Duration::from_secs(600) };
}

/// A reply that can be printed as it was received.
#[derive(Debug)]
pub struct Reply<T> {
    text: String,
    url: String,
    form: PhantomData<T>,
}

impl<T: DeserializeOwned> Reply<T> {
    /// The reply's body.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The reply as a value.
    ///
    /// # Errors
    /// [`ClientError::NotAGateway`] when the body has another form.
    pub fn parse(&self) -> Result<T> {
        let not_a_gateway = |_| ClientError::NotAGateway { url: self.url.clone(), status: 200 };
        serde_json::from_str(&self.text).map_err(not_a_gateway)
    }
}

/// A request of the API.
pub(crate) struct ApiCall {
    method: Method,
    path: String,
    body: Bytes,
    headers: HeaderMap,
    /// An error status whose reply is that of a success.
    accepted: Option<StatusCode>,
    /// Whether executing it twice has the effect of executing it once.
    is_repeatable: bool,
}

impl ApiCall {
    fn new(method: Method, path: impl Into<String>) -> ApiCall {
        ApiCall {
            method,
            path: path.into(),
            body: Bytes::new(),
            headers: HeaderMap::new(),
            accepted: None,
            is_repeatable: true,
        }
    }

    pub(crate) fn get(path: impl Into<String>) -> ApiCall {
        ApiCall::new(Method::GET, path)
    }

    pub(crate) fn delete(path: impl Into<String>) -> ApiCall {
        ApiCall::new(Method::DELETE, path)
    }

    pub(crate) fn post(path: impl Into<String>, body: &impl Serialize) -> ApiCall {
        ApiCall::new(Method::POST, path).with_body(body)
    }

    /// A `POST` of bytes that are not JSON.
    pub(crate) fn post_bytes(path: impl Into<String>, body: Vec<u8>, media_type: &str) -> ApiCall {
        let mut call = ApiCall { body: body.into(), ..ApiCall::new(Method::POST, path) };
        if let Ok(media_type) = HeaderValue::from_str(media_type) {
            call.headers.insert(CONTENT_TYPE, media_type);
        }
        call
    }

    /// A `POST` without a body.
    pub(crate) fn post_nothing(path: impl Into<String>) -> ApiCall {
        ApiCall::new(Method::POST, path)
    }

    pub(crate) fn put(path: impl Into<String>, body: &impl Serialize) -> ApiCall {
        ApiCall::new(Method::PUT, path).with_body(body)
    }

    pub(crate) fn patch(path: impl Into<String>, body: &impl Serialize) -> ApiCall {
        ApiCall::new(Method::PATCH, path).with_body(body)
    }

    /// Requests consist of texts, numbers and checked JSON, which always have a JSON form.
    fn with_body(self, body: &impl Serialize) -> ApiCall {
        let body = serde_json::to_vec(body).unwrap_or_default().into();
        ApiCall { body, ..self }.with_header(CONTENT_TYPE, "application/json")
    }

    pub(crate) fn with_header(mut self, name: HeaderName, value: &'static str) -> ApiCall {
        self.headers.insert(name, HeaderValue::from_static(value));
        self
    }

    /// The same for a value that is made of letters and digits.
    pub(crate) fn with_value(mut self, name: HeaderName, value: &str) -> ApiCall {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    /// A call that the gateway carries out once, however often it is sent.
    ///
    /// # Errors
    /// [`ClientError::IdempotencyKey`] for a key that no header can hold.
    pub(crate) fn with_idempotency_key(mut self, key: &str) -> Result<ApiCall> {
        let is_valid =
            (1..=255).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        // in quotes, so that a key may begin with one
        let quoted = format!("\"{}\"", key.replace('\\', "\\\\").replace('"', "\\\""));
        let value = HeaderValue::from_str(&quoted).ok().filter(|_| is_valid);
        self.headers.insert(IDEMPOTENCY_KEY, value.ok_or(ClientError::IdempotencyKey)?);
        Ok(ApiCall { is_repeatable: true, ..self })
    }

    pub(crate) fn accepting(self, status: StatusCode) -> ApiCall {
        ApiCall { accepted: Some(status), ..self }
    }

    /// A call that is not repeated when its reply was lost, because it may have been executed.
    pub(crate) fn once(self) -> ApiCall {
        ApiCall { is_repeatable: false, ..self }
    }

    fn request<B>(&self, client: &Client, body: B) -> Result<Request<B>, TransportError> {
        let address = format!("{}{}", client.url(), self.path);
        let uri: Uri = address.parse().map_err(|_| TransportError::Address(address))?;
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = self.headers.clone();
        if let Some(authorization) = client.authorization() {
            request.headers_mut().insert(AUTHORIZATION, authorization.clone());
        }
        Ok(request)
    }
}

/// An attempt without the reply of a success.
pub(crate) enum Failed {
    /// No complete reply.
    Transport(TransportError),
    /// The reply of an error.
    Refused { status: StatusCode, retry_after: Option<Duration>, text: String },
    /// The reply of a success that is not what the API says. The reason continues `the reply of URL …`.
    Malformed(String),
}

impl From<TransportError> for Failed {
    fn from(error: TransportError) -> Failed {
        Failed::Transport(error)
    }
}

impl Failed {
    fn into_error(self, url: &str) -> ClientError {
        match self {
            Failed::Transport(source) => ClientError::Unreachable { url: url.to_owned(), source },
            Failed::Malformed(reason) => ClientError::Malformed { url: url.to_owned(), reason },
            Failed::Refused { status, text, .. } => refusal(&text)
                .unwrap_or_else(|| ClientError::NotAGateway { url: url.to_owned(), status: status.as_u16() }),
        }
    }

    /// For how long a call is repeated that failed like this; `None` when repeating it is of no use, or could execute it twice.
    fn retried_for(&self, policy: &RetryPolicy, is_repeatable: bool) -> Option<Duration> {
        match self {
            Failed::Transport(error) => {
                let is_safe = is_repeatable || error.is_unsent();
                (is_safe && error.is_transient()).then_some(policy.unreachable)
            }
            Failed::Refused { status, .. } => {
                let is_busy = [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE];
                is_busy.contains(status).then_some(policy.busy)
            }
            Failed::Malformed(_) => None,
        }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self {
            Failed::Refused { retry_after, .. } => *retry_after,
            Failed::Transport(_) | Failed::Malformed(_) => None,
        }
    }
}

/// The attempts of a call so far.
pub(crate) struct Retries {
    policy: RetryPolicy,
    is_repeatable: bool,
    begun: Instant,
    backoff: Duration,
}

impl Retries {
    pub(crate) fn begin(policy: RetryPolicy, call: &ApiCall) -> Retries {
        let is_repeatable = call.is_repeatable;
        Retries { policy, is_repeatable, begun: Instant::now(), backoff: DELAY_FIRST }
    }

    /// Returns when the call is to be repeated, or with the error when it is not.
    pub(crate) async fn wait(&mut self, failed: Failed, url: &str, report: impl FnOnce(&str)) -> Result<()> {
        let retried_for = failed.retried_for(&self.policy, self.is_repeatable);
        let delay = failed.retry_after().unwrap_or(self.backoff);
        let error = failed.into_error(url);
        if retried_for.is_none_or(|limit| self.begun.elapsed() + delay > limit) {
            return Err(error);
        }
        if delay >= REPORTED_DELAY_MIN {
            report(&format!("{error}; trying again in {:.0} s", delay.as_secs_f64()));
        }
        tokio::time::sleep(delay).await;
        self.backoff = (self.backoff * 2).min(DELAY_MAX);
        Ok(())
    }
}

impl Client {
    /// The reply of a call, of which the text is of use too.
    pub(crate) async fn reply<T>(&self, call: ApiCall, mut report: impl FnMut(&str)) -> Result<Reply<T>> {
        let mut retries = Retries::begin(self.retries(), &call);
        loop {
            match in_time(self.attempt_text(&call)).await {
                Ok(text) => return Ok(Reply { text, url: self.url().to_owned(), form: PhantomData }),
                Err(failed) => retries.wait(failed, self.url(), &mut report).await?,
            }
        }
    }

    /// The value that a call replies.
    pub(crate) async fn value<T: DeserializeOwned>(&self, call: ApiCall) -> Result<T> {
        self.reply(call, |_| {}).await?.parse()
    }

    /// The text that a call replies.
    pub(crate) async fn text(&self, call: ApiCall) -> Result<String> {
        Ok(self.reply::<()>(call, |_| {}).await?.text)
    }

    /// The bytes that a call replies.
    pub(crate) async fn bytes(&self, call: ApiCall) -> Result<Bytes> {
        let mut retries = Retries::begin(self.retries(), &call);
        loop {
            let attempt = async { Ok(read_bytes(self.open(&call).await?, REPLY_BYTES_MAX).await?) };
            match in_time(attempt).await {
                Ok(bytes) => return Ok(bytes),
                Err(failed) => retries.wait(failed, self.url(), |_| {}).await?,
            }
        }
    }

    async fn attempt_text(&self, call: &ApiCall) -> Result<String, Failed> {
        Ok(read_text(self.open(call).await?, REPLY_BYTES_MAX).await?)
    }

    /// Sends a call; the body of the success is still to be read.
    pub(crate) async fn open(&self, call: &ApiCall) -> Result<Response<Incoming>, Failed> {
        let body = Full::new(call.body.clone());
        self.accept(call, self.transport().send(call.request(self, body)?).await?).await
    }

    /// Sends a call once, with a body that is made while it is sent. The reply begins before the body ends.
    pub(crate) async fn open_stream(&self, call: &ApiCall, body: RequestBody) -> Result<Response<Incoming>> {
        let sent = async {
            let response = self.transport().send_stream(call.request(self, body)?).await?;
            self.accept(call, response).await
        };
        sent.await.map_err(|failed: Failed| failed.into_error(self.url()))
    }

    /// The reply, if it is that of a success.
    async fn accept(
        &self,
        call: &ApiCall,
        response: Response<Incoming>,
    ) -> Result<Response<Incoming>, Failed> {
        let status = response.status();
        if status.is_success() || call.accepted == Some(status) {
            return Ok(response);
        }
        let retry_after = retry_after(response.headers());
        let text = read_text(response, ERROR_BYTES_MAX).await?;
        Err(Failed::Refused { status, retry_after, text })
    }
}

/// The outcome of an attempt, which fails when it takes too long.
pub(crate) async fn in_time<T>(attempt: impl Future<Output = Result<T, Failed>>) -> Result<T, Failed> {
    let outcome = tokio::time::timeout(CALL_TIMEOUT, attempt).await;
    outcome.unwrap_or(Err(Failed::Transport(TransportError::Timeout(CALL_TIMEOUT))))
}

async fn read_text(response: Response<Incoming>, bytes_max: usize) -> Result<String, TransportError> {
    Ok(String::from_utf8_lossy(&read_bytes(response, bytes_max).await?).into_owned())
}

async fn read_bytes(response: Response<Incoming>, bytes_max: usize) -> Result<Bytes, TransportError> {
    let body = Limited::new(response.into_body(), bytes_max).collect().await;
    Ok(body.map_err(TransportError::Body)?.to_bytes())
}

/// The delay that a reply asks for.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let number = |name: &HeaderName| headers.get(name)?.to_str().ok()?.trim().parse::<u64>().ok();
    let delay = number(&RETRY_AFTER_MS).map(Duration::from_millis);
    let delay = delay.or_else(|| number(&RETRY_AFTER).map(Duration::from_secs))?;
    Some(delay.clamp(DELAY_FIRST, RETRY_AFTER_MAX))
}

/// The error that a reply describes, in the form of native routes or of OpenAI's.
pub(crate) fn refusal(text: &str) -> Option<ClientError> {
    if let Ok(problem) = serde_json::from_str::<Problem>(text) {
        return Some(ClientError::refused(problem.code, &problem.detail));
    }
    let OpenAiErrorBody { error } = serde_json::from_str(text).ok()?;
    Some(ClientError::refused(error.code?, &error.message))
}

/// `text` as a segment of a path or a value of a query. Proxies drop segments of dots, so that these are encoded too.
pub(crate) fn encode(text: &str) -> String {
    match text {
        "." | ".." => text.replace('.', "%2E"),
        text => utf8_percent_encode(text, &RESERVED).to_string(),
    }
}

/// `path` with the parameters that have a value.
pub(crate) fn with_query(path: String, parameters: &[(&str, Option<String>)]) -> String {
    let given = parameters.iter().filter_map(|(name, value)| Some((name, value.as_deref()?)));
    let mut target = path;
    for (number, (name, value)) in given.enumerate() {
        target.push(if number == 0 { '?' } else { '&' });
        target.push_str(&format!("{name}={}", encode(value)));
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_delay_of_a_reply_is_read_in_seconds_and_milliseconds_and_is_bounded() {
        let check = |headers: &[(HeaderName, &'static str)], expected: Option<u64>| {
            let pairs = headers.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value)));
            let seen = retry_after(&pairs.collect());
            assert_eq!(seen, expected.map(Duration::from_millis), "{headers:?}");
        };
        check(&[], None);
        check(&[(RETRY_AFTER, "2")], Some(2_000));
        check(&[(RETRY_AFTER, "2"), (RETRY_AFTER_MS, "1500")], Some(1_500));
        check(&[(RETRY_AFTER, "0")], Some(100));
        check(&[(RETRY_AFTER, "86400")], Some(120_000));
        check(&[(RETRY_AFTER, "Wed, 21 Oct 2026 07:28:00 GMT")], None);
    }

    #[test]
    fn parameters_without_a_value_are_left_out() {
        let parameters = [("a", None), ("b", Some("1 2".to_owned())), ("c", Some("é".to_owned()))];
        assert_eq!(with_query("/v1/jobs".to_owned(), &parameters), "/v1/jobs?b=1%202&c=%C3%A9");
        assert_eq!(with_query("/v1/jobs".to_owned(), &parameters[..1]), "/v1/jobs");
    }

    #[test]
    fn segments_of_dots_are_encoded() {
        assert_eq!(["..", ".", "a.b", "a/b"].map(encode), ["%2E%2E", "%2E", "a.b", "a%2Fb"]);
    }
}
