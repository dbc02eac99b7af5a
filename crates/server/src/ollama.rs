//! `POST /api/embed`, `POST /api/embeddings` and `GET /api/tags`, as clients of Ollama know them.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use weir_api::{
    Count, OllamaDetails, OllamaEmbedReply, OllamaEmbedRequest, OllamaModel, OllamaPromptReply,
    OllamaPromptRequest, OllamaTags, Texts, Truncate,
};
use weir_inference::{Caching, LoadedModel};
use weir_retrieval::models;

use super::body::{self, Call, Json, Reply};
use super::context;
use super::embeddings::{
    EmbedJob, EmbedOutput, check_dimensions, embed as embed_texts, is_long_reply, read_body,
};
use super::vectors;
use crate::Result;

/// What Ollama appends to names of models without a tag.
const LATEST: &str = ":latest";

/// Embeds texts.
pub(super) async fn embed(call: Call, request: Request) -> Result<Response> {
    let started = Instant::now();
    let prepared = Prepared::of(&request);
    let (bytes, place) = read_body(&call, request).await?;
    let request: OllamaEmbedRequest = weir_api::parse(&bytes)?;
    drop(bytes);
    let model = model_of(&call, &request.model)?;
    check_dimensions(&model, request.dimensions).await?;
    // no error, because Ollama's clients expect none
    let Some(input) = request.input.filter(|input| !input.is_nothing()) else {
        return Ok(Json(OllamaEmbedReply {
            model: request.model,
            embeddings: Vec::new(),
            total_duration: nanoseconds_since(started),
            load_duration: 0,
            prompt_eval_count: 0,
        })
        .into_response());
    };
    input.check_sizes("input", &call.config.request_limits())?;
    let truncate = if request.truncate == Some(false) { Truncate::Error } else { Truncate::End };
    let job = EmbedJob {
        dimensions: request.dimensions.map(Count::get),
        ..prepared.job(model, input, "input", truncate, place)
    };
    let EmbedOutput { embeddings, usage, truncated, place, .. } = embed_texts(&call, job).await?;
    let floats = embeddings.floats().len();
    let response = call.retrieval.maybe_in_background(is_long_reply(&embeddings), move || {
        let reply = OllamaEmbedReply {
            model: request.model,
            embeddings: vectors::lists(&embeddings),
            total_duration: nanoseconds_since(started),
            load_duration: 0,
            prompt_eval_count: usage.prompt_tokens,
        };
        vectors::json(&reply, floats, place)
    });
    let mut response = response.await??;
    vectors::set_truncated(response.headers_mut(), &truncated);
    Ok(response)
}

/// Embeds one text.
pub(super) async fn embed_prompt(call: Call, request: Request) -> Reply<OllamaPromptReply> {
    let prepared = Prepared::of(&request);
    let (bytes, place) = read_body(&call, request).await?;
    let request: OllamaPromptRequest = weir_api::parse(&bytes)?;
    let model = model_of(&call, &request.model)?;
    let prompt = Texts::one(request.prompt.unwrap_or_default());
    if prompt.is_nothing() {
        return Ok(Json(OllamaPromptReply { embedding: Vec::new() }));
    }
    prompt.check_sizes("prompt", &call.config.request_limits())?;
    let job = prepared.job(model, prompt, "prompt", Truncate::End, place);
    let made = embed_texts(&call, job).await?;
    Ok(Json(OllamaPromptReply { embedding: made.embeddings.into_floats() }))
}

/// What a request says beside its body.
struct Prepared {
    caching: Caching,
    until: Option<Instant>,
}

impl Prepared {
    fn of(request: &Request) -> Prepared {
        Prepared { caching: body::caching(request.headers()), until: context::deadline(request) }
    }

    fn job(
        &self,
        model: Arc<LoadedModel>,
        texts: Texts,
        field: &'static str,
        truncate: Truncate,
        place: weir_inference::Reservation,
    ) -> EmbedJob {
        let caching = self.caching;
        EmbedJob {
            role: None,
            truncate,
            texts,
            field,
            model,
            caching,
            until: self.until,
            dimensions: None,
            place,
        }
    }
}

fn nanoseconds_since(started: Instant) -> u64 {
    u64::try_from(started.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

fn model_of(call: &Call, name: &str) -> Result<Arc<LoadedModel>> {
    let name = name.strip_suffix(LATEST).unwrap_or(name);
    Ok(models::embedder(&call.models, &call.caller, name)?.clone())
}

/// The time of unix seconds in the format of RFC 3339.
fn rfc3339(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}

/// All models that embed.
pub(super) async fn tags(call: Call) -> Json<OllamaTags> {
    let entry = |model: &Arc<LoadedModel>| OllamaModel {
        name: model.id.clone(),
        model: model.id.clone(),
        modified_at: rfc3339(model.loaded_at),
        size: 0,
        digest: model.fingerprint(),
        details: OllamaDetails {
            family: "bert".to_owned(),
            families: vec!["bert".to_owned()],
            quantization_level: model.precision_and_pooling().0.to_owned(),
            ..OllamaDetails::default()
        },
    };
    Json(OllamaTags { models: models::embedders(&call.models, &call.caller).map(entry).collect() })
}
