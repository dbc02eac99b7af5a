//! A caller's view of a collection.

use std::sync::Arc;

use tokio::time::Instant;
use weir_api::{
    CollectionReply, CollectionSettings, CollectionStatus, ErrorCode, ExplainLearned, Invalid, VectorSettings,
};
use weir_index::{Hit, IndexError, IndexQuery, IndexResult, Recall};
use weir_inference::LoadedModel;
use weir_policy::Caller;
use weir_query::Reading;
use weir_store::{
    Acceptance, CollectionId, DeletedDocument, GenerationId, Job, NewDocument, NewWebhook, StoreView,
    Submission, VersionTest,
};
use weir_telemetry::CollectionGauges;
use weir_text::Language;

use crate::clock::now;
use crate::open_collection::{LexicalInForce, OpenCollection};
use crate::previous::ServingIndex;
use crate::{Parts, Result};
use weir_preparation::own_vectors;
use weir_refusal::RequestError;

/// An open collection as one caller sees it: the only way to read from its index or from the store.
///
/// It exists only for a collection on the caller's allow list, and applies the caller's mandatory filter to every read. The
/// collection itself is private: each function answers from the documents that exist for the caller, or from settings.
#[derive(Clone)]
pub struct CollectionView {
    collection: Arc<OpenCollection>,
    /// The index that answers its searches.
    index: ServingIndex,
    caller: Arc<Caller>,
    store: StoreView,
}

impl Parts {
    /// The collection called `name`, as `caller` sees it.
    ///
    /// # Errors
    /// `collection_not_found`, also for a collection that the caller may not see.
    pub(crate) fn view(&self, caller: &Arc<Caller>, name: &str) -> Result<CollectionView> {
        let collection =
            self.collections.get(caller, name).ok_or_else(|| self.collections.absence(caller, name))?;
        self.view_of(caller, collection)
    }

    /// Every collection that `caller` may see, by name.
    pub(crate) fn views(&self, caller: &Arc<Caller>) -> Result<Vec<CollectionView>> {
        let all = self.collections.all(caller).into_iter();
        all.map(|collection| self.view_of(caller, collection)).collect()
    }

    fn view_of(&self, caller: &Arc<Caller>, collection: Arc<OpenCollection>) -> Result<CollectionView> {
        let store = self.store.view(caller, &collection.stored)?;
        let index = collection.serving();
        Ok(CollectionView { collection, index, caller: caller.clone(), store })
    }

    /// The same, for a collection whose index is complete.
    ///
    /// # Errors
    /// `collection_not_found`, `collection_not_ready`.
    pub(crate) async fn searchable_view(&self, caller: &Arc<Caller>, name: &str) -> Result<CollectionView> {
        let view = self.view(caller, name)?;
        let opened = view.index.engine.ensure_open().await;
        view.note_lost(&opened);
        match opened {
            Ok(()) | Err(IndexError::Lost { .. }) => {}
            // it is still in the list if its documents are about to be split again
            Err(IndexError::Closed) if self.collections.get(caller, name).is_none() => {
                return Err(RequestError::no_collection(name));
            }
            Err(IndexError::Closed) => return Err(not_ready(name)),
            Err(error) => return Err(RequestError::of_index(&error)),
        }
        if !view.index.is_previous && view.collection.is_rebuilding() {
            return Err(not_ready(name));
        }
        Ok(view)
    }
}

fn not_ready(name: &str) -> RequestError {
    let message = format!("the index of collection `{name}` is being rebuilt");
    RequestError::new(ErrorCode::CollectionNotReady, message)
}

/// The collection's settings, which are the same for every caller.
impl CollectionView {
    /// Names it in the store.
    pub(crate) fn id(&self) -> CollectionId {
        self.collection.id
    }

    /// The name in the API.
    pub(crate) fn name(&self) -> &str {
        &self.collection.name
    }

    /// The settings in force, none absent but `lexical`.
    pub(crate) fn settings(&self) -> &CollectionSettings {
        &self.collection.settings
    }

    /// The settings of lexical retrieval in force.
    pub(crate) fn lexical(&self) -> Arc<LexicalInForce> {
        self.collection.lexical()
    }

    /// The model that embeds its chunks; `None` for a text-only collection.
    pub(crate) fn model(&self) -> Option<&Arc<LoadedModel>> {
        self.collection.model()
    }

    /// The embeddings that its documents bring, if they do.
    pub(crate) fn own_vectors(&self) -> Option<&VectorSettings> {
        self.collection.settings.vectors.as_ref()
    }

    /// Whether its chunks have embeddings.
    pub(crate) fn has_embeddings(&self) -> bool {
        self.model().is_some() || self.own_vectors().is_some()
    }

    /// Checks that a document has a vector if, and only if, the collection takes one, and that it fits.
    pub(crate) fn check_vector(&self, document: &NewDocument) -> Result<(), Invalid> {
        own_vectors::check(self.name(), self.own_vectors(), (document.vector.as_deref(), &document.text))
    }

    /// The documents that have a vector as the collection takes it, and the others with the reason.
    pub(crate) fn with_fitting_vectors(
        &self,
        documents: Vec<NewDocument>,
    ) -> (Vec<NewDocument>, Vec<(String, Invalid)>) {
        let (mut fitting, mut misfits) = (Vec::with_capacity(documents.len()), Vec::new());
        for document in documents {
            match self.check_vector(&document) {
                Ok(()) => fitting.push(document),
                Err(invalid) => misfits.push((document.id, invalid)),
            }
        }
        (fitting, misfits)
    }

    /// The language of its texts.
    pub(crate) fn language(&self) -> Language {
        self.collection.language()
    }

    /// The generation of the index that answers its searches.
    pub(crate) fn generation(&self) -> GenerationId {
        self.index.generation
    }

    /// Whether later pages can see the index as it was on the first.
    pub(crate) fn pins_snapshots(&self) -> bool {
        self.index.engine.capabilities().pinned_snapshots
    }

    /// Whether nobody but this gateway changes its index.
    pub(crate) fn has_own_index(&self) -> bool {
        !self.collection.engine_id.kind.is_shared()
    }

    /// Whether the dense retriever compares every embedding exactly.
    pub(crate) fn is_dense_exact(&self) -> bool {
        self.index.engine.capabilities().exact_dense
    }
}

/// Searches and changes of the caller.
impl CollectionView {
    /// Who sees it.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The same, to open other views.
    pub(crate) fn caller_handle(&self) -> &Arc<Caller> {
        &self.caller
    }

    /// Whether a mandatory filter may hide documents.
    pub(crate) fn is_filtered(&self) -> bool {
        self.caller.filter().is_some()
    }

    /// Its documents, feedback and query log.
    pub(crate) fn store(&self) -> &StoreView {
        &self.store
    }

    /// The collection as the API shows it, with these numbers of documents and chunks.
    pub(crate) fn describe(&self, (document_count, chunk_count): (u64, u64)) -> CollectionReply {
        let rebuilt = self.collection.rebuilt();
        CollectionReply {
            name: self.name().to_owned(),
            document_count,
            chunk_count,
            model: self.model().map(|model| model.id.clone()),
            settings: self.collection.shown_settings(),
            status: if rebuilt.is_some() { CollectionStatus::Rebuilding } else { CollectionStatus::Ready },
            // it counts the changes of all documents
            rebuilt: rebuilt.filter(|_| !self.is_filtered()),
            created_at: self.collection.created_at,
        }
    }

    /// The same with the numbers of what the caller may see. Where the engine does not answer, the status says so.
    pub(crate) async fn describe_now(&self) -> Result<CollectionReply> {
        match self.counts().await {
            Err(error) if error.code() == ErrorCode::EngineUnavailable => {
                Ok(CollectionReply { status: CollectionStatus::Unavailable, ..self.describe((0, 0)) })
            }
            counts => Ok(self.describe(counts?)),
        }
    }

    /// The same, in a list: where the filter of the key can't be evaluated, the collection is not available to the key.
    pub(crate) async fn describe_in_list(&self) -> Result<CollectionReply> {
        match self.describe_now().await {
            Err(error) if error.code() == ErrorCode::InvalidParameter => {
                Ok(CollectionReply { status: CollectionStatus::Unavailable, ..self.describe((0, 0)) })
            }
            described => described,
        }
    }

    /// Searchable documents and chunks that the caller may see.
    ///
    /// # Errors
    /// `invalid_parameter` for a mandatory filter that the engine can't evaluate, `engine_unavailable`; index errors.
    pub(crate) async fn counts(&self) -> Result<(u64, u64)> {
        let counts = self.index.engine.counts_for(&self.caller).await;
        self.note_lost(&counts);
        match counts {
            Ok(counts) => Ok((counts.documents, counts.chunks)),
            Err(error @ IndexError::NotSupported { .. }) => {
                Err(RequestError::of_index(&error).with_note("it is in the filter of the key"))
            }
            Err(error) => Err(RequestError::of_index(&error)),
        }
    }

    /// Gauges of the collection; with a mandatory filter the numbers of documents and chunks alone, because the others are of the whole.
    pub(crate) async fn gauges(&self) -> Result<CollectionGauges> {
        let (documents, chunks) = match self.counts().await {
            Err(error)
                if matches!(error.code(), ErrorCode::EngineUnavailable | ErrorCode::InvalidParameter) =>
            {
                (None, None)
            }
            counts => counts.map(|(documents, chunks)| (Some(documents), Some(chunks)))?,
        };
        let gauges =
            CollectionGauges { name: self.name().to_owned(), documents, chunks, ..Default::default() };
        if self.is_filtered() {
            return Ok(gauges);
        }
        let engine = &self.index.engine;
        let (learned, _) = engine.learned_relevance();
        Ok(CollectionGauges {
            feedback_votes: learned.votes as u64,
            relevance_shift: f64::from(learned.shift),
            pending: self.collection.pending_operations(),
            index_segments: engine.counts().await.map_or(0, |counts| counts.segments),
            index_bytes: engine.disk_bytes().await.unwrap_or(0),
            ..gauges
        })
    }

    /// Has the index rebuilt that is lost.
    fn note_lost<T>(&self, result: &Result<T, IndexError>) {
        match (result, self.index.is_previous) {
            (Err(IndexError::Lost { .. }), true) => self.collection.lose_previous(),
            (_, true) => {}
            (_, false) => self.collection.note_lost(result),
        }
    }

    /// Reads a query that may be pasted text, by the documents that exist for the caller.
    pub(crate) async fn read_query(&self, text: &str) -> Result<Reading, IndexError> {
        let reading = self.index.engine.read_query(&self.caller, text).await;
        self.note_lost(&reading);
        reading
    }

    /// Runs a search on the index.
    pub(crate) async fn search(&self, query: IndexQuery) -> Result<IndexResult, IndexError> {
        let of_any_gateway = query.as_of.filter(|_| self.is_shared()).map(|_| query.clone());
        let mut found = self.index.engine.search(&self.caller, query).await;
        if let (Err(IndexError::SnapshotExpired(_)), Some(query)) = (&found, of_any_gateway) {
            // the first page was read at another gateway, whose index is equal and not the same
            let query = IndexQuery { as_of: None, ..query };
            found = self.index.engine.search(&self.caller, query).await;
        }
        self.note_lost(&found);
        found
    }

    /// Repeats a dense search exactly and compares.
    pub(crate) async fn recall(&self, query: IndexQuery) -> Result<Option<Recall>, IndexError> {
        self.index.engine.recall(&self.caller, query).await
    }

    /// The learned relevance that applies to the caller's searches: with a mandatory filter nothing, because judgments and searches can
    /// be of hidden documents.
    pub(crate) fn learned_relevance(&self) -> ExplainLearned {
        if self.is_filtered() {
            return ExplainLearned::default();
        }
        let (summary, (cosine, drop)) = self.index.engine.learned_relevance();
        ExplainLearned {
            votes: summary.votes as u64,
            callers: summary.callers as u64,
            shift: summary.shift,
            cosine,
            drop,
        }
    }

    /// Forgets what was learned from searches.
    pub(crate) async fn reset_baseline(&self) -> Result<()> {
        let reset = self.index.engine.reset_baseline().await;
        reset.map_err(|error| RequestError::of_index(&error))
    }

    /// Notifies the worker that feedback was added or deleted.
    pub(crate) fn notify_feedback_changed(&self) {
        self.collection.feedback_changed.notify_one();
    }

    /// The store for changes of documents, which it refuses if it has lost any that this gateway knows.
    fn changed_store(&self) -> Result<StoreView> {
        self.collection.check_history()?;
        Ok(self.store.after(self.collection.accepted()))
    }

    /// Stores documents, and wakes the worker. `None` if the collection is deleted.
    pub(crate) async fn accept(&self, submission: Submission) -> Result<Option<Acceptance>> {
        let accepted = self.changed_store()?.accept_versioned(submission, now()).await?;
        if let Some(Acceptance { job, is_repeated: false, .. }) = &accepted {
            self.note_accepted(job);
        }
        Ok(accepted)
    }

    /// Stores the documents of a job whose files were read, and wakes the worker. `false` if the job has ended, or the collection is deleted.
    pub(crate) async fn accept_read(&self, submission: Submission) -> Result<bool> {
        let accepted = self.changed_store()?.accept_versioned(submission, now()).await?;
        let Some(Acceptance { job, .. }) = accepted else { return Ok(false) };
        if job.finished_at.is_some() {
            self.collection.note_ended(&job);
        }
        self.collection.wake(job.last_operation);
        Ok(true)
    }

    /// Stores the documents of a job that are not searchable again, as those of the job `new_job`. `None` if there are none.
    pub(crate) async fn retry_job(
        &self,
        job: &str,
        new_job: &str,
        webhook: Option<NewWebhook>,
    ) -> Result<Option<Job>> {
        let job = self.changed_store()?.retry_job(job, new_job, webhook, now()).await?;
        if let Some(job) = &job {
            self.note_accepted(job);
        }
        Ok(job)
    }

    /// Logs a job that was stored, and wakes the worker.
    fn note_accepted(&self, job: &Job) {
        let key = (self.caller.key.map(|key| key.0), self.caller.name.as_deref());
        self.collection.job_log.accepted(job, key);
        if job.finished_at.is_some() {
            self.collection.metrics.job_ended(job.status.into());
            self.collection.note_webhook(job);
        }
        self.collection.wake(job.last_operation);
    }

    /// Refuses documents while more than `limit` operations are not searchable yet. The number is that of all callers, and reported to those
    /// who may see every document.
    ///
    /// # Errors
    /// `overloaded`.
    pub(crate) fn check_pending(&self, limit: u64) -> Result<()> {
        let pending = self.collection.pending_operations();
        if pending <= limit {
            return Ok(());
        }
        let how_many = if self.is_filtered() { "too many".to_owned() } else { pending.to_string() };
        let message = format!(
            "collection `{}` has {how_many} operations that are not searchable yet; the limit \
             `limits.pending_operations_max` is {limit}",
            self.name()
        );
        Err(RequestError::new(ErrorCode::Overloaded, message))
    }

    /// Waits until at most `limit` operations are not searchable, or the collection is closed.
    pub(crate) async fn wait_until_pending(&self, limit: u64) {
        let number = self.collection.accepted().saturating_sub(limit);
        self.collection.wait_until_searchable(number).await;
    }

    /// Whether other gateways use the store.
    pub(crate) fn is_shared(&self) -> bool {
        self.collection.preparer.store.is_shared()
    }

    /// Waits until everything up to operation `number` is searchable at this gateway.
    ///
    /// # Errors
    /// `collection_not_ready` if it is not by `until`.
    pub(crate) async fn reach(&self, number: u64, until: Instant) -> Result<()> {
        let has_it = || self.collection.serving().engine.applied_seq() >= number;
        if !has_it() {
            // another gateway has acknowledged it, and this one may not be notified yet
            self.collection.look_again();
            // the index of before gets nothing new
            let next = if self.index.is_previous { self.collection.rebuild_until } else { 0 };
            let searchable = self.collection.wait_until_searchable(number.max(next));
            let _ = tokio::time::timeout_at(until, searchable).await;
        }
        if has_it() {
            return Ok(());
        }
        let message = format!("operation {number} of collection `{}` is not searchable yet", self.name());
        Err(RequestError::new(ErrorCode::CollectionNotReady, message))
    }

    /// Waits until everything up to operation `number` is searchable, or the collection is closed.
    pub(crate) async fn wait_until_searchable(&self, number: u64) {
        self.collection.wait_until_searchable(number).await;
    }

    /// Deletes a document from the store and hides it in the index; `None` if it is absent.
    pub(crate) async fn delete_document(&self, id: &str) -> Result<Option<DeletedDocument>> {
        let Some(deleted) = self.changed_store()?.delete_document(id).await? else { return Ok(None) };
        self.hide(id, &deleted).await?;
        Ok(Some(deleted))
    }

    /// The same, if the document meets a condition. `None` if it is absent.
    ///
    /// # Errors
    /// `precondition_failed`.
    pub(crate) async fn delete_document_if(
        &self,
        id: &str,
        test: &VersionTest,
    ) -> Result<Option<DeletedDocument>> {
        loop {
            let Some(stored) = self.store.document(id).await? else { return Ok(None) };
            let version = Some(stored.version);
            if !test.is_met(version) {
                let id = id.to_owned();
                return Err(weir_store::Error::PreconditionFailed { id, version }.into());
            }
            let deleted =
                self.changed_store()?.delete_versions(vec![(id.to_owned(), stored.version)]).await?;
            // else it was changed or deleted after it was read
            if let Some(Some(deleted)) = deleted.into_iter().next() {
                self.hide(id, &deleted).await?;
                return Ok(Some(deleted));
            }
        }
    }

    /// Deletes hits, in one commit, that are still in the version that was found: how many were, and the last operation.
    pub(crate) async fn delete_matched(&self, hits: &[Hit]) -> Result<(u64, Option<u64>)> {
        let versions = hits.iter().map(|hit| (hit.document_id.clone(), hit.version)).collect();
        let deleted = self.changed_store()?.delete_versions(versions).await?;
        let (mut count, mut last) = (0, None);
        for (hit, deleted) in hits.iter().zip(deleted) {
            if let Some(deleted) = deleted {
                self.hide(&hit.document_id, &deleted).await?;
                count += 1;
                last = last.max(Some(deleted.operation));
            }
        }
        Ok((count, last))
    }

    /// Hides a document in the index that was deleted from the store.
    async fn hide(&self, id: &str, deleted: &DeletedDocument) -> Result<()> {
        // first: also a deletion that can't be hidden now is to be applied
        self.collection.wake(deleted.operation);
        let hidden = self.collection.hide(id, deleted.operation).await;
        self.collection.note_lost(&hidden);
        match hidden {
            // an empty index does not have the document either; and one that does not answer shows it no more when it does
            Ok(_) | Err(IndexError::Lost { .. } | IndexError::Unavailable { .. }) => Ok(()),
            Err(error) => Err(RequestError::of_index(&error)),
        }
    }
}
