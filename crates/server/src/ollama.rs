//! The routes under `/api/` that do not chat, as clients of Ollama know them.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::Request;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value};
use weir_api::{
    Capability, Count, OllamaDetails, OllamaEmbedReply, OllamaEmbedRequest, OllamaModel, OllamaProcess,
    OllamaProcesses, OllamaPromptReply, OllamaPromptRequest, OllamaShowReply, OllamaShowRequest, OllamaTags,
    OllamaVersion, Texts, Truncate,
};
use weir_inference::{Caching, LoadedModel};
use weir_retrieval::{EmbedJob, EmbedOutput, check_dimensions, models};

use super::body::{self, Body, CallContext, Json, Reply};
use super::context;
use super::embeddings::{embed as embed_texts, is_long_reply, read_body};
use super::vectors;
use crate::Result;

/// The tag that Ollama appends to names of models without one.
const LATEST: &str = ":latest";
/// The version of Ollama whose API is followed.
const VERSION: &str = "0.32.15";
/// Ollama's words for what a model does.
const EMBEDDING: &str = "embedding";
const COMPLETION: &str = "completion";
/// When models are unloaded: never.
const STAYS_LOADED: &str = "9999-12-31T23:59:59Z";

/// Embeds texts.
pub(super) async fn embed(call: CallContext, request: Request) -> Result<Response> {
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
pub(super) async fn embed_prompt(call: CallContext, request: Request) -> Reply<OllamaPromptReply> {
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

/// The parts of a request beside its body.
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

fn model_of(call: &CallContext, name: &str) -> Result<Arc<LoadedModel>> {
    let name = name.strip_suffix(LATEST).unwrap_or(name);
    Ok(models::embedder(&call.models, &call.caller, name)?.clone())
}

/// All models that embed, and those for chat.
pub(super) async fn tags(call: CallContext) -> Json<OllamaTags> {
    let embedder = |model: &Arc<LoadedModel>| OllamaModel {
        name: model.id.clone(),
        model: model.id.clone(),
        modified_at: super::models::rfc3339(model.loaded_at),
        size: 0,
        digest: model.fingerprint(),
        details: details(model),
        capabilities: vec![EMBEDDING.to_owned()],
    };
    let route = |name: String| OllamaModel {
        model: name.clone(),
        name,
        modified_at: super::models::rfc3339(0),
        size: 0,
        digest: String::new(),
        details: OllamaDetails::default(),
        capabilities: vec![COMPLETION.to_owned()],
    };
    let mut models: Vec<OllamaModel> = super::models::embedders(&call).into_iter().map(embedder).collect();
    models.extend(super::models::chat_models(&call).await.into_iter().map(route));
    Json(OllamaTags { models })
}

fn details(model: &LoadedModel) -> OllamaDetails {
    OllamaDetails {
        family: "bert".to_owned(),
        families: vec!["bert".to_owned()],
        quantization_level: model.precision_and_pooling().0.to_owned(),
        ..OllamaDetails::default()
    }
}

/// The properties of a model.
pub(super) async fn show(
    call: CallContext,
    Body(request): Body<OllamaShowRequest>,
) -> Reply<OllamaShowReply> {
    let OllamaShowRequest { model, name } = request;
    let asked = if model.is_empty() { name } else { model };
    let is_seen =
        |model: &Arc<LoadedModel>| super::models::embedders(&call).iter().any(|seen| seen.id == model.id);
    let embedder = model_of(&call, &asked).ok().filter(is_seen);
    let mut model_info = Map::new();
    let mut put = |key: &str, value: Value| drop(model_info.insert(key.to_owned(), value));
    if let Some(model) = embedder {
        put("general.architecture", "bert".into());
        if let Some(limit) = model.input_tokens_max() {
            put("bert.context_length", limit.into());
        }
        if let Some(dimension) = model.dimension() {
            put("bert.embedding_length", dimension.into());
        }
        return Ok(Json(OllamaShowReply {
            details: details(&model),
            model_info,
            capabilities: vec![EMBEDDING.to_owned()],
            modified_at: super::models::rfc3339(model.loaded_at),
        }));
    }
    put("general.architecture", "weir".into());
    let name = call.llm.name_without_tag(&call.caller, &asked);
    let model = super::models::find(&call, name)?;
    // a reranker has no counterpart in this API
    let capabilities = match model.capabilities.contains(&Capability::Chat) {
        true => [COMPLETION, "tools", "vision"].map(str::to_owned).to_vec(),
        false => Vec::new(),
    };
    let details = OllamaDetails::default();
    Ok(Json(OllamaShowReply {
        details,
        model_info,
        capabilities,
        modified_at: super::models::rfc3339(model.created),
    }))
}

/// The models that embed: they stay in memory.
pub(super) async fn processes(call: CallContext) -> Json<OllamaProcesses> {
    let process = |model: &Arc<LoadedModel>| OllamaProcess {
        name: model.id.clone(),
        model: model.id.clone(),
        size: 0,
        digest: model.fingerprint(),
        details: details(model),
        expires_at: STAYS_LOADED.to_owned(),
        size_vram: 0,
        context_length: model.input_tokens_max().unwrap_or_default(),
    };
    Json(OllamaProcesses { models: super::models::embedders(&call).into_iter().map(process).collect() })
}

/// The version whose API is followed: clients ask for it before they use newer fields.
pub(super) async fn version() -> Json<OllamaVersion> {
    Json(OllamaVersion { version: VERSION.to_owned() })
}
