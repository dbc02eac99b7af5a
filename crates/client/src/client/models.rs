//! `/v1/models`.

use weir_api::{Capability, ModelReply, ModelsReply};

use crate::call::{ApiCall, encode};
use crate::{Client, ClientError, Result};

impl Client {
    /// All models, the default one first.
    pub async fn models(&self) -> Result<Vec<ModelReply>> {
        let reply: ModelsReply = self.value(ApiCall::get("/v1/models")).await?;
        Ok(reply.data)
    }

    /// One model, by its id or an alias.
    pub async fn model(&self, id: &str) -> Result<ModelReply> {
        self.value(ApiCall::get(format!("/v1/models/{}", encode(id)))).await
    }

    /// The model of embeddings for which none was named: the gateway's first one that embeds, which is asked for once.
    pub(crate) async fn default_model(&self) -> Result<&str> {
        let first = async || {
            let models = self.models().await?;
            let embeds = |model: &ModelReply| model.capabilities.contains(&Capability::Embeddings);
            models.into_iter().find(embeds).map(|model| model.id).ok_or(ClientError::NoModel)
        };
        self.default_model.get_or_try_init(first).await.map(String::as_str)
    }
}
