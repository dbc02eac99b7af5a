//! The door to the truth: one method per question, whatever the database behind it.

use std::path::Path;

use weir_policy::Caller;

use crate::sqlite::{
    accept, chunks, collections, documents, embeddings, feedback, generations, jobs, operations, query_log,
    verify,
};
use crate::{
    Collection, CollectionId, Counts, DeletedDocument, DocumentError, Feedback, FeedbackBatch, GenerationId,
    Job, LoggedQuery, NewFeedback, Operation, PreparedDocument, QueryCount, QueryReport, Result, Retention,
    Sqlite, StoredDocument, Submission, TextHash, Timestamp, VerifyReport,
};

/// The truth, behind one of the databases that Weir can keep it in. Cheap to clone; all clones are one store.
///
/// Every method can fail with [`Error::Closed`](crate::Error::Closed), `Damaged` or `Sqlite`; every writing method
/// with `Full` as well. Something that is not there is `None` or empty, not an error. A call whose future is dropped
/// half-way may still take effect.
#[derive(Debug, Clone)]
pub enum Store {
    /// A SQLite file in the data directory.
    Sqlite(Sqlite),
}

impl Store {
    /// Opens the store in `folder`, made if it is missing, and holds the folder's lock until the store is closed or
    /// its last clone is dropped. Blocks while it reads and migrates: call it at start.
    ///
    /// # Errors
    /// `Locked`, `ReadOnly`, `Full`, `Damaged`, `NewerFormat`, `Io`, `Sqlite`.
    pub fn open_sqlite(folder: &Path) -> Result<Store> {
        Sqlite::open(folder).map(Store::Sqlite)
    }

    /// Finishes the calls that wait, closes the database and gives the folder's lock back. Calls on other clones
    /// answer [`Error::Closed`](crate::Error::Closed) from then on. Durability does not depend on it.
    pub async fn close(self) {
        match self {
            Store::Sqlite(sqlite) => sqlite.close().await,
        }
    }

    /// The collections that `caller` sees, by name.
    pub async fn collections(&self, caller: &Caller) -> Result<Vec<Collection>> {
        let mut found = match self {
            Store::Sqlite(sqlite) => sqlite.read(collections::list).await,
        }?;
        found.retain(|collection| caller.sees(&collection.name));
        Ok(found)
    }

    /// The collection called `name`, if there is one and `caller` sees it.
    pub async fn collection(&self, caller: &Caller, name: &str) -> Result<Option<Collection>> {
        if !caller.sees(name) {
            return Ok(None);
        }
        let name = name.to_owned();
        match self {
            Store::Sqlite(sqlite) => sqlite.read(move |c| collections::by_name(c, &name)).await,
        }
    }

    /// Creates a collection with its first generation, and says `true`; or returns the one that has this name
    /// already, untouched, and says `false`. `fingerprint` names the embedding model; empty for text only.
    pub async fn create_collection(
        &self,
        name: &str,
        settings: &str,
        fingerprint: &str,
        now: Timestamp,
    ) -> Result<(Collection, bool)> {
        let (name, settings, fingerprint) = (name.to_owned(), settings.to_owned(), fingerprint.to_owned());
        match self {
            Store::Sqlite(sqlite) => {
                sqlite.write(move |c| collections::create(c, &name, &settings, &fingerprint, now)).await
            }
        }
    }

    /// Deletes a collection with everything in it; `false` when it was gone already. Its unfinished jobs become
    /// cancelled, and all its jobs stay readable.
    pub async fn delete_collection(&self, id: CollectionId, now: Timestamp) -> Result<bool> {
        match self {
            Store::Sqlite(sqlite) => sqlite.write(move |c| collections::delete(c, id, now)).await,
        }
    }

    /// Makes a new generation the current one, with nothing indexed. What the old one has prepared stays until the new one
    /// is complete: whoever goes back to the old model before then finds its embeddings. `None` when the collection is gone.
    pub async fn start_generation(
        &self,
        id: CollectionId,
        fingerprint: &str,
        now: Timestamp,
    ) -> Result<Option<Collection>> {
        let fingerprint = fingerprint.to_owned();
        match self {
            Store::Sqlite(sqlite) => {
                sqlite.write(move |c| generations::replace_current(c, id, &fingerprint, now)).await
            }
        }
    }

    /// How much a collection holds; nothing when it is gone. Counts row by row.
    pub async fn counts(&self, id: CollectionId) -> Result<Counts> {
        match self {
            Store::Sqlite(sqlite) => sqlite.read(move |c| collections::counts(c, id)).await,
        }
    }

    /// Takes documents in, all in one commit with their operations and the job.
    ///
    /// A document that is stored with equal title, text and metadata makes no operation and counts as unchanged. Of
    /// an id that comes twice the last document wins, and both count as processed. The operations of one job are one
    /// range without gaps. A job without operations is completed at once. `None` when the collection is gone.
    pub async fn accept(
        &self,
        id: CollectionId,
        submission: Submission,
        now: Timestamp,
    ) -> Result<Option<Job>> {
        match self {
            Store::Sqlite(sqlite) => {
                let submission = accept::HashedSubmission::new(submission);
                sqlite.write(move |c| accept::accept(c, id, &submission, now)).await
            }
        }
    }

    /// Deletes a document and the chunks prepared from it, in one commit with the operation that notes it. `None`
    /// when there is no such document.
    pub async fn delete_document(
        &self,
        id: CollectionId,
        document_id: &str,
    ) -> Result<Option<DeletedDocument>> {
        let document_id = document_id.to_owned();
        match self {
            Store::Sqlite(sqlite) => sqlite.write(move |c| documents::delete(c, id, &document_id)).await,
        }
    }

    /// The document as it is now.
    pub async fn document(&self, id: CollectionId, document_id: &str) -> Result<Option<StoredDocument>> {
        let document_id = document_id.to_owned();
        match self {
            Store::Sqlite(sqlite) => sqlite.read(move |c| documents::read(c, id, &document_id)).await,
        }
    }

    /// The documents as they are now, in the order of `document_ids`; `None` where there is none. All are read into
    /// memory: the caller bounds how many it asks for.
    pub async fn documents(
        &self,
        id: CollectionId,
        document_ids: Vec<String>,
    ) -> Result<Vec<Option<StoredDocument>>> {
        match self {
            Store::Sqlite(sqlite) => sqlite.read(move |c| documents::read_all(c, id, &document_ids)).await,
        }
    }

    /// The documents whose ids come after `after`, in the order of their bytes; and whether there are more. At most
    /// `limit`, and no further document once texts and metadata have `bytes_max` bytes. `limit` 0 gives none.
    pub async fn documents_after(
        &self,
        id: CollectionId,
        after: &str,
        limit: usize,
        bytes_max: usize,
    ) -> Result<(Vec<StoredDocument>, bool)> {
        let after = after.to_owned();
        match self {
            Store::Sqlite(sqlite) => {
                sqlite.read(move |c| documents::after(c, id, &after, limit, bytes_max)).await
            }
        }
    }

    /// The operations with numbers above `after`, in order, at most `limit`. A missing number is damage.
    pub async fn operations_after(
        &self,
        id: CollectionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Operation>> {
        match self {
            Store::Sqlite(sqlite) => sqlite.read(move |c| operations::after(c, id, after, limit)).await,
        }
    }

    /// The embeddings of `hashes` made by the model `fingerprint`, in order; `None` where there is none. A chunk's
    /// embedding can be missing (it went while the chunk was on its way to [`Store::save_prepared`]): embed again.
    pub async fn embeddings(
        &self,
        fingerprint: &str,
        hashes: Vec<TextHash>,
    ) -> Result<Vec<Option<Vec<f32>>>> {
        let fingerprint = fingerprint.to_owned();
        match self {
            Store::Sqlite(sqlite) => sqlite.read(move |c| embeddings::read(c, &fingerprint, &hashes)).await,
        }
    }

    /// Replaces the chunks of each document that is still at the version that was prepared, and skips the others.
    /// Keeps the new embeddings that a chunk refers to; removes the embeddings that no chunk refers to any more. Does
    /// nothing when the generation is no longer current.
    pub async fn save_prepared(
        &self,
        generation: GenerationId,
        prepared: Vec<PreparedDocument>,
        new_embeddings: Vec<(TextHash, Vec<f32>)>,
    ) -> Result<()> {
        match self {
            Store::Sqlite(sqlite) => {
                sqlite.write(move |c| chunks::save_prepared(c, generation, &prepared, &new_embeddings)).await
            }
        }
    }

    /// Notes that the index holds everything up to operation `number`, never lower than noted before. Jobs whose first
    /// operation is reached become running, jobs whose last one is reached become completed.
    pub async fn record_applied(&self, generation: GenerationId, number: u64, now: Timestamp) -> Result<()> {
        match self {
            Store::Sqlite(sqlite) => {
                sqlite.write(move |c| generations::record_applied(c, generation, number, now)).await
            }
        }
    }

    /// Notes that documents could not be prepared: each with the operation that stored it and the reason, which the job of
    /// that operation names while it is unfinished. The documents stay, and sending one again is a change even when its
    /// content is the same. Call it before [`Store::record_applied`] passes the operations.
    pub async fn fail_documents(&self, id: CollectionId, failed: Vec<(u64, DocumentError)>) -> Result<()> {
        match self {
            Store::Sqlite(sqlite) => sqlite.write(move |c| jobs::fail_documents(c, id, &failed)).await,
        }
    }

    /// Removes a part of what is no longer kept: finished jobs, and operations of the collection that its index has applied.
    /// `false` when there is more to remove.
    pub async fn prune(&self, id: CollectionId, retention: Retention) -> Result<bool> {
        match self {
            Store::Sqlite(sqlite) => sqlite.write(move |c| collections::prune(c, id, retention)).await,
        }
    }

    /// The job with this id, if `caller` sees its collection.
    pub async fn job(&self, caller: &Caller, id: &str) -> Result<Option<Job>> {
        let id = id.to_owned();
        let job = match self {
            Store::Sqlite(sqlite) => sqlite.read(move |c| jobs::by_id(c, &id)).await,
        }?;
        Ok(job.filter(|job| caller.sees(&job.collection)))
    }

    /// The jobs that `caller` sees, newest first, at most `limit`; and the cursor to go on from when there are more.
    ///
    /// # Errors
    /// `UnknownCursor` when `cursor` is not one that this list returned.
    pub async fn jobs(
        &self,
        caller: &Caller,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<(Vec<Job>, Option<String>)> {
        let (caller, cursor) = (caller.clone(), cursor.map(str::to_owned));
        match self {
            Store::Sqlite(sqlite) => {
                sqlite.read(move |c| jobs::list(c, &caller, limit, cursor.as_deref())).await
            }
        }
    }

    /// Stores a judgment; the oldest go so that the collection has at most `entries_max`. `None` when the collection or
    /// the document is not there.
    pub async fn add_feedback(
        &self,
        id: CollectionId,
        feedback: NewFeedback,
        entries_max: u64,
        now: Timestamp,
    ) -> Result<Option<Feedback>> {
        match self {
            Store::Sqlite(sqlite) => {
                sqlite.write(move |c| feedback::add(c, id, &feedback, entries_max, now)).await
            }
        }
    }

    /// The judgments of a collection, newest first, at most `limit`; and the cursor to go on from when there are more.
    ///
    /// # Errors
    /// `UnknownCursor` when `cursor` is none that this list returns.
    pub async fn feedback(
        &self,
        id: CollectionId,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<(Vec<Feedback>, Option<String>)> {
        let cursor = cursor.map(str::to_owned);
        match self {
            Store::Sqlite(sqlite) => {
                sqlite.read(move |c| feedback::list(c, id, limit, cursor.as_deref())).await
            }
        }
    }

    /// What the newest `entries_max` judgments of a collection say, the last on each query and document alone; of those that
    /// wait for their features at most `pending_max`. Features that another model's embeddings gave count as not known.
    pub async fn feedback_batch(
        &self,
        id: CollectionId,
        fingerprint: &str,
        entries_max: usize,
        pending_max: usize,
    ) -> Result<FeedbackBatch> {
        let fingerprint = fingerprint.to_owned();
        match self {
            Store::Sqlite(sqlite) => {
                sqlite
                    .read(move |c| feedback::feedback_batch(c, id, &fingerprint, entries_max, pending_max))
                    .await
            }
        }
    }

    /// Notes the features of judgments by their numbers, as a search with embeddings of the model `fingerprint` gave them;
    /// `None` where it gave none, so that they are not asked for again.
    pub async fn save_features(
        &self,
        id: CollectionId,
        fingerprint: &str,
        features: Vec<(u64, Option<String>)>,
    ) -> Result<()> {
        let fingerprint = fingerprint.to_owned();
        match self {
            Store::Sqlite(sqlite) => {
                sqlite.write(move |c| feedback::save_features(c, id, &fingerprint, &features)).await
            }
        }
    }

    /// Adds to the query log, in one commit; the oldest go so that each collection has at most `entries_max`. Entries of
    /// collections that are gone are left out.
    pub async fn log_queries(&self, queries: Vec<LoggedQuery>, entries_max: u64) -> Result<()> {
        match self {
            Store::Sqlite(sqlite) => sqlite.write(move |c| query_log::add(c, &queries, entries_max)).await,
        }
    }

    /// What the query log of a collection says, at most `limit` queries. Reads all its entries.
    pub async fn query_report(
        &self,
        id: CollectionId,
        report: QueryReport,
        limit: usize,
    ) -> Result<Vec<QueryCount>> {
        match self {
            Store::Sqlite(sqlite) => sqlite.read(move |c| query_log::report(c, id, report, limit)).await,
        }
    }

    /// Reads every row and checks it: checksums, gaps in the operation numbers, and whether documents, operations and
    /// chunks agree. Takes as long as reading the whole store.
    pub async fn verify(&self) -> Result<VerifyReport> {
        match self {
            Store::Sqlite(sqlite) => sqlite.read(verify::verify).await,
        }
    }
}
