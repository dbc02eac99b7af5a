//! The door: what can't be answered in time is refused here, before it is routed and read.
//!
//! At many times the load that the cores can bear, refusing is most of what happens, and what it costs is taken from those who are
//! answered.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody, to_bytes};
use axum::extract::Request;
use axum::http::request::Parts;
use axum::http::{Method, header};
use axum::response::Response;
use axum::{BoxError, Router};
use futures_util::future::Either;
use tokio::time::timeout;
use tower::Service;

use super::Gateway;
use super::body::{caching, content_length};
use super::error::{ApiError, Style};
use super::layers;
use super::search::needs_embedding;

const SEARCH: &str = "/v1/search";

/// A request for embeddings of no more bytes has no more tokens than the interactive lane takes.
const SHORT_BODY_BYTES_MAX: u64 = super::embeddings::INTERACTIVE_TOKENS_MAX as u64;

/// Longer bodies are heard by the handlers, up to their limits.
const HEARD_BODY_BYTES_MAX: u64 = 64 << 10;

/// The routes behind their door. Cloning gives another handle to the same ones.
#[derive(Clone)]
pub struct Door {
    gateway: Gateway,
    routes: Router,
}

impl Door {
    /// A door before `routes`.
    pub(super) fn new(gateway: Gateway, routes: Router) -> Door {
        Door { gateway, routes }
    }
}

type BoxFuture = Pin<Box<dyn Future<Output = Result<Response, Infallible>> + Send>>;

impl<B> Service<Request<B>> for Door
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<BoxFuture, <Router as Service<Request<B>>>::Future>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        match verdict(&self.gateway, &request) {
            Some(verdict) => {
                let (gateway, routes) = (self.gateway.clone(), self.routes.clone());
                Either::Left(Box::pin(answer(gateway, routes, request.map(Body::new), verdict)))
            }
            None => Either::Right(self.routes.call(request)),
        }
    }
}

/// Why a request is not answered in time.
enum Verdict {
    /// For whatever it says; and the route.
    Any(&'static str, ApiError),
    /// If it is a search that needs the embedding of its query.
    Embedding(ApiError),
}

fn verdict<B>(gateway: &Gateway, request: &Request<B>) -> Option<Verdict> {
    let headers = request.headers();
    let length = content_length(headers)?;
    if request.method() != Method::POST
        || length > HEARD_BODY_BYTES_MAX
        || headers.contains_key(header::EXPECT)
    {
        return None;
    }
    let refusal = || {
        let can_tell = length <= SHORT_BODY_BYTES_MAX && gateway.models.are_local();
        if can_tell { gateway.scheduler.refuses(caching(headers)).map(ApiError::from) } else { None }
    };
    let route = match request.uri().path() {
        SEARCH => {
            return match gateway.check_turns() {
                Err(error) => Some(Verdict::Any(SEARCH, error)),
                Ok(()) if gateway.scheduler.is_overrun() => Some(Verdict::Embedding(refusal()?)),
                Ok(()) => None,
            };
        }
        "/v1/embeddings" => "/v1/embeddings",
        "/embeddings" => "/embeddings",
        "/embed" => "/embed",
        _ => return None,
    };
    Some(Verdict::Any(route, refusal()?))
}

/// Says no where the verdict is that. The body is heard out first: most callers listen only when they have sent everything, and a connection
/// whose body was not read ends.
async fn answer(
    gateway: Gateway,
    mut routes: Router,
    request: Request,
    verdict: Verdict,
) -> Result<Response, Infallible> {
    let started = Instant::now();
    let (head, body) = request.into_parts();
    let (route, error) = match verdict {
        Verdict::Any(route, error) => {
            layers::read_out(body.into_data_stream()).await;
            (route, error)
        }
        Verdict::Embedding(error) => {
            let body =
                timeout(layers::REFUSED_BODY_TIMEOUT, to_bytes(body, SHORT_BODY_BYTES_MAX as usize)).await;
            if let Ok(Ok(body)) = body
                && !needs_embedding(&gateway, &layers::caller(), &body)
            {
                return routes.call(Request::from_parts(head, Body::from(body))).await;
            }
            (SEARCH, error)
        }
    };
    Ok(refuse(&gateway, &head, route, error, started))
}

/// Says no, as the layers behind the door would.
fn refuse(gateway: &Gateway, head: &Parts, route: &str, error: ApiError, started: Instant) -> Response {
    let id = layers::id_of(&head.headers);
    let mut response = Response::new(Body::empty());
    Style::of(head.uri.path(), &head.headers).write(error, Some(&id), &mut response);
    layers::name(&mut response, &id);
    layers::count(gateway, route, "POST", &response, started);
    response
}
