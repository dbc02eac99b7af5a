//! `GET /v1/models` and `GET /v1/models/{id}`.

use std::sync::Arc;

use axum::extract::RawQuery;
use axum::http::HeaderMap;
use weir_api::{
    AnthropicModel, AnthropicModelsReply, AnyModelReply, AnyModelsReply, Capability, EmbedderReply,
    ErrorCode, Invalid, ListObject, ModelObject, ModelReply, ModelsReply,
};

use weir_policy::{Caller, Scope};
use weir_retrieval::models;

use super::body::{self, CallContext, Json, Reply};
use super::context::Segments;
use super::dialect::Dialect;
use super::error::ApiError;
use crate::Result;
use weir_inference::{LoadedModel, Reranker};

/// A key with one of these scopes sees the models: it can name them in requests, or manages the gateway.
const SEE_EMBEDDERS: &[Scope] = &[Scope::Embed, Scope::Admin];
const SEE_CROSS_ENCODERS: &[Scope] = &[Scope::Rerank, Scope::Search, Scope::Admin];
const SEE_CHAT_MODELS: &[Scope] = &[Scope::Chat, Scope::Admin];

/// The header by which Anthropic's clients are known.
const ANTHROPIC_VERSION: &str = "anthropic-version";
/// Models on a page of Anthropic's list, unless the request says how many, and at most.
const PAGE: usize = 20;
const PAGE_MAX: usize = 1_000;

fn sees(caller: &Caller, scopes: &[Scope]) -> bool {
    scopes.iter().any(|&scope| caller.may(scope))
}

/// The models that the caller may use, the default one first.
pub(super) async fn list(
    call: CallContext,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Reply<AnyModelsReply> {
    let is_anthropic = headers.contains_key(ANTHROPIC_VERSION);
    let listed = async {
        let query = Query::read(query.as_deref(), is_anthropic)?;
        Ok(match is_anthropic {
            true => {
                let models = visible(&call, Some(query.capability.unwrap_or(Capability::Chat))).await;
                AnyModelsReply::Anthropic(page(&models, &query)?)
            }
            false => {
                let data = visible(&call, query.capability).await;
                AnyModelsReply::OpenAi(ModelsReply { object: ListObject::List, data })
            }
        })
    };
    listed.await.map(Json).map_err(|error| in_dialect(error, is_anthropic))
}

/// The error in the dialect of the client.
fn in_dialect(error: ApiError, is_anthropic: bool) -> ApiError {
    if is_anthropic { error.in_dialect(Dialect::Anthropic) } else { error }
}

/// The models that the caller may use, the default one first; those with a capability alone, if one is named.
async fn visible(call: &CallContext, capability: Option<Capability>) -> Vec<ModelReply> {
    let caller = &call.caller;
    let mut models = Vec::new();
    models.extend(embedders(call).into_iter().map(|model| embedder(model)));
    if sees(caller, SEE_CROSS_ENCODERS) {
        models.extend(models::cross_encoders(&call.models, caller).map(|model| cross_encoder(model)));
    }
    if capability.is_none_or(|capability| capability == Capability::Chat) {
        models.extend(chat_models(call).await.into_iter().map(chat_model));
    }
    models.retain(|model| capability.is_none_or(|capability| model.capabilities.contains(&capability)));
    models
}

/// The models that embed and that the caller sees.
pub(super) fn embedders(call: &CallContext) -> Vec<&Arc<LoadedModel>> {
    let seen = sees(&call.caller, SEE_EMBEDDERS).then(|| models::embedders(&call.models, &call.caller));
    seen.into_iter().flatten().collect()
}

/// The names of the models for chat that the caller sees.
pub(super) async fn chat_models(call: &CallContext) -> Vec<String> {
    if !sees(&call.caller, SEE_CHAT_MODELS) {
        return Vec::new();
    }
    let mut names = call.llm.models().await;
    names.retain(|name| call.caller.models.contains(name));
    names
}

/// The query parameters of the list, those of pages in Anthropic's API alone. Others are ignored: clients send some of their own.
struct Query {
    capability: Option<Capability>,
    limit: usize,
    after: Option<String>,
    before: Option<String>,
}

impl Query {
    fn read(text: Option<&str>, has_pages: bool) -> Result<Query> {
        let mut query = Query { capability: None, limit: PAGE, after: None, before: None };
        for (key, value) in body::query_pairs(text) {
            match key.as_str() {
                "capability" => query.capability = Some(capability(&value)?),
                "limit" if has_pages => query.limit = body::page_limit(&value, PAGE_MAX)?,
                "after_id" if has_pages => query.after = Some(value),
                "before_id" if has_pages => query.before = Some(value),
                _ => {}
            }
        }
        Ok(query)
    }
}

fn capability(name: &str) -> Result<Capability> {
    Capability::ALL.into_iter().find(|capability| capability.as_str() == name).ok_or_else(|| {
        let known = Capability::ALL.map(|capability| format!("`{}`", capability.as_str())).join(", ");
        let message = format!("`capability` is `{}`; it must be one of {known}", name.escape_debug());
        Invalid::at(ErrorCode::InvalidParameter, &["capability"], message).into()
    })
}

/// A page of the models in Anthropic's API.
///
/// # Errors
/// `invalid_parameter` for two ids, and for one that is not in the list.
fn page(models: &[ModelReply], query: &Query) -> Result<AnthropicModelsReply> {
    let invalid = |field: &str, reason: String| Invalid::at(ErrorCode::InvalidParameter, &[field], reason);
    let place = |field: &str, id: &str| {
        let found = models.iter().position(|model| model.id == id);
        let reason =
            || format!("`{field}` is `{}`, which is not in the list; leave it out", id.escape_debug());
        found.ok_or_else(|| invalid(field, reason()))
    };
    let (shown, has_more) = match (&query.after, &query.before) {
        (Some(_), Some(_)) => {
            let reason = "`after_id` and `before_id` exclude each other; send one of them".to_owned();
            return Err(invalid("before_id", reason).into());
        }
        (None, Some(id)) => {
            let end = place("before_id", id)?;
            let start = end.saturating_sub(query.limit);
            (&models[start..end], start > 0)
        }
        (after, None) => {
            let start = after.as_ref().map(|id| place("after_id", id)).transpose()?.map_or(0, |at| at + 1);
            let end = models.len().min(start + query.limit);
            (&models[start..end], end < models.len())
        }
    };
    let data: Vec<AnthropicModel> = shown.iter().map(anthropic_model).collect();
    let id = |model: Option<&AnthropicModel>| model.map(|model| model.id.clone());
    Ok(AnthropicModelsReply { first_id: id(data.first()), last_id: id(data.last()), has_more, data })
}

fn anthropic_model(model: &ModelReply) -> AnthropicModel {
    AnthropicModel {
        kind: ModelObject::Model,
        id: model.id.clone(),
        display_name: model.id.clone(),
        created_at: rfc3339(model.created),
    }
}

/// One model, by its id or an alias; both may hold slashes. For chat, every name that leads to an upstream: the list has only those of routes
/// without `*`, and those that upstreams list.
pub(super) async fn get(
    call: CallContext,
    Segments([name]): Segments<1>,
    headers: HeaderMap,
) -> Reply<AnyModelReply> {
    let is_anthropic = headers.contains_key(ANTHROPIC_VERSION);
    let model = find(&call, &name).map_err(|error| in_dialect(error, is_anthropic))?;
    Ok(Json(match is_anthropic {
        true => AnyModelReply::Anthropic(anthropic_model(&model)),
        false => AnyModelReply::OpenAi(model),
    }))
}

/// The model of a name that the caller may use.
///
/// # Errors
/// `model_not_found`.
pub(super) fn find(call: &CallContext, name: &str) -> Result<ModelReply> {
    let caller = &call.caller;
    if sees(caller, SEE_EMBEDDERS)
        && let Ok(model) = models::embedder(&call.models, caller, name)
    {
        return Ok(embedder(model));
    }
    let mut cross_encoders = models::cross_encoders(&call.models, caller);
    if sees(caller, SEE_CROSS_ENCODERS)
        && let Some(model) =
            cross_encoders.find(|model| model.id == name || model.alias.iter().any(|alias| alias == name))
    {
        return Ok(cross_encoder(model));
    }
    if sees(caller, SEE_CHAT_MODELS) && caller.models.contains(name) && call.llm.has_model(name) {
        return Ok(chat_model(name.to_owned()));
    }
    Err(models::no_model(name).into())
}

/// The description by which another gateway uses an embedding model: the one of the query parameter `model`, or the default one.
pub(super) async fn describe(call: CallContext, RawQuery(query): RawQuery) -> Reply<EmbedderReply> {
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

/// The time of unix seconds in the format of RFC 3339.
pub(super) fn rfc3339(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    jiff::Timestamp::from_second(seconds).unwrap_or(jiff::Timestamp::UNIX_EPOCH).to_string()
}
