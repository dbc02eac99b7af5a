//! What happens to every request around its handler.

use std::future::ready;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::{Stream, StreamExt};
use tracing::Instrument;
use weir_api::ErrorCode;
use weir_policy::Caller;

use super::Gateway;
use super::error::{ApiError, Style};

/// The name of a request in reply, error body and log.
#[derive(Debug, Clone)]
pub(super) struct RequestId(pub Arc<str>);

pub(super) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longer ids of callers are replaced.
const REQUEST_ID_BYTES_MAX: usize = 512;

/// Everything around a handler, from the outside in: the request's id and the log's span; counting; the rendering of errors; whether the
/// request comes by a name and from a page that are ours; who calls; the deadline; hearing out a refused caller. One function, because
/// each layer of a router's own costs as much as all of these.
pub(super) async fn around(State(gateway): State<Gateway>, request: Request, next: Next) -> Response {
    let id = id_of(request.headers());
    let span = tracing::info_span!("request", id = %id);
    let mut response = observed(&gateway, request, next, &id).instrument(span).await;
    name(&mut response, &id);
    response
}

/// Counts and logs the request, by the route's pattern and never by its path.
async fn observed(gateway: &Gateway, request: Request, next: Next, id: &Arc<str>) -> Response {
    let started = Instant::now();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let method = method_label(request.method());
    let style = Style::of(request.uri().path(), request.headers());
    let mut response = match stranger(gateway, &request) {
        Some(error) => error.into_response(),
        None => in_time(gateway, request, next, id).await,
    };
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        style.write(error, Some(id), &mut response);
    }
    count(gateway, route.as_ref().map_or("none", MatchedPath::as_str), method, &response, started);
    response
}

/// The id that the caller gives a request, or one of ours.
pub(super) fn id_of(headers: &HeaderMap) -> Arc<str> {
    let sent = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    let usable = |id: &&str| {
        !id.is_empty() && id.len() <= REQUEST_ID_BYTES_MAX && id.bytes().all(|b| (b' '..=b'~').contains(&b))
    };
    match sent.filter(usable) {
        Some(id) => id.into(),
        // the thread's own generator: a version 4 UUID without asking the system for each
        None => {
            let id = uuid::Builder::from_random_bytes(rand::random()).into_uuid();
            format!("req_{}", id.simple()).into()
        }
    }
}

/// Says in a response which request it answers.
pub(super) fn name(response: &mut Response, id: &str) {
    if let Ok(value) = HeaderValue::from_str(id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
}

/// Counts and logs a request that was answered.
pub(super) fn count(
    gateway: &Gateway,
    route: &str,
    method: &'static str,
    response: &Response,
    started: Instant,
) {
    let (status, took) = (response.status().as_u16(), started.elapsed());
    gateway.metrics.request(route, method, status, took.as_secs_f64());
    tracing::debug!(%route, method, status, ?took, "answered");
}

/// A method that we know; callers can invent any other.
fn method_label(method: &axum::http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Refuses calls by a name or from a web page that is not ours: any page that somebody visits can reach a loopback address,
/// by its own address (then `Origin` names the page) or by a name that it points there (then `Host` names it).
fn stranger(gateway: &Gateway, request: &Request) -> Option<ApiError> {
    let server = &gateway.config.server;
    if server.insecure_no_auth {
        return None;
    }
    let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = request.uri().host().or_else(|| text(header::HOST).map(host_of));
    let page =
        text(header::ORIGIN).map(|origin| host_of(origin.split_once("://").map_or("?", |(_, host)| host)));
    let named = [(host, "by the host"), (page, "from a page of")];
    let (name, what) = named
        .into_iter()
        .filter_map(|(name, what)| Some((name?, what)))
        .find(|(name, _)| !is_known(name, &server.allowed_hosts))?;
    let message = format!("a call {what} `{}` is not allowed", name.escape_debug());
    Some(ApiError::new(ErrorCode::HostNotAllowed, message))
}

/// The host of `host:port`, without the brackets of an IPv6 address.
fn host_of(authority: &str) -> &str {
    let end_of_address = authority.rfind(']').unwrap_or(0);
    let host = match authority.rfind(':') {
        Some(colon) if colon > end_of_address => &authority[..colon],
        _ => authority,
    };
    host.trim_start_matches('[').trim_end_matches(']')
}

fn is_known(host: &str, allowed: &str) -> bool {
    let is_loopback =
        |host: &str| host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let mut allowed = allowed.split(',').map(str::trim);
    host.eq_ignore_ascii_case("localhost")
        || is_loopback(host.trim_start_matches('[').trim_end_matches(']'))
        || allowed.any(|name| name == "*" || name.eq_ignore_ascii_case(host))
}

/// When a request is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(pub(super) Instant);

/// Who calls. Until there are API keys everybody is the operator, which is why only loopback may listen.
pub(super) fn caller() -> Arc<Caller> {
    Arc::new(Caller::system())
}

/// Says who calls, and ends a request that takes longer than its deadline; what its handler was doing is dropped.
async fn in_time(gateway: &Gateway, mut request: Request, next: Next, id: &Arc<str>) -> Response {
    let limit = gateway.deadline();
    let extensions = request.extensions_mut();
    extensions.insert(RequestId(id.clone()));
    extensions.insert(caller());
    extensions.insert(Deadline(Instant::now() + limit));
    match tokio::time::timeout(limit, heard_out(request, next)).await {
        Ok(response) => response,
        Err(_) => {
            let message = format!("there was no answer within {} ms", limit.as_millis());
            ApiError::new(ErrorCode::DeadlineExceeded, message).into_response()
        }
    }
}

/// A refused caller may go on sending for this long before it is cut off.
const REFUSED_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads a refused request's body to its end before the refusal goes out. Most callers listen only when they have sent
/// everything, and closing a connection on which they still send loses the answer.
async fn heard_out(request: Request, next: Next) -> Response {
    let waits_to_be_asked = request.headers().contains_key(header::EXPECT);
    if request.body().is_end_stream() || waits_to_be_asked {
        return next.run(request).await;
    }
    let (head, body) = request.into_parts();
    let body = SharedBody(Arc::new(Mutex::new(body.into_data_stream())));
    let response = next.run(Request::from_parts(head, Body::from_stream(body.clone()))).await;
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        read_out(body).await;
    }
    response
}

/// Reads what comes of a refused request's body, for a while.
async fn read_out(body: impl Stream<Item = Result<Bytes, axum::Error>>) {
    let rest = body.take_while(|part| ready(part.is_ok())).for_each(|_| ready(()));
    drop(tokio::time::timeout(REFUSED_BODY_TIMEOUT, rest).await);
}

/// A body that the handler reads from, and after it [`heard_out`].
#[derive(Clone)]
struct SharedBody(Arc<Mutex<BodyDataStream>>);

impl Stream for SharedBody {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).poll_next_unpin(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_known_whatever_its_port_and_case() {
        for known in [
            "localhost",
            "LOCALHOST:8000",
            "127.0.0.1:8000",
            "127.8.9.1",
            "[::1]:8000",
            "[::1]",
            "weir.lan:80",
        ] {
            assert!(is_known(host_of(known), "other.lan, weir.lan"), "{known}");
        }
        for unknown in
            ["", "?", "evil.example", "localhost.evil.example:8000", "10.0.0.1", "127.0.0.1.evil.example"]
        {
            assert!(!is_known(host_of(unknown), "other.lan, weir.lan"), "{unknown}");
            assert!(is_known(host_of(unknown), "*"), "{unknown}");
        }
    }
}
