//! The asynchronous interface to an index, whatever implements it.

use std::time::Duration;

use weir_policy::Caller;
use weir_query::Reading;
use weir_ranking::RetrievalMode;
use weir_ranking::relevance::{HitFeatures, LearnedRelevance, LearnedSummary};

#[cfg(test)]
use crate::exact::Exact;
use crate::features::{EngineKind, Feature, Support};
use crate::restricted::RestrictedQuery;
use crate::{
    Change, ConsistencyReport, EmbeddedEngine, HistoryPoint, IndexCounts, IndexQuery, IndexResult, Inventory,
    MatchCount, QdrantEngine, RebuildReason, Recall, Result,
};

/// One generation of one collection, searchable. Clones share the engine. [`Engines`](crate::Engines) opens it.
///
/// Every engine returns the text of its hits, shows a batch of changes in both retrievers when [`Engine::apply`] returns, and hides a document as
/// soon as [`Engine::remove_now`] returns. [`Capabilities`] are the properties that differ, and [`features`](crate::features) says which
/// features of a search each engine has. Functions that are not asynchronous answer from the memory of this process.
///
/// Every function can fail with [`IndexError::Unavailable`](crate::IndexError::Unavailable) where the engine is another process, and with
/// [`IndexError::Lost`](crate::IndexError::Lost) when its content was found to be gone: the operations after [`Engine::applied_seq`] are to
/// be applied again then.
#[derive(Clone)]
#[non_exhaustive]
pub enum Engine {
    /// In this process, files in one folder.
    Embedded(EmbeddedEngine),
    /// In a Qdrant cluster.
    Qdrant(QdrantEngine),
    /// In memory, for tests.
    #[cfg(test)]
    Exact(Exact),
}

/// An opened engine.
pub struct Opened {
    /// Ready to search and to apply changes; replay the store's operations after [`Engine::applied_seq`].
    pub engine: Engine,
    /// Why the previous content could not be used. The engine is then empty, and its applied sequence is 0.
    pub rebuilt: Option<RebuildReason>,
}

/// The properties in which engines differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capabilities {
    /// The dense ranking compares every embedding exactly, so that measuring its [`Recall`] is pointless.
    pub exact_dense: bool,
    /// Other processes use the same index: only one of them at a time may apply changes to it, and the others take over its state by
    /// [`Engine::refresh`].
    pub shared: bool,
    /// [`IndexQuery::pin`] and [`IndexQuery::as_of`] let later pages see the snapshot of the first.
    pub pinned_snapshots: bool,
}

/// Calls a function of whichever engine it is.
macro_rules! each {
    ($engine:expr, $name:ident => $call:expr) => {
        match $engine {
            Engine::Embedded($name) => $call,
            Engine::Qdrant($name) => $call,
            #[cfg(test)]
            Engine::Exact($name) => $call,
        }
    };
}

/// Awaits a function of whichever engine it is. Calls of a cluster are deep: their state is not part of that of a request, which would be as large
/// where the engine is embedded.
macro_rules! ask {
    ($engine:expr, $name:ident => $call:expr) => {
        match $engine {
            Engine::Embedded($name) => $call.await,
            Engine::Qdrant($name) => Box::pin($call).await,
            #[cfg(test)]
            Engine::Exact($name) => $call.await,
        }
    };
}

impl Engine {
    /// The implementation of a search feature: engine, pipeline or none.
    pub fn support(&self, feature: &Feature) -> Support {
        match self {
            Engine::Embedded(_) => feature.support(EngineKind::Embedded),
            Engine::Qdrant(_) => feature.support(EngineKind::Qdrant),
            #[cfg(test)]
            Engine::Exact(_) => crate::exact::support(feature),
        }
    }

    /// The properties of this engine.
    pub fn capabilities(&self) -> Capabilities {
        match self {
            // the scan of 4-bit codes is approximate
            Engine::Embedded(_) => Capabilities { exact_dense: false, shared: false, pinned_snapshots: true },
            // misses of a graph can't be measured here
            Engine::Qdrant(_) => Capabilities { exact_dense: true, shared: true, pinned_snapshots: false },
            #[cfg(test)]
            Engine::Exact(_) => Capabilities { exact_dense: true, shared: false, pinned_snapshots: false },
        }
    }

    /// Lists what the engine has of each document; `None` where nobody but this process changes it.
    pub fn inventory(&self) -> Option<Inventory> {
        match self {
            Engine::Qdrant(engine) => Some(Inventory::new(engine.clone())),
            Engine::Embedded(_) => None,
            #[cfg(test)]
            Engine::Exact(_) => None,
        }
    }

    /// Applies a batch of changes in order and records `applied_seq` as the last operation applied, and `read_to`, the store's last operation
    /// after the changes were read: see [`Engine::read_to`].
    ///
    /// The whole batch becomes visible at once, in both retrievers, when it is durable; in a Qdrant cluster, chunk by chunk until then. Applying
    /// the same batch again changes nothing.
    ///
    /// # Errors
    /// [`IndexError::OutOfOrder`](crate::IndexError::OutOfOrder) if `applied_seq` is lower than [`Engine::applied_seq`]; an embedding that
    /// does not fit the collection; errors of the engine. After an error nothing of the batch is visible, but for a Qdrant cluster, and it can be applied
    /// again.
    pub async fn apply(
        &self,
        changes: Vec<Change>,
        applied_seq: u64,
        read_to: Option<HistoryPoint>,
    ) -> Result<()> {
        ask!(self, engine => engine.apply(changes, applied_seq, read_to))
    }

    /// Hides a document from both retrievers at once; returns whether it was live.
    ///
    /// `operation` is the number of the removal, which must be in the store already. Until a batch reaches it, earlier changes do
    /// not bring the document back; the batch that contains the removal makes it durable. After
    /// [`IndexError::Unavailable`](crate::IndexError::Unavailable) too, this process does not show the document any more.
    pub async fn remove_now(&self, document_id: &str, operation: u64) -> Result<bool> {
        ask!(self, engine => engine.remove_now(document_id, operation))
    }

    /// Searches one state of the index.
    ///
    /// # Errors
    /// A missing or unfit embedding, an invalid parameter, [`IndexError::NotSupported`](crate::IndexError::NotSupported), errors of the
    /// engine, [`IndexError::Panicked`](crate::IndexError::Panicked).
    pub async fn search(&self, caller: &Caller, query: IndexQuery) -> Result<IndexResult> {
        let query = self.restricted(caller, query)?;
        ask!(self, engine => engine.search(query))
    }

    /// The query to an engine: one that it supports, restricted to the documents that exist for the caller.
    fn restricted(&self, caller: &Caller, query: IndexQuery) -> Result<RestrictedQuery> {
        crate::features::check(|feature| self.support(feature), &query)?;
        RestrictedQuery::new(caller, query, each!(self, engine => engine.dimension()))
    }

    /// Reads a query that may be pasted text, by the documents that exist for the caller: see [`weir_query::parse_auto`].
    ///
    /// # Errors
    /// Errors of the engine, [`IndexError::Panicked`](crate::IndexError::Panicked).
    pub async fn read_query(&self, caller: &Caller, text: &str) -> Result<Reading> {
        ask!(self, engine => engine.read_query(caller, text))
    }

    /// Replaces what was learned from users' judgments of earlier hits. It is not stored: call this after opening.
    pub fn set_learned_relevance(&self, learned: LearnedRelevance) {
        each!(self, engine => engine.set_learned_relevance(learned));
    }

    /// Relevance learned from judgments; and from searches: the deviations of the mean cosine and the mean drop of scores from their priors.
    pub fn learned_relevance(&self) -> (LearnedSummary, (f32, f32)) {
        each!(self, engine => engine.learned_relevance())
    }

    /// Forgets what was learned from searches.
    ///
    /// # Errors
    /// When that can't be made durable.
    pub async fn reset_baseline(&self) -> Result<()> {
        ask!(self, engine => engine.reset_baseline())
    }

    /// The features from which the relevance of a document in this search is computed, on whichever page it is: to be stored with
    /// feedback. `None` if no retriever has it among its candidates, or the collection lacks it.
    pub async fn features(
        &self,
        caller: &Caller,
        query: IndexQuery,
        document_id: &str,
    ) -> Result<Option<HitFeatures>> {
        let query = self.restricted(caller, query)?;
        ask!(self, engine => engine.features(query, document_id))
    }

    /// Compares the first `limit` chunks of the dense ranking with those of an exact comparison. `None` without an embedding, and if
    /// [`Capabilities::exact_dense`]. May read every embedding: for samples, in the background.
    pub async fn recall(&self, caller: &Caller, query: IndexQuery) -> Result<Option<Recall>> {
        match self {
            Engine::Embedded(engine) => engine.recall(self.restricted(caller, query)?).await,
            Engine::Qdrant(_) => Ok(None),
            #[cfg(test)]
            Engine::Exact(_) => Ok(None),
        }
    }

    /// Takes over what other processes have applied to the same index; see [`Capabilities::shared`].
    pub async fn refresh(&self) -> Result<()> {
        match self {
            Engine::Qdrant(engine) => Box::pin(engine.refresh()).await,
            Engine::Embedded(_) => Ok(()),
            #[cfg(test)]
            Engine::Exact(_) => Ok(()),
        }
    }

    /// The last operation whose effect is visible and durable, as last recorded in this process; 0 in an empty engine.
    pub fn applied_seq(&self) -> u64 {
        each!(self, engine => engine.applied_seq())
    }

    /// The last operation whose effect the index can show: changes are read in their current state, which can be newer than
    /// [`Engine::applied_seq`]. A store without exactly this operation has another history, and the index is not of it. `None` if no batch
    /// recorded one.
    pub async fn read_to(&self) -> Result<Option<HistoryPoint>> {
        ask!(self, engine => engine.read_to())
    }

    /// Whether nothing was ever applied. The applied sequence alone is not enough: it stays 0 while the document of the first operation is prepared.
    pub async fn is_empty(&self) -> Result<bool> {
        Ok(self.applied_seq() == 0 && self.read_to().await?.is_none())
    }

    /// The current sizes.
    pub async fn counts(&self) -> Result<IndexCounts> {
        ask!(self, engine => engine.counts())
    }

    /// The documents and chunks that exist for a caller; in a Qdrant cluster those that its mandatory filter certainly passes.
    ///
    /// # Errors
    /// [`IndexError::NotSupported`](crate::IndexError::NotSupported) for a filter that the engine can't evaluate; errors of the engine.
    pub async fn counts_for(&self, caller: &Caller) -> Result<IndexCounts> {
        let Some(mandatory) = &caller.filter else { return self.counts().await };
        if let Engine::Qdrant(engine) = self {
            return Box::pin(engine.counts_of(Some(mandatory))).await;
        }
        let query = IndexQuery::new(RetrievalMode::Lexical, None, None, 1);
        let found = self.search(caller, query).await?;
        let (MatchCount::Exact(documents) | MatchCount::Window(documents)) = found.total;
        Ok(IndexCounts { documents, chunks: found.existing_chunks, deleted_chunks: 0, segments: 0 })
    }

    /// Bytes on disk; 0 if the engine does not report them.
    pub async fn disk_bytes(&self) -> Result<u64> {
        ask!(self, engine => engine.disk_bytes())
    }

    /// Makes the index as fast to search as it can be. Call it when no changes are waiting. Batches may be applied meanwhile; none needs it
    /// to be durable.
    pub async fn flush(&self) -> Result<()> {
        ask!(self, engine => engine.flush())
    }

    /// Opens the index if it is not open.
    pub async fn ensure_open(&self) -> Result<()> {
        ask!(self, engine => engine.ensure_open())
    }

    /// Checks that the content is still there, without reading it. If it is not, the index is emptied.
    ///
    /// # Errors
    /// [`IndexError::Lost`](crate::IndexError::Lost) if it was emptied; errors of the engine.
    pub async fn check_files(&self) -> Result<()> {
        ask!(self, engine => engine.check_files())
    }

    /// Empties the index, to be filled again from the store.
    ///
    /// # Errors
    /// [`IndexError::Lost`](crate::IndexError::Lost) when that is done, if there was anything; errors of the engine.
    pub async fn discard(&self) -> Result<()> {
        ask!(self, engine => engine.discard())
    }

    /// Removes what was deleted, where an engine keeps it, if the last time was at least `interval` ago; whether it did. Searches go on
    /// meanwhile. Not to be called while a batch is applied.
    ///
    /// # Errors
    /// [`IndexError::Lost`](crate::IndexError::Lost); errors of the engine.
    pub async fn compact_if_due(&self, interval: Duration) -> Result<bool> {
        ask!(self, engine => engine.compact_if_due(interval))
    }

    /// Copies the files of the index for other gateways, if a folder is set and a copy is due: see [`Engines::with_copies`](crate::Engines::with_copies).
    pub async fn copy_if_due(&self) {
        if let Engine::Embedded(engine) = self {
            engine.copy_if_due().await;
        }
    }

    /// Ends background work. Searches are still answered; applying returns [`IndexError::Closed`](crate::IndexError::Closed).
    pub async fn close(&self) -> Result<()> {
        ask!(self, engine => engine.close())
    }

    /// Checks the content against its checksums, each live chunk against its document and its one lexical entry, and the counts.
    ///
    /// # Errors
    /// Errors of reading; inconsistencies are listed in the report.
    pub async fn verify(&self) -> Result<ConsistencyReport> {
        ask!(self, engine => engine.verify())
    }
}
