//! One attempt: a request is sent to a target, and the beginning of its reply is waited for.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use weir_telemetry::requests::RequestEntry;
use weir_translate::conversation::{Api, Request};
use weir_translate::events::ProviderError;
use weir_translate::json::Tape;
use weir_translate::{Account, Cause, Conversion, ReplyContext, TokenUsage, TranslateError, answer_tokens};
use weir_upstream::{DecodedBody, ReplyBody, TimeLimits, UpstreamError, UpstreamRequest, has_plain_value};

use crate::LlmError;
use crate::broken::Broken;
use crate::provider::{self, REPLY_HEADERS, Rendered};
use crate::settlement::{Settlement, unix_now};
use crate::stream::{Reading, StreamSource};
use crate::table::PricedTarget;

/// Upper bound of the bytes of a reply that is not streamed.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// Upper bound of the bytes of an error.
const ERROR_BYTES_MAX: usize = 1 << 20;

/// An attempt that brought no reply.
pub(crate) struct Failed {
    pub(crate) error: LlmError,
    /// Whether another target may be tried.
    pub(crate) may_go_on: bool,
    /// Whether a reply had begun, or may have, and broke: the provider may have charged for it.
    pub(crate) is_broken: bool,
}

impl Failed {
    fn upstream(error: UpstreamError) -> Failed {
        let is_broken = matches!(error, UpstreamError::Broken { .. });
        Failed { error: error.into(), may_go_on: true, is_broken }
    }

    /// A reply that has begun can't be read to its end: it was charged.
    fn within_reply(error: UpstreamError, is_broken: bool) -> Failed {
        Failed { error: error.into(), may_go_on: false, is_broken }
    }

    /// The provider reported an error within a reply of success.
    fn reported(
        target: &PricedTarget,
        headers: &HeaderMap,
        error: ProviderError,
        settlement: &mut Settlement,
    ) -> Failed {
        let client = &target.upstream.client;
        let refused = |status, body: &[u8]| Failed::upstream(client.refused(status, headers, body));
        let failed = match error.cause {
            Cause::Account(account) => Failed::account(target, StatusCode::OK, account),
            Cause::Limit => refused(StatusCode::TOO_MANY_REQUESTS, &error.body),
            Cause::Outage => {
                let reason = format!("its reply is an error: {}", error.message);
                refused(StatusCode::BAD_GATEWAY, reason.as_bytes())
            }
            Cause::Request => {
                let upstream = target.upstream.id.to_string();
                // escapes may have hidden the key before
                let message = client.text_without_key(&error.message);
                let error = LlmError::Refused { upstream, message };
                Failed { error, may_go_on: false, is_broken: false }
            }
        };
        failed.charged(error.usage, settlement)
    }

    /// Usage that the provider counted for it is charged, and it is sent once more at most.
    fn charged(self, usage: Option<TokenUsage>, settlement: &mut Settlement) -> Failed {
        let usage = usage.filter(|usage| usage.total() > 0);
        let is_charged = usage.is_some();
        usage.into_iter().for_each(|usage| settlement.count(Some(usage), 0));
        Failed { is_broken: self.is_broken || is_charged, ..self }
    }

    /// The gateway's account at the provider has to be mended.
    fn account(target: &PricedTarget, status: StatusCode, account: Account) -> Failed {
        let upstream = target.upstream.id.to_string();
        let error = LlmError::Credentials { upstream, status: status.as_u16(), account };
        tracing::warn!(%error, "an upstream refused the account of the gateway");
        Failed { error, may_go_on: true, is_broken: false }
    }
}

/// The reply of an upstream.
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
    target: &PricedTarget,
    sent: &HeaderMap,
    is_last: bool,
    settlement: &mut Settlement,
) -> Result<Attempted, Failed> {
    let upstream = &target.upstream;
    let Rendered { path, mut headers, body, conversion, strips_usage } =
        provider::render(api, request, target, sent).map_err(|error| Failed {
            error,
            may_go_on: true,
            is_broken: false,
        })?;
    add_trace(&mut headers, settlement.entry());
    let permit = upstream.client.try_permit().map_err(Failed::upstream)?;
    // a translated request asks for none
    let tier = request.tier.filter(|_| conversion == Conversion::Same);
    let provider = provider::conventional_name(upstream.config.provider);
    settlement.sent(&upstream.id, provider, &target.price, tier);
    let in_flight = upstream.enter();
    let started = Instant::now();
    let limits = time_limits(api, request, target);
    let body = Full::new(body).map_err(|never| match never {}).boxed_unsync();
    let sent = UpstreamRequest { method: Method::POST, path, headers, body, limits };
    let reply = upstream.client.exchange(sent, permit).await.map_err(Failed::upstream)?;
    upstream.observe(started.elapsed());
    let status = reply.status();
    if !status.is_success() {
        return Box::pin(refusal(reply, target, conversion, settlement)).await;
    }
    let headers = passed_on(reply.headers(), conversion);
    let is_events = is_event_stream(reply.headers());
    let (head, body) = reply.into_parts();
    let body = DecodedBody::new(&head.headers, body);
    let body = if request.is_stream && is_events {
        let reading = Reading {
            started,
            first_event: Duration::from_millis(upstream.config.first_token_timeout_ms),
            passes_comments: is_last,
            event_bytes_max: upstream.config.event_bytes_max,
            strips_usage,
        };
        let context = || context(request);
        let source = StreamSource::new(body, api, conversion, context, reading, in_flight);
        AttemptedBody::Stream(Box::new(begun(source, target, &headers, settlement).await?))
    } else {
        let mut read = 0;
        let body = whole(target, body, REPLY_BYTES_MAX, &mut read).await.inspect_err(|_| {
            // the provider generated, and may charge, the bytes that arrived
            settlement.count(None, read as u64 / 4);
        })?;
        let body = upstream.client.without_key(body);
        let converted = conversion.reply(api, &body, || context(request));
        let (body, usage) =
            converted.map_err(|error| unreadable(target, &headers, &error, &body, settlement))?;
        // the translation reads escapes, which may have hidden the key
        let body = if conversion == Conversion::Same { body } else { upstream.client.without_key(body) };
        AttemptedBody::Whole(body, usage)
    };
    Ok(Attempted { upstream: upstream.name.clone(), status, headers, body })
}

fn time_limits(api: Api, request: &Request, target: &PricedTarget) -> TimeLimits {
    let config = &target.upstream.config;
    let head = Duration::from_millis(config.header_timeout_ms);
    let first_token = Duration::from_millis(config.first_token_timeout_ms);
    TimeLimits {
        head,
        first_byte: if request.is_stream { first_token } else { head },
        idle: Duration::from_millis(config.idle_timeout_ms(api.has_long_pauses())),
        total: Duration::from_millis(config.total_timeout_ms),
        deadline: None,
    }
}

/// The fields of the request that a translated reply repeats.
fn context(request: &Request) -> ReplyContext {
    ReplyContext {
        id: format!("chatcmpl-{:032x}", rand::random::<u128>()),
        created: unix_now() as u64,
        model: request.model.clone(),
        include_usage: request.includes_usage(),
    }
}

/// A stream whose first event is there, and is no error.
async fn begun(
    mut source: StreamSource,
    target: &PricedTarget,
    headers: &HeaderMap,
    settlement: &mut Settlement,
) -> Result<StreamSource, Failed> {
    let filled = source.fill().await;
    if let Some(error) = source.error_at_start() {
        return Err(Failed::reported(target, headers, error, settlement));
    }
    match filled {
        Ok(()) => Ok(source),
        Err(Broken::Upstream(error)) => Err(Failed::upstream(error)),
        Err(broken @ (Broken::Events(_) | Broken::Told)) => {
            let error = target.upstream.client.invalid_reply(&broken.to_string());
            Err(Failed { is_broken: true, ..Failed::upstream(error) })
        }
    }
}

/// The whole body of a reply; `read` is the number of bytes that came.
async fn whole(
    target: &PricedTarget,
    body: DecodedBody,
    bytes_max: usize,
    read: &mut usize,
) -> Result<Bytes, Failed> {
    let body = body.read_counted(bytes_max, read).await.map_err(|error| {
        let is_broken = matches!(error, UpstreamError::Broken { .. });
        Failed::within_reply(error, is_broken)
    })?;
    body.map_err(|reason| Failed::within_reply(target.upstream.client.invalid_reply(&reason), true))
}

/// The error of a reply that is none. It was charged if it can't be read.
fn unreadable(
    target: &PricedTarget,
    headers: &HeaderMap,
    error: &TranslateError,
    body: &[u8],
    settlement: &mut Settlement,
) -> Failed {
    match error {
        TranslateError::Provider { message, .. } => {
            Failed::reported(target, headers, ProviderError::new(message, body), settlement)
        }
        TranslateError::Request { .. } | TranslateError::Reply(_) => {
            let usage = Tape::parse(body).ok().and_then(|tape| TokenUsage::of(tape.root(body)));
            settlement.count(usage, answer_tokens(body));
            Failed::within_reply(target.upstream.client.invalid_reply(&error.to_string()), true)
        }
    }
}

/// Handles a reply that is no success: errors of the request go to the caller, others to the next target.
async fn refusal(
    reply: Response<ReplyBody>,
    target: &PricedTarget,
    conversion: Conversion,
    settlement: &mut Settlement,
) -> Result<Attempted, Failed> {
    let upstream = &target.upstream;
    let (head, body) = reply.into_parts();
    let status = head.status;
    let body = whole(target, DecodedBody::new(&head.headers, body), ERROR_BYTES_MAX, &mut 0).await;
    let read = body.as_ref().map_or(&[][..], |body| body);
    let failed = |status| upstream.client.refused(status, &head.headers, read);
    let usage = Tape::parse(read).ok().and_then(|tape| TokenUsage::of(tape.root(read)));
    let mut ended = |failed: Failed| Err(failed.charged(usage, settlement));
    match Cause::of(status.as_u16(), read) {
        Cause::Account(account) => {
            drop(failed(status)); // counted and logged
            return ended(Failed::account(target, status, account));
        }
        Cause::Limit => return ended(Failed::upstream(failed(StatusCode::TOO_MANY_REQUESTS))),
        Cause::Outage => return ended(Failed::upstream(failed(status))),
        Cause::Request => {}
    }
    if status == StatusCode::NOT_FOUND {
        let (upstream, model) = (&*upstream.id, target.model.as_str());
        tracing::warn!(
            upstream,
            model,
            "an upstream answered 404: see its `url`, and whether it has the model"
        );
    }
    let body = upstream.client.error_without_key(body?);
    let body = conversion.error(status.as_u16(), body);
    let headers = passed_on(&head.headers, conversion);
    Ok(Attempted {
        upstream: upstream.name.clone(),
        status,
        headers,
        body: AttemptedBody::Whole(body, usage),
    })
}

/// The headers of a reply that are passed on.
fn passed_on(headers: &HeaderMap, conversion: Conversion) -> HeaderMap {
    // the server adds more
    let mut passed = HeaderMap::with_capacity(16);
    for name in &REPLY_HEADERS {
        if let Some(value) = headers.get(name).filter(|value| has_plain_value(name, value)) {
            passed.insert(name.clone(), value.clone());
        }
    }
    if conversion != Conversion::Same && !is_event_stream(&passed) {
        passed.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    passed
}

/// Whether a reply has server-sent events.
pub(crate) fn is_event_stream(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|media| media.as_bytes().starts_with(b"text/event-stream"))
}

/// Adds the place of the request in its trace.
fn add_trace(headers: &mut HeaderMap, entry: &RequestEntry) {
    for (name, value) in [("traceparent", entry.traceparent()), ("tracestate", entry.tracestate())] {
        if let Some(Ok(value)) = value.map(HeaderValue::try_from) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
}
