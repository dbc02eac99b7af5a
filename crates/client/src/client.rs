//! The calls of the API that commands make, with retries.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::de::DeserializeOwned;
use weir_api::{
    CollectionReply, CollectionSettings, DeletedReply, DocumentReply, DocumentsDeleteReply,
    DocumentsDeleteRequest, FeedbackReply, IngestRequest, JobReply, List, Problem, SearchReply,
    SearchRequest,
};

use crate::{ClientError, Result, Transport, TransportError};

/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one attempt of a call may take: a large batch on a slow disk takes minutes.
const CALL_TIMEOUT: Duration = Duration::from_secs(300);
/// Bytes in a reply, at most.
const REPLY_BYTES_MAX: usize = 1 << 30;
/// The first and the longest delay between two attempts where the gateway sends no `Retry-After`.
const DELAY_FIRST: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(5);
/// The longest `Retry-After` that is respected.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(120);
/// Shorter delays are not reported.
const REPORTED_DELAY_MIN: Duration = Duration::from_secs(1);

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

/// A client of one gateway.
///
/// Every method fails when the gateway can't be reached, refuses the call, or does not reply as the API says.
pub struct Client {
    url: String,
    transport: Transport,
    retries: RetryPolicy,
}

impl Client {
    /// A client of the gateway at `url`, which has no slash at its end.
    pub fn new(url: String, retries: RetryPolicy) -> Client {
        Client { url, transport: Transport::new(CONNECT_TIMEOUT), retries }
    }

    /// Searches.
    pub async fn search(&self, request: &SearchRequest) -> Result<Reply<SearchReply>> {
        self.call(Method::POST, "/v1/search", json(request), |_| {}).await
    }

    /// Sends documents. `report` is called with the reason before each delay of a second or more.
    pub async fn ingest(&self, request: &IngestRequest<'_>, report: impl FnMut(&str)) -> Result<JobReply> {
        self.call(Method::POST, "/v1/ingest", json(request), report).await?.parse()
    }

    /// All jobs that the gateway lists.
    pub async fn jobs(&self) -> Result<Reply<List<JobReply>>> {
        self.get("/v1/jobs").await
    }

    /// One job.
    pub async fn job(&self, id: &str) -> Result<Reply<JobReply>> {
        self.get(&format!("/v1/jobs/{}", encode(id))).await
    }

    /// All collections.
    pub async fn collections(&self) -> Result<Reply<List<CollectionReply>>, ClientError> {
        self.get("/v1/collections").await
    }

    /// One collection, as it was received.
    pub async fn collection_reply(&self, name: &str) -> Result<Reply<CollectionReply>, ClientError> {
        self.get(&collection_path(name)).await
    }

    /// Creates a collection. One that exists with the same settings is not an error.
    pub async fn put_collection(
        &self,
        name: &str,
        settings: &CollectionSettings,
    ) -> Result<Reply<CollectionReply>, ClientError> {
        self.call(Method::PUT, &collection_path(name), json(settings), |_| {}).await
    }

    /// One collection.
    pub async fn collection(&self, name: &str) -> Result<CollectionReply> {
        self.get(&collection_path(name)).await?.parse()
    }

    /// Creates a collection with default settings.
    pub async fn create_collection(&self, name: &str) -> Result<CollectionReply> {
        let path = collection_path(name);
        self.call(Method::PUT, &path, Bytes::from_static(b"{}"), |_| {}).await?.parse()
    }

    /// Deletes a collection with its documents.
    pub async fn delete_collection(&self, name: &str) -> Result<DeletedReply> {
        let path = collection_path(name);
        self.call(Method::DELETE, &path, Bytes::new(), |_| {}).await?.parse()
    }

    /// One document.
    pub async fn document(&self, collection: &str, id: &str) -> Result<DocumentReply> {
        self.get(&format!("{}/documents/{}", collection_path(collection), encode(id))).await?.parse()
    }

    /// A page of a collection's documents. `cursor` is the `next_cursor` of the page before.
    pub async fn documents(
        &self,
        collection: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<List<DocumentReply>> {
        let path = format!("{}/documents?limit={limit}", collection_path(collection));
        self.get(&with_cursor(path, cursor)).await?.parse()
    }

    /// A page of a collection's documents, from the first id after `after` in byte order.
    pub async fn documents_after(
        &self,
        collection: &str,
        limit: usize,
        after: &str,
    ) -> Result<List<DocumentReply>, ClientError> {
        let after = encode(after);
        let path = format!("{}/documents?limit={limit}&after={after}", collection_path(collection));
        self.get(&path).await?.parse()
    }

    /// Deletes one document.
    pub async fn delete_document(&self, collection: &str, id: &str) -> Result<DeletedReply, ClientError> {
        let path = format!("{}/documents/{}", collection_path(collection), encode(id));
        self.call(Method::DELETE, &path, Bytes::new(), |_| {}).await?.parse()
    }

    /// Deletes the documents that match a filter, as many as the gateway deletes at once.
    pub async fn delete_documents(
        &self,
        collection: &str,
        request: &DocumentsDeleteRequest,
    ) -> Result<DocumentsDeleteReply, ClientError> {
        let path = format!("{}/documents/delete", collection_path(collection));
        self.call(Method::POST, &path, json(request), |_| {}).await?.parse()
    }

    /// A page of the feedback to a collection, newest first.
    pub async fn feedback(
        &self,
        collection: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<List<FeedbackReply>> {
        let path = format!("/v1/feedback?collection={}&limit={limit}", encode(collection));
        self.get(&with_cursor(path, cursor)).await?.parse()
    }

    async fn get<T>(&self, path: &str) -> Result<Reply<T>> {
        self.call(Method::GET, path, Bytes::new(), |_| {}).await
    }

    /// Repeats an attempt until it succeeds, fails for good, or the retry policy ends.
    async fn call<T>(
        &self,
        method: Method,
        path: &str,
        body: Bytes,
        mut report: impl FnMut(&str),
    ) -> Result<Reply<T>> {
        let begun = Instant::now();
        let mut backoff = DELAY_FIRST;
        loop {
            let (error, delay, retried_for) = match self.attempt(&method, path, body.clone()).await {
                Ok(received) if received.status.is_success() => {
                    return Ok(Reply { text: received.text, url: self.url.clone(), form: PhantomData });
                }
                Ok(received) => {
                    let is_busy = matches!(
                        received.status,
                        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE
                    );
                    let retried_for = is_busy.then_some(self.retries.busy);
                    (self.refusal(&received), received.retry_after.unwrap_or(backoff), retried_for)
                }
                Err(source) => {
                    let retried_for = source.is_transient().then_some(self.retries.unreachable);
                    (ClientError::Unreachable { url: self.url.clone(), source }, backoff, retried_for)
                }
            };
            if retried_for.is_none_or(|limit| begun.elapsed() + delay > limit) {
                return Err(error);
            }
            if delay >= REPORTED_DELAY_MIN {
                report(&format!("{error}; trying again in {:.0} s", delay.as_secs_f64()));
            }
            tokio::time::sleep(delay).await;
            backoff = (backoff * 2).min(DELAY_MAX);
        }
    }

    async fn attempt(&self, method: &Method, path: &str, body: Bytes) -> Result<Received, TransportError> {
        let address = format!("{}{path}", self.url);
        let uri: Uri = address.parse().map_err(|_| TransportError::Address(address))?;
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri;
        if method == Method::POST || method == Method::PUT {
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let received = tokio::time::timeout(CALL_TIMEOUT, self.receive(request)).await;
        received.unwrap_or(Err(TransportError::Timeout(CALL_TIMEOUT)))
    }

    async fn receive(&self, request: Request<Full<Bytes>>) -> Result<Received, TransportError> {
        let response = self.transport.send(request).await?;
        let status = response.status();
        let seconds = response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
        let retry_after =
            seconds.map(|seconds| Duration::from_secs(seconds).clamp(DELAY_FIRST, RETRY_AFTER_MAX));
        let body = Limited::new(response.into_body(), REPLY_BYTES_MAX).collect().await;
        let body = body.map_err(TransportError::Body)?.to_bytes();
        Ok(Received { status, retry_after, text: String::from_utf8_lossy(&body).into_owned() })
    }

    fn refusal(&self, received: &Received) -> ClientError {
        match serde_json::from_str::<Problem>(&received.text) {
            Ok(problem) => {
                let message =
                    problem.detail.trim_end_matches(problem.code.row().remedy).trim_end_matches(['.', ' ']);
                ClientError::Refused { code: problem.code, message: message.to_owned() }
            }
            Err(_) => ClientError::NotAGateway { url: self.url.clone(), status: received.status.as_u16() },
        }
    }
}

/// A complete HTTP reply.
struct Received {
    status: StatusCode,
    retry_after: Option<Duration>,
    text: String,
}

/// Requests consist of texts, numbers and checked JSON, which always have a JSON form.
fn json(request: &impl serde::Serialize) -> Bytes {
    serde_json::to_vec(request).unwrap_or_default().into()
}

fn encode(text: &str) -> impl std::fmt::Display {
    utf8_percent_encode(text, &RESERVED)
}

fn collection_path(name: &str) -> String {
    format!("/v1/collections/{}", encode(name))
}

fn with_cursor(path: String, cursor: Option<&str>) -> String {
    cursor.map_or_else(|| path.clone(), |cursor| format!("{path}&cursor={}", encode(cursor)))
}
