//! A collection as one caller sees it: the only way to read documents, feedback and the query log.

use crate::access::Access;
use crate::change::Change;
use crate::scripts::{
    accept, collections, documents, embeddings, feedback, files, job_control, operations, originals,
    query_log,
};
use crate::tx::script;
use crate::{
    Acceptance, DeletedDocument, DocumentState, Feedback, FeedbackBatch, FeedbackFilter, FeedbackLimits,
    GenerationId, Job, KnownFile, NewFeedback, NewWebhook, Operation, Original, QueryCount, QueryReport,
    Result, Store, StoredDocument, Submission, TextHash, Timestamp,
};

/// A collection as one caller sees it. [`Store::view`] opens it. Cheap to clone.
///
/// If the caller has a mandatory filter, a document whose metadata does not pass it is *hidden*: it does not exist for reads, deletes and
/// feedback, and cannot be replaced. Metadata is parsed only for such callers. What cannot be shown to be about visible documents is
/// hidden as a whole: see each method. Document versions and operation numbers count the changes of all documents, hidden ones included.
///
/// A collection that is deleted while the view is open reads as empty.
///
/// ```
/// # async fn example(store: weir_store::Store, caller: weir_policy::Caller) -> weir_store::Result<()> {
/// if let Some(collection) = store.collection(&caller, "articles").await? {
///     let document = store.view(&caller, &collection)?.document("42").await?;
/// }
/// # Ok(()) }
/// ```
/// Reading by a bare id does not compile:
/// ```compile_fail
/// # async fn example(store: weir_store::Store, caller: weir_policy::Caller) -> weir_store::Result<()> {
/// if let Some(collection) = store.collection(&caller, "articles").await? {
///     let document = store.document(collection.id, "42").await?;
/// }
/// # Ok(()) }
/// ```
#[derive(Debug, Clone)]
pub struct StoreView {
    store: Store,
    access: Access,
}

impl StoreView {
    pub(crate) fn new(store: Store, access: Access) -> StoreView {
        StoreView { store, access }
    }

    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// The same view, whose changes of documents fail with [`Error::LostCommits`](crate::Error::LostCommits) if the store ends before this operation.
    #[must_use]
    pub fn after(&self, operation: u64) -> StoreView {
        StoreView { store: self.store.clone(), access: self.access.clone().after(operation) }
    }

    /// The document in its current version. `None` if it does not exist or is hidden.
    pub async fn document(&self, id: &str) -> Result<Option<StoredDocument>> {
        Ok(self.documents(vec![id.to_owned()]).await?.pop().flatten())
    }

    /// The documents in their current versions, in the order of `ids`; `None` for those that do not exist or are hidden. All of them are
    /// read into memory: the caller limits the number of ids.
    pub async fn documents(&self, ids: Vec<String>) -> Result<Vec<Option<StoredDocument>>> {
        let access = self.access.clone();
        self.store.database.read(script!(tx => documents::read_all(tx, &access, &ids))).await
    }

    /// The same for the ingest worker: a damaged document does not fail the others, and damaged chunks count as not prepared.
    pub async fn document_states(&self, ids: Vec<String>) -> Result<Vec<DocumentState>> {
        let access = self.access.clone();
        let damage = self.store.damage.clone();
        self.store.database.read(script!(tx => documents::states(tx, &access, &ids, &damage))).await
    }

    /// The documents whose ids are greater than `after` in byte order, and whether there are more. The page ends after `limit` documents,
    /// or once their texts and metadata have `bytes_max` bytes.
    ///
    /// Skips damaged documents. Reads over hidden documents: with a filter that few documents pass, a page can read the metadata of the whole collection.
    pub async fn documents_after(
        &self,
        after: &str,
        limit: usize,
        bytes_max: usize,
    ) -> Result<(Vec<StoredDocument>, bool)> {
        let (access, after) = (self.access.clone(), after.to_owned());
        let damage = self.store.damage.clone();
        self.store
            .database
            .read(script!(tx => documents::after(tx, &access, &after, limit, bytes_max, &damage)))
            .await
    }

    /// Stores documents, in one commit with their operations and the job. `None` if the collection is deleted.
    ///
    /// A document whose title, text and metadata are stored already makes no operation and counts as unchanged. If an id occurs more than
    /// once, the last document that is not refused is stored, and all of them count as processed. The operations of a job are one range
    /// without gaps. A job without operations is completed at once.
    ///
    /// For a caller with a filter, a document is refused, and listed in [`Job::errors`] with the code `document_not_allowed`, if its metadata does not
    /// pass the filter or if its id belongs to a hidden document. The error is the same for both, but the caller can distinguish them: ids
    /// are one namespace per collection.
    ///
    /// With an idempotency key, what an earlier submission with it stored is returned, and nothing is stored.
    ///
    /// # Errors
    /// `PreconditionFailed`, `IdempotencyMismatch`, `TooManyWebhooks`; nothing is stored then.
    pub async fn accept(&self, submission: Submission, now: Timestamp) -> Result<Option<Job>> {
        Ok(self.accept_versioned(submission, now).await?.map(|accepted| accepted.job))
    }

    /// The same, with the version of the last document.
    pub async fn accept_versioned(
        &self,
        submission: Submission,
        now: Timestamp,
    ) -> Result<Option<Acceptance>> {
        let access = self.access.clone();
        let submission = accept::HashedSubmission::new(submission, &access);
        let (damage, change) = (self.store.damage.clone(), Change::Operations(access.collection));
        self.store
            .write_and_tell(change, script!(tx => accept::accept(tx, &access, &submission, now, &damage)))
            .await
    }

    /// The files of these document ids and hashes whose documents are all stored by a file with this hash; `None` for the others, for
    /// hidden documents, and for those that were changed since.
    pub async fn known_files(&self, files: Vec<(String, [u8; 32])>) -> Result<Vec<Option<KnownFile>>> {
        let access = self.access.clone();
        self.store.database.read(script!(tx => files::known(tx, &access, &files))).await
    }

    /// The file from which a document was made. `None` if it was not kept, or the document does not exist or is hidden.
    pub async fn original(&self, id: &str) -> Result<Option<Original>> {
        let (access, id) = (self.access.clone(), id.to_owned());
        self.store.database.read(script!(tx => originals::of_document(tx, &access, &id))).await
    }

    /// Deletes a document and its chunks, in one commit with the operation that records the deletion. `None` if the document does not
    /// exist or is hidden.
    pub async fn delete_document(&self, id: &str) -> Result<Option<DeletedDocument>> {
        let (access, id) = (self.access.clone(), id.to_owned());
        let damage = self.store.damage.clone();
        self.store
            .write_and_tell(
                Change::Operations(self.access.collection),
                script!(tx => documents::delete(tx, &access, &id, &damage)),
            )
            .await
    }

    /// Deletes documents by id and version, in one commit, and returns each deletion in the order of `versions`. `None` if the document is
    /// in another version by now, does not exist or is hidden. The commit takes as long as all of them: the caller limits their number.
    pub async fn delete_versions(
        &self,
        versions: Vec<(String, u64)>,
    ) -> Result<Vec<Option<DeletedDocument>>> {
        let access = self.access.clone();
        let damage = self.store.damage.clone();
        self.store
            .write_and_tell(
                Change::Operations(self.access.collection),
                script!(tx => documents::delete_versions(tx, &access, &versions, &damage)),
            )
            .await
    }

    /// Deletes the collection with its content; `false` if it is deleted already. Its unfinished jobs are cancelled. All its jobs can
    /// still be read.
    ///
    /// # Errors
    /// `NotAllowed` for a caller with a filter: the collection can have hidden documents.
    pub async fn delete_collection(&self, now: Timestamp) -> Result<bool> {
        let access = self.access.clone();
        self.store
            .write_and_tell(Change::Collections, script!(tx => collections::delete(tx, &access, now)))
            .await
    }

    /// Replaces the settings of the collection, whose current generation is `generation`.
    ///
    /// # Errors
    /// `NotAllowed` for a caller with a filter: they hold for hidden documents too. `Conflict` if another generation has begun, with other settings.
    pub async fn change_settings(&self, settings: &str, generation: GenerationId) -> Result<()> {
        let (access, settings) = (self.access.clone(), settings.to_owned());
        self.store
            .write_and_tell(
                Change::Collections,
                script!(tx => collections::change_settings(tx, &access, settings, generation)),
            )
            .await
    }

    /// Stores a judgment, and deletes the oldest ones beyond `entries_max` in the collection. `None` if the judged document does not exist
    /// or is hidden.
    pub async fn add_feedback(
        &self,
        feedback: NewFeedback,
        entries_max: u64,
        now: Timestamp,
    ) -> Result<Option<Feedback>> {
        let access = self.access.clone();
        self.store
            .database
            .write(script!(tx => feedback::add(tx, &access, &feedback, entries_max, now)))
            .await
    }

    /// Stores the documents of a job that are stored and not searchable again, as those of the new job `new_job`; without those that have a later
    /// version or are hidden from the caller. `None` if there are none.
    ///
    /// # Errors
    /// `TooManyWebhooks`; nothing is stored then.
    pub async fn retry_job(
        &self,
        job: &str,
        new_job: &str,
        webhook: Option<NewWebhook>,
        now: Timestamp,
    ) -> Result<Option<Job>> {
        let (access, job, new_job) = (self.access.clone(), job.to_owned(), new_job.to_owned());
        self.store
            .write_and_tell(
                Change::Operations(self.access.collection),
                script!(tx => job_control::retry(tx, &access, &job, &new_job, webhook, now)),
            )
            .await
    }

    /// Deletes the judgments that `filter` names. Returns their number.
    ///
    /// # Errors
    /// `NotAllowed` for a caller with a filter who does not name itself: judgments of others can be of hidden documents.
    pub async fn delete_feedback(&self, filter: FeedbackFilter) -> Result<u64> {
        let access = self.access.clone();
        self.store.database.write(script!(tx => feedback::delete(tx, &access, filter))).await
    }

    /// The judgments that `filter` names, newest first, at most `limit`, and the cursor of the next page if there are more. A caller with a filter gets those
    /// whose document exists and is visible.
    ///
    /// # Errors
    /// `UnknownCursor` if `cursor` is not one that this list returns.
    pub async fn feedback(
        &self,
        filter: FeedbackFilter,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<(Vec<Feedback>, Option<String>)> {
        let (access, cursor) = (self.access.clone(), cursor.map(str::to_owned));
        let damage = self.store.damage.clone();
        self.store
            .database
            .read(script!(tx => feedback::list(tx, &access, filter, limit, cursor.as_deref(), &damage)))
            .await
    }

    /// The last judgment of each caller, query and document, within `limits`.
    /// Features that were computed with embeddings of another model than `fingerprint` count as not computed. A caller with a filter gets
    /// the judgments whose document exists and is visible.
    pub async fn feedback_batch(&self, fingerprint: &str, limits: FeedbackLimits) -> Result<FeedbackBatch> {
        let (access, fingerprint) = (self.access.clone(), fingerprint.to_owned());
        let damage = self.store.damage.clone();
        self.store
            .database
            .read(script!(tx => feedback::batch(tx, &access, &fingerprint, limits, &damage)))
            .await
    }

    /// A report of the query log, at most `limit` queries. Reads every entry. Empty for a caller with a filter: a query has no document
    /// that could show that the caller may see it.
    pub async fn query_report(&self, report: QueryReport, limit: usize) -> Result<Vec<QueryCount>> {
        let access = self.access.clone();
        self.store.database.read(script!(tx => query_log::report(tx, &access, report, limit))).await
    }

    /// The operations with numbers above `after`, in order, at most `limit`. A missing number is [`Error::Damaged`](crate::Error::Damaged).
    /// Empty for a caller with a filter: the document of an operation can be deleted.
    pub async fn operations_after(&self, after: u64, limit: usize) -> Result<Vec<Operation>> {
        let access = self.access.clone();
        self.store.database.read(script!(tx => operations::after(tx, &access, after, limit))).await
    }

    /// The random number of an operation, by which an index of another history of the store is recognised: a restored store gives the same
    /// operation numbers to other changes. `None` if there is no such operation, or it was stored before there were such numbers. Does
    /// not depend on documents.
    pub async fn operation_identity(&self, number: u64) -> Result<Option<i64>> {
        let access = self.access.clone();
        self.store.database.read(script!(tx => operations::identity_of(tx, &access, number))).await
    }

    /// The number of the last operation, and its [`StoreView::operation_identity`].
    pub async fn last_operation(&self) -> Result<Option<(u64, i64)>> {
        let access = self.access.clone();
        self.store.database.read(script!(tx => operations::last(tx, &access))).await
    }

    /// The same for the ingest worker: an operation whose row is damaged is taken from the document that it stored. Where there is none, it
    /// may have been a deletion: up to `skip_to`, which the worker gives for an index that was empty when that operation was stored, it
    /// is replaced by one of a document with an empty id, which does not exist. For such an index, operations whose documents were replaced
    /// or deleted later are left out, except for the last one that was read.
    ///
    /// # Errors
    /// `Damaged` for such an operation above `skip_to`.
    pub async fn operations_to_index(
        &self,
        after: u64,
        limit: usize,
        skip_to: u64,
    ) -> Result<Vec<Operation>> {
        let access = self.access.clone();
        let damage = self.store.damage.clone();
        self.store
            .database
            .read(script!(tx => operations::to_index(tx, &access, after, limit, skip_to, &damage)))
            .await
    }

    /// The stored embeddings of `hashes` by the model `fingerprint`, in order; `None` where there is none. Embeddings are shared by all
    /// collections. A damaged one counts as missing. An embedding can be deleted while its chunk is prepared, before [`Store::save_prepared`]: compute it again. All `None`
    /// for a caller with a filter: the text of an embedding can be that of a hidden document.
    pub async fn embeddings(
        &self,
        fingerprint: &str,
        hashes: Vec<TextHash>,
    ) -> Result<Vec<Option<Vec<f32>>>> {
        if self.access.is_filtered() {
            return Ok(vec![None; hashes.len()]);
        }
        let fingerprint = fingerprint.to_owned();
        self.store.database.read(script!(tx => embeddings::read(tx, &fingerprint, &hashes))).await
    }
}
