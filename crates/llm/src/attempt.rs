//! One attempt: a request is sent to a target, and the beginning of its reply is waited for.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use weir_telemetry::requests::RequestEntry;
use weir_translate::events::EventFacts;
use weir_translate::json::Tape;
use weir_translate::{Dialect, ReplyContext, TokenUsage, TranslateError, anthropic, error, gemini, messages};
use weir_upstream::{ReplyBody, TimeLimits, UpstreamError, UpstreamRequest};

use crate::decode::{Broken, DecodedBody};
use crate::provider::{self, Conversion, REPLY_HEADERS, Rendered};
use crate::request::Request;
use crate::settlement::{Settlement, unix_now};
use crate::stream::StreamSource;
use crate::table::Target;
use crate::{Api, LlmError};

/// Upper bound of the bytes of a reply that is not streamed.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// An attempt that brought no reply.
pub(crate) struct Failed {
    pub(crate) error: LlmError,
    /// Whether another target may be tried.
    pub(crate) may_go_on: bool,
}

impl Failed {
    fn final_error(error: impl Into<LlmError>) -> Failed {
        Failed { error: error.into(), may_go_on: false }
    }

    fn upstream(error: UpstreamError) -> Failed {
        Failed { error: error.into(), may_go_on: true }
    }
}

/// What an upstream replied.
pub(crate) struct Attempted {
    /// The name of the upstream.
    pub(crate) upstream: HeaderValue,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: AttemptedBody,
}

pub(crate) enum AttemptedBody {
    /// A reply with what it used, or an error without.
    Whole(Bytes, Option<TokenUsage>),
    Stream(Box<StreamSource>),
}

/// Sends the request to a target and waits until its reply has begun: all of it, or the first event of a stream.
pub(crate) async fn attempt(
    api: Api,
    request: &Request,
    target: &Target,
    sent: &HeaderMap,
    settlement: &mut Settlement,
) -> Result<Attempted, Failed> {
    let upstream = &target.upstream;
    let Rendered { path, mut headers, body, conversion, strips_usage } =
        provider::render(api, request, target, sent).map_err(|error| Failed { error, may_go_on: true })?;
    add_trace(&mut headers, settlement.entry());
    let permit = upstream.client.try_permit().map_err(Failed::upstream)?;
    settlement.sent(&upstream.id, provider::conventional_name(upstream.config.provider), &target.price);
    let in_flight = upstream.enter();
    let started = Instant::now();
    let config = &upstream.config;
    let first_token = Duration::from_millis(config.first_token_timeout_ms);
    let limits = TimeLimits {
        head: Duration::from_millis(config.header_timeout_ms),
        first_byte: if request.is_stream {
            first_token
        } else {
            Duration::from_millis(config.header_timeout_ms)
        },
        idle: Duration::from_millis(config.idle_timeout_ms),
        total: Duration::from_millis(config.total_timeout_ms),
        deadline: None,
    };
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    let sent = UpstreamRequest { method: Method::POST, path, headers, body, limits };
    let reply = upstream.client.exchange(sent, permit).await.map_err(Failed::upstream)?;
    upstream.observe(started.elapsed());
    let status = reply.status();
    if !status.is_success() {
        return Box::pin(refusal(reply, target, conversion)).await;
    }
    let headers = passed_on(reply.headers(), conversion);
    let is_events = reply
        .headers()
        .get(CONTENT_TYPE)
        .is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"));
    let context = || ReplyContext {
        id: format!("chatcmpl-{:032x}", rand::random::<u128>()),
        created: unix_now() as u64,
        model: request.model.clone(),
        include_usage: request.includes_usage(),
    };
    let id = upstream.name.clone();
    let (head, body) = reply.into_parts();
    let body = DecodedBody::new(&head.headers, body);
    if request.is_stream && is_events {
        let mut source = StreamSource::new(body, api, conversion, context, strips_usage, in_flight);
        let first = tokio::time::timeout_at((started + first_token).into(), source.fill()).await;
        match first {
            Ok(Ok(())) => {}
            Ok(Err(Broken::Upstream(error))) => return Err(Failed::upstream(error)),
            Ok(Err(broken @ (Broken::Events(_) | Broken::Told))) => {
                let reason = broken.to_string();
                return Err(Failed::upstream(upstream.client.invalid_reply(&reason)));
            }
            Err(_) => return Err(Failed::upstream(upstream.client.timed_out(first_token))),
        }
        if let Some(message) = source.error_at_start() {
            let reason = format!("its stream began with an error: {message}");
            return Err(Failed::upstream(upstream.client.invalid_reply(&reason)));
        }
        return Ok(Attempted {
            upstream: id,
            status,
            headers,
            body: AttemptedBody::Stream(Box::new(source)),
        });
    }
    let body = whole(target, body).await?;
    let sent_by_provider = body.clone();
    let converted = match conversion {
        Conversion::Same => same(body),
        Conversion::FromAnthropic => anthropic::reply(&body, &context()).map(counted),
        Conversion::FromGemini => gemini::reply(&body, &context()).map(counted),
        Conversion::ToMessages => messages::reply(&body, &context()).map(counted),
    };
    let (body, usage) = converted.map_err(|error| {
        settlement.count(usage_of(&sent_by_provider), sent_by_provider.len() as u64 / 4);
        unreadable(target, &error)
    })?;
    Ok(Attempted { upstream: id, status, headers, body: AttemptedBody::Whole(body, usage) })
}

/// A reply in the caller's API.
fn same(body: Bytes) -> Result<(Bytes, Option<TokenUsage>), TranslateError> {
    let tape =
        Tape::parse(&body).map_err(|error| TranslateError::Reply(format!("it is not JSON: {error}")))?;
    let reply = tape.root(&body);
    let EventFacts { usage, error, .. } = EventFacts::of(reply);
    if let Some(message) = error {
        return Err(TranslateError::Provider { kind: "error".to_owned(), message });
    }
    if reply
        .get("choices")
        .is_some_and(|choices| choices.is_null() || choices.is_array() && choices.items().next().is_none())
    {
        return Err(TranslateError::Reply("it has no choices".to_owned()));
    }
    Ok((body, usage))
}

/// What a reply used that can't be translated; `None` where that can't be read either.
fn usage_of(body: &[u8]) -> Option<TokenUsage> {
    TokenUsage::of(Tape::parse(body).ok()?.root(body))
}

fn counted((body, usage): (Vec<u8>, TokenUsage)) -> (Bytes, Option<TokenUsage>) {
    (body.into(), Some(usage))
}

/// The whole body of a reply. It was charged when it breaks, so that no other target is tried.
async fn whole(target: &Target, body: DecodedBody) -> Result<Bytes, Failed> {
    let body = body.read(REPLY_BYTES_MAX).await.map_err(Failed::final_error)?;
    body.map_err(|reason| Failed::final_error(target.upstream.client.invalid_reply(&reason)))
}

/// The error of a reply that is none. It was charged if it can't be read, so that no other target is tried then.
fn unreadable(target: &Target, error: &TranslateError) -> Failed {
    let failed = target.upstream.client.invalid_reply(&error.to_string());
    match error {
        TranslateError::Provider { .. } => Failed::upstream(failed),
        TranslateError::Request { .. } | TranslateError::Reply(_) => Failed::final_error(failed),
    }
}

/// What becomes of a reply that is no success: errors of the request go to the caller, others to the next target.
async fn refusal(
    reply: Response<ReplyBody>,
    target: &Target,
    conversion: Conversion,
) -> Result<Attempted, Failed> {
    let status = reply.status();
    let upstream = &target.upstream;
    match status.as_u16() {
        401 | 403 => {
            drop(upstream.client.status_error(reply).await); // counted and logged
            let error = LlmError::Credentials { upstream: upstream.id.to_string(), status: status.as_u16() };
            Err(Failed { error, may_go_on: true })
        }
        400..=499 if status != StatusCode::TOO_MANY_REQUESTS && status != StatusCode::REQUEST_TIMEOUT => {
            if status == StatusCode::NOT_FOUND {
                let (upstream, model) = (&*upstream.id, target.model.as_str());
                tracing::warn!(
                    upstream,
                    model,
                    "an upstream answered 404: see its `url`, and whether it has the model"
                );
            }
            let headers = passed_on(reply.headers(), conversion);
            let (head, body) = reply.into_parts();
            let body = whole(target, DecodedBody::new(&head.headers, body)).await?;
            let body = match conversion {
                Conversion::Same => body,
                Conversion::FromAnthropic => error(Dialect::Anthropic, status.as_u16(), &body).into(),
                Conversion::FromGemini => error(Dialect::Gemini, status.as_u16(), &body).into(),
                Conversion::ToMessages => messages::error(status.as_u16(), &body).into(),
            };
            let upstream = upstream.name.clone();
            Ok(Attempted { upstream, status, headers, body: AttemptedBody::Whole(body, None) })
        }
        _ => Err(Failed::upstream(upstream.client.status_error(reply).await)),
    }
}

/// The headers of a reply that are passed on.
fn passed_on(headers: &HeaderMap, conversion: Conversion) -> HeaderMap {
    // the server adds more
    let mut passed = HeaderMap::with_capacity(16);
    for name in &REPLY_HEADERS {
        if let Some(value) = headers.get(name) {
            passed.insert(name.clone(), value.clone());
        }
    }
    if conversion != Conversion::Same && !passed.contains_key(CONTENT_TYPE) {
        passed.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    passed
}

/// Adds the place of the request in its trace.
fn add_trace(headers: &mut HeaderMap, entry: &RequestEntry) {
    for (name, value) in [("traceparent", entry.traceparent()), ("tracestate", entry.tracestate())] {
        if let Some(Ok(value)) = value.map(HeaderValue::try_from) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}
