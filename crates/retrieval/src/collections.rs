//! The open collections: each with its index, its model and its ingest worker.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use weir_api::{CollectionSettings, EmbeddingChoice, EngineChoice, LexicalSettings, VectorSettings};
use weir_index::{CpuLimiter, EngineId, EngineSettings, Engines, EnginesInUse, IndexError, Opened};
use weir_policy::Caller;
use weir_store::{Collection, CollectionId, Store, StoreView};
use weir_text::Language;

use crate::clock::now;
use crate::ingest::Preparer;
use crate::open_collection::{LexicalInForce, OpenCollection};
use crate::shared_engines::{Waiting, kind_of};
use weir_config::Config;
use weir_inference::{LoadedModel, Models, Scheduler};
use weir_preparation::{Chunker, own_vectors};
use weir_refusal::CollectionError;
use weir_telemetry::metrics::Metrics;
use weir_upkeep::{Earlier, PreviousIndex, find_previous, hide_deleted, unusable};

/// Every open collection, by name. Cloning gives another handle to the same collections.
#[derive(Clone)]
pub struct Collections(pub(crate) Arc<CollectionsInner>);

/// The shared state of collections.
pub struct CollectionsInner {
    pub(crate) store: Store,
    pub(crate) models: Models,
    pub(crate) scheduler: Scheduler,
    pub(crate) engines: Engines,
    pub(crate) config: Arc<Config>,
    pub(crate) metrics: Metrics,
    /// The runtime of the workers, whose threads have background priority.
    background: Handle,
    open: RwLock<BTreeMap<String, Arc<OpenCollection>>>,
    /// Serialises creation and deletion.
    pub(crate) changing: tokio::sync::Mutex<()>,
    /// Wakes the sender of webhooks.
    pub(crate) webhooks_due: Arc<Notify>,
    /// Names this gateway among those of its store, until it ends.
    pub(crate) gateway: Arc<str>,
    /// The key of cursors, if the store is shared.
    pub(crate) cursor_key: Option<[u8; 32]>,
    /// Collections whose engine did not answer when they were to be opened.
    pub(crate) waiting: Waiting,
    /// Whether engines may have something of deleted collections.
    pub(crate) has_leftovers: AtomicBool,
    /// Wakes what compares indexes with the store.
    pub(crate) reconcile_asked: Notify,
    /// Ends what follows the store.
    pub(crate) stopping: CancellationToken,
}

impl Collections {
    /// Opens every collection of the store, and creates the default collection if it is missing and its model is ready.
    pub async fn open(
        store: Store,
        models: Models,
        scheduler: Scheduler,
        engines: Engines,
        config: Arc<Config>,
        metrics: Metrics,
        background: Handle,
    ) -> Result<Collections, CollectionError> {
        // later changes are notified
        let changes = store.is_shared().then(|| store.changes());
        let cursor_key = if changes.is_some() { Some(store.service().await?.cursor_key) } else { None };
        let collections = Collections(Arc::new(CollectionsInner {
            store,
            models,
            scheduler,
            engines,
            config,
            metrics,
            background,
            open: RwLock::default(),
            changing: tokio::sync::Mutex::default(),
            webhooks_due: Arc::default(),
            gateway: uuid::Uuid::new_v4().simple().to_string().into(),
            cursor_key,
            waiting: Waiting::default(),
            has_leftovers: AtomicBool::new(true),
            reconcile_asked: Notify::new(),
            stopping: CancellationToken::new(),
        }));
        collections.check_engines(collections.0.store.last_collection_id().await?).await?;
        for collection in collections.0.store.collections(&Caller::system()).await? {
            let name = collection.name.clone();
            match collections.open_stored(collection).await {
                Err(error) if error.is_engine_unavailable() => {
                    tracing::error!(collection = name, %error, "the collection is opened when its engine answers")
                }
                opened => drop(opened?),
            }
        }
        // without a model it would stay without embeddings for ever; the start does not wait for upstreams
        if collections.0.models.default_model().is_some_and(|model| model.dimension().is_some()) {
            collections.create_default().await?;
        }
        if collections.0.engines.has_shared() {
            tokio::spawn(crate::shared_engines::keep_up(collections.clone()));
            collections.in_background(crate::reconcile::keep(collections.clone()));
        }
        if let Some(changes) = changes {
            tokio::spawn(crate::follow::run(collections.clone(), changes));
            tokio::spawn(crate::lease::renew(collections.clone()));
        }
        Ok(collections)
    }

    /// Checks that no index is of a collection after the `last` of the store, which a lost store would leave behind. Ids are never reused.
    async fn check_engines(&self, last: CollectionId) -> Result<(), CollectionError> {
        let foreign = self.0.engines.foreign_after(last.0).await.map_err(CollectionError::Engines)?;
        foreign.map_or(Ok(()), |place| Err(CollectionError::NotOfStore(place)))
    }

    /// The number of open collections.
    pub fn count(&self) -> usize {
        self.0.open.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Where the indexes come from.
    pub(crate) fn engines(&self) -> &Engines {
        &self.0.engines
    }

    /// Counts of the indexes now.
    pub(crate) fn engines_in_use(&self) -> EnginesInUse {
        self.0.engines.in_use()
    }

    /// The processes of engines that are not in this process, and how many of them answer.
    pub(crate) fn engine_nodes(&self) -> (usize, usize) {
        self.0.engines.nodes()
    }

    /// The limit on the CPU work of searches, which all collections share.
    pub fn search_limiter(&self) -> &CpuLimiter {
        self.0.engines.search_limiter()
    }

    /// Opens the default collection; creates it if it is missing and the limit allows it.
    pub async fn create_default(&self) -> Result<(), CollectionError> {
        match self.create(weir_api::DEFAULT_COLLECTION, &CollectionSettings::default()).await {
            Ok(_) => Ok(()),
            Err(error @ CollectionError::TooMany { .. }) => {
                tracing::warn!(%error, "the default collection is not made");
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// The runtime whose threads have background priority.
    pub(crate) fn background(&self) -> &Handle {
        &self.0.background
    }

    /// Runs work in the background, at background priority.
    pub fn in_background(&self, work: impl Future<Output = ()> + Send + 'static) {
        self.0.background.spawn(work);
    }

    /// The open collection called `name`, if `caller` sees it.
    pub fn get(&self, caller: &Caller, name: &str) -> Option<Arc<OpenCollection>> {
        if !caller.sees(name) {
            return None;
        }
        self.0.open.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Every collection that `caller` sees, by name.
    pub fn all(&self, caller: &Caller) -> Vec<Arc<OpenCollection>> {
        let open = self.0.open.read().unwrap_or_else(PoisonError::into_inner);
        open.values().filter(|collection| caller.sees(&collection.name)).cloned().collect()
    }

    /// The model of `settings`; `None` for a text-only collection.
    ///
    /// # Errors
    /// The name of a model that is not configured.
    pub fn model_for(&self, settings: &CollectionSettings) -> Result<Option<Arc<LoadedModel>>, String> {
        if settings.embedding == Some(EmbeddingChoice::None) || settings.vectors.is_some() {
            return Ok(None);
        }
        let models = &self.0.models;
        match &settings.model {
            None => Ok(models.default_model().cloned()),
            Some(name) => models.get(name).cloned().map(Some).ok_or_else(|| name.clone()),
        }
    }

    /// Opens the collection called `name`; creates it with `settings` if it is missing, and returns `true` then. After an error nothing is
    /// stored. Runs to its end, also if the caller stops waiting for it.
    pub async fn create(
        &self,
        name: &str,
        settings: &CollectionSettings,
    ) -> Result<(Arc<OpenCollection>, bool), CollectionError> {
        let (collections, name, settings) = (self.clone(), name.to_owned(), settings.clone());
        let create = async move { collections.create_to_the_end(&name, &settings).await };
        tokio::spawn(create).await.unwrap_or(Err(CollectionError::Stopping))
    }

    async fn create_to_the_end(
        &self,
        name: &str,
        settings: &CollectionSettings,
    ) -> Result<(Arc<OpenCollection>, bool), CollectionError> {
        let _changing = self.0.changing.lock().await;
        if let Some(open) = self.get(&Caller::system(), name) {
            return Ok((open, false));
        }
        self.check_waiting(&Caller::system(), name)?;
        let limit = self.0.config.limits.collections_max;
        if self.count() >= limit {
            return Err(CollectionError::TooMany { limit });
        }
        let settings = self.pinned(settings);
        let model = self.model_for(&settings).map_err(|model| no_model(name, model))?;
        learn_dimension(name, model.as_deref()).await?;
        let fingerprint = fingerprint_of(&settings, model.as_deref());
        let json = serde_json::to_string(&settings).map_err(|error| unreadable(name, &error))?;
        let (collection, created) = self.0.store.create_collection(name, &json, &fingerprint, now()).await?;
        match self.open_stored(collection.clone()).await {
            Ok(open) => Ok((open, created)),
            Err(error) => {
                if created {
                    self.undo_creation(&collection).await;
                }
                Err(error)
            }
        }
    }

    /// Deletes a collection that was created but could not be opened. Nobody else has seen it.
    async fn undo_creation(&self, collection: &Collection) {
        let view = self.0.store.view(&Caller::system(), collection);
        let deleted = match view {
            Ok(view) => view.delete_collection(now()).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = deleted {
            tracing::error!(collection = collection.name, %error, "a collection that could not be opened stays in the store, empty");
        }
        self.0.waiting.remove(&collection.name);
        if let Err(error) = self.delete_engines_of(collection, true).await {
            tracing::warn!(collection = collection.name, %error, "the index of no collection stays");
        }
    }

    /// Deletes a collection from the store and then its index; `false` if it is missing.
    ///
    /// # Errors
    /// [`CollectionError`]; after an error of the index the collection is deleted all the same.
    pub async fn delete(&self, caller: &Caller, name: &str) -> Result<bool, CollectionError> {
        let _changing = self.0.changing.lock().await;
        let Some(collection) = self.get(caller, name) else {
            return Ok(self.delete_waiting(caller, name).await?.unwrap_or(false));
        };
        let deleted = self.0.store.view(caller, &collection.stored)?.delete_collection(now()).await?;
        self.0.webhooks_due.notify_one();
        self.remove(name);
        collection.close().await;
        let is_shared = collection.engine_id.kind.is_shared() || collection.earlier.is_left();
        self.delete_engines_of(&collection.stored, is_shared).await?;
        tracing::info!(collection = name, "collection deleted; its unfinished ingest jobs are cancelled");
        Ok(deleted)
    }

    /// Takes a collection out of the open ones.
    pub(crate) fn remove(&self, name: &str) {
        self.0.open.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// The fingerprint that a stored collection has with the models of this gateway.
    ///
    /// # Errors
    /// [`CollectionError`]: for settings that can't be read, and a model that this gateway does not have.
    pub(crate) async fn fingerprint_for(&self, stored: &Collection) -> Result<String, CollectionError> {
        let settings: CollectionSettings =
            serde_json::from_str(&stored.settings).map_err(|error| unreadable(&stored.name, &error))?;
        let model = self.model_for(&settings).map_err(|model| no_model(&stored.name, model))?;
        learn_dimension(&stored.name, model.as_deref()).await?;
        Ok(fingerprint_of(&settings, model.as_deref()))
    }

    /// Stops all workers and closes all indexes. Acknowledged operations stay in the store.
    pub async fn close(&self) {
        self.0.stopping.cancel();
        let _changing = self.0.changing.lock().await;
        let open = std::mem::take(&mut *self.0.open.write().unwrap_or_else(PoisonError::into_inner));
        for collection in open.values() {
            collection.closing.cancel();
        }
        for collection in open.values() {
            collection.close().await;
        }
    }

    /// The settings with the defaults of the configuration filled in, so that later changes of the configuration do not apply.
    fn pinned(&self, settings: &CollectionSettings) -> CollectionSettings {
        let config = &self.0.config;
        CollectionSettings {
            model: settings.model.clone(),
            embedding: settings.embedding,
            engine: settings.engine.filter(|engine| *engine != EngineChoice::Embedded),
            language: Some(language_of(settings, config).name().to_owned()),
            vectors: settings
                .vectors
                .map(|vectors| VectorSettings { metric: Some(vectors.metric()), ..vectors }),
            chunking: Some(self.chunking_of(settings)),
            keep_originals: settings.keep_originals,
            lexical: settings.lexical.clone(),
        }
    }

    /// Replaces the settings of lexical retrieval; the next search uses them.
    ///
    /// # Errors
    /// [`CollectionError`] from the store, after which the previous settings hold; it refuses callers with a filter.
    pub async fn change_lexical(
        &self,
        collection: &OpenCollection,
        store: &StoreView,
        lexical: &LexicalSettings,
    ) -> Result<(), CollectionError> {
        let _changing = self.0.changing.lock().await;
        let settings =
            CollectionSettings { lexical: Some(lexical.clone()), ..self.stored_settings(collection)? };
        let json = serde_json::to_string(&settings).map_err(|error| unreadable(&collection.name, &error))?;
        store.change_settings(&json, collection.preparer.generation).await?;
        collection.set_lexical(LexicalInForce::new(lexical.clone(), collection.language()));
        Ok(())
    }

    /// Whether `settings`, as a request has them, are those that a collection with a fingerprint has, apart from those that can be changed.
    pub(crate) fn are_settings(
        &self,
        (has, fingerprint): (&CollectionSettings, &str),
        settings: &CollectionSettings,
    ) -> bool {
        let model = self.model_for(settings);
        model.is_ok_and(|model| fingerprint_of(settings, model.as_deref()) == fingerprint)
            && self.pinned(settings).language == has.language
            && settings.keep_originals == has.keep_originals
    }

    pub(crate) async fn open_stored(
        &self,
        stored: Collection,
    ) -> Result<Arc<OpenCollection>, CollectionError> {
        self.open_stored_after(stored, None).await
    }

    /// The same; `previous` answers searches until the index is complete. Without it, that index is looked for. If the engine does not answer, the
    /// collection is opened when it does.
    pub(crate) async fn open_stored_after(
        &self,
        stored: Collection,
        previous: Option<PreviousIndex>,
    ) -> Result<Arc<OpenCollection>, CollectionError> {
        let opened = self.open_now(stored.clone(), previous).await;
        match &opened {
            Ok(_) => self.0.waiting.remove(&stored.name),
            Err(error) if error.is_engine_unavailable() => {
                self.remove(&stored.name);
                self.0.waiting.add(stored);
            }
            Err(_) => {}
        }
        opened
    }

    async fn open_now(
        &self,
        stored: Collection,
        previous: Option<PreviousIndex>,
    ) -> Result<Arc<OpenCollection>, CollectionError> {
        let name = stored.name.clone();
        let mut settings: CollectionSettings =
            serde_json::from_str(&stored.settings).map_err(|error| unreadable(&name, &error))?;
        let model = self.model_for(&settings).map_err(|model| no_model(&name, model))?;
        learn_dimension(&name, model.as_deref()).await?;
        let fingerprint = fingerprint_of(&settings, model.as_deref());
        let stored = self.matching_generation(stored, &fingerprint).await?;
        let language = language_of(&settings, &self.0.config);
        let chunking = self.chunking_of(&settings);
        // those of earlier versions have no policy
        settings.chunking = Some(chunking);
        let (vectors, chunker) = (settings.vectors, Chunker::new(&chunking, model.clone()));
        let engine_settings = self.engine_settings(&settings, model.as_deref(), &fingerprint);
        let (collection, generation) = (stored.id.0, stored.generation.id.0);
        let engine_id = EngineId { kind: kind_of(&settings), collection, generation };
        let others_apply = engine_id.kind.is_shared() && self.0.store.is_shared();
        let index_error = |source| CollectionError::Index { collection: name.clone(), source };
        let mut opened =
            self.open_index(engine_id, &engine_settings, stored.last_operation).await.map_err(index_error)?;
        let documents = self.0.store.view(&Caller::system(), &stored)?;
        if let Some(reason) = unusable(&stored, &documents, &opened.engine, others_apply, index_error).await?
        {
            tracing::warn!(collection = name, "{reason}: it is rebuilt");
            opened.engine.close().await.map_err(index_error)?;
            drop(opened);
            self.0.engines.delete(engine_id).await.map_err(index_error)?;
            opened = self
                .open_index(engine_id, &engine_settings, stored.last_operation)
                .await
                .map_err(index_error)?;
        }
        if let Some(reason) = &opened.rebuilt
            && stored.generation.applied_seq > 0
        {
            tracing::warn!(collection = name, %reason, "the index is rebuilt from the store");
        }
        let engine = opened.engine;
        if engine.applied_seq() < stored.last_operation {
            match hide_deleted(&documents, &engine, engine.applied_seq(), index_error).await {
                Err(CollectionError::Store(error @ weir_store::Error::Damaged { .. })) => {
                    tracing::warn!(collection = name, %error, "an operation cannot be read: the index is rebuilt");
                    match engine.discard().await {
                        Ok(()) | Err(IndexError::Lost { .. }) => {}
                        Err(error) => return Err(index_error(error)),
                    }
                }
                hidden => drop(hidden?),
            }
        }
        let is_empty = engine.is_empty().await.map_err(index_error)?;
        let rebuild_until = stored.generation.applied_seq.max(stored.generation.complete_from);
        let previous = match previous {
            Some(previous) => Some(previous),
            None => {
                let is_needed = engine.applied_seq() < rebuild_until;
                let is_wanted = (is_needed, self.0.store.is_shared());
                let open = |id| {
                    let opening = self.open_index(id, &engine_settings, stored.last_operation);
                    async move { Ok(opening.await?.engine) }
                };
                find_previous(&self.0.engines, &stored, engine_id, &documents, is_wanted, open).await?
            }
        };
        let lexical = LexicalInForce::new(settings.lexical.take().unwrap_or_default(), language);
        settings.model = settings.model.or_else(|| model.as_ref().map(|model| model.id.clone()));
        let open = Arc::new(OpenCollection {
            id: stored.id,
            stored: stored.clone(),
            name: name.clone(),
            settings,
            lexical: RwLock::new(Arc::new(lexical)),
            created_at: stored.created_at,
            preparer: Preparer {
                store: self.0.store.clone(),
                documents,
                scheduler: self.0.scheduler.clone(),
                model,
                fingerprint,
                generation: stored.generation.id,
                vectors,
                chunker,
                lease: Arc::default(),
                gateway: self.0.gateway.clone(),
            },
            ingest: self.0.config.ingest.clone(),
            compact_after: Duration::from_secs(self.0.config.index.compact_after_s),
            metrics: self.0.metrics.clone(),
            operations_added: Notify::new(),
            is_told: AtomicBool::new(false),
            wants_lease: AtomicBool::new(false),
            feedback_changed: Notify::new(),
            closing: CancellationToken::new(),
            accepted: AtomicU64::new(stored.last_operation),
            lost_operation: AtomicU64::new(0),
            rebuild_until,
            empty_at: AtomicU64::new(if is_empty { stored.last_operation } else { 0 }),
            applied_seq: watch::Sender::new(engine.applied_seq()),
            progress: weir_preparation::IngestProgress::new(engine.applied_seq()),
            cancellations: crate::ingest::Cancellations::default(),
            failure: Mutex::default(),
            webhooks_due: self.0.webhooks_due.clone(),
            job_log: weir_upkeep::JobLog::default(),
            workers: Mutex::default(),
            engines: self.0.engines.clone(),
            engine_id,
            earlier: Earlier::new(
                engine_id.kind.is_shared() || previous.as_ref().is_some_and(PreviousIndex::is_shared),
            ),
            has_searched_earlier: previous.is_some(),
            previous: RwLock::new(previous),
            engine,
        });
        // so that relevance is the same before and after a restart
        crate::feedback_worker::calibrate(&open, &self.0.config.search).await?;
        let background = &self.0.background;
        let workers = vec![
            background.spawn(crate::ingest::run(open.clone())),
            background.spawn(crate::feedback_worker::run(open.clone(), self.0.config.search.clone())),
        ];
        *open.workers.lock().unwrap_or_else(PoisonError::into_inner) = workers;
        self.0.open.write().unwrap_or_else(PoisonError::into_inner).insert(name, open.clone());
        Ok(open)
    }

    /// The settings with which an engine is opened.
    pub(crate) fn engine_settings(
        &self,
        settings: &CollectionSettings,
        model: Option<&LoadedModel>,
        fingerprint: &str,
    ) -> EngineSettings {
        EngineSettings {
            dimension: match &settings.vectors {
                Some(vectors) => vectors.dimension.get_u32() as usize,
                None => model.and_then(LoadedModel::dimension).unwrap_or(0),
            },
            language: language_of(settings, &self.0.config),
            fingerprint: fingerprint.to_owned(),
            writer_memory_bytes: self.0.config.index.writer_memory_bytes,
        }
    }

    pub(crate) async fn open_index(
        &self,
        id: EngineId,
        settings: &EngineSettings,
        last_operation: u64,
    ) -> Result<Opened, IndexError> {
        let (engines, settings) = (self.0.engines.clone(), settings.clone());
        // others may have applied more since that was read; `unusable` compares
        let last_operation =
            if id.kind.is_shared() && self.0.store.is_shared() { u64::MAX } else { last_operation };
        // the threads of an index inherit the priority of the thread that opens it
        let opening = async move { engines.open(id, settings, last_operation).await };
        self.0.background.spawn(opening).await.unwrap_or(Err(IndexError::Interrupted))
    }

    /// The collection with a generation for `fingerprint`; a new one if the model has changed.
    async fn matching_generation(
        &self,
        stored: Collection,
        fingerprint: &str,
    ) -> Result<Collection, CollectionError> {
        if stored.generation.fingerprint == fingerprint {
            return Ok(stored);
        }
        tracing::warn!(
            collection = stored.name,
            from = stored.generation.fingerprint,
            to = fingerprint,
            "the model has changed: a new generation is embedded"
        );
        let started = self.0.store.start_generation(stored.id, fingerprint, now()).await?;
        // other gateways may still search those that all use
        self.delete_engines_of(&stored, false).await?;
        Ok(started.unwrap_or(stored))
    }
}

/// The fingerprint of a collection's model, or of the embeddings that its documents bring; empty without embeddings.
fn fingerprint_of(settings: &CollectionSettings, model: Option<&LoadedModel>) -> String {
    match &settings.vectors {
        Some(vectors) => own_vectors::fingerprint(vectors),
        None => model.map(LoadedModel::fingerprint).unwrap_or_default(),
    }
}

/// Asks the model's upstream for its dimension, if that is unknown.
async fn learn_dimension(name: &str, model: Option<&LoadedModel>) -> Result<(), CollectionError> {
    let Some(model) = model else { return Ok(()) };
    let error = |source| CollectionError::Inference { collection: name.to_owned(), source };
    model.fetch_dimension().await.map_err(error)
}

/// The language of the settings, or the configured one.
fn language_of(settings: &CollectionSettings, config: &Config) -> Language {
    settings.language.as_deref().and_then(Language::parse).unwrap_or(config.collections.language)
}

fn no_model(collection: &str, model: String) -> CollectionError {
    CollectionError::NoModel { collection: collection.to_owned(), model }
}

pub(crate) fn unreadable(collection: &str, error: &serde_json::Error) -> CollectionError {
    CollectionError::Settings { collection: collection.to_owned(), reason: error.to_string() }
}
