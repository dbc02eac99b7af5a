//! The store: one method per question, the same for every database.

use std::path::Path;

use weir_policy::key::KeyHash;
use weir_policy::{Caller, KeyId};

use crate::access::{Access, JobAccess};
use crate::sqlite::{
    chunks, collections, feedback, generations, job_control, jobs, keys, originals, query_log, spending,
    verify,
};
use crate::{
    AuditEntry, Collection, CollectionId, DocumentError, Error, GenerationId, Job, JobDocument,
    JobDocumentsQuery, LoggedQuery, NewAuditEntry, NewKey, PreparedDocument, Result, Retention, Spent,
    Sqlite, StoreView, StoredKey, TextHash, Timestamp, VerifyReport,
};

/// The store, in one of the supported databases. Cheap to clone; all clones are one store.
///
/// Content is read through a [`StoreView`], which [`Store::view`] opens for a [`Caller`]. The writing methods here are the gateway's
/// own work: they take ids and return no content.
///
/// Every method can fail with [`Error::Closed`], `Damaged` or `Sqlite`; every writing method also with `Full`. Something that does not
/// exist is `None` or empty, not an error. A call whose future is dropped before it completes may still take effect.
#[derive(Debug, Clone)]
pub enum Store {
    /// A SQLite file in the data directory.
    Sqlite(Sqlite),
}

impl Store {
    /// Opens the store in `folder`, which is created if it is missing, and locks the folder until the store is closed or its last clone is
    /// dropped. Blocks while it reads and migrates: call it at start.
    ///
    /// # Errors
    /// `Locked`, `ReadOnly`, `Full`, `Damaged`, `NewerFormat`, `Io`, `Sqlite`.
    pub fn open_sqlite(folder: &Path) -> Result<Store> {
        Sqlite::open(folder).map(Store::Sqlite)
    }

    /// Whether the folder has a store.
    pub fn exists(folder: &Path) -> bool {
        Sqlite::exists(folder)
    }

    /// Completes the queued calls, closes the database and unlocks the folder. Later calls on other clones return [`Error::Closed`].
    /// Durability does not depend on this call.
    pub async fn close(self) {
        let Store::Sqlite(sqlite) = self;
        sqlite.close().await
    }

    /// The damaged rows that lists and the ingest worker have skipped since the store was opened, each by its kind and name. Bounded.
    pub fn damaged_rows(&self) -> Vec<String> {
        let Store::Sqlite(sqlite) = self;
        sqlite.damage.list()
    }

    /// Checks that the store's files are those that were opened. After an error nothing is acknowledged until they are back.
    ///
    /// # Errors
    /// `Replaced`.
    pub fn check_files(&self) -> Result<()> {
        let Store::Sqlite(sqlite) = self;
        sqlite.check_files()
    }

    /// The full check of the store in `folder`, as [`Store::verify`], also while another process uses it. Blocks.
    ///
    /// # Errors
    /// As [`Store::open_sqlite`], except `Locked`.
    pub fn verify_folder(folder: &Path) -> Result<VerifyReport> {
        Sqlite::verify_folder(folder)
    }

    /// Calls `each` for each original file of the store in `folder`: its SHA-256 in hexadecimal, its bytes, and the id of a document that has it. Also
    /// while another process uses the store. Blocks.
    ///
    /// # Errors
    /// As [`Store::open_sqlite`], except `Locked`.
    pub fn originals_of_folder(folder: &Path, each: impl FnMut(&str, u64, &str)) -> Result<()> {
        Sqlite::originals_of_folder(folder, each)
    }

    /// The collections in the caller's allow list, by name. Skips damaged rows.
    pub async fn collections(&self, caller: &Caller) -> Result<Vec<Collection>> {
        let Store::Sqlite(sqlite) = self;
        let damage = sqlite.damage.clone();
        let mut found = sqlite.read(move |c| collections::list(c, &damage)).await?;
        found.retain(|collection| caller.sees(&collection.name));
        Ok(found)
    }

    /// The highest id that a collection has had in this store; 0 before the first.
    pub async fn last_collection_id(&self) -> Result<CollectionId> {
        let Store::Sqlite(sqlite) = self;
        sqlite.read(collections::last_id).await
    }

    /// The collection called `name`; `None` if it does not exist or is outside the caller's allow list.
    pub async fn collection(&self, caller: &Caller, name: &str) -> Result<Option<Collection>> {
        if !caller.sees(name) {
            return Ok(None);
        }
        let name = name.to_owned();
        let Store::Sqlite(sqlite) = self;
        sqlite.read(move |c| collections::by_name(c, &name)).await
    }

    /// Opens the view of a collection for a caller. Reads nothing: `collection` may be a record that was read earlier.
    ///
    /// # Errors
    /// `UnknownCollection` if the collection is outside the caller's allow list.
    pub fn view(&self, caller: &Caller, collection: &Collection) -> Result<StoreView> {
        if !caller.sees(&collection.name) {
            return Err(Error::UnknownCollection(collection.name.clone()));
        }
        Ok(StoreView::new(self.clone(), Access::new(caller, collection.id)))
    }

    /// Creates a collection with its first generation and returns `true`, or returns the existing collection of this name, unchanged, and
    /// `false`. `fingerprint` identifies the embedding model; empty for text only.
    pub async fn create_collection(
        &self,
        name: &str,
        settings: &str,
        fingerprint: &str,
        now: Timestamp,
    ) -> Result<(Collection, bool)> {
        let (name, settings, fingerprint) = (name.to_owned(), settings.to_owned(), fingerprint.to_owned());
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| collections::create(c, &name, &settings, &fingerprint, now)).await
    }

    /// Stores an API key, and an audit entry whose subject becomes the key's number.
    pub async fn add_key(&self, key: NewKey, entry: NewAuditEntry, now: Timestamp) -> Result<StoredKey> {
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| keys::add(c, key, &entry, now)).await
    }

    /// Every API key, expired and revoked ones included, in the order of their creation.
    pub async fn keys(&self) -> Result<Vec<StoredKey>> {
        let Store::Sqlite(sqlite) = self;
        sqlite.read(keys::list).await
    }

    /// Revokes an API key; `None` if there is none, or it is revoked already.
    pub async fn revoke_key(
        &self,
        id: KeyId,
        entry: NewAuditEntry,
        now: Timestamp,
    ) -> Result<Option<StoredKey>> {
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| keys::change(c, id, |stored| stored.revoked_at = Some(now), &entry, now)).await
    }

    /// Changes the name of an API key, what it allows and when it expires; `None` if there is no such key, or it is revoked.
    pub async fn update_key(
        &self,
        id: KeyId,
        (name, grants, expires_at): (String, String, Option<Timestamp>),
        entry: NewAuditEntry,
        now: Timestamp,
    ) -> Result<Option<StoredKey>> {
        let update = move |stored: &mut StoredKey| {
            let NewKey { prefix, hash, .. } = stored.key.clone();
            stored.key = NewKey { name, prefix, hash, grants, expires_at };
        };
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| keys::change(c, id, update, &entry, now)).await
    }

    /// Gives an API key another text, by its hash; the one before stays valid until `previous_until`. `None` if there is no such key, or it
    /// is revoked.
    pub async fn rotate_key(
        &self,
        id: KeyId,
        text: (String, KeyHash),
        previous_until: Timestamp,
        entry: NewAuditEntry,
        now: Timestamp,
    ) -> Result<Option<StoredKey>> {
        let rotate = move |stored: &mut StoredKey| {
            stored.previous = Some((stored.key.hash, previous_until));
            (stored.key.prefix, stored.key.hash) = text;
        };
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| keys::change(c, id, rotate, &entry, now)).await
    }

    /// Adds an entry to the audit log.
    pub async fn add_audit_entry(&self, entry: NewAuditEntry, now: Timestamp) -> Result<()> {
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| keys::audit(c, &entry, now)).await
    }

    /// Adds to the ledger changes of what keys have spent.
    pub async fn add_spending(&self, spent: Vec<Spent>) -> Result<()> {
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| spending::add(c, &spent)).await
    }

    /// Forgets the oldest days of the ledger, except the last `days_max` on which any key has spent something.
    pub async fn prune_spending(&self, days_max: u32) -> Result<()> {
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| spending::prune(c, days_max)).await
    }

    /// Writes and changes nothing: succeeds when the store can be written.
    pub async fn check_writable(&self) -> Result<()> {
        let Store::Sqlite(sqlite) = self;
        sqlite.write(spending::rewrite).await
    }

    /// What every key has spent on each day from `since` on.
    pub async fn spending(&self, since: i32) -> Result<Vec<Spent>> {
        let Store::Sqlite(sqlite) = self;
        sqlite.read(move |c| spending::list(c, since)).await
    }

    /// The newest entries of the audit log with numbers below `before`, newest first.
    pub async fn audit_entries(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditEntry>> {
        let Store::Sqlite(sqlite) = self;
        sqlite.read(move |c| keys::audit_entries(c, before, limit)).await
    }

    /// Starts a new current generation, with applied sequence 0. Chunks and embeddings of the previous generation are kept until the new one
    /// is complete, so that switching back to its model before then needs no embedding. `None` if the collection is deleted.
    pub async fn start_generation(
        &self,
        id: CollectionId,
        fingerprint: &str,
        now: Timestamp,
    ) -> Result<Option<Collection>> {
        let fingerprint = fingerprint.to_owned();
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| generations::replace_current(c, id, &fingerprint, now)).await
    }

    /// Replaces the chunks of each document that is still at the prepared version, and skips the others. Stores the new embeddings that a
    /// chunk refers to, and deletes embeddings that no chunk refers to any more. Does nothing if the generation is no longer current.
    pub async fn save_prepared(
        &self,
        generation: GenerationId,
        prepared: Vec<PreparedDocument>,
        new_embeddings: Vec<(TextHash, Vec<f32>)>,
    ) -> Result<()> {
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| chunks::save_prepared(c, generation, &prepared, &new_embeddings)).await
    }

    /// Records the applied sequence of a generation's index; a lower one than recorded before is ignored. Jobs whose first operation is
    /// applied become running, jobs whose last operation is applied end and are returned.
    pub async fn record_applied(
        &self,
        generation: GenerationId,
        applied_seq: u64,
        now: Timestamp,
    ) -> Result<Vec<Job>> {
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| generations::record_applied(c, generation, applied_seq, now)).await
    }

    /// Adds documents that could not be prepared, each with the operation that stored it, to the errors of their unfinished jobs. The
    /// documents stay stored, and submitting one again counts as a change even if its content is the same. Call this before
    /// [`Store::record_applied`] for these operations.
    pub async fn fail_documents(
        &self,
        id: CollectionId,
        failed: Vec<(u64, DocumentError)>,
        job_error: Option<String>,
    ) -> Result<()> {
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| jobs::fail_documents(c, id, &failed, job_error.as_deref())).await
    }

    /// Cancels a job that is not finished, of this collection. Its documents stay stored; those of operations above `applied_seq` that are not in
    /// `applied_early` become [`JobDocumentState::Cancelled`](crate::JobDocumentState::Cancelled), and absent for the ingest worker. `None` if
    /// there is no such job.
    pub async fn cancel_job(
        &self,
        id: CollectionId,
        job: &str,
        applied_seq: u64,
        applied_early: Vec<u64>,
        now: Timestamp,
    ) -> Result<Option<Job>> {
        let job = job.to_owned();
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| job_control::cancel(c, id, &job, applied_seq, &applied_early, now)).await
    }

    /// The documents of a job, each with its state, and the cursor of the next page if there are more. Documents that were unchanged are not
    /// listed. `None` if there is no such job for the caller.
    ///
    /// # Errors
    /// `UnknownCursor` if the cursor is not one that this list returned.
    pub async fn job_documents(
        &self,
        caller: &Caller,
        id: &str,
        query: JobDocumentsQuery,
    ) -> Result<Option<(Vec<JobDocument>, Option<String>)>> {
        let (access, id) = (JobAccess::new(caller), id.to_owned());
        let Store::Sqlite(sqlite) = self;
        sqlite.read(move |c| job_control::documents(c, &access, &id, &query)).await
    }

    /// Deletes one batch of the finished jobs, and of the collection's applied operations, beyond `retention`. `false` if there are more.
    pub async fn prune(&self, id: CollectionId, retention: Retention) -> Result<bool> {
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| collections::prune(c, id, retention)).await
    }

    /// Empties the write-ahead log, which keeps what was deleted: rows themselves are overwritten when they are deleted. `false` if other
    /// transactions were running: try again later.
    pub async fn erase_deleted(&self) -> Result<bool> {
        let Store::Sqlite(sqlite) = self;
        sqlite.empty_log().await
    }

    /// Whether a document was made from the file with this SHA-256.
    pub async fn has_original(&self, sha256: &str) -> Result<bool> {
        let sha256 = sha256.to_owned();
        let Store::Sqlite(sqlite) = self;
        sqlite.read(move |c| originals::is_used(c, &sha256)).await
    }

    /// The job with this id. See [`Store::jobs`] for the jobs that exist for a caller.
    pub async fn job(&self, caller: &Caller, id: &str) -> Result<Option<Job>> {
        let (access, id) = (JobAccess::new(caller), id.to_owned());
        let Store::Sqlite(sqlite) = self;
        sqlite.read(move |c| jobs::by_id(c, &access, &id)).await
    }

    /// The jobs of all collections in the caller's allow list, deleted collections included, newest first, at most `limit`, and the cursor
    /// of the next page if there are more.
    ///
    /// A job has counts and errors of its documents. A caller with a filter therefore gets only the jobs that were submitted by a caller with
    /// an equal filter: their documents passed it, or were submitted by that caller and refused.
    ///
    /// # Errors
    /// `UnknownCursor` if `cursor` is not one that this list returned.
    pub async fn jobs(
        &self,
        caller: &Caller,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<(Vec<Job>, Option<String>)> {
        let (access, cursor) = (JobAccess::new(caller), cursor.map(str::to_owned));
        let Store::Sqlite(sqlite) = self;
        let damage = sqlite.damage.clone();
        sqlite.read(move |c| jobs::list(c, &access, limit, cursor.as_deref(), &damage)).await
    }

    /// Stores the features of judgments by their numbers, computed with embeddings of the model `fingerprint`. `None` if the document is
    /// not a hit of the query: the judgment is then processed, without features.
    pub async fn save_features(
        &self,
        id: CollectionId,
        fingerprint: &str,
        features: Vec<(u64, Option<String>)>,
    ) -> Result<()> {
        let fingerprint = fingerprint.to_owned();
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| feedback::save_features(c, id, &fingerprint, &features)).await
    }

    /// Adds to the query log, in one commit, and deletes the oldest entries beyond `entries_max` per collection. Entries of deleted
    /// collections are skipped.
    pub async fn log_queries(&self, queries: Vec<LoggedQuery>, entries_max: u64) -> Result<()> {
        let Store::Sqlite(sqlite) = self;
        sqlite.write(move |c| query_log::add(c, &queries, entries_max)).await
    }

    /// Reads and checks every row: checksums, gaps in the operation numbers, and contradictions between documents, operations and chunks.
    /// Takes as long as reading the whole store.
    pub async fn verify(&self) -> Result<VerifyReport> {
        let Store::Sqlite(sqlite) = self;
        sqlite.read(verify::verify).await
    }
}
