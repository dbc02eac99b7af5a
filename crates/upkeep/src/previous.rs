//! The index of a collection from before it was made again: nothing is applied to it any more, and what is deleted is hidden in it.

use std::cmp::Reverse;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_index::{Engine, EngineId, Engines, IndexError};
use weir_refusal::CollectionError;
use weir_store::{Collection, CollectionId, Store, StoreView};

use crate::{Earlier, hide_deleted, unusable};

/// An index to which nothing is applied any more. Clones share it.
#[derive(Clone)]
pub struct PreviousIndex(Arc<PreviousInner>);

struct PreviousInner {
    engine: Engine,
    id: EngineId,
    engines: Engines,
    /// The deletions of the operations up to this one are hidden.
    hidden_to: AtomicU64,
}

impl PreviousIndex {
    /// Of an engine, which is closed for changes by this. `None` if it has nothing to show.
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn of(
        engine: Engine,
        id: EngineId,
        engines: Engines,
    ) -> Result<Option<PreviousIndex>, IndexError> {
        // an index whose files are not open can't be searched when it is closed
        let opened = engine.ensure_open().await;
        engine.close().await?;
        let hidden_to = AtomicU64::new(engine.applied_seq());
        let is_usable = opened.is_ok() && engine.applied_seq() > 0;
        Ok(is_usable.then(|| PreviousIndex(Arc::new(PreviousInner { engine, id, engines, hidden_to }))))
    }

    /// Answers searches.
    pub fn engine(&self) -> &Engine {
        &self.0.engine
    }

    /// Its generation.
    pub fn generation(&self) -> i64 {
        self.0.id.generation
    }

    /// Whether all gateways use it.
    pub fn is_shared(&self) -> bool {
        self.0.id.kind.is_shared()
    }

    /// Hides a document that was deleted by `operation`. One that does not answer shows it no more when it does.
    ///
    /// # Errors
    /// Errors of the engine, after which it must not be searched any more.
    pub async fn hide(&self, document_id: &str, operation: u64) -> Result<(), IndexError> {
        match self.0.engine.remove_now(document_id, operation).await {
            Ok(_) | Err(IndexError::Unavailable { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Hides the documents of the deletions after those that are hidden.
    ///
    /// # Errors
    /// Errors of the store and the engine.
    pub async fn hide_deleted(
        &self,
        documents: &StoreView,
        index_error: impl Fn(IndexError) -> CollectionError,
    ) -> Result<(), CollectionError> {
        let after = self.0.hidden_to.load(Ordering::Relaxed);
        let hidden_to = hide_deleted(documents, &self.0.engine, after, index_error).await?;
        self.0.hidden_to.fetch_max(hidden_to, Ordering::Relaxed);
        Ok(())
    }

    /// If all gateways use it: has those that remove earlier generations keep it, and looks now and then whether it is still there. Returns whether it
    /// is not.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn keep(&self, earlier: &Earlier, store: &Store, id: CollectionId) -> weir_store::Result<bool> {
        if !self.is_shared() || !earlier.tell_searched(store, id).await? {
            return Ok(false);
        }
        Ok(matches!(self.0.engine.check_files().await, Err(IndexError::Lost { .. })))
    }

    /// Removes it if it is of this process alone. Others may still search one that all use: see [`Earlier::remove`].
    ///
    /// # Errors
    /// Errors of the engine.
    pub async fn retire(&self) -> Result<(), IndexError> {
        match self.is_shared() {
            true => Ok(()),
            false => self.0.engines.delete(self.0.id).await,
        }
    }
}

/// The latest index of before that can be used, in whichever engine, if it is needed. Others of this process alone are removed. `open` opens an
/// engine; `is_store_shared`: whether other gateways use the store.
///
/// # Errors
/// Errors of the engines. One that can't be used is logged.
pub async fn find_previous<Opening>(
    engines: &Engines,
    stored: &Collection,
    current: EngineId,
    documents: &StoreView,
    (is_needed, is_store_shared): (bool, bool),
    open: impl Fn(EngineId) -> Opening,
) -> Result<Option<PreviousIndex>, CollectionError>
where
    Opening: Future<Output = Result<Engine, IndexError>>,
{
    let index_error = |source| CollectionError::Index { collection: stored.name.clone(), source };
    let mut found = None;
    for id in other_generations(engines, current, is_needed).await.map_err(index_error)? {
        if id.generation < current.generation && is_needed && found.is_none() {
            let others_apply = id.kind.is_shared() && is_store_shared;
            let usable = async {
                let engine = open(id).await.map_err(index_error)?;
                usable(engines, stored, id, documents, engine, others_apply, index_error).await
            };
            match usable.await {
                Ok(usable) => found = usable,
                Err(error) => {
                    tracing::warn!(collection = stored.name, %error, "the previous index can't be used")
                }
            }
            if found.is_some() {
                continue;
            }
        }
        if !id.kind.is_shared() {
            engines.delete(id).await.map_err(index_error)?;
        }
    }
    Ok(found)
}

async fn usable(
    engines: &Engines,
    stored: &Collection,
    id: EngineId,
    documents: &StoreView,
    engine: Engine,
    others_apply: bool,
    index_error: impl Fn(IndexError) -> CollectionError + Copy,
) -> Result<Option<PreviousIndex>, CollectionError> {
    let is_usable = unusable(stored, documents, &engine, others_apply, index_error).await?.is_none()
        // deletions that were pruned could not be hidden
        && engine.applied_seq() >= stored.pruned_to;
    let previous = PreviousIndex::of(engine, id, engines.clone()).await.map_err(index_error)?;
    let Some(previous) = previous.filter(|_| is_usable) else { return Ok(None) };
    previous.hide_deleted(documents, index_error).await?;
    Ok(Some(previous))
}

/// All generations of a collection but the current one, the latest first; those that other processes use too only if `with_shared`.
async fn other_generations(
    engines: &Engines,
    current: EngineId,
    with_shared: bool,
) -> Result<Vec<EngineId>, IndexError> {
    let collection = current.collection;
    let mut all = Vec::new();
    for kind in engines.kinds().filter(|kind| with_shared || !kind.is_shared()) {
        let generations = match engines.generations(kind, collection).await {
            Err(error @ IndexError::Unavailable { .. }) if kind != current.kind => {
                tracing::warn!(collection, %error, "the previous index is not looked for there");
                Vec::new()
            }
            generations => generations?,
        };
        all.extend(generations.into_iter().map(|generation| EngineId { kind, collection, generation }));
    }
    all.retain(|id| id.generation != current.generation);
    all.sort_unstable_by_key(|id| Reverse(id.generation));
    Ok(all)
}
