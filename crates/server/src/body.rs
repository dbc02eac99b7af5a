//! Reading requests: bodies up to a limit, callers, query parameters.

use std::io;
use std::ops::Deref;
use std::sync::Arc;

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use axum::body::{Body as AxumBody, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use futures_util::future::Either;
use futures_util::{Stream, StreamExt, TryStreamExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::io::{ReaderStream, StreamReader};
use weir_access::KeyUsage;
use weir_api::{ErrorCode, Invalid};
use weir_policy::Caller;

use super::context;
use super::error::ApiError;
use super::gateway::Gateway;
use super::routes::BodyLimit;
use crate::Result;
use weir_inference::Caching;
use weir_telemetry::requests::RequestEntry;

/// Reads a JSON body, up to the limit of the request's route.
///
/// # Errors
/// `unsupported_media_type`, `payload_too_large`, or `invalid_parameter` when the connection broke.
pub(super) async fn read(gateway: &Gateway, request: Request) -> Result<Bytes> {
    Ok(read_with_headers(gateway, request, |_| Ok(())).await?.1)
}

/// The same, with the headers of the request. `admit` is asked before more of the body is taken, with its bytes so far.
///
/// # Errors
/// As of [`read`], and those of `admit`.
pub(super) async fn read_with_headers(
    gateway: &Gateway,
    request: Request,
    mut admit: impl FnMut(usize) -> Result<()>,
) -> Result<(HeaderMap, Bytes)> {
    let route = context::of(request.extensions()).map(|context| context.route);
    let kind = route.map_or(BodyLimit::Default, |route| route.body);
    let (limit, setting) = kind.of(&gateway.config.limits);
    let (Parts { headers, .. }, body) = request.into_parts();
    check_media_type(&headers)?;
    let encoding = encoding_of(&headers)?;
    let check = |bytes: u64| match bytes > limit as u64 {
        true => Err(body_too_large(limit, setting)),
        false => Ok(()),
    };
    let announced = body_length(&headers);
    check(announced.unwrap_or_default())?;
    let mut parts = decoded(body, encoding);
    let mut whole = Vec::new();
    while let Some(part) = parts.next().await {
        let part = part.map_err(|error| {
            ApiError::new(ErrorCode::InvalidParameter, format!("the body broke off: {error}"))
        })?;
        let bytes = whole.len() + part.len();
        check(bytes as u64)?;
        admit(bytes)?;
        if announced == Some(part.len() as u64) {
            return Ok((headers, part)); // all of it, without a copy
        }
        if whole.is_empty() {
            whole.reserve(announced.map_or(0, |bytes| bytes as usize));
        }
        whole.extend_from_slice(&part);
        // what is decompressed is there without waiting: other requests get their turn
        tokio::task::coop::consume_budget().await;
    }
    Ok((headers, whole.into()))
}

/// The error of a body with too many bytes.
pub(super) fn body_too_large(limit: usize, setting: &str) -> ApiError {
    let message = format!("the body has more bytes than the limit `{setting}`, which is {limit}");
    ApiError::new(ErrorCode::PayloadTooLarge, message)
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
pub(super) enum Encoding {
    None,
    Gzip,
    Zstd,
}

/// The compression that the headers name; others than gzip and zstd, and several at once, are refused.
pub(super) fn encoding_of(headers: &HeaderMap) -> Result<Encoding> {
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
pub(super) fn decoded(
    body: AxumBody,
    encoding: Encoding,
) -> impl Stream<Item = io::Result<Bytes>> + Send + Unpin + use<> {
    let parts = body.into_data_stream().map_err(io::Error::other);
    match encoding {
        Encoding::None => Either::Left(parts),
        Encoding::Gzip => {
            Either::Right(ReaderStream::new(GzipDecoder::new(StreamReader::new(parts))).boxed())
        }
        Encoding::Zstd => {
            Either::Right(ReaderStream::new(ZstdDecoder::new(StreamReader::new(parts))).boxed())
        }
    }
}

/// The caller of a request, which [the middleware](super::layers) has found, and the gateway that is called.
pub(super) struct CallContext {
    pub(super) gateway: Gateway,
    pub(super) caller: Arc<Caller>,
    /// The limits of the caller's key, if it has any.
    pub(super) usage: Option<Arc<KeyUsage>>,
    /// Its row in the request log.
    pub(super) entry: Option<RequestEntry>,
}

impl Deref for CallContext {
    type Target = Gateway;

    fn deref(&self) -> &Gateway {
        &self.gateway
    }
}

impl FromRequestParts<Gateway> for CallContext {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, gateway: &Gateway) -> Result<CallContext> {
        let context = context::of(&parts.extensions).ok_or_else(ApiError::internal_error)?;
        let caller = context.caller.clone().ok_or_else(ApiError::internal_error)?;
        let (usage, entry) = (context.usage.clone(), context.entry.clone());
        Ok(CallContext { gateway: gateway.clone(), caller, usage, entry })
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

/// A query parameter that is true or false, and the only one.
///
/// # Errors
/// `unknown_field`, `invalid_parameter`.
pub(super) fn flag(query: Option<&str>, name: &str) -> Result<bool> {
    let [value] = flags(query, [name])?;
    Ok(value)
}

/// Query parameters that are true or false, and no others.
///
/// # Errors
/// `unknown_field`, `invalid_parameter`.
pub(super) fn flags<const N: usize>(query: Option<&str>, names: [&str; N]) -> Result<[bool; N]> {
    let mut values = [false; N];
    for (key, text) in query_pairs(query) {
        let Some(place) = names.iter().position(|name| *name == key) else {
            return Err(unknown_parameter(&key, &names.join(" or ")));
        };
        values[place] = match text.as_str() {
            "true" | "1" | "" => true,
            "false" | "0" => false,
            other => {
                let message = format!("`{key}` is `{}`; it must be `true` or `false`", other.escape_debug());
                return Err(Invalid::at(ErrorCode::InvalidParameter, &[&key], message).into());
            }
        };
    }
    Ok(values)
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
