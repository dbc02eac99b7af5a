//! How each provider is called: path, headers, body.

use std::borrow::Cow;

use bytes::Bytes;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use weir_config::{LlmUpstream, Provider};
use weir_translate::Conversion;
use weir_translate::conversation::{Api, Request};

use crate::LlmError;
use crate::table::PricedTarget;

/// How an API is served by a provider.
///
/// # Errors
/// `Invalid` for a pair that there is no translation for.
pub(crate) fn conversion(api: Api, upstream: &LlmUpstream) -> Result<Conversion, LlmError> {
    let is_openai = match upstream.provider {
        Provider::OpenAi | Provider::Azure | Provider::Ollama | Provider::Vllm => true,
        Provider::Anthropic | Provider::Gemini => false,
    };
    match (api, upstream.provider) {
        (Api::ChatCompletions | Api::Completions | Api::Responses | Api::Embeddings, _) if is_openai => {
            Ok(Conversion::Same)
        }
        (Api::ChatCompletions, Provider::Anthropic) => Ok(Conversion::FromAnthropic),
        (Api::ChatCompletions, Provider::Gemini) => Ok(Conversion::FromGemini),
        (Api::Messages | Api::CountTokens, Provider::Anthropic) => Ok(Conversion::Same),
        (Api::Messages, _) if is_openai => Ok(Conversion::ToMessages),
        _ => {
            let remedy = match api {
                Api::CountTokens => "name a model of Anthropic",
                Api::Embeddings => match upstream.provider {
                    Provider::Gemini => {
                        "name a model of an upstream with `provider = \"openai\"` and the `url` https://generativelanguage.googleapis.com/v1beta/openai"
                    }
                    Provider::Anthropic
                    | Provider::OpenAi
                    | Provider::Azure
                    | Provider::Ollama
                    | Provider::Vllm => "name a model of an upstream with OpenAI's API",
                },
                Api::ChatCompletions | Api::Completions | Api::Responses | Api::Messages => {
                    "call /v1/chat/completions"
                }
            };
            let reason = format!(
                "leads to the upstream `{}` ({}), which has no counterpart of this route; {remedy}",
                upstream.id,
                upstream.provider.name()
            );
            Err(LlmError::Invalid { field: "model".to_owned(), reason })
        }
    }
}

/// The characters of a model's name that are escaped in a path, so that a caller's name can't lead to another route of the provider.
const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'@');

/// A request as it is sent to a target.
pub(crate) struct Rendered {
    pub(crate) path: Cow<'static, str>,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) conversion: Conversion,
    /// Whether the usage is to be removed again from the stream.
    pub(crate) strips_usage: bool,
}

/// The request for a target.
///
/// # Errors
/// `Invalid`: the provider has no counterpart for a field or for the API.
pub(crate) fn render(
    api: Api,
    request: &Request,
    target: &PricedTarget,
    headers: &HeaderMap,
) -> Result<Rendered, LlmError> {
    let upstream = &target.upstream.config;
    let conversion = conversion(api, upstream)?;
    let model = target.model.as_str();
    // of a caller: these would lead to another route of the provider
    if matches!(model, "" | "." | "..") {
        let reason =
            format!("names no model of the upstream `{}`: write its name after the `/`", upstream.id);
        return Err(LlmError::Invalid { field: "model".to_owned(), reason });
    }
    let sent = conversion.sent(api);
    let asks_for_usage = request.is_stream && upstream.stream_usage && sent.asks_for_usage();
    let body = conversion.request(api, request, model, asks_for_usage)?;
    let segment = utf8_percent_encode(model, SEGMENT);
    // with OpenAI's own paths, and deployments as models
    let is_azure_v1 = upstream.url.trim_end_matches('/').ends_with("/openai/v1");
    let path = match (upstream.provider, request.is_stream) {
        (Provider::Azure, _) if is_azure_v1 => Cow::Borrowed(sent.path()),
        // responses name their deployment in the body
        (Provider::Azure, _) if sent == Api::Responses => "/openai/v1/responses".into(),
        (Provider::Azure, _) => {
            format!("/openai/deployments/{segment}{}?api-version={}", sent.path(), upstream.api_version)
                .into()
        }
        (Provider::Gemini, true) => format!("/v1beta/models/{segment}:streamGenerateContent?alt=sse").into(),
        (Provider::Gemini, false) => format!("/v1beta/models/{segment}:generateContent").into(),
        _ => Cow::Borrowed(sent.path()),
    };
    let strips_usage = conversion == Conversion::Same && asks_for_usage && !request.includes_usage();
    Ok(Rendered { path, headers: rendered_headers(target, request, headers), body, conversion, strips_usage })
}

const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const ANTHROPIC_VERSION: HeaderName = HeaderName::from_static("anthropic-version");

fn rendered_headers(target: &PricedTarget, request: &Request, sent: &HeaderMap) -> HeaderMap {
    let upstream = &target.upstream;
    let mut headers = HeaderMap::with_capacity(8);
    headers.insert(CONTENT_TYPE, JSON);
    headers.insert(ACCEPT, if request.is_stream { EVENT_STREAM } else { JSON });
    // a compressed stream could not be passed on event by event
    headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
    for name in &upstream.headers {
        for value in sent.get_all(name) {
            headers.append(name.clone(), value.clone());
        }
    }
    add_version(upstream.config.provider, &mut headers);
    headers
}

/// Adds the version of the API for a provider that requires one, unless the headers have it.
pub(crate) fn add_version(provider: Provider, headers: &mut HeaderMap) {
    if provider == Provider::Anthropic {
        headers.entry(ANTHROPIC_VERSION).or_insert(HeaderValue::from_static("2023-06-01"));
    }
}

/// A provider's name in the conventions of OpenTelemetry for generative AI
/// (<https://opentelemetry.io/docs/specs/semconv/gen-ai/>).
pub(crate) fn conventional_name(provider: Provider) -> &'static str {
    match provider {
        Provider::Gemini => "gcp.gemini",
        Provider::Azure => "azure.ai.openai",
        Provider::OpenAi | Provider::Anthropic | Provider::Ollama | Provider::Vllm => provider.name(),
    }
}

/// The header that carries a provider's key; `None`: `Authorization: Bearer`.
pub(crate) fn key_header(provider: Provider) -> Option<HeaderName> {
    match provider {
        Provider::OpenAi | Provider::Ollama | Provider::Vllm => None,
        Provider::Anthropic => Some(HeaderName::from_static("x-api-key")),
        Provider::Gemini => Some(HeaderName::from_static("x-goog-api-key")),
        Provider::Azure => Some(HeaderName::from_static("api-key")),
    }
}

/// The request headers that are passed on to an upstream: those of its provider's API, and those of the configuration.
pub(crate) fn passed_headers(upstream: &LlmUpstream) -> Vec<HeaderName> {
    let own: &[&'static str] = match upstream.provider {
        Provider::OpenAi | Provider::Azure => &["openai-organization", "openai-project", "openai-beta"],
        Provider::Anthropic => &["anthropic-version", "anthropic-beta"],
        Provider::Gemini | Provider::Ollama | Provider::Vllm => &[],
    };
    let own = own.iter().map(|name| HeaderName::from_static(name));
    let more = upstream.headers.iter().filter_map(|name| HeaderName::try_from(name.as_str()).ok());
    own.chain(more).collect()
}

/// The reply headers that are passed on to the caller.
pub(crate) static REPLY_HEADERS: [HeaderName; 6] = [
    CONTENT_TYPE,
    HeaderName::from_static("openai-processing-ms"),
    HeaderName::from_static("openai-model"),
    HeaderName::from_static("openai-version"),
    HeaderName::from_static("request-id"),
    RETRY_AFTER,
];
