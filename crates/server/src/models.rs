//! `GET /v1/models` and `GET /v1/models/{id}`.

use axum::extract::RawQuery;
use weir_api::{Capability, EmbedderReply, ListObject, ModelObject, ModelReply, ModelsReply};

use weir_policy::{Caller, Scope};
use weir_retrieval::models;

use super::body::{self, Call, Json, Reply};
use super::context::Segments;
use super::error::ApiError;
use weir_inference::{LoadedModel, Reranker};

/// A key with one of these scopes sees the models: it can name them in requests, or manages the gateway.
const SEE_EMBEDDERS: &[Scope] = &[Scope::Embed, Scope::Admin];
const SEE_CROSS_ENCODERS: &[Scope] = &[Scope::Rerank, Scope::Search, Scope::Admin];
const SEE_CHAT_MODELS: &[Scope] = &[Scope::Chat, Scope::Admin];

fn sees(caller: &Caller, scopes: &[Scope]) -> bool {
    scopes.iter().any(|&scope| caller.may(scope))
}

/// The models that the caller may use, the default one first.
pub(super) async fn list(call: Call) -> Json<ModelsReply> {
    let caller = &call.caller;
    let mut data = Vec::new();
    if sees(caller, SEE_EMBEDDERS) {
        data.extend(models::embedders(&call.models, caller).map(|model| embedder(model)));
    }
    if sees(caller, SEE_CROSS_ENCODERS) {
        data.extend(models::cross_encoders(&call.models, caller).map(|model| cross_encoder(model)));
    }
    if sees(caller, SEE_CHAT_MODELS) {
        let named = call.llm.models().into_iter().filter(|name| caller.models.contains(name));
        data.extend(named.map(chat_model));
    }
    Json(ModelsReply { object: ListObject::List, data })
}

/// One model, by its id or an alias; both may hold slashes. For chat, every name that leads to an upstream: the list has only those of routes
/// without `*`.
pub(super) async fn get(call: Call, Segments([name]): Segments<1>) -> Reply<ModelReply> {
    let caller = &call.caller;
    if sees(caller, SEE_EMBEDDERS)
        && let Ok(model) = models::embedder(&call.models, caller, &name)
    {
        return Ok(Json(embedder(model)));
    }
    let mut cross_encoders = models::cross_encoders(&call.models, caller);
    if sees(caller, SEE_CROSS_ENCODERS)
        && let Some(model) = cross_encoders.find(|model| model.id == name || model.alias.contains(&name))
    {
        return Ok(Json(cross_encoder(model)));
    }
    if sees(caller, SEE_CHAT_MODELS) && caller.models.contains(&name) && call.llm.has_model(&name) {
        return Ok(Json(chat_model(name)));
    }
    Err(models::no_model(&name).into())
}

/// What another gateway needs to use an embedding model: the one of the query parameter `model`, or the default one.
pub(super) async fn describe(call: Call, RawQuery(query): RawQuery) -> Reply<EmbedderReply> {
    let mut name = None;
    for (key, value) in body::query_pairs(query.as_deref()) {
        match key.as_str() {
            "model" => name = Some(value),
            _ => return Err(body::unknown_parameter(&key, "`model`")),
        }
    }
    let model = match name {
        Some(name) => models::embedder(&call.models, &call.caller, &name)?.clone(),
        None => super::tei::default_model(&call)?,
    };
    model.fetch_dimension().await?;
    model.description().map(Json).ok_or_else(ApiError::internal_error)
}

/// A route to language models of upstreams.
fn chat_model(id: String) -> ModelReply {
    ModelReply {
        id,
        object: ModelObject::Model,
        created: 0,
        owned_by: "weir".to_owned(),
        alias: Vec::new(),
        capabilities: vec![Capability::Chat],
        dimensions: None,
        max_input_tokens: None,
        fingerprint: String::new(),
    }
}

fn embedder(model: &LoadedModel) -> ModelReply {
    ModelReply {
        id: model.id.clone(),
        object: ModelObject::Model,
        created: model.loaded_at,
        owned_by: "weir".to_owned(),
        alias: model.alias.clone(),
        capabilities: vec![Capability::Embeddings],
        dimensions: model.dimension(),
        max_input_tokens: model.input_tokens_max(),
        fingerprint: model.fingerprint(),
    }
}

fn cross_encoder(model: &Reranker) -> ModelReply {
    let rerank = model.reranks().then_some(Capability::Rerank);
    let classify = model.labels().map(|_| Capability::Classify);
    ModelReply {
        id: model.id.clone(),
        object: ModelObject::Model,
        created: model.loaded_at,
        owned_by: "weir".to_owned(),
        alias: model.alias.clone(),
        capabilities: rerank.into_iter().chain(classify).collect(),
        dimensions: None,
        max_input_tokens: model.input_tokens_max(),
        fingerprint: model.fingerprint(),
    }
}
