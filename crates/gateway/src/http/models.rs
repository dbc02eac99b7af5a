//! `GET /v1/models` and `GET /v1/models/{id}`.

use axum::extract::State;
use weir_api::{Capability, ListObject, ModelObject, ModelReply, ModelsReply};

use super::Gateway;
use super::body::{Json, Segments};
use super::error::{ApiError, no_model};
use crate::inference::LoadedModel;

/// All models, the default one first.
pub(super) async fn list(State(gateway): State<Gateway>) -> Json<ModelsReply> {
    let data = gateway.models.iter().map(|model| reply(model)).collect();
    Json(ModelsReply { object: ListObject::List, data })
}

/// One model, by its id or an alias; both may hold slashes.
pub(super) async fn get(
    State(gateway): State<Gateway>,
    Segments([name]): Segments<1>,
) -> Result<Json<ModelReply>, ApiError> {
    gateway.models.get(&name).map(|model| Json(reply(model))).ok_or_else(|| no_model(&name))
}

fn reply(model: &LoadedModel) -> ModelReply {
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
