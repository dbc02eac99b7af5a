//! `POST /embed`, `GET /info` and `GET /health`, as clients of text-embeddings-inference (TEI) know them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use weir_api::{
    Count, EmbedRequest, ErrorCode, InfoEmbedding, InfoModelType, InfoReply, TeiError, TeiErrorType,
};

use super::body::{self, CallContext, Json, Reply};
use super::context;
use super::embeddings::{check_normalize, embed as embed_texts, is_long_reply, read_body};
use super::encoding::{Encoding, Wanted};
use super::error::ApiError;
use super::gateway::Gateway;
use super::vectors::{self, Described};
use crate::Result;
use weir_inference::{LoadedModel, l2_normalise};
use weir_retrieval::{EmbedJob, EmbedOutput, check_dimensions, models};

/// Embeds texts with the default model.
pub(super) async fn embed(call: CallContext, request: Request) -> Result<Response> {
    let (caching, until) = (body::caching(request.headers()), context::deadline(&request));
    let encoding = Encoding::of(request.headers(), &Wanted::default())?;
    let (bytes, place) = read_body(&call, request).await?;
    let started = Instant::now();
    let mut request: EmbedRequest = weir_api::parse(&bytes)?;
    drop(bytes);
    let (texts, field) = request.take_texts(&call.config.request_limits())?;
    let model = default_model(&call)?;
    check_dimensions(&model, request.dimensions).await?;
    let is_scaled = request.normalize.unwrap_or(true) && !model.is_normalised();
    check_normalize(&model, request.normalize)?;
    let job = EmbedJob {
        role: request.prompt_name,
        truncate: request.truncate(),
        texts,
        field,
        model: model.clone(),
        caching,
        until,
        dimensions: request.dimensions.map(Count::get),
        place,
    };
    let mut made = embed_texts(&call, job).await?;
    let (mut embeddings, usage) = (std::mem::take(&mut made.embeddings), made.usage);
    let place = std::mem::take(&mut made.place);
    let is_long = (is_scaled || encoding.is_rendered()) && is_long_reply(&embeddings);
    let response = call.retrieval.maybe_in_background(is_long, move || {
        if is_scaled {
            embeddings.iter_mut().for_each(l2_normalise);
        }
        let described = Described { name: &model.id, model: &model, usage };
        vectors::reply(encoding, embeddings, &described, place, |embeddings, _, place| {
            Ok(match field {
                "texts" => vectors::object(&embeddings, place),
                _ => vectors::bare_list(&embeddings, place),
            })
        })
    });
    let mut response = response.await??;
    describe(response.headers_mut(), &made, started.elapsed());
    Ok(response)
}

/// TEI's headers.
fn describe(headers: &mut HeaderMap, made: &EmbedOutput, total: Duration) {
    let ms = |duration: Duration| usize::try_from(duration.as_millis()).unwrap_or(usize::MAX);
    headers.insert("x-compute-type", HeaderValue::from_static("cpu"));
    vectors::set(headers, "x-compute-time", ms(total));
    vectors::set(headers, "x-compute-characters", made.characters);
    vectors::set(headers, "x-compute-tokens", made.usage.prompt_tokens);
    vectors::set(headers, "x-total-time", ms(total));
    vectors::set(headers, "x-tokenization-time", ms(made.tokenization));
    vectors::set(headers, "x-queue-time", ms(made.queue));
    vectors::set(headers, "x-inference-time", ms(made.inference));
    vectors::set_truncated(headers, &made.truncated);
    vectors::set_split(headers, &made.split);
}

/// The default model and the limits.
pub(super) async fn info(call: CallContext) -> Reply<InfoReply> {
    let model = default_model(&call)?;
    let (limits, inference) = (&call.config.limits, &call.config.inference);
    let (dtype, pooling) = model.precision_and_pooling();
    Ok(Json(InfoReply {
        model_id: model.id.clone(),
        model_sha: Some(model.fingerprint()),
        model_dtype: dtype.to_owned(),
        served_model_name: model.id.clone(),
        model_type: InfoModelType::Embedding(InfoEmbedding { pooling: pooling.to_owned() }),
        max_concurrent_requests: limits.connections_max,
        max_input_length: model.input_tokens_max().unwrap_or(limits.embedding_tokens_max),
        max_batch_tokens: limits.embedding_tokens_max,
        max_batch_requests: None,
        max_client_batch_size: limits.embedding_inputs_max,
        auto_truncate: true,
        tokenization_workers: inference.threads(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sha: None,
        docker_label: None,
    }))
}

/// Whether there is a model: 200 without a body, else 503.
pub(super) async fn health(State(gateway): State<Gateway>) -> Response {
    health_of(gateway.models.default_model().is_some())
}

fn health_of(has_model: bool) -> Response {
    if has_model {
        return StatusCode::OK.into_response();
    }
    let body = TeiError { error: "unhealthy".to_owned(), error_type: TeiErrorType::Unhealthy };
    (StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response()
}

/// The first model that the caller may embed with.
pub(super) fn default_model(call: &CallContext) -> Result<Arc<LoadedModel>> {
    let model = models::embedders(&call.models, &call.caller).next().cloned();
    model.ok_or_else(|| ApiError::new(ErrorCode::ModelNotFound, "no model is configured"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn without_a_model_the_gateway_is_unhealthy() {
        let response = health_of(false);
        assert_eq!(response.status(), 503);
        let body = axum::body::to_bytes(response.into_body(), 1_000).await.unwrap();
        assert_eq!(body, r#"{"error":"unhealthy","error_type":"Unhealthy"}"#);
    }
}
