//! The middleware around the handler of every request.

use std::future::{poll_fn, ready};
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Version, header};
use axum::response::{IntoResponse, Response};
use futures_util::StreamExt;
use http_body_util::BodyExt as _;
use hyper::body::{Frame, SizeHint};
use weir_access::{KeyUsage, Reservation, unix_now};
use weir_api::ErrorCode;
use weir_policy::Caller;
use weir_telemetry::requests::{RequestEntry, RequestRecord};

use super::admission::admit;
use super::body;
use super::context::RequestContext;
use super::cors;
use super::dialect::Dialect;
use super::error::{ApiError, ErrorStyle};
use super::gateway::Gateway;
use super::ingest_lines;
use super::listener::RequestActivity;
use super::rate_limits;
use super::request_id::{REQUEST_ID, id_of};
use super::routes::paths::{PathRoutes, Paths};
use super::routes::{Access, AdmissionClass, Route, unmatched};
use super::upload;
use crate::Result;

/// Answers a request: the middleware around the handler of its route. From the outside in: the request's id and the log's span; metrics and the
/// row of the request log; the rendering of errors; panics; the check of `Host` and `Origin`; the caller and its scope; the limits of its key;
/// admission; the deadline; the body of a refused request.
pub(super) async fn answer(gateway: &Gateway, paths: &Paths, request: Request) -> Response {
    let id = id_of(request.headers());
    let span = tracing::info_span!("request", id = %id);
    let mut recorded = pin!(record(gateway, paths, request, &id));
    // as `Instrument` does, without moving the future
    let mut response = poll_fn(|context| span.in_scope(|| recorded.as_mut().poll(context))).await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

/// Counts and logs the request, by the route's pattern and never by its path, and renders its error.
async fn record(gateway: &Gateway, paths: &Paths, request: Request, id: &Arc<str>) -> Response {
    let started = Instant::now();
    let found = paths.find(request.uri().path());
    let routes = found.as_ref().map_or(&[][..], |found| found.routes);
    let route = routes.iter().find(|route| route.takes_method(request.method())).copied();
    let pattern = routes.first().map_or("none", |route| route.path);
    let dialect = route.or(routes.first().copied()).map_or(Dialect::Native, |route| route.dialect);
    let method = method_label(request.method());
    let style = ErrorStyle::new(dialect, request.headers());
    let is_logged = route.is_none_or(|route| route.access != Access::Public);
    let entry = is_logged.then(|| begin_entry(gateway, request.headers(), id, method, pattern));
    let unknown_path = route.is_none().then(|| request.uri().path().to_owned());
    let known = Known { gateway, route, found, id, entry: entry.as_ref() };
    let mut response = {
        let mut answered = pin!(known.answer(request));
        // as `catch_unwind` of futures does, without moving the future
        poll_fn(|context| {
            std::panic::catch_unwind(AssertUnwindSafe(|| answered.as_mut().poll(context)))
                .unwrap_or_else(|_| Poll::Ready(ApiError::internal_error().into_response()))
        })
        .await
    };
    let error = response.extensions_mut().remove::<ApiError>();
    let code = error.as_ref().map(|error| error.code().as_str());
    if let Some(error) = error {
        style.write(error, Some(id), &mut response);
    }
    if let Some(entry) = entry {
        entry.update(|record| {
            record.status = response.status().as_u16();
            record.error = record.error.or(code);
        });
    }
    let (status, took) = (response.status().as_u16(), started.elapsed());
    if let Some(path) = unknown_path {
        gateway.unknown_routes.log(method, &path, status);
    }
    gateway.metrics.request(pattern, method, status, took.as_secs_f64());
    tracing::debug!(route = pattern, method, status, ?took, "answered");
    response
}

/// Facts of a request before its caller is known.
struct Known<'a> {
    gateway: &'a Gateway,
    route: Option<&'static Route>,
    /// The routes of its path, whatever their methods.
    found: Option<PathRoutes<'a>>,
    id: &'a Arc<str>,
    /// Its row in the request log, if it has one.
    entry: Option<&'a RequestEntry>,
}

impl Known<'_> {
    /// Serves the request. A panic in here, or in what it calls, is answered as `internal`.
    async fn answer(self, request: Request) -> Response {
        let checked = check_host(&request)
            .and_then(|()| check_host_and_origin(self.gateway, &request))
            .and_then(|()| check_connection(&request, self.route));
        let response = match checked.map(|()| self.route) {
            Err(error) => refused(request, error).await,
            Ok(None) => self.unmatched(request).await,
            Ok(Some(route)) => self.authorized(request, route).await,
        };
        // of a body whose length is known, every byte is there already
        match response.body().size_hint().exact() {
            Some(_) => response,
            None => response.map(|body| Body::new(UnwindingBody(body))),
        }
    }

    /// The reply to a request that matches no route.
    async fn unmatched(self, request: Request) -> Response {
        let routes = self.found.as_ref().map_or(&[][..], |found| found.routes);
        let is_public = !routes.is_empty() && routes.iter().all(|route| route.access == Access::Public);
        // a browser asks for the methods of a route without its key
        let may_know = is_public || request.method() == Method::OPTIONS;
        if !may_know {
            let Some(caller) = self.gateway.caller(request.headers()) else {
                return refused(request, no_valid_key()).await;
            };
            self.note_caller(&caller);
        }
        let path = request.uri().path();
        let response = match &self.found {
            Some(found) => unmatched::no_method(found.routes, request.method(), path),
            None => unmatched::no_route(self.gateway.config.server.role, path),
        };
        drain_body_on_error(request, |_| ready(response)).await
    }

    /// Serves a request of a route whose caller has the scope for it, when there is capacity.
    async fn authorized(self, request: Request, route: &'static Route) -> Response {
        let gateway = self.gateway;
        if route.access == Access::Public {
            return self.admitted(request, route, None, None).await;
        }
        let Some(caller) = gateway.caller(request.headers()) else {
            return refused(request, no_valid_key()).await;
        };
        self.note_caller(&caller);
        if let Access::Scopes(scopes) = route.access
            && !scopes.iter().any(|scope| caller.may(*scope))
        {
            let scopes: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
            let message = format!("the caller lacks the scope `{}`", scopes.join("` or `"));
            return refused(request, ApiError::new(ErrorCode::InsufficientScope, message)).await;
        }
        let usage = caller.key.and_then(|key| gateway.keys.usage(key));
        let Some(usage) = usage else { return self.admitted(request, route, Some(caller), None).await };
        let mut response = match usage.admit(Instant::now()).await {
            Ok(running) => {
                let response = self.admitted(request, route, Some(caller), Some(usage.clone())).await;
                response.map(|body| held(body, running))
            }
            Err(limited) => {
                let refused = rate_limits::refusal(&limited);
                drain_body_on_error(request, |_| ready(refused.into_response())).await
            }
        };
        rate_limits::describe(response.headers_mut(), &usage.left(Instant::now()));
        response
    }

    /// Writes the caller into the request's row.
    fn note_caller(&self, caller: &Caller) {
        if let Some(entry) = self.entry {
            entry.update(|record| {
                record.key = caller.key.map(|key| key.0);
                record.key_name = caller.name.clone();
            });
        }
    }

    /// Serves a request within the limits of its key, when there is capacity, until its deadline.
    async fn admitted(
        self,
        mut request: Request,
        route: &'static Route,
        caller: Option<Arc<Caller>>,
        usage: Option<Arc<KeyUsage>>,
    ) -> Response {
        let gateway = self.gateway;
        if let Err(error) = check_query(route, request.uri().query()) {
            return error.into_response();
        }
        let admitted = match admit(gateway, route, request.headers()) {
            Ok(admitted) => admitted,
            Err(error) => return drain_body_on_error(request, |_| ready(error.into_response())).await,
        };
        let limit = Duration::from_millis(gateway.config.server.request_deadline_ms);
        // files and streams of lines may take longer: each has a time limit of its own
        let has_own_limit = route.admission == AdmissionClass::Ingest
            && (upload::is_form(request.headers()) || ingest_lines::is_lines(request.headers()));
        let deadline = (route.has_deadline && !has_own_limit).then(|| Instant::now() + limit);
        request.extensions_mut().insert(Arc::new(RequestContext {
            route,
            id: self.id.clone(),
            caller,
            usage,
            entry: self.entry.cloned(),
            deadline,
            segments: self.found.map(|found| found.segments).unwrap_or_default(),
            admitted: Mutex::new(admitted),
        }));
        let is_head = request.method() == Method::HEAD;
        let handled = pin!(drain_body_on_error(request, |request| (route.handler)(request, gateway.clone())));
        let response = match deadline {
            None => handled.await,
            Some(deadline) => tokio::time::timeout_at(deadline.into(), handled).await.unwrap_or_else(|_| {
                let message = format!("there was no answer within {} ms", limit.as_millis());
                ApiError::new(ErrorCode::DeadlineExceeded, message).into_response()
            }),
        };
        if is_head { without_body(response) } else { response }
    }
}

fn no_valid_key() -> ApiError {
    ApiError::new(ErrorCode::InvalidApiKey, "the request has no valid API key")
}

/// The reply to `HEAD`: the headers of the reply to `GET`.
fn without_body(mut response: Response) -> Response {
    if let Some(length) = response.body().size_hint().exact() {
        response.headers_mut().entry(header::CONTENT_LENGTH).or_insert(length.into());
    }
    response.map(|_| Body::empty())
}

/// A stream whose panics end it, and not the connection with its other streams.
struct UnwindingBody(Body);

impl HttpBody for UnwindingBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        let body = &mut self.0;
        std::panic::catch_unwind(AssertUnwindSafe(|| Pin::new(body).poll_frame(context))).unwrap_or_else(
            |_| Poll::Ready(Some(Err(axum::Error::new(std::io::Error::other("internal error"))))),
        )
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}

/// The status of a request whose client left before the reply.
const CLIENT_CLOSED_REQUEST: u16 = 499;

/// Begins the row of a request in the request log.
fn begin_entry(
    gateway: &Gateway,
    headers: &HeaderMap,
    id: &Arc<str>,
    method: &'static str,
    route: &'static str,
) -> RequestEntry {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    gateway.requests.begin(RequestRecord {
        at: unix_now(),
        request_id: id.clone(),
        method,
        route,
        status: CLIENT_CLOSED_REQUEST,
        trace: gateway.requests.trace(header("traceparent"), header("tracestate")),
        ..RequestRecord::default()
    })
}

/// The body of a stream, which keeps the request running until it is sent or dropped. A body whose length is known is complete: nothing runs.
fn held(body: Body, running: Reservation) -> Body {
    if body.size_hint().exact().is_some() {
        return body;
    }
    Body::new(body.map_frame(move |frame| {
        let _held = &running;
        frame
    }))
}

/// Refuses query parameters of native routes that take none; the others check their own. Routes of other APIs ignore what they do not
/// know, as these do.
fn check_query(route: &Route, query: Option<&str>) -> Result<()> {
    let is_strict =
        route.dialect == Dialect::Native && route.access != Access::Public && route.query.is_empty();
    match body::query_pairs(query.filter(|_| is_strict)).first() {
        Some((key, _)) => Err(body::unknown_parameter(key, "none")),
        None => Ok(()),
    }
}

/// The label of a method: clients can send any text.
fn method_label(method: &axum::http::Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "POST" => "POST",
        "PUT" => "PUT",
        "PATCH" => "PATCH",
        "DELETE" => "DELETE",
        "HEAD" => "HEAD",
        "OPTIONS" => "OPTIONS",
        _ => "other",
    }
}

/// Refuses requests over HTTP/1.1 without `Host`, and any with an empty or malformed one or with several: a proxy could take them for another host's.
fn check_host(request: &Request) -> Result<()> {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    let problem = match (hosts.next(), hosts.next()) {
        (None, _) if request.version() == Version::HTTP_11 => "the request has no `Host` header",
        (Some(_), Some(_)) => "the request has more than one `Host` header",
        (Some(host), None) if !is_authority(host) => {
            "the `Host` header is not a host name with or without a port"
        }
        // hyper reads the body as chunked once; another server could read it otherwise
        _ if request.headers().get_all(header::TRANSFER_ENCODING).iter().nth(1).is_some() => {
            "the request has more than one `Transfer-Encoding` header"
        }
        _ => return Ok(()),
    };
    Err(ApiError::new(ErrorCode::InvalidParameter, problem))
}

fn is_authority(host: &HeaderValue) -> bool {
    let host = host.to_str().ok().filter(|host| !host.contains('@'));
    host.is_some_and(|host| host.parse::<Authority>().is_ok())
}

/// Refuses requests whose `Host` or `Origin` is neither loopback nor in `server.allowed_hosts`, unless the `Origin` is in
/// `server.cors_origins`: any web page can reach a loopback address,
/// by its own address (then `Origin` names the page) or by a name that resolves to it (then `Host` names it).
fn check_host_and_origin(gateway: &Gateway, request: &Request) -> Result<()> {
    let server = &gateway.config.server;
    if gateway.keys.are_required() {
        return Ok(()); // a web page has no key
    }
    let text = |name| request.headers().get(name).map(|value| value.to_str().unwrap_or("?"));
    let host = request.uri().host().or_else(|| text(header::HOST).map(host_of));
    if request.headers().get_all(header::ORIGIN).iter().count() > 1 {
        return Err(ApiError::new(
            ErrorCode::HostNotAllowed,
            "a request with more than one `Origin` is not allowed",
        ));
    }
    let page = text(header::ORIGIN)
        .filter(|origin| !cors::is_allowed(&gateway.config, origin))
        .map(|origin| host_of(origin.split_once("://").map_or("?", |(_, host)| host)));
    let named = [(host, "by the host"), (page, "from a page of")];
    let unknown = named
        .into_iter()
        .filter_map(|(name, what)| Some((name?, what)))
        .find(|(name, _)| !is_known(name, &server.allowed_hosts));
    unknown.map_or(Ok(()), |(name, what)| {
        let message = format!("a request {what} `{}` is not allowed", name.escape_debug());
        Err(ApiError::new(ErrorCode::HostNotAllowed, message))
    })
}

/// Refuses requests other than health checks on a connection beyond `limits.connections_max`, and notes requests that end with their client.
fn check_connection(request: &Request, route: Option<&Route>) -> Result<()> {
    let Some(activity) = request.extensions().get::<RequestActivity>() else { return Ok(()) };
    if route.is_some_and(|route| !route.has_deadline) {
        activity.end_with_client();
    }
    match activity.is_reserved() && !route.is_some_and(Route::is_health_check) {
        true => Err(ApiError::new(ErrorCode::Overloaded, "all connections of the gateway are at work")),
        false => Ok(()),
    }
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
    let mut allowed = allowed.split(',').map(str::trim).filter(|name| !name.is_empty());
    host.eq_ignore_ascii_case("localhost")
        || is_loopback(host.trim_start_matches('[').trim_end_matches(']'))
        || allowed.any(|name| name == "*" || name.eq_ignore_ascii_case(host))
}

/// Longest time for which the rest of a refused request's body is read.
const REFUSED_BODY_TIMEOUT: Duration = Duration::from_secs(5);

/// Reads a refused request's body to its end before the refusal is sent. Most clients read the reply only after sending everything, and
/// closing a connection while the client still sends loses the reply.
async fn drain_body_on_error<F: Future<Output = Response>>(
    request: Request,
    answer: impl FnOnce(Request) -> F,
) -> Response {
    let waits_for_continue = request.headers().contains_key(header::EXPECT);
    if request.body().is_end_stream() || waits_for_continue {
        return answer(request).await;
    }
    let (head, body) = request.into_parts();
    let body = SharedBody(Arc::new(Mutex::new(body)));
    let response = answer(Request::from_parts(head, Body::new(body.clone()))).await;
    let status = response.status();
    if status.is_client_error() || status.is_server_error() {
        let rest = body.into_data_stream().take_while(|part| ready(part.is_ok())).for_each(|_| ready(()));
        drop(tokio::time::timeout(REFUSED_BODY_TIMEOUT, rest).await);
    }
    response
}

/// The refusal of a request whose body is not wanted. Over HTTP/1.1 the connection is closed after it; over HTTP/2 an unread body would reset
/// the stream, upon which some clients drop the reply.
async fn refused(request: Request, error: ApiError) -> Response {
    match request.version() {
        Version::HTTP_2 => drain_body_on_error(request, |_| ready(error.into_response())).await,
        _ if request.body().is_end_stream() => error.into_response(),
        _ => ([(header::CONNECTION, "close")], error.into_response()).into_response(),
    }
}

/// A body that the handler reads from, and then [`drain_body_on_error`].
#[derive(Clone)]
struct SharedBody(Arc<Mutex<Body>>);

impl SharedBody {
    fn lock(&self) -> MutexGuard<'_, Body> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut *self.lock()).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.lock().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.lock().size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_stream_that_panics_ends_with_an_error() {
        let parts =
            futures_util::stream::poll_fn(|_| -> Poll<Option<std::io::Result<Bytes>>> { panic!("broken") });
        let body = Body::new(UnwindingBody(Body::from_stream(parts)));
        assert_eq!(body.collect().await.unwrap_err().to_string(), "internal error");
    }

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
            assert!(!is_known(host_of(unknown), ""), "{unknown}");
            assert!(is_known(host_of(unknown), "*"), "{unknown}");
        }
    }
}
