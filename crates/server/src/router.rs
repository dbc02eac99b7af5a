//! The router: finds the row of the table that a request is for, and answers by [the middleware](crate::layers).

use std::convert::Infallible;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Method, header};
use axum::response::Response;
use tower::{Layer as _, ServiceExt as _, service_fn};
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{DefaultPredicate, NotForContentType, Predicate as _};
use tower_http::cors::CorsLayer;

use super::gateway::Gateway;
use super::routes::paths::Paths;
use super::routes::unmatched;
use super::{cors, layers};

/// Finds the routes of requests. Clones share the table.
#[derive(Clone)]
pub struct Router(Arc<RouterInner>);

struct RouterInner {
    gateway: Gateway,
    paths: Paths,
    cors: CorsLayer,
}

impl Router {
    /// The router of every route that a gateway of this role serves.
    pub fn new(gateway: Gateway) -> Router {
        let paths = Paths::of(gateway.config.server.role);
        let cors = cors::layer(&gateway.config);
        Router(Arc::new(RouterInner { gateway, paths, cors }))
    }

    /// Answers a request.
    pub async fn answer(&self, request: Request) -> Response {
        let is_options = request.method() == Method::OPTIONS;
        let is_from_page = is_options || request.headers().contains_key(header::ORIGIN);
        if !is_from_page && !self.0.gateway.config.server.compress_replies {
            return layers::answer(&self.0.gateway, &self.0.paths, request).await;
        }
        let allow = self.0.paths.find(request.uri().path()).filter(|_| is_options);
        let allow = allow.map(|found| unmatched::allow(found.routes));
        let mut response = Box::pin(self.answer_in_layers(request)).await;
        if let Some(allow) = allow {
            response.headers_mut().insert(header::ALLOW, allow);
        }
        response
    }

    /// Answers a request of a web page, or one whose reply may be compressed: most requests pass without these layers.
    async fn answer_in_layers(&self, request: Request) -> Response {
        let router = self.clone();
        let routed = service_fn(move |request| {
            let router = router.clone();
            async move { Ok::<_, Infallible>(layers::answer(&router.0.gateway, &router.0.paths, request).await) }
        });
        let routed = self.0.cors.clone().layer(routed);
        let answered = match self.0.gateway.config.server.compress_replies {
            true => {
                // lines of a stream would wait in the compressor, as events would
                let whole = DefaultPredicate::new().and(NotForContentType::const_new("application/x-ndjson"));
                let compressed = CompressionLayer::new().compress_when(whole).layer(routed);
                compressed.oneshot(request).await.map(|reply| reply.map(Body::new))
            }
            false => routed.oneshot(request).await,
        };
        answered.unwrap_or_else(|never| match never {})
    }

    pub(super) fn gateway(&self) -> &Gateway {
        &self.0.gateway
    }
}
