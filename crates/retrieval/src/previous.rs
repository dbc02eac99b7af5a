//! The index of a collection from before its documents were split again, or it was moved to another engine. It answers searches until the next one is
//! complete.
//!
//! Nothing is applied to it any more: a document that is replaced meanwhile is found in its earlier version, as long as the later one waits for
//! the documents before it. A document that is deleted is hidden in it at once.

use std::sync::PoisonError;

use weir_index::{Engine, IndexError};
use weir_store::GenerationId;

use crate::collections::Collections;
use crate::open_collection::OpenCollection;
use weir_refusal::CollectionError;
use weir_upkeep::PreviousIndex;

/// The index that answers searches.
#[derive(Clone)]
pub(crate) struct ServingIndex {
    pub(crate) engine: Engine,
    pub(crate) generation: GenerationId,
    /// Whether it is that of before.
    pub(crate) is_previous: bool,
}

impl OpenCollection {
    /// The index that answers searches.
    pub(crate) fn serving(&self) -> ServingIndex {
        match self.previous().filter(|_| self.is_rebuilding()) {
            Some(previous) => ServingIndex {
                engine: previous.engine().clone(),
                generation: GenerationId(previous.generation()),
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
        if let Some(previous) = self.previous()
            && let Err(error) = previous.hide(document_id, operation).await
        {
            tracing::warn!(collection = self.name, %error, "the previous index does not answer searches any more");
            self.take_previous();
        }
        self.engine.remove_now(document_id, operation).await
    }

    /// Hides in the previous index what other gateways have deleted; removes it when the index is complete.
    pub(crate) async fn tend_previous(&self) {
        let (Some(previous), store) = (self.previous(), &self.preparer.store) else { return };
        if !self.is_rebuilding() {
            self.take_previous();
            tracing::info!(collection = self.name, "its next index is complete: the previous one is removed");
            if let Err(error) = previous.retire().await {
                tracing::warn!(collection = self.name, %error, "the previous index stays until the next start");
            }
        } else if store.is_shared() {
            let index_error = |source| CollectionError::Index { collection: self.name.clone(), source };
            if let Err(error) = previous.hide_deleted(&self.preparer.documents, index_error).await {
                tracing::warn!(collection = self.name, %error, "deletions are not hidden in the previous index");
            }
            match previous.keep(&self.earlier, store, self.id).await {
                Ok(false) => {}
                Ok(true) => self.lose_previous(),
                Err(error) => {
                    tracing::warn!(collection = self.name, %error, "other gateways are not told that the previous index is searched")
                }
            }
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
        // it answers searches until the collection is open again
        Ok(open.previous())
    }
}
