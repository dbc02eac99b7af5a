//! How the documents of a collection are split, and splitting them again when that changes.

use std::sync::Arc;

use weir_api::{Chunking, ChunkingPolicy, CollectionSettings};
use weir_policy::Caller;
use weir_store::{Collection, Error};

use crate::clock::now;
use crate::collections::{Collections, unreadable};
use crate::open_collection::OpenCollection;
use weir_refusal::CollectionError;

impl Collections {
    /// How the documents of a collection are split; those with vectors of their own are not.
    pub(crate) fn chunking_of(&self, settings: &CollectionSettings) -> Chunking {
        let whole =
            settings.vectors.map(|_| Chunking { policy: Some(ChunkingPolicy::None), ..Default::default() });
        self.completed(whole.or(settings.chunking).unwrap_or_default())
    }

    /// How documents are split, with the defaults of the configuration for absent numbers.
    pub(crate) fn completed(&self, chunking: Chunking) -> Chunking {
        let defaults = &self.0.config.chunking;
        chunking.completed(defaults.max_tokens, defaults.overlap_tokens)
    }

    /// The settings as the store has them: without the model of a collection that follows the default one.
    pub(crate) fn stored_settings(
        &self,
        collection: &OpenCollection,
    ) -> Result<CollectionSettings, CollectionError> {
        let settings = serde_json::from_str::<CollectionSettings>(&collection.stored.settings)
            .map_err(|error| unreadable(&collection.name, &error))?;
        Ok(CollectionSettings {
            chunking: collection.settings.chunking,
            lexical: Some(collection.lexical().sent.clone()),
            ..settings
        })
    }

    /// Splits the documents of a collection by `chunking`, which is complete, from now on: in a new generation, whose index is built from the
    /// store. What is embedded already and does not change is not embedded again. Until the index is complete, the previous one answers searches.
    /// Runs to its end, also if the caller stops waiting for it.
    ///
    /// # Errors
    /// [`CollectionError`] from the store, which refuses callers with a filter; after an error the previous settings hold.
    pub(crate) async fn rechunk(
        &self,
        caller: &Arc<Caller>,
        collection: Arc<OpenCollection>,
        chunking: Chunking,
    ) -> Result<Arc<OpenCollection>, CollectionError> {
        if caller.filter().is_some() {
            return Err(Error::NotAllowed("change how the documents of a collection are split").into());
        }
        let collections = self.clone();
        let rechunk = async move { collections.rechunk_to_the_end(&collection, chunking).await };
        tokio::spawn(rechunk).await.unwrap_or(Err(CollectionError::Stopping))
    }

    async fn rechunk_to_the_end(
        &self,
        collection: &OpenCollection,
        chunking: Chunking,
    ) -> Result<Arc<OpenCollection>, CollectionError> {
        let _changing = self.0.changing.lock().await;
        let name = collection.name.as_str();
        let Some(open) = self.get(&Caller::system(), name).filter(|open| open.id == collection.id) else {
            return Err(Error::UnknownCollection(name.to_owned()).into());
        };
        if open.settings.chunking == Some(chunking) {
            return Ok(open);
        }
        let settings = CollectionSettings { chunking: Some(chunking), ..self.stored_settings(&open)? };
        let json = serde_json::to_string(&settings).map_err(|error| unreadable(name, &error))?;
        open.stop().await;
        let changed = self.start_with_settings(&open, json).await;
        if let Err(error) = &changed {
            tracing::error!(collection = name, %error, "the documents are not split again");
        }
        // also after an error, with what the store has then
        let all = self.0.store.collections(&Caller::system()).await?;
        let Some(stored) = all.into_iter().find(|stored| stored.id == open.id) else {
            return Err(Error::UnknownCollection(name.to_owned()).into());
        };
        let reopened = self.reopen(&open, stored).await?;
        changed.map(|()| reopened)
    }

    /// Opens a collection again whose workers have ended. If it has another generation, its index answers searches until the next one is complete.
    pub(crate) async fn reopen(
        &self,
        open: &OpenCollection,
        stored: Collection,
    ) -> Result<Arc<OpenCollection>, CollectionError> {
        if stored.generation.id == open.preparer.generation {
            open.close().await;
            return self.open_stored(stored).await;
        }
        let previous = self.take_serving(open).await?;
        self.open_stored_after(stored, previous).await
    }

    /// Starts a generation, then changes the settings: a crash between the two leaves an index that is built by the previous settings.
    async fn start_with_settings(&self, open: &OpenCollection, json: String) -> Result<(), CollectionError> {
        let store = &self.0.store;
        store.start_generation(open.id, &open.preparer.fingerprint, now()).await?;
        store.view(&Caller::system(), &open.stored)?.change_settings(&json).await?;
        Ok(())
    }
}
