//! The middleware's data of a request, for its handler.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use axum::extract::{FromRequestParts, Request};
use axum::http::Extensions;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;
use tokio::sync::OwnedSemaphorePermit;
use weir_access::KeyUsage;
use weir_api::ErrorCode;
use weir_inference::Reservation;
use weir_policy::Caller;
use weir_retrieval::SearchPermit;
use weir_telemetry::requests::RequestEntry;

use super::error::ApiError;
use super::routes::Route;
use crate::Result;

/// One request of a route: the extension of the request that its handler reads.
pub(super) struct RequestContext {
    pub(super) route: &'static Route,
    /// The name of the request in reply, error body and log.
    pub(super) id: Arc<str>,
    /// `None`: the route is public.
    pub(super) caller: Option<Arc<Caller>>,
    /// The limits of the caller's key, if it has any: also for what is counted after the key was revoked.
    pub(super) usage: Option<Arc<KeyUsage>>,
    /// The row of the request log, if the request has one.
    pub(super) entry: Option<RequestEntry>,
    /// When it must be answered.
    pub(super) deadline: Option<Instant>,
    /// Values of the route's placeholders in the path, percent-encoded.
    pub(super) segments: Vec<String>,
    /// The reservations for it.
    pub(super) admitted: Mutex<Admitted>,
}

/// The reservations for an admitted request; the handler takes them.
#[derive(Debug, Default)]
pub(super) enum Admitted {
    /// Nothing, or the handler has it.
    #[default]
    Light,
    /// A permit for a search.
    Search(SearchPermit),
    /// Memory for the body and its embeddings.
    Embedding(Reservation),
    /// Memory for the body.
    Ingest(#[expect(dead_code, reason = "held until the documents are stored")] OwnedSemaphorePermit),
    /// Memory for the body.
    Chat(Reservation),
}

/// The context of a request.
pub(super) fn of(extensions: &Extensions) -> Option<&RequestContext> {
    extensions.get::<Arc<RequestContext>>().map(Arc::as_ref)
}

/// The deadline of a request, if it has one.
pub(super) fn deadline(request: &Request) -> Option<Instant> {
    of(request.extensions())?.deadline
}

/// The pattern of the request's path.
pub(super) fn path(request: &Request) -> &'static str {
    of(request.extensions()).map_or("", |context| context.route.path)
}

/// Takes what was reserved for a request when it was admitted.
pub(super) fn take_admitted(extensions: &Extensions) -> Admitted {
    of(extensions).map_or(Admitted::Light, |context| {
        std::mem::take(&mut *context.admitted.lock().unwrap_or_else(PoisonError::into_inner))
    })
}

/// The permit of an admitted search.
pub(super) struct PermitOf(pub SearchPermit);

impl<S: Send + Sync> FromRequestParts<S> for PermitOf {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<PermitOf> {
        match take_admitted(&parts.extensions) {
            Admitted::Search(permit) => Ok(PermitOf(permit)),
            Admitted::Light | Admitted::Embedding(_) | Admitted::Ingest(_) | Admitted::Chat(_) => {
                Err(ApiError::internal_error())
            }
        }
    }
}

/// The parts of the path behind the route's placeholders, percent-decoded.
pub(super) struct Segments<const N: usize>(pub [String; N]);

impl<S: Send + Sync, const N: usize> FromRequestParts<S> for Segments<N> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Segments<N>> {
        let bad =
            || ApiError::new(ErrorCode::InvalidUtf8, "the path is not valid UTF-8 after percent-decoding");
        let decoded = |segment: &String| Some(percent_decode_str(segment).decode_utf8().ok()?.into_owned());
        let segments = of(&parts.extensions).map_or(&[][..], |context| &context.segments);
        let all: Option<Vec<String>> = segments.iter().map(decoded).collect();
        <[String; N]>::try_from(all.ok_or_else(bad)?).map(Segments).map_err(|_| bad())
    }
}
