//! The index of a collection from before its documents were split again, or it was moved to another engine. It answers searches until the next one is
//! complete.
//!
//! Nothing is applied to it any more: a document that is replaced meanwhile is found in its earlier version, as long as the later one waits for
//! the documents before it. A document that is deleted is hidden in it at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use weir_index::{Engine, EngineId, EngineSettings, Engines, IndexError};
use weir_store::{Collection, GenerationId, StoreView};

use crate::collections::Collections;
use crate::open_collection::OpenCollection;
use weir_refusal::CollectionError;
use weir_upkeep::{hide_deleted, unusable};

/// An index to which nothing is applied any more.
#[derive(Clone)]
pub(crate) struct PreviousIndex(Arc<Inner>);

struct Inner {
    engine: Engine,
    id: EngineId,
    engines: Engines,
    /// The deletions of the operations up to this one are hidden.
    hidden_to: AtomicU64,
}

/// The index that answers searches.
#[derive(Clone)]
pub(crate) struct ServingIndex {
    pub(crate) engine: Engine,
    pub(crate) generation: GenerationId,
    /// Whether it is that of before.
    pub(crate) is_previous: bool,
}

impl PreviousIndex {
    /// Of an engine that is closed for changes. `None` if it has nothing to show.
    async fn of(engine: Engine, id: EngineId, engines: Engines) -> Result<Option<PreviousIndex>, IndexError> {
        // an index whose files are not open can't be searched when it is closed
        let opened = engine.ensure_open().await;
        engine.close().await?;
        let hidden_to = AtomicU64::new(engine.applied_seq());
        let is_usable = opened.is_ok() && engine.applied_seq() > 0;
        Ok(is_usable.then(|| PreviousIndex(Arc::new(Inner { engine, id, engines, hidden_to }))))
    }

    /// Whether all gateways use it.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.id.kind.is_shared()
    }

    /// Hides the documents of the deletions after those that are hidden.
    async fn hide_deleted(
        &self,
        documents: &StoreView,
        index_error: impl Fn(IndexError) -> CollectionError,
    ) -> Result<(), CollectionError> {
        let after = self.0.hidden_to.load(Ordering::Relaxed);
        let hidden_to = hide_deleted(documents, &self.0.engine, after, index_error).await?;
        self.0.hidden_to.fetch_max(hidden_to, Ordering::Relaxed);
        Ok(())
    }
}

impl OpenCollection {
    /// The index that answers searches.
    pub(crate) fn serving(&self) -> ServingIndex {
        match self.previous().filter(|_| self.is_rebuilding()) {
            Some(previous) => ServingIndex {
                engine: previous.0.engine.clone(),
                generation: GenerationId(previous.0.id.generation),
                is_previous: true,
            },
            None => ServingIndex {
                engine: self.engine.clone(),
                generation: self.preparer.generation,
                is_previous: false,
            },
        }
    }

    /// The index of before, until it is retired.
    fn previous(&self) -> Option<PreviousIndex> {
        self.previous.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn take_previous(&self) -> Option<PreviousIndex> {
        self.previous.write().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether searches are refused, because they would miss documents.
    pub(crate) fn is_unsearchable(&self) -> bool {
        // in this order: it is removed when the index is complete
        self.previous().is_none() && self.is_rebuilding()
    }

    /// Hides a document that was deleted by `operation` in every index that answers searches, now or soon.
    pub(crate) async fn hide(&self, document_id: &str, operation: u64) -> Result<bool, IndexError> {
        if let Some(previous) = self.previous() {
            match previous.0.engine.remove_now(document_id, operation).await {
                // one that does not answer shows it no more when it does
                Ok(_) | Err(IndexError::Unavailable { .. }) => {}
                Err(error) => {
                    tracing::warn!(collection = self.name, %error, "the previous index does not answer searches any more");
                    self.take_previous();
                }
            }
        }
        self.engine.remove_now(document_id, operation).await
    }

    /// Hides in the previous index what other gateways have deleted; removes it when the index is complete.
    pub(crate) async fn tend_previous(&self) {
        let Some(previous) = self.previous() else { return };
        if self.is_rebuilding() {
            if !self.preparer.store.is_shared() {
                return;
            }
            let index_error = |source| CollectionError::Index { collection: self.name.clone(), source };
            if let Err(error) = previous.hide_deleted(&self.preparer.documents, index_error).await {
                tracing::warn!(collection = self.name, %error, "deletions are not hidden in the previous index");
            }
            if previous.is_shared() {
                self.keep_previous(&previous).await;
            }
            return;
        }
        self.take_previous();
        tracing::info!(collection = self.name, "its next index is complete: the previous one is removed");
        // other gateways may still search it
        if !previous.is_shared()
            && let Err(error) = previous.0.engines.delete(previous.0.id).await
        {
            tracing::warn!(collection = self.name, %error, "the previous index stays until the next start");
        }
    }

    /// Has the gateway that removes earlier generations keep the previous index, which all gateways use, and looks whether it is still there.
    async fn keep_previous(&self, previous: &PreviousIndex) {
        match self.earlier.tell_searched(&self.preparer.store, self.id).await {
            Ok(false) => return,
            Ok(true) => {}
            Err(error) => {
                tracing::warn!(collection = self.name, %error, "other gateways are not told that the previous index is searched")
            }
        }
        if let Err(IndexError::Lost { .. }) = previous.0.engine.check_files().await {
            self.lose_previous();
        }
    }

    /// Stops answering searches from the previous index, which is lost.
    pub(crate) fn lose_previous(&self) {
        self.take_previous();
        tracing::warn!(collection = self.name, "the previous index is lost");
    }
}

impl Collections {
    /// Takes the index that answers the searches of a collection, whose workers have ended, to answer them until the index of its next
    /// generation is complete. An incomplete index is removed.
    pub(crate) async fn take_serving(
        &self,
        open: &OpenCollection,
    ) -> Result<Option<PreviousIndex>, CollectionError> {
        let index_error = |source| CollectionError::Index { collection: open.name.clone(), source };
        let (engines, id) = (self.engines().clone(), open.engine_id);
        if !open.is_rebuilding() {
            return PreviousIndex::of(open.engine.clone(), id, engines).await.map_err(index_error);
        }
        open.engine.close().await.map_err(index_error)?;
        if !id.kind.is_shared() {
            engines.delete(id).await.map_err(index_error)?;
        }
        Ok(open.take_previous())
    }

    /// The latest index of before that can be used, in whichever engine, if it is needed. Others of this gateway's own are removed.
    pub(crate) async fn find_previous(
        &self,
        stored: &Collection,
        current: EngineId,
        settings: &EngineSettings,
        documents: &StoreView,
        is_needed: bool,
    ) -> Result<Option<PreviousIndex>, CollectionError> {
        let index_error = |source| CollectionError::Index { collection: stored.name.clone(), source };
        let mut found = None;
        for id in self.other_generations(current, is_needed).await.map_err(index_error)? {
            if id.generation < current.generation && is_needed && found.is_none() {
                match self.open_previous(stored, id, settings, documents).await {
                    Ok(opened) => found = opened,
                    Err(error) => {
                        tracing::warn!(collection = stored.name, %error, "the previous index can't be used")
                    }
                }
                if found.is_some() {
                    continue;
                }
            }
            if !id.kind.is_shared() {
                self.engines().delete(id).await.map_err(index_error)?;
            }
        }
        Ok(found)
    }

    /// All generations of a collection but the current one, the latest first; those that other gateways use too only if `with_shared`.
    async fn other_generations(
        &self,
        current: EngineId,
        with_shared: bool,
    ) -> Result<Vec<EngineId>, IndexError> {
        let (engines, collection) = (self.engines(), current.collection);
        let mut all = Vec::new();
        for kind in engines.kinds().filter(|kind| with_shared || !kind.is_shared()) {
            let generations = match engines.generations(kind, collection).await {
                Err(error @ IndexError::Unavailable { .. }) if kind != current.kind => {
                    tracing::warn!(collection, %error, "it is not looked for the previous index there");
                    Vec::new()
                }
                generations => generations?,
            };
            all.extend(generations.into_iter().map(|generation| EngineId { kind, collection, generation }));
        }
        all.retain(|id| id.generation != current.generation);
        all.sort_unstable_by_key(|id| std::cmp::Reverse(id.generation));
        Ok(all)
    }

    async fn open_previous(
        &self,
        stored: &Collection,
        id: EngineId,
        settings: &EngineSettings,
        documents: &StoreView,
    ) -> Result<Option<PreviousIndex>, CollectionError> {
        let index_error = |source| CollectionError::Index { collection: stored.name.clone(), source };
        let opened = self.open_index(id, settings, stored.last_operation).await;
        let engine = opened.map_err(index_error)?.engine;
        let others_apply = id.kind.is_shared() && self.0.store.is_shared();
        let is_usable = unusable(stored, documents, &engine, others_apply, index_error).await?.is_none()
            // deletions that were pruned could not be hidden
            && engine.applied_seq() >= stored.pruned_to;
        let previous = PreviousIndex::of(engine, id, self.engines().clone()).await.map_err(index_error)?;
        let Some(previous) = previous.filter(|_| is_usable) else { return Ok(None) };
        previous.hide_deleted(documents, index_error).await?;
        Ok(Some(previous))
    }
}
