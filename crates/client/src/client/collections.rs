//! `/v1/collections`.

use std::time::Duration;

use weir_api::{
    ChunksPreviewReply, ChunksPreviewRequest, CollectionReply, CollectionSettings, DeletedReply, List,
    ReconciliationReply,
};

use crate::call::{ApiCall, encode};
use crate::{Client, Reply, Result};

/// How often it is asked whether a comparison has ended.
const RECONCILE_LOOK: Duration = Duration::from_millis(300);

impl Client {
    /// All collections.
    pub async fn collections(&self) -> Result<Reply<List<CollectionReply>>> {
        self.reply(ApiCall::get("/v1/collections"), |_| {}).await
    }

    /// One collection, as it was received.
    pub async fn collection_reply(&self, name: &str) -> Result<Reply<CollectionReply>> {
        self.reply(ApiCall::get(collection_path(name)), |_| {}).await
    }

    /// Creates a collection. One that exists with the same settings is not an error.
    pub async fn put_collection(
        &self,
        name: &str,
        settings: &CollectionSettings,
    ) -> Result<Reply<CollectionReply>> {
        self.reply(ApiCall::put(collection_path(name), settings), |_| {}).await
    }

    /// The same; if the collection exists and is split in another way, its documents are split again by `settings.chunking`. Until they are, searches
    /// find their earlier chunks.
    pub async fn rechunk_collection(
        &self,
        name: &str,
        settings: &CollectionSettings,
    ) -> Result<Reply<CollectionReply>> {
        let path = format!("{}?rechunk=true", collection_path(name));
        self.reply(ApiCall::put(path, settings), |_| {}).await
    }

    /// The same; if the collection exists in another engine, its index is moved to that of `settings`, without embedding. Until the next index is complete,
    /// the earlier one answers searches.
    pub async fn move_collection(
        &self,
        name: &str,
        settings: &CollectionSettings,
    ) -> Result<Reply<CollectionReply>> {
        let path = format!("{}?move=true", collection_path(name));
        self.reply(ApiCall::put(path, settings), |_| {}).await
    }

    /// The chunks of a text, as the documents of a collection are split or as the request says. Nothing is stored.
    pub async fn preview_chunks(
        &self,
        collection: &str,
        request: &ChunksPreviewRequest,
    ) -> Result<Reply<ChunksPreviewReply>> {
        let path = format!("{}/chunks/preview", collection_path(collection));
        self.reply(ApiCall::post(path, request), |_| {}).await
    }

    /// The same of a file. `options` has no text and no pages.
    pub async fn preview_file_chunks(
        &self,
        collection: &str,
        file_name: &str,
        bytes: Vec<u8>,
        options: &ChunksPreviewRequest,
    ) -> Result<Reply<ChunksPreviewReply>> {
        let chunking = options.chunking.map(|chunking| serde_json::to_string(&chunking).unwrap_or_default());
        let limit = options.limit.map(|limit| limit.to_string());
        let parameters = [
            ("filename", Some(file_name)),
            ("title", options.title.as_deref()),
            ("chunking", chunking.as_deref()),
            ("limit", limit.as_deref()),
        ];
        let given =
            parameters.iter().filter_map(|(name, value)| Some(format!("{name}={}", encode((*value)?))));
        let query = given.collect::<Vec<_>>().join("&");
        let path = format!("{}/chunks/preview?{query}", collection_path(collection));
        self.reply(ApiCall::post_bytes(path, bytes, "application/octet-stream"), |_| {}).await
    }

    /// One collection.
    pub async fn collection(&self, name: &str) -> Result<CollectionReply> {
        self.value(ApiCall::get(collection_path(name))).await
    }

    /// Creates a collection with default settings.
    pub async fn create_collection(&self, name: &str) -> Result<CollectionReply> {
        self.value(ApiCall::put(collection_path(name), &CollectionSettings::default())).await
    }

    /// Has the index of a collection in a Qdrant cluster compared with the store, in the background, and mended.
    pub async fn reconcile(&self, name: &str) -> Result<Reply<ReconciliationReply>> {
        self.reply(ApiCall::post_nothing(reconcile_path(name)), |_| {}).await
    }

    /// The same; waits until it has ended.
    pub async fn reconcile_to_the_end(&self, name: &str) -> Result<Reply<ReconciliationReply>> {
        let mut reply = self.reconcile(name).await?;
        while reply.parse()?.status.is_open() {
            tokio::time::sleep(RECONCILE_LOOK).await;
            reply = self.reconciliation(name).await?;
        }
        Ok(reply)
    }

    /// The last such comparison, as it was received.
    pub async fn reconciliation(&self, name: &str) -> Result<Reply<ReconciliationReply>> {
        self.reply(ApiCall::get(reconcile_path(name)), |_| {}).await
    }

    /// Deletes a collection with its documents.
    pub async fn delete_collection(&self, name: &str) -> Result<DeletedReply> {
        self.value(ApiCall::delete(collection_path(name))).await
    }
}

pub(super) fn collection_path(name: &str) -> String {
    format!("/v1/collections/{}", encode(name))
}

fn reconcile_path(name: &str) -> String {
    format!("{}/reconcile", collection_path(name))
}
