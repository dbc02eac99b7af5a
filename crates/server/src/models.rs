//! `GET /v1/models` and `GET /v1/models/{id}`.

use axum::extract::State;
use weir_api::{Capability, ListObject, ModelObject, ModelReply, ModelsReply};

use super::Gateway;
use weir_retrieval::models;

use super::body::{CallerOf, Json, Segments};
use super::error::ApiError;
use weir_inference::{LoadedModel, Reranker};

/// All models, the default one first.
pub(super) async fn list(State(gateway): State<Gateway>, CallerOf(caller): CallerOf) -> Json<ModelsReply> {
    let embedders = models::embedders(&gateway.models, &caller).map(|model| embedder(model));
    let rerankers = models::rerankers(&gateway.models, &caller).map(|model| reranker(model));
    let data = embedders.chain(rerankers).collect();
    Json(ModelsReply { object: ListObject::List, data })
}

/// One model, by its id or an alias; both may hold slashes.
pub(super) async fn get(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
) -> Result<Json<ModelReply>, ApiError> {
    let found = models::embedder(&gateway.models, &caller, &name).map(|model| embedder(model));
    let found = found
        .or_else(|_| models::reranker(&gateway.models, &caller, &name, "model").map(|model| reranker(model)));
    Ok(Json(found.map_err(|_| models::no_model(&name))?))
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

fn reranker(model: &Reranker) -> ModelReply {
    ModelReply {
        id: model.id.clone(),
        object: ModelObject::Model,
        created: model.loaded_at,
        owned_by: "weir".to_owned(),
        alias: model.alias.clone(),
        capabilities: vec![Capability::Rerank],
        dimensions: None,
        max_input_tokens: model.input_tokens_max(),
        fingerprint: model.fingerprint(),
    }
}
