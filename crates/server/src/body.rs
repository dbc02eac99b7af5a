//! Reading requests: bodies up to a limit, callers, path segments.

use std::io;
use std::ops::Deref;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use axum::body::{Body as AxumBody, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{Extensions, HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::io::{ReaderStream, StreamReader};
use weir_api::{ErrorCode, Invalid};
use weir_policy::Caller;

use super::Gateway;
use super::admission::Admitted;
use super::error::ApiError;
use super::layers::Deadline;
use super::routes::Route;
use crate::Result;
use weir_inference::Caching;
use weir_retrieval::SearchPermit;
use weir_telemetry::requests::RequestEntry;

/// The setting of the limit of most bodies.
pub(super) const BODY_SETTING: &str = "limits.body_bytes_max";

/// Reads a JSON body, up to the limit of the request's route.
///
/// # Errors
/// `unsupported_media_type`, `payload_too_large`, or `invalid_parameter` when the connection broke.
pub(super) async fn read(gateway: &Gateway, request: Request) -> Result<Bytes> {
    let (limit, setting) = request
        .extensions()
        .get::<&'static Route>()
        .map_or((gateway.config.limits.body_bytes_max, BODY_SETTING), |route| gateway.body_limit(route));
    check_media_type(request.headers())?;
    let encoding = encoding_of(request.headers())?;
    let too_large = || {
        let message = format!("the body has more bytes than the limit `{setting}`, which is {limit}");
        ApiError::new(ErrorCode::PayloadTooLarge, message)
    };
    let announced = body_length(request.headers());
    if announced.is_some_and(|bytes| bytes > limit as u64) {
        return Err(too_large());
    }
    let mut body = Vec::with_capacity(announced.map_or(0, |bytes| bytes as usize));
    let mut parts = decoded(request.into_body(), encoding);
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| {
            ApiError::new(ErrorCode::InvalidParameter, format!("the body broke off: {error}"))
        })?;
        if body.len() + part.len() > limit {
            return Err(too_large());
        }
        body.extend_from_slice(&part);
    }
    Ok(body.into())
}

/// The length of the body, if it is announced and the body is not compressed.
pub(super) fn body_length(headers: &HeaderMap) -> Option<u64> {
    if headers.contains_key(header::CONTENT_ENCODING) {
        return None;
    }
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Whether cached embeddings may be used: not with `Cache-Control: no-cache` or `no-store`.
pub(super) fn caching(headers: &HeaderMap) -> Caching {
    let said = headers.get(header::CACHE_CONTROL).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_off = |directive: &str| matches!(directive.trim(), "no-cache" | "no-store");
    if said.to_ascii_lowercase().split(',').any(is_off) { Caching::Off } else { Caching::On }
}

/// The deadline of a request, if it has one.
pub(super) fn until(request: &Request) -> Option<Instant> {
    request.extensions().get::<Deadline>().map(|deadline| deadline.0)
}

/// A body without a media type is read as JSON, and so is the media type that `curl -d` sends by default.
fn check_media_type(headers: &HeaderMap) -> Result<()> {
    let Some(value) = headers.get(header::CONTENT_TYPE) else { return Ok(()) };
    let media = value.to_str().unwrap_or_default();
    let essence = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    if essence == "application/json"
        || essence.ends_with("+json")
        || essence == "application/x-www-form-urlencoded"
    {
        return Ok(());
    }
    let message = format!("the body's media type is `{}`", media.escape_debug());
    Err(ApiError::new(ErrorCode::UnsupportedMediaType, message))
}

/// The compression of a body.
enum Encoding {
    None,
    Gzip,
    Zstd,
}

/// The compression that the headers name; others than gzip and zstd, and several at once, are refused.
fn encoding_of(headers: &HeaderMap) -> Result<Encoding> {
    let Some(value) = headers.get(header::CONTENT_ENCODING) else { return Ok(Encoding::None) };
    let named = value.to_str().unwrap_or("?");
    let is_only = headers.get_all(header::CONTENT_ENCODING).iter().count() == 1;
    match named.trim().to_ascii_lowercase().as_str() {
        "" | "identity" if is_only => Ok(Encoding::None),
        "gzip" if is_only => Ok(Encoding::Gzip),
        "zstd" if is_only => Ok(Encoding::Zstd),
        _ => {
            let message = format!(
                "the body's content encoding is `{}`; `gzip` and `zstd` are read",
                named.escape_debug()
            );
            Err(ApiError::new(ErrorCode::UnsupportedMediaType, message))
        }
    }
}

/// The parts of a body, decompressed as they come.
fn decoded(body: AxumBody, encoding: Encoding) -> BoxStream<'static, io::Result<Bytes>> {
    let parts = body.into_data_stream().map_err(io::Error::other);
    match encoding {
        Encoding::None => parts.boxed(),
        Encoding::Gzip => ReaderStream::new(GzipDecoder::new(StreamReader::new(parts))).boxed(),
        Encoding::Zstd => ReaderStream::new(ZstdDecoder::new(StreamReader::new(parts))).boxed(),
    }
}

/// Takes what was reserved for a request when it was admitted.
pub(super) fn take_admitted(extensions: &Extensions) -> Admitted {
    let admitted = extensions.get::<Arc<Mutex<Admitted>>>();
    admitted.map_or(Admitted::Light, |admitted| {
        std::mem::take(&mut *admitted.lock().unwrap_or_else(PoisonError::into_inner))
    })
}

/// The caller of a request, which [the middleware](super::layers::middleware) has set, and the gateway that is called.
pub(super) struct Call {
    pub(super) gateway: Gateway,
    pub(super) caller: Arc<Caller>,
    /// Its row in the request log.
    entry: Option<RequestEntry>,
}

impl Call {
    /// Notes the model and the tokens of the request in the request log.
    pub(super) fn note_model(&self, model: &str, tokens: usize) {
        if let Some(entry) = &self.entry {
            entry.update(|record| {
                record.model = Some(model.into());
                record.prompt_tokens = tokens as u64;
            });
        }
    }
}

impl Deref for Call {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}

impl FromRequestParts<Gateway> for Call {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, gateway: &Gateway) -> Result<Call> {
        let caller = parts.extensions.get::<Arc<Caller>>().cloned();
        let entry = parts.extensions.get::<RequestEntry>().cloned();
        Ok(Call { gateway: gateway.clone(), caller: caller.ok_or_else(ApiError::internal_error)?, entry })
    }
}

/// The permit of an admitted search.
pub(super) struct PermitOf(pub SearchPermit);

impl<S: Send + Sync> FromRequestParts<S> for PermitOf {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<PermitOf> {
        match take_admitted(&parts.extensions) {
            Admitted::Search(permit) => Ok(PermitOf(permit)),
            Admitted::Light | Admitted::Embedding(_) | Admitted::Ingest(_) => Err(ApiError::internal_error()),
        }
    }
}

/// A body of JSON.
pub(super) struct Body<T>(pub T);

impl<T: DeserializeOwned> FromRequest<Gateway> for Body<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, gateway: &Gateway) -> Result<Body<T>> {
        Ok(Body(weir_api::parse(&read(gateway, request).await?)?))
    }
}

/// The parts of the path behind the route's placeholders, percent-decoded.
pub(super) struct Segments<const N: usize>(pub [String; N]);

impl<S: Send + Sync, const N: usize> FromRequestParts<S> for Segments<N> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Segments<N>> {
        let bad =
            || ApiError::new(ErrorCode::InvalidUtf8, "the path is not valid UTF-8 after percent-decoding");
        let params =
            axum::extract::RawPathParams::from_request_parts(parts, state).await.map_err(|_| bad())?;
        let all: Vec<String> = params.iter().map(|(_, value)| value.to_owned()).collect();
        <[String; N]>::try_from(all).map(Segments).map_err(|_| bad())
    }
}

/// The value of a query parameter that may be `true` or `false`.
///
/// # Errors
/// `invalid_parameter` for any other value or an unknown parameter.
pub(super) fn flag(query: Option<&str>, name: &str) -> Result<bool> {
    let mut value = false;
    for (key, text) in query_pairs(query) {
        if key != name {
            return Err(unknown_parameter(&key, name));
        }
        value = match text.as_str() {
            "true" | "1" | "" => true,
            "false" | "0" => false,
            other => {
                let message = format!("`{name}` is `{}`; it must be `true` or `false`", other.escape_debug());
                return Err(Invalid::at(ErrorCode::InvalidParameter, &[name], message).into());
            }
        };
    }
    Ok(value)
}

/// The error for an unknown query parameter.
pub(super) fn unknown_parameter(key: &str, accepted: &str) -> ApiError {
    let message = format!("unknown query parameter `{}`, expected {accepted}", key.escape_debug());
    Invalid::at(ErrorCode::UnknownField, &[key], message).into()
}

/// The query parameter `limit`: from 1 to `most`.
///
/// # Errors
/// `invalid_parameter`.
pub(super) fn page_limit(text: &str, most: usize) -> Result<usize> {
    text.parse().ok().filter(|limit| (1..=most).contains(limit)).ok_or_else(|| {
        let message = format!("`limit` is `{}`; it must be from 1 to {most}", text.escape_debug());
        Invalid::at(ErrorCode::InvalidParameter, &["limit"], message).into()
    })
}

/// The pairs of a query string, decoded.
pub(super) fn query_pairs(query: Option<&str>) -> Vec<(String, String)> {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes()).into_owned().collect()
}

/// A JSON reply.
pub(super) struct Json<T>(pub T);

/// The result of a handler that replies with JSON.
pub(super) type Reply<T> = Result<Json<T>>;

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(bytes) => ([(header::CONTENT_TYPE, "application/json")], bytes).into_response(),
            Err(error) => ApiError::internal(&error).into_response(),
        }
    }
}
