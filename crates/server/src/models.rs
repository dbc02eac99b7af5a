//! `GET /v1/models` and `GET /v1/models/{id}`.

use axum::extract::State;
use weir_api::{Capability, ListObject, ModelObject, ModelReply, ModelsReply};

use super::Gateway;
use super::body::{Json, Segments};
use super::error::{ApiError, no_model};
use weir_inference::{LoadedModel, Reranker};

/// All models, the default one first.
pub(super) async fn list(State(gateway): State<Gateway>) -> Json<ModelsReply> {
    let embedders = gateway.models.iter().map(|model| embedder(model));
    let data = embedders.chain(gateway.models.rerankers().map(|model| reranker(model))).collect();
    Json(ModelsReply { object: ListObject::List, data })
}

/// One model, by its id or an alias; both may hold slashes.
pub(super) async fn get(
    State(gateway): State<Gateway>,
    Segments([name]): Segments<1>,
) -> Result<Json<ModelReply>, ApiError> {
    let models = &gateway.models;
    let found = models.get(&name).map(|model| embedder(model));
    let found = found.or_else(|| models.reranker(&name).map(|model| reranker(model)));
    found.map(Json).ok_or_else(|| no_model(&name))
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
