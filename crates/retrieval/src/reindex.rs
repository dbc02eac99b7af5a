//! Changes of a collection that need another index: how its documents are split, and the engine that its index is in.

use std::sync::Arc;
use std::time::Duration;

use weir_api::{Chunking, ChunkingPolicy, CollectionSettings, EngineChoice, LexicalSettings};
use weir_policy::Caller;
use weir_store::{Collection, CollectionId, Error};

use crate::clock::now;
use crate::collections::{Collections, unreadable};
use crate::ingest::Preparer;
use crate::open_collection::OpenCollection;
use crate::shared_engines::kind_of;
use weir_refusal::CollectionError;

/// How often a collection is opened again where that fails.
const REOPEN_EVERY: Duration = Duration::from_secs(1);

/// The settings by which the index of a collection is made from now on.
#[derive(Debug, Clone)]
pub(crate) struct IndexSettings {
    /// Complete.
    pub(crate) chunking: Chunking,
    pub(crate) engine: Option<EngineChoice>,
    /// The settings in force from then on: another engine may not have the settings of before.
    pub(crate) lexical: LexicalSettings,
}

impl IndexSettings {
    fn with_others_of(self, settings: CollectionSettings) -> CollectionSettings {
        let IndexSettings { chunking, engine, lexical } = self;
        let engine = engine.filter(|engine| *engine != EngineChoice::Embedded);
        CollectionSettings { chunking: Some(chunking), engine, lexical: Some(lexical), ..settings }
    }
}

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

    /// Makes the index of a collection by other settings from now on: in a new generation, built from the store. What is embedded already and does not
    /// change is not embedded again. Until the index is complete, the previous one answers searches. Runs to its end, also if the caller stops
    /// waiting for it.
    ///
    /// # Errors
    /// [`CollectionError`] from the store and the engine, after which the previous settings hold; callers with a filter are refused.
    pub(crate) async fn reindex(
        &self,
        caller: &Arc<Caller>,
        collection: Arc<OpenCollection>,
        settings: IndexSettings,
    ) -> Result<Arc<OpenCollection>, CollectionError> {
        check_unfiltered(caller)?;
        let collections = self.clone();
        let reindex = async move { collections.reindex_to_the_end(&collection, settings).await };
        tokio::spawn(reindex).await.unwrap_or(Err(CollectionError::Stopping))
    }

    async fn reindex_to_the_end(
        &self,
        collection: &OpenCollection,
        settings: IndexSettings,
    ) -> Result<Arc<OpenCollection>, CollectionError> {
        let _changing = self.0.changing.lock().await;
        let name = collection.name.as_str();
        let Some(open) = self.get(&Caller::system(), name).filter(|open| open.id == collection.id) else {
            return Err(Error::UnknownCollection(name.to_owned()).into());
        };
        // what is wanted was compared with the settings of then
        if self.stored_now(open.id, name).await?.generation.id != collection.preparer.generation {
            return Err(Error::Conflict.into());
        }
        let chunking = Some(settings.chunking);
        let settings = settings.with_others_of(self.stored_settings(&open)?);
        if open.settings.chunking == chunking && open.engine_id.kind == kind_of(&settings) {
            return Ok(open);
        }
        self.prepare_engine(&open, &settings).await?;
        let json = serde_json::to_string(&settings).map_err(|error| unreadable(name, &error))?;
        open.stop().await;
        let fingerprint = &open.preparer.fingerprint;
        let changed = self.0.store.start_generation_with(open.id, fingerprint, &json, now()).await;
        if let Err(error) = &changed {
            tracing::error!(collection = name, %error, "the index is not made again");
        }
        // also after an error, with what the store has then
        let reopened = self.reopen_stored(&open).await;
        if reopened.is_err() {
            self.reopen_later(open);
        }
        changed?;
        reopened
    }

    async fn reopen_stored(&self, open: &OpenCollection) -> Result<Arc<OpenCollection>, CollectionError> {
        let stored = self.stored_now(open.id, &open.name).await?;
        self.reopen(open, stored).await
    }

    /// Tries to open a collection again whose workers have ended, until that succeeds: as long, its index answers searches and changes wait. One that
    /// waits for its engine is opened when that answers.
    fn reopen_later(&self, open: Arc<OpenCollection>) {
        let collections = self.clone();
        self.in_background(async move {
            loop {
                tokio::select! {
                    () = collections.0.stopping.cancelled() => return,
                    () = tokio::time::sleep(REOPEN_EVERY) => {}
                }
                let _changing = collections.0.changing.lock().await;
                let now = collections.get(&Caller::system(), &open.name);
                if !now.is_some_and(|now| Arc::ptr_eq(&now, &open)) {
                    return;
                }
                match collections.reopen_stored(&open).await {
                    Ok(_) => return,
                    Err(error) => {
                        tracing::error!(collection = open.name, %error, "the collection can't be opened again yet");
                    }
                }
            }
        });
    }

    /// Moves a collection out of an engine that has not answered since the start. `None` if it does not wait for one.
    ///
    /// # Errors
    /// As [`Collections::reindex`]; `Waiting` if it is to stay in that engine, or has other settings.
    pub(crate) async fn move_waiting(
        &self,
        caller: &Caller,
        name: &str,
        wanted: &CollectionSettings,
    ) -> Result<Option<Arc<OpenCollection>>, CollectionError> {
        check_unfiltered(caller)?;
        let _changing = self.0.changing.lock().await;
        let Some(waiting) = self.0.waiting.get(caller, name) else { return Ok(None) };
        let stored = self.stored_now(waiting.id, name).await?;
        let has: CollectionSettings =
            serde_json::from_str(&stored.settings).map_err(|error| unreadable(name, &error))?;
        let is_same = self.are_settings((&has, &stored.generation.fingerprint), wanted);
        if !is_same || kind_of(wanted) == kind_of(&has) || kind_of(wanted).is_shared() {
            return Err(CollectionError::Waiting { collection: name.to_owned() });
        }
        let chunking = self.chunking_of(&has);
        let lexical = wanted.lexical.clone().or(has.lexical.clone()).unwrap_or_default();
        let settings = IndexSettings { chunking, engine: wanted.engine, lexical }.with_others_of(has);
        let json = serde_json::to_string(&settings).map_err(|error| unreadable(name, &error))?;
        let fingerprint = &stored.generation.fingerprint;
        self.0.store.start_generation_with(stored.id, fingerprint, &json, now()).await?;
        let open = self.open_stored(self.stored_now(stored.id, name).await?).await?;
        open.earlier.note_left();
        Ok(Some(open))
    }

    async fn stored_now(&self, id: CollectionId, name: &str) -> Result<Collection, CollectionError> {
        let all = self.0.store.collections(&Caller::system()).await?;
        let stored = all.into_iter().find(|stored| stored.id == id);
        stored.ok_or_else(|| Error::UnknownCollection(name.to_owned()).into())
    }

    /// Checks that the index of a collection can be opened by other settings, as long as it is open by those of now.
    pub(crate) async fn prepare_engine(
        &self,
        open: &OpenCollection,
        settings: &CollectionSettings,
    ) -> Result<(), CollectionError> {
        let Preparer { model, fingerprint, .. } = &open.preparer;
        let kind = kind_of(settings);
        if !self.engines().has(kind) {
            return Err(CollectionError::NoEngine { collection: open.name.clone() });
        }
        let engine_settings = self.engine_settings(settings, model.as_deref(), fingerprint);
        let prepared = self.engines().prepare(kind, &engine_settings).await;
        prepared.map_err(|source| CollectionError::Index { collection: open.name.clone(), source })
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
        let opened = self.open_stored_after(stored, previous).await?;
        if open.earlier.is_left() || open.engine_id.kind != opened.engine_id.kind {
            opened.earlier.note_left();
        }
        Ok(opened)
    }
}

fn check_unfiltered(caller: &Caller) -> Result<(), CollectionError> {
    match caller.filter() {
        Some(_) => Err(Error::NotAllowed("move a collection, or change how its documents are split").into()),
        None => Ok(()),
    }
}
