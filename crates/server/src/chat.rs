//! Requests for language models, in the APIs of OpenAI, Anthropic and Ollama: read the body, hand it to the LLM gateway, pass the reply on.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::response::{IntoResponse, Response};
use weir_api::{ErrorCode, Invalid};
use weir_inference::Reservation;
use weir_llm::{Api, LlmBody, LlmCall, LlmError, LlmReply, OllamaEndpoint};

use super::admission;
use super::body;
use super::context::{self, Admitted};
use super::error::ApiError;
use super::gateway::Gateway;
use super::rate_limits;
use super::routes::Answering;
use crate::Result;

/// `/v1/chat/completions`.
pub(super) fn chat_completions(request: Request, gateway: Gateway) -> Answering {
    Box::pin(answer(Api::ChatCompletions, request, gateway))
}

/// `/v1/completions`.
pub(super) fn completions(request: Request, gateway: Gateway) -> Answering {
    Box::pin(answer(Api::Completions, request, gateway))
}

/// `/v1/responses`.
pub(super) fn responses(request: Request, gateway: Gateway) -> Answering {
    Box::pin(answer(Api::Responses, request, gateway))
}

/// Anthropic's `/v1/messages`.
pub(super) fn messages(request: Request, gateway: Gateway) -> Answering {
    Box::pin(answer(Api::Messages, request, gateway))
}

/// Anthropic's `/v1/messages/count_tokens`.
pub(super) fn count_tokens(request: Request, gateway: Gateway) -> Answering {
    Box::pin(answer(Api::CountTokens, request, gateway))
}

/// Ollama's `/api/chat`.
pub(super) fn ollama_chat(request: Request, gateway: Gateway) -> Answering {
    Box::pin(answer(OllamaEndpoint::Chat, request, gateway))
}

/// Ollama's `/api/generate`.
pub(super) fn ollama_generate(request: Request, gateway: Gateway) -> Answering {
    Box::pin(answer(OllamaEndpoint::Generate, request, gateway))
}

/// The target of a request: an API of the LLM gateway, or one that is translated before it.
enum Entrance {
    Api(Api),
    Ollama(OllamaEndpoint),
}

impl From<Api> for Entrance {
    fn from(api: Api) -> Entrance {
        Entrance::Api(api)
    }
}

impl From<OllamaEndpoint> for Entrance {
    fn from(endpoint: OllamaEndpoint) -> Entrance {
        Entrance::Ollama(endpoint)
    }
}

/// Answers without the extractors of other handlers: their futures hold the request several times.
async fn answer(to: impl Into<Entrance>, request: Request, gateway: Gateway) -> Response {
    forward(to.into(), request, &gateway).await.unwrap_or_else(IntoResponse::into_response)
}

async fn forward(to: Entrance, request: Request, gateway: &Gateway) -> Result<Response> {
    let context = context::of(request.extensions());
    let (caller, entry) = context
        .and_then(|context| context.caller.clone().zip(context.entry.clone()))
        .ok_or_else(ApiError::internal_error)?;
    let usage = context.and_then(|context| context.usage.clone());
    // until the reply begins
    let mut memory = match context::take_admitted(request.extensions()) {
        Admitted::Chat(memory) => memory,
        Admitted::Light | Admitted::Search(_) | Admitted::Embedding(_) | Admitted::Ingest(_) => {
            Reservation::default()
        }
    };
    let (headers, body) = read_in_time(gateway, request, &mut memory).await?;
    match to {
        Entrance::Api(api) => send(gateway, LlmCall { api, headers, body, caller, usage, entry }).await,
        Entrance::Ollama(endpoint) => {
            let call = LlmCall { api: Api::ChatCompletions, headers, body, caller, usage, entry };
            reply(Box::pin(gateway.llm.forward_ollama(endpoint, call)).await)
        }
    }
}

/// Has a request answered by the upstreams of its model.
pub(super) async fn send(gateway: &Gateway, call: LlmCall) -> Result<Response> {
    reply(gateway.llm.forward(call).await)
}

fn reply(answered: std::result::Result<LlmReply, LlmError>) -> Result<Response> {
    let LlmReply { status, headers, body } = answered.map_err(refused)?;
    let body = match body {
        LlmBody::Whole(body) => Body::from(body),
        LlmBody::Stream(stream) => Body::from_stream(stream),
        LlmBody::Lines(lines) => Body::from_stream(lines),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Ok(response)
}

/// Reads the body. The time limit of other requests applies to it alone.
async fn read_in_time(
    gateway: &Gateway,
    request: Request,
    memory: &mut Reservation,
) -> Result<(HeaderMap, Bytes)> {
    let limit = Duration::from_millis(gateway.config.server.request_deadline_ms);
    let admit = |bytes: usize| admission::extend_chat(gateway, memory, bytes);
    let read = tokio::time::timeout(limit, body::read_with_headers(gateway, request, admit)).await;
    read.unwrap_or_else(|_| {
        let message = format!("the body was not complete within {} ms", limit.as_millis());
        Err(ApiError::new(ErrorCode::DeadlineExceeded, message))
    })
}

fn refused(error: LlmError) -> ApiError {
    match error {
        LlmError::Json(reason) => {
            ApiError::new(ErrorCode::InvalidJson, format!("the body can't be read: {reason}"))
        }
        LlmError::Utf8(_) => ApiError::new(ErrorCode::InvalidUtf8, error.to_string()),
        LlmError::Invalid { ref field, .. } => {
            let place: Vec<&str> = field.split('.').collect();
            Invalid::at(ErrorCode::InvalidParameter, &place, error.to_string()).into()
        }
        LlmError::Refused { .. } => ApiError::new(ErrorCode::InvalidParameter, error.to_string()),
        LlmError::NoModel(_) => ApiError::new(ErrorCode::ModelNotFound, error.to_string()),
        LlmError::Limited(limited) => rate_limits::refusal(&limited),
        LlmError::Blocked { .. } => ApiError::new(ErrorCode::GuardrailBlocked, error.to_string()),
        LlmError::Unchecked { .. } => ApiError::new(ErrorCode::UpstreamError, error.to_string()),
        LlmError::Retrieval(error) => (*error).into(),
        LlmError::Internal => ApiError::internal_error(),
        LlmError::Upstream(error) => error.into(),
        LlmError::Credentials { .. } => ApiError::new(ErrorCode::UpstreamCredentials, error.to_string()),
    }
}
