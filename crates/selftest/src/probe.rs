//! Requests to the server that is tested, and its replies as they were received.

use std::fmt;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Bytes;
use serde_json::Value;
use weir_client::{Transport, TransportError, Trust, TrustError};

/// How long opening a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a request may take: the largest ones have 2,049 texts.
const REPLY_TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes in a reply, at most.
const REPLY_BYTES_MAX: usize = 64 << 20;
/// Characters of a request or a reply that are shown.
const EXCERPT_CHARS_MAX: usize = 160;

/// A request of a check.
#[derive(Debug, Clone)]
pub(crate) struct Sent {
    method: Method,
    path: String,
    accept: Option<&'static str>,
    body: String,
}

impl Sent {
    pub(crate) fn get(path: &str) -> Sent {
        Sent { method: Method::GET, path: path.to_owned(), accept: None, body: String::new() }
    }

    pub(crate) fn post(path: &str, body: &Value) -> Sent {
        Sent::post_text(path, body.to_string())
    }

    /// A body that need not be JSON.
    pub(crate) fn post_text(path: &str, body: String) -> Sent {
        Sent { method: Method::POST, path: path.to_owned(), accept: None, body }
    }

    pub(crate) fn accepting(self, media: &'static str) -> Sent {
        Sent { accept: Some(media), ..self }
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.method, self.path)?;
        if let Some(media) = self.accept {
            write!(f, " (accept: {media})")?;
        }
        if !self.body.is_empty() {
            write!(f, " {}", excerpt(&self.body))?;
        }
        Ok(())
    }
}

/// A complete reply.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// The body as JSON.
    pub(crate) fn json(&self) -> Result<Value, String> {
        serde_json::from_slice(&self.body).map_err(|error| format!("the body is not JSON: {error}"))
    }

    /// The value of a header; empty when there is none.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The media type without its parameters.
    pub(crate) fn media_type(&self) -> &str {
        self.header("content-type").split(';').next().unwrap_or_default().trim()
    }

    /// The status and the beginning of the body.
    pub(crate) fn summary(&self) -> String {
        let media = self.media_type();
        let is_text = media.contains("json") || media.starts_with("text/");
        let body = match self.body.len() {
            0 => "without a body".to_owned(),
            _ if is_text => excerpt(&String::from_utf8_lossy(&self.body)),
            bytes => format!("{bytes} bytes of {media}"),
        };
        format!("{} {body}", self.status)
    }
}

/// The first characters of a text.
fn excerpt(text: &str) -> String {
    let mut shown: String = text.chars().take(EXCERPT_CHARS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// Sends requests to one server.
pub(crate) struct Probe {
    transport: Transport,
    url: String,
    authorization: Option<HeaderValue>,
}

impl Probe {
    /// A probe of the server at `url`, which has no slash at its end.
    pub(crate) fn new(
        url: String,
        trust: &Trust,
        authorization: Option<HeaderValue>,
    ) -> Result<Probe, TrustError> {
        Ok(Probe { transport: Transport::with_trust(CONNECT_TIMEOUT, trust)?, url, authorization })
    }

    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The reply to a request, whatever its status.
    pub(crate) async fn send(&self, sent: &Sent) -> Result<Answer, TransportError> {
        let received = tokio::time::timeout(REPLY_TIMEOUT, self.receive(sent)).await;
        received.unwrap_or(Err(TransportError::Timeout(REPLY_TIMEOUT)))
    }

    async fn receive(&self, sent: &Sent) -> Result<Answer, TransportError> {
        let address = format!("{}{}", self.url, sent.path);
        let uri: Uri = address.parse().map_err(|_| TransportError::Address(address))?;
        let mut request = Request::new(Full::new(Bytes::from(sent.body.clone())));
        *request.method_mut() = sent.method.clone();
        *request.uri_mut() = uri;
        let headers = request.headers_mut();
        if sent.method == Method::POST {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        headers.insert(ACCEPT, HeaderValue::from_static(sent.accept.unwrap_or("*/*")));
        if let Some(value) = &self.authorization {
            headers.insert(AUTHORIZATION, value.clone());
        }
        let (head, body) = self.transport.send(request).await?.into_parts();
        let body = Limited::new(body, REPLY_BYTES_MAX).collect().await.map_err(TransportError::Body)?;
        Ok(Answer { status: head.status.as_u16(), headers: head.headers, body: body.to_bytes() })
    }
}
