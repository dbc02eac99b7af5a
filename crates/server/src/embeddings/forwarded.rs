//! Requests for embeddings whose model is one of an upstream: they are passed on by the LLM gateway, with its limits, guardrails and fallbacks.

use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use weir_api::{EmbeddingDtype, ErrorCode, Invalid};
use weir_inference::Reservation;
use weir_llm::{Api, LlmCall};
use weir_retrieval::models;

use crate::Result;
use crate::body::CallContext;
use crate::chat;
use crate::encoding::{Encoding, Wanted};
use crate::error::ApiError;

/// The fields of a request that decide where it goes. The others are the upstream's.
#[derive(Deserialize)]
struct Fields<'a> {
    model: String,
    #[serde(borrow)]
    encoding_format: Option<&'a serde_json::value::RawValue>,
}

/// Whether the model is one of an upstream, and none of this gateway.
///
/// # Errors
/// `invalid_parameter` for a reply that is not JSON, which is not passed on.
pub(super) fn of_upstream(call: &CallContext, headers: &HeaderMap, bytes: &[u8]) -> Result<bool> {
    let Ok(fields) = serde_json::from_slice::<Fields<'_>>(bytes) else { return Ok(false) };
    let is_own = models::embedder(&call.models, &call.caller, &fields.model).is_ok();
    if is_own || !call.caller.may_use_model(&fields.model) || !call.llm.has_embeddings(&fields.model) {
        return Ok(false);
    }
    let refused = |place: &str| {
        let message = format!(
            "`{place}` asks for raw numbers, and the reply of an upstream is JSON; ask for `application/json`, and send `\"encoding_format\": \"base64\"` for fewer bytes"
        );
        Err(Invalid::at(ErrorCode::InvalidParameter, &[place], message).into())
    };
    if Encoding::of(headers, &Wanted::default())? != Encoding::Json(EmbeddingDtype::Float32) {
        return refused("Accept");
    }
    match fields.encoding_format.map(|format| format.get()) {
        Some(r#""bytes""# | r#""bytes_only""#) => refused("encoding_format"),
        Some(_) | None => Ok(true),
    }
}

/// The reply of the upstream. `_place`: the memory that is reserved for the request.
pub(super) async fn send(
    call: &CallContext,
    headers: HeaderMap,
    body: Bytes,
    _place: Reservation,
) -> Result<Response> {
    let (caller, usage) = (call.caller.clone(), call.usage.clone());
    let entry = call.entry.clone().ok_or_else(ApiError::internal_error)?;
    chat::send(&call.gateway, LlmCall { api: Api::Embeddings, headers, body, caller, usage, entry }).await
}
