//! What can't be answered in time, by the head of a request and, for some searches, its body.

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
const SHORT_BODY_BYTES_MAX: u64 = INTERACTIVE_TOKENS_MAX as u64;

/// What verdicts and refusals depend on.
pub(super) static HEADERS: [HeaderName; 3] = [header::ACCEPT, header::CACHE_CONTROL, layers::REQUEST_ID];

const SEARCH: &str = "/v1/search";

/// Why a request is not answered in time.
pub(super) struct Verdict {
    route: &'static str,
    error: ApiError,
    /// Only if it is a search that needs the embedding of its query.
    is_of_embedding: bool,
}

impl Verdict {
    /// Whether there may be one when the body is there.
    pub(super) fn is_likely(gateway: &Gateway, head: &Parts) -> bool {
        gateway.scheduler.coalescing().is_expecting() && route_of(head).is_some()
    }

    /// What becomes of a request with a body of so many bytes; `None` where it is to be heard.
    pub(super) fn on(gateway: &Gateway, head: &Parts, body_bytes: u64) -> Option<Verdict> {
        let route = route_of(head)?;
        let is_search = route == SEARCH;
        if is_search && let Err(error) = gateway.check_turns() {
            return Some(Verdict { route, error, is_of_embedding: false });
        }
        let can_tell = body_bytes <= SHORT_BODY_BYTES_MAX && gateway.models.are_local();
        if !can_tell || is_search && !gateway.scheduler.is_overrun() {
            return None;
        }
        let error = gateway.scheduler.refuses(caching(&head.headers))?.into();
        Some(Verdict { route, error, is_of_embedding: is_search })
    }

    /// Whether it stands now that the body is there.
    pub(super) fn stands(&self, gateway: &Gateway, body: &[u8]) -> bool {
        !self.is_of_embedding || needs_embedding(gateway, &layers::caller(), body)
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

/// The route of a request, if it may need cores that others wait for.
fn route_of(head: &Parts) -> Option<&'static str> {
    let routes = [SEARCH, "/v1/embeddings", "/embeddings", "/embed"];
    routes.into_iter().find(|route| head.method == Method::POST && *route == head.uri.path())
}
