//! The door: what can't be answered in time is refused here, before it is routed and read.
//!
//! At many times the load that the cores can bear, refusing is most of what happens, and what it costs is taken from those who are
//! answered.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{Method, header};
use axum::response::Response;
use axum::{BoxError, Router};
use futures_util::future::Either;
use tower::Service;

use super::Gateway;
use super::body::{caching, content_length};
use super::error::{ApiError, Style};
use super::layers;

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
        match too_much(&self.gateway, &request) {
            Some((route, error)) => {
                let gateway = self.gateway.clone();
                let request = request.map(Body::new);
                Either::Left(Box::pin(async move { Ok(refuse(gateway, request, route, error).await) }))
            }
            None => Either::Right(self.routes.call(request)),
        }
    }
}

/// The route and the reason if what the request asks for would be refused whatever it says.
fn too_much<B>(gateway: &Gateway, request: &Request<B>) -> Option<(&'static str, ApiError)> {
    let headers = request.headers();
    let length = content_length(headers)?;
    if request.method() != Method::POST
        || length > HEARD_BODY_BYTES_MAX
        || headers.contains_key(header::EXPECT)
    {
        return None;
    }
    let route = match request.uri().path() {
        "/v1/search" => return Some(("/v1/search", gateway.check_turns().err()?)),
        "/v1/embeddings" => "/v1/embeddings",
        "/embeddings" => "/embeddings",
        "/embed" => "/embed",
        _ => return None,
    };
    if length > SHORT_BODY_BYTES_MAX || !gateway.models.are_local() {
        return None;
    }
    let error = gateway.scheduler.refuses(caching(headers))?;
    Some((route, error.into()))
}

/// Says no, as the layers behind the door would. The body is heard out first: most callers listen only when they have sent
/// everything, and a connection whose body was not read ends.
async fn refuse(gateway: Gateway, request: Request, route: &'static str, error: ApiError) -> Response {
    let started = Instant::now();
    let (head, body) = request.into_parts();
    let id = layers::id_of(&head.headers);
    layers::read_out(body.into_data_stream()).await;
    let mut response = Response::new(Body::empty());
    Style::of(head.uri.path(), &head.headers).write(error, Some(&id), &mut response);
    layers::name(&mut response, &id);
    layers::count(&gateway, route, "POST", &response, started);
    response
}
