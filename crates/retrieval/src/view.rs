//! What one caller sees of a collection.

use std::ops::Deref;
use std::sync::Arc;

use weir_api::ErrorCode;
use weir_index::{IndexError, IndexQuery, IndexResult, MatchCount, Recall};
use weir_policy::Caller;
use weir_ranking::RetrievalMode;
use weir_store::StoreView;

use crate::error::RequestError;
use crate::open_collection::OpenCollection;
use crate::{Parts, Result};

/// An open collection as one caller sees it: the only way to read from its index or from the store.
///
/// It exists only for a collection on the caller's allow list, and applies the caller's mandatory filter to every read.
#[derive(Clone)]
pub struct CollectionView {
    pub(crate) collection: Arc<OpenCollection>,
    pub(crate) caller: Arc<Caller>,
    pub(crate) store: StoreView,
}

impl Parts {
    /// The collection called `name`, as `caller` sees it.
    ///
    /// # Errors
    /// `collection_not_found`, also for a collection that the caller may not see.
    pub(crate) fn view(&self, caller: &Arc<Caller>, name: &str) -> Result<CollectionView> {
        let collection =
            self.collections.get(caller, name).ok_or_else(|| RequestError::no_collection(name))?;
        self.view_of(caller, collection)
    }

    /// Every collection that `caller` may see, by name.
    pub(crate) fn views(&self, caller: &Arc<Caller>) -> Result<Vec<CollectionView>> {
        let all = self.collections.all(caller).into_iter();
        all.map(|collection| self.view_of(caller, collection)).collect()
    }

    fn view_of(&self, caller: &Arc<Caller>, collection: Arc<OpenCollection>) -> Result<CollectionView> {
        let store = self.store.view(caller, &collection.stored)?;
        Ok(CollectionView { collection, caller: caller.clone(), store })
    }

    /// The same, for a collection whose index is complete.
    ///
    /// # Errors
    /// `collection_not_found`, `collection_not_ready`.
    pub(crate) async fn searchable_view(&self, caller: &Arc<Caller>, name: &str) -> Result<CollectionView> {
        let view = self.view(caller, name)?;
        let opened = view.collection.engine.ensure_open().await;
        view.collection.note_lost(&opened);
        match opened {
            Ok(()) | Err(IndexError::Lost { .. }) => {}
            Err(IndexError::Closed) => return Err(RequestError::no_collection(name)),
            Err(error) => return Err(RequestError::internal(&error)),
        }
        if view.collection.is_rebuilding() {
            let message = format!("the index of collection `{name}` is being rebuilt");
            return Err(RequestError::new(ErrorCode::CollectionNotReady, message));
        }
        Ok(view)
    }
}

impl CollectionView {
    /// Searchable documents and chunks that the caller may see.
    pub(crate) async fn counts(&self) -> Result<(u64, u64)> {
        let counts = self.collection.engine.counts();
        if self.caller.filter().is_none() {
            return Ok((counts.documents, counts.chunks));
        }
        let query = IndexQuery::new(RetrievalMode::Lexical, None, None, 1);
        let found = self.search(query).await.map_err(|error| RequestError::internal(&error))?;
        let (MatchCount::Exact(documents) | MatchCount::Window(documents)) = found.total;
        Ok((documents, found.selected.unwrap_or(counts.chunks)))
    }

    /// Runs a search on the index.
    pub(crate) async fn search(&self, query: IndexQuery) -> Result<IndexResult, IndexError> {
        let found = self.collection.engine.search(&self.caller, query).await;
        self.collection.note_lost(&found);
        found
    }

    /// Repeats a dense search exactly and compares.
    pub(crate) async fn recall(&self, query: IndexQuery) -> Result<Option<Recall>, IndexError> {
        self.collection.engine.recall(&self.caller, query).await
    }
}

impl Deref for CollectionView {
    type Target = OpenCollection;

    fn deref(&self) -> &OpenCollection {
        &self.collection
    }
}
