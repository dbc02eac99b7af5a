//! What one caller sees of a collection.

use std::ops::Deref;
use std::sync::Arc;

use weir_api::ErrorCode;
use weir_index::{IndexError, IndexQuery, IndexResult, MatchCount, Recall, RetrievalMode};
use weir_policy::Caller;
use weir_store::{DeletedDocument, Feedback, NewFeedback, QueryCount, QueryReport, StoredDocument};

use crate::Parts;
use crate::collections::OpenCollection;
use crate::error::RequestError;

/// An open collection as one caller sees it: the only way to read from its index or from the store.
///
/// It exists only for a collection on the caller's allow list, and applies the caller's mandatory filter to every read.
#[derive(Clone)]
pub struct CollectionView {
    pub(crate) collection: Arc<OpenCollection>,
    pub(crate) caller: Arc<Caller>,
}

impl Parts {
    /// The collection called `name`, as `caller` sees it.
    ///
    /// # Errors
    /// `collection_not_found`, also for a collection that the caller may not see.
    pub(crate) fn view(&self, caller: &Arc<Caller>, name: &str) -> Result<CollectionView, RequestError> {
        let collection =
            self.collections.get(caller, name).ok_or_else(|| RequestError::no_collection(name))?;
        Ok(CollectionView { collection, caller: caller.clone() })
    }

    /// Every collection that `caller` may see, by name.
    pub(crate) fn views(&self, caller: &Arc<Caller>) -> Vec<CollectionView> {
        let all = self.collections.all(caller).into_iter();
        all.map(|collection| CollectionView { collection, caller: caller.clone() }).collect()
    }

    /// The same, for a collection whose index is complete.
    ///
    /// # Errors
    /// `collection_not_found`, `collection_not_ready`.
    pub(crate) fn searchable_view(
        &self,
        caller: &Arc<Caller>,
        name: &str,
    ) -> Result<CollectionView, RequestError> {
        let view = self.view(caller, name)?;
        if view.collection.is_rebuilding() {
            let message = format!("the index of collection `{name}` is being rebuilt");
            return Err(RequestError::new(ErrorCode::CollectionNotReady, message));
        }
        Ok(view)
    }
}

impl CollectionView {
    /// Searchable documents and chunks that the caller may see.
    ///
    /// # Errors
    /// Index errors.
    pub(crate) async fn counts(&self) -> Result<(u64, u64), RequestError> {
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
    ///
    /// # Errors
    /// [`IndexError`].
    pub(crate) async fn search(&self, query: IndexQuery) -> Result<IndexResult, IndexError> {
        self.collection.engine.search(&self.caller, query).await
    }

    /// Repeats a dense search exactly and compares.
    ///
    /// # Errors
    /// [`IndexError`].
    pub(crate) async fn recall(&self, query: IndexQuery) -> Result<Option<Recall>, IndexError> {
        self.collection.engine.recall(&self.caller, query).await
    }
}

// The store's reads and writes on behalf of the caller.
impl CollectionView {
    pub(crate) async fn document(&self, id: &str) -> weir_store::Result<Option<StoredDocument>> {
        self.preparer.store.document(self.id, id).await
    }

    pub(crate) async fn documents_after(
        &self,
        after: &str,
        limit: usize,
        bytes_max: usize,
    ) -> weir_store::Result<(Vec<StoredDocument>, bool)> {
        self.preparer.store.documents_after(self.id, after, limit, bytes_max).await
    }

    pub(crate) async fn delete_document(&self, id: &str) -> weir_store::Result<Option<DeletedDocument>> {
        self.preparer.store.delete_document(self.id, id).await
    }

    pub(crate) async fn add_feedback(
        &self,
        feedback: NewFeedback,
        entries_max: u64,
        now: f64,
    ) -> weir_store::Result<Option<Feedback>> {
        self.preparer.store.add_feedback(self.id, feedback, entries_max, now).await
    }

    pub(crate) async fn feedback(
        &self,
        limit: usize,
        cursor: Option<&str>,
    ) -> weir_store::Result<(Vec<Feedback>, Option<String>)> {
        self.preparer.store.feedback(self.id, limit, cursor).await
    }

    pub(crate) async fn query_report(
        &self,
        report: QueryReport,
        limit: usize,
    ) -> weir_store::Result<Vec<QueryCount>> {
        self.preparer.store.query_report(self.id, report, limit).await
    }
}

impl Deref for CollectionView {
    type Target = OpenCollection;

    fn deref(&self) -> &OpenCollection {
        &self.collection
    }
}
