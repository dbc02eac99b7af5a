//! Which requests can't be answered in time.

use std::time::Instant;

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderName, Method, header};
use axum::response::Response;

use super::super::Gateway;
use super::super::body::caching;
use super::super::embeddings::INTERACTIVE_TOKENS_MAX;
use super::super::error::{ApiError, Style};
use super::super::layers;
use super::super::search::needs_embedding;

/// A request for embeddings of no more bytes has no more tokens than the interactive lane takes.
const SHORT_BODY_BYTES_MAX: usize = INTERACTIVE_TOKENS_MAX;

/// What verdicts and refusals depend on.
pub(super) static HEADERS: [HeaderName; 3] = [header::ACCEPT, header::CACHE_CONTROL, layers::REQUEST_ID];

const SEARCH: &str = "/v1/search";

/// Why a request is not answered in time.
pub(super) struct Verdict {
    route: &'static str,
    error: ApiError,
}

impl Verdict {
    /// What becomes of a request; `None` where it is to be heard.
    pub(super) fn on(gateway: &Gateway, head: &Parts, body: &[u8]) -> Option<Verdict> {
        let routes = [SEARCH, "/v1/embeddings", "/embeddings", "/embed"];
        let is_it = |route: &&str| head.method == Method::POST && *route == head.uri.path();
        let route = routes.into_iter().find(is_it)?;
        let is_search = route == SEARCH;
        if is_search && let Err(error) = gateway.check_turns() {
            return Some(Verdict { route, error });
        }
        let needs_embedding = || {
            !is_search || gateway.scheduler.is_overrun() && needs_embedding(gateway, &layers::caller(), body)
        };
        if body.len() > SHORT_BODY_BYTES_MAX || !gateway.models.are_local() || !needs_embedding() {
            return None;
        }
        let error = gateway.scheduler.refuses(caching(&head.headers))?.into();
        Some(Verdict { route, error })
    }

    /// The refusal, as a handler's would be.
    pub(super) fn refuse(self, gateway: &Gateway, head: &Parts, started: Instant) -> Response {
        let id = layers::id_of(&head.headers);
        let mut response = Response::new(Body::empty());
        Style::of(head.uri.path(), &head.headers).write(self.error, Some(&id), &mut response);
        layers::name(&mut response, &id);
        layers::count(gateway, self.route, "POST", &response, started);
        response
    }
}
