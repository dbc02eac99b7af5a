//! `/v1/collections`.

use weir_api::{CollectionReply, CollectionSettings, DeletedReply, List};

use crate::call::{Call, encode};
use crate::{Client, Reply, Result};

impl Client {
    /// All collections.
    pub async fn collections(&self) -> Result<Reply<List<CollectionReply>>> {
        self.reply(Call::get("/v1/collections"), |_| {}).await
    }

    /// One collection, as it was received.
    pub async fn collection_reply(&self, name: &str) -> Result<Reply<CollectionReply>> {
        self.reply(Call::get(collection_path(name)), |_| {}).await
    }

    /// Creates a collection. One that exists with the same settings is not an error.
    pub async fn put_collection(
        &self,
        name: &str,
        settings: &CollectionSettings,
    ) -> Result<Reply<CollectionReply>> {
        self.reply(Call::put(collection_path(name), settings), |_| {}).await
    }

    /// One collection.
    pub async fn collection(&self, name: &str) -> Result<CollectionReply> {
        self.value(Call::get(collection_path(name))).await
    }

    /// Creates a collection with default settings.
    pub async fn create_collection(&self, name: &str) -> Result<CollectionReply> {
        self.value(Call::put(collection_path(name), &CollectionSettings::default())).await
    }

    /// Deletes a collection with its documents.
    pub async fn delete_collection(&self, name: &str) -> Result<DeletedReply> {
        self.value(Call::delete(collection_path(name))).await
    }
}

pub(super) fn collection_path(name: &str) -> String {
    format!("/v1/collections/{}", encode(name))
}
