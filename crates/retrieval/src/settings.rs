//! Collections: created, shown and deleted.

use std::sync::Arc;

use weir_api::{
    CollectionReply, CollectionSettings, DeletedReply, ErrorCode, Invalid, List, check_collection_name,
    require,
};
use weir_policy::Caller;
use weir_telemetry::CollectionGauges;
use weir_text::Language;

use crate::models::embedder;
use crate::open_collection::OpenCollection;
use crate::reindex::IndexSettings;
use crate::shared_engines::kind_of;
use crate::{Result, Retrieval};
use weir_refusal::RequestError;

/// Settings of an existing collection that may be changed although its index is built again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reindexing {
    /// How its documents are split.
    pub rechunk: bool,
    /// The engine that its index is in.
    pub r#move: bool,
}

/// The remedy for other settings of an existing collection.
const RECHUNK: &str = "; to split its documents again by other `chunking`, send it with `?rechunk=true`: searches find the chunks of now until all are split and embedded";
const MOVE: &str = "; to move its index to another `engine`, send it with `?move=true`: the index of now answers searches until the next one is complete";
impl Retrieval {
    /// The collections that the caller may see, by name.
    pub async fn collection_list(&self, caller: &Arc<Caller>) -> Result<List<CollectionReply>> {
        let mut all = Vec::new();
        for view in self.views(caller)? {
            all.push(view.describe_in_list().await?);
        }
        all.extend(self.collections.waiting(caller));
        all.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(List::whole(all))
    }

    /// One collection.
    ///
    /// # Errors
    /// `collection_not_found`.
    pub async fn collection(&self, caller: &Arc<Caller>, name: &str) -> Result<CollectionReply> {
        match self.collections.waiting(caller).into_iter().find(|waiting| waiting.name == name) {
            Some(waiting) => Ok(waiting),
            None => self.view(caller, name)?.describe_now().await,
        }
    }

    /// Creates a collection, or checks that the existing one has these settings and changes those of lexical retrieval; `true` if it was
    /// created. With `reindexing`, its index is made again by other chunking, or in another engine.
    ///
    /// # Errors
    /// `invalid_parameter`, `model_not_found`; `collection_conflict` if it has other settings; `insufficient_scope` for changes by a caller with
    /// a filter; `engine_unavailable`; store errors.
    pub async fn put_collection(
        &self,
        caller: &Arc<Caller>,
        name: &str,
        settings: &CollectionSettings,
        reindexing: Reindexing,
    ) -> Result<(CollectionReply, bool)> {
        check_collection_name(name)?;
        require(
            !reindexing.rechunk || settings.chunking.is_some(),
            &["chunking"],
            || "`rechunk` splits documents by `chunking`, which the body lacks; send it, or leave out `rechunk`",
        )?;
        require(
            !reindexing.r#move || settings.engine.is_some(),
            &["engine"],
            || "`move` moves the index to `engine`, which the body lacks; send it, or leave out `move`",
        )?;
        self.check_settings(caller, settings)?;
        if !caller.sees(name) {
            return Err(RequestError::no_collection(name));
        }
        let moved = match reindexing.r#move {
            true => match self.collections.move_waiting(caller, name, settings).await? {
                Some(moved) => Some(moved),
                // a name with a mistake in it makes no collection
                None => self.view(caller, name).map(|_| None)?,
            },
            false => None,
        };
        let (mut collection, created) = match moved {
            Some(moved) => (moved, false),
            None => self.collections.create(name, settings).await?,
        };
        if let Some(wanted) = self.index_settings(caller, &collection, settings, reindexing).await? {
            collection = self.collections.reindex(caller, collection, wanted).await?;
        }
        let view = self.view(caller, name)?;
        let new_lexical = settings.lexical.as_ref().filter(|sent| **sent != collection.lexical().sent);
        if let Some(lexical) = new_lexical {
            self.collections.change_lexical(&collection, view.store(), lexical).await?;
        }
        // a new collection is empty, and must not be answered with an error
        let shown = if created { view.describe((0, 0)) } else { view.describe_now().await? };
        Ok((shown, created))
    }

    /// The settings by which the index of a collection is to be made again; `None` if it has been made by them.
    ///
    /// # Errors
    /// `collection_conflict` if `reindexing` does not allow that, or other settings differ; `invalid_parameter` for what the engine does not have.
    async fn index_settings(
        &self,
        caller: &Arc<Caller>,
        collection: &Arc<OpenCollection>,
        settings: &CollectionSettings,
        reindexing: Reindexing,
    ) -> Result<Option<IndexSettings>> {
        let view = self.view(caller, &collection.name)?;
        let conflict = |remedy: &str| {
            let has = serde_json::to_string(view.settings()).unwrap_or_default();
            let message = format!("collection `{}` exists with other settings: {has}{remedy}", view.name());
            RequestError::new(ErrorCode::CollectionConflict, message)
        };
        let has = (&collection.settings, collection.preparer.fingerprint.as_str());
        if !self.collections.are_settings(has, settings) {
            return Err(conflict(""));
        }
        let is_moved = kind_of(settings) != collection.engine_id.kind;
        if is_moved && !reindexing.r#move {
            return Err(conflict(MOVE));
        }
        let chunking = match (settings.chunking, collection.settings.chunking) {
            (None, Some(chunking)) if reindexing.r#move => chunking,
            _ => self.collections.chunking_of(settings),
        };
        let is_split_otherwise = collection.settings.chunking != Some(chunking);
        if !is_moved && !is_split_otherwise {
            return Ok(None);
        }
        if is_split_otherwise && !reindexing.rechunk {
            let is_empty =
                async || Ok::<_, RequestError>(view.store().documents_after("", 1, 1).await?.0.is_empty());
            if settings.chunking.is_none() || view.is_filtered() || !is_empty().await? {
                return Err(conflict(RECHUNK));
            }
        }
        let lexical = settings.lexical.clone().unwrap_or_else(|| collection.lexical().sent.clone());
        let engine = settings.engine;
        let wanted = CollectionSettings { engine, lexical: Some(lexical.clone()), ..settings.clone() };
        self.collections.check_engine(&wanted)?;
        Ok(Some(IndexSettings { chunking, engine, lexical }))
    }

    /// Deletes a collection and everything in it.
    ///
    /// # Errors
    /// `collection_not_found`; store and file system errors.
    pub async fn delete_collection(&self, caller: &Caller, name: &str) -> Result<DeletedReply> {
        if self.collections.delete(caller, name).await? {
            return Ok(DeletedReply { deleted: true, chunks: None, operation: None });
        }
        Err(RequestError::no_collection(name))
    }

    /// The failing parts of the gateway, in words; empty when it is ready. With `names_collections` it says which collections.
    pub fn failing_parts(&self, names_collections: bool) -> Vec<String> {
        let store = self.store.check().err().filter(|_| self.without_database().is_none());
        let mut failing: Vec<String> = store.iter().map(ToString::to_string).collect();
        let damaged = self.models.damaged().into_iter();
        failing.extend(damaged.map(|model| {
            format!("the packed weights of model `{model}` were truncated; start weir again, which packs them again")
        }));
        for collection in self.collections.all(&Caller::system()) {
            let name = &collection.name;
            if collection.is_unsearchable() {
                failing.push(match names_collections {
                    true => format!("the index of collection `{name}` is being rebuilt"),
                    false => "the index of a collection is being rebuilt".to_owned(),
                });
            }
            if let Some(failure) = collection.failure().filter(|failure| !failure.is_alike) {
                failing.push(match names_collections {
                    true => format!("ingest into collection `{name}` fails: {}", failure.reason),
                    false => "ingest into a collection fails; ask with the key of an administrator without restrictions, or see the log".to_owned(),
                });
            }
        }
        failing.dedup();
        failing
    }

    /// Why the database that this gateway shares with others can't be reached, if it can't. It answers searches meanwhile, as do the others, and stays
    /// ready.
    pub fn without_database(&self) -> Option<String> {
        let failure = self.store.check().err().filter(|_| self.store.is_shared());
        failure.filter(|error| error.retry_after().is_some()).map(|error| error.to_string())
    }

    /// The rows of the store that were found damaged and skipped, each by its kind and name.
    pub fn damaged_rows(&self) -> Vec<String> {
        self.store.damaged_rows()
    }

    /// The number of searchable documents in all collections.
    pub async fn document_count(&self) -> u64 {
        let mut count = 0;
        for collection in self.collections.all(&Caller::system()) {
            // one whose engine does not answer has no searchable documents now
            count += collection.engine.counts().await.map_or(0, |counts| counts.documents);
        }
        count
    }

    /// The gauges of every collection that the caller may see.
    pub async fn gauges(&self, caller: &Arc<Caller>) -> Result<Vec<CollectionGauges>> {
        self.metrics.damaged_rows(self.damaged_rows().len());
        self.metrics.store_up(self.store.check().is_ok());
        let in_use = self.collections.engines_in_use();
        self.metrics.indexes_open(in_use.open);
        self.metrics.index_copies(in_use.copies);
        self.metrics.table("filter_results", in_use.filter_cache_bytes, in_use.filter_cache_bytes_max);
        let [bytes, bytes_max] = in_use.point_cache_bytes;
        self.metrics.table("qdrant_points", bytes, bytes_max);
        let (nodes, answering) = self.collections.engine_nodes();
        self.metrics.qdrant_nodes(nodes, answering);
        let mut gauges = Vec::new();
        for view in self.views(caller)? {
            gauges.push(view.gauges().await?);
        }
        Ok(gauges)
    }

    fn check_settings(&self, caller: &Caller, settings: &CollectionSettings) -> Result<()> {
        let defaults = &self.config.chunking;
        settings.check(defaults.max_tokens, defaults.overlap_tokens)?;
        self.collections.check_engine(settings)?;
        settings.model.as_ref().map(|name| embedder(&self.models, caller, name)).transpose()?;
        match &settings.language {
            Some(name) if Language::parse(name).is_none() => {
                let accepted: Vec<&str> = Language::all().iter().map(|language| language.name()).collect();
                let message = format!(
                    "language is `{}`; it must be one of {}",
                    name.escape_debug(),
                    accepted.join(", ")
                );
                Err(Invalid::at(ErrorCode::InvalidParameter, &["language"], message).into())
            }
            Some(_) | None => Ok(()),
        }
    }
}
