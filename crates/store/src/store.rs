//! The store: one method per question, the same for every database.

use std::path::Path;

use weir_policy::key::KeyHash;
use weir_policy::{Caller, KeyId};
use weir_postgres::Address;

use crate::access::{Access, JobAccess};
use crate::change::{Announcer, Change, Changes};
use crate::damage::Damage;
use crate::database::Database;
use crate::location::{Location, Place};
use crate::postgres::Postgres;
use crate::scripts::{
    chunks, collections, feedback, generations, idempotency, job_control, jobs, keys, originals, query_log,
    spending, verify, webhooks,
};
use crate::service;
use crate::sqlite::Sqlite;
use crate::tx::{Script, Tx, script};
use crate::{
    Acceptance, AuditEntry, Collection, CollectionId, DocumentError, DueWebhook, Error, Fence, GenerationId,
    IdempotencyKey, Job, JobDocument, JobDocumentsQuery, JobWithFiles, LoggedQuery, NewAuditEntry, NewKey,
    PreparedDocument, Result, Retention, Spent, StoreView, StoredKey, TextHash, Timestamp, VerifyReport,
    WebhookOutcome,
};

/// The store, in one of the supported databases. Cheap to clone; all clones are one store. Callers do not know which database it is.
///
/// Content is read through a [`StoreView`], which [`Store::view`] opens for a [`Caller`]. The writing methods here are the gateway's
/// own work: they take ids and return no content.
///
/// Every method can fail with [`Error::Closed`], `Unavailable`, `Damaged` or `Failed`; every writing method also with `Full`, `Conflict`
/// and `Replaced`. Something that does not exist is `None` or empty, not an error. A call whose future is dropped before it completes may
/// still take effect.
#[derive(Debug, Clone)]
pub struct Store {
    pub(crate) database: Database,
    pub(crate) damage: Damage,
    pub(crate) announcer: Announcer,
    /// The lease that the writes of a worker check.
    pub(crate) fence: Option<Fence>,
}

impl Store {
    /// Opens the store at a place, which is created if it is missing, and migrates it to the current format.
    ///
    /// # Errors
    /// `InUse`, `ReadOnly`, `Full`, `Damaged`, `NewerSchema`, `Unavailable`, `Unsupported`, `Unusable`, `Failed`.
    pub async fn open(location: &Location) -> Result<Store> {
        match &location.0 {
            Place::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || Store::open_sqlite(&folder)).await
            }
            Place::Database(address, folder) => Store::open_postgres(address, folder.as_deref()).await,
        }
    }

    /// Opens the store in `folder`, which is created if it is missing, and locks the folder until the store is closed or its last clone is
    /// dropped. Blocks while it reads and migrates: call it at start.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_sqlite(folder: &Path) -> Result<Store> {
        Sqlite::open(folder).map(Database::Sqlite).map(Store::of)
    }

    pub(crate) fn of(database: Database) -> Store {
        Store { database, damage: Damage::default(), announcer: Announcer::new(), fence: None }
    }

    /// `folder` is that of the gateway, if it is one: it is locked, and must belong to the service of the database.
    async fn open_postgres(address: &Address, folder: Option<&Path>) -> Result<Store> {
        let lock = match folder.map(Path::to_owned) {
            Some(folder) => Some(blocking(move || Sqlite::lock(&folder)).await?),
            None => None,
        };
        let announcer = Announcer::new();
        let postgres = Postgres::open(address, announcer.clone(), lock).await?;
        let damage = Damage::default();
        let store = Store { database: Database::Postgres(postgres), damage, announcer, fence: None };
        if let Some(folder) = folder {
            let (folder, found) = (folder.to_owned(), store.known_service().await?);
            let own_folder = folder.clone();
            let check = move || {
                let own =
                    if Sqlite::exists(&folder) { Some(Sqlite::service_of_folder(&folder)?) } else { None };
                service::check(&folder, found.as_ref(), own)
            };
            // before anything is written into a database that may be the wrong one
            blocking(check).await?;
            let service = store.service().await?;
            blocking(move || service::bind(&own_folder, &service)).await?;
        }
        Ok(store)
    }

    /// Whether there is a store at a place.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn exists(location: &Location) -> Result<bool> {
        match &location.0 {
            Place::Folder(folder) => Ok(Sqlite::exists(folder)),
            Place::Database(address, _) => Postgres::exists(address).await,
        }
    }

    /// Completes the queued calls, closes the database and gives its place free. Later calls on other clones return [`Error::Closed`].
    /// Durability does not depend on this call.
    pub async fn close(self) {
        self.database.close().await
    }

    /// The damaged rows that lists and the ingest worker have skipped since the store was opened, each by its kind and name. Bounded.
    pub fn damaged_rows(&self) -> Vec<String> {
        self.damage.list()
    }

    /// Whether the store can acknowledge changes, as far as is known without asking the database. After an error nothing is acknowledged until
    /// its cause is gone.
    ///
    /// # Errors
    /// `Replaced`, `Unavailable`.
    pub fn check(&self) -> Result<()> {
        self.database.check()
    }

    /// The full check of the store at a place, as [`Store::verify`], also while another process uses it.
    ///
    /// # Errors
    /// As [`Store::open`], except `InUse`.
    pub async fn verify_at(location: &Location) -> Result<VerifyReport> {
        match &location.0 {
            Place::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || Sqlite::verify_folder(&folder)).await
            }
            Place::Database(address, _) => Store::open_postgres(address, None).await?.verify().await,
        }
    }

    /// The original files of the store at a place: the SHA-256 of each in hexadecimal, its bytes, and the id of a document that has it. Also while
    /// another process uses the store.
    ///
    /// # Errors
    /// As [`Store::open`], except `InUse`.
    pub async fn originals_at(location: &Location) -> Result<Vec<(String, u64, String)>> {
        match &location.0 {
            Place::Folder(folder) => {
                let folder = folder.clone();
                blocking(move || Sqlite::originals_of_folder(&folder)).await
            }
            Place::Database(address, _) => {
                let store = Store::open_postgres(address, None).await?;
                store.database.read(script!(tx => originals::all(tx))).await
            }
        }
    }

    /// The changes from now on, by this process or by another one that uses the store.
    pub fn changes(&self) -> Changes {
        self.announcer.changes()
    }

    /// Runs a script as [`Database::write`], and announces the change after its commit.
    pub(crate) async fn write_and_tell<T: Send + 'static>(
        &self,
        change: Change,
        script: impl for<'t> FnOnce(&'t mut Tx<'_>) -> Script<'t, T> + Send + 'static,
    ) -> Result<T> {
        self.database.write_and_tell(change, &self.announcer, script).await
    }

    /// The collections in the caller's allow list, by name. Skips damaged rows.
    pub async fn collections(&self, caller: &Caller) -> Result<Vec<Collection>> {
        let damage = self.damage.clone();
        let mut found = self.database.read(script!(tx => collections::list(tx, &damage))).await?;
        found.retain(|collection| caller.sees(&collection.name));
        Ok(found)
    }

    /// The highest id that a collection has had in this store; 0 before the first.
    pub async fn last_collection_id(&self) -> Result<CollectionId> {
        self.database.read(script!(tx => collections::last_id(tx))).await
    }

    /// The collection called `name`; `None` if it does not exist or is outside the caller's allow list.
    pub async fn collection(&self, caller: &Caller, name: &str) -> Result<Option<Collection>> {
        if !caller.sees(name) {
            return Ok(None);
        }
        let name = name.to_owned();
        self.database.read(script!(tx => collections::by_name(tx, &name))).await
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
        self.write_and_tell(
            Change::Collections,
            script!(tx => collections::create(tx, &name, &settings, &fingerprint, now)),
        )
        .await
    }

    /// Stores an API key, and an audit entry whose subject becomes the key's number.
    pub async fn add_key(&self, key: NewKey, entry: NewAuditEntry, now: Timestamp) -> Result<StoredKey> {
        self.write_and_tell(Change::Keys, script!(tx => keys::add(tx, key, &entry, now))).await
    }

    /// Every API key, expired and revoked ones included, in the order of their creation.
    pub async fn keys(&self) -> Result<Vec<StoredKey>> {
        self.database.read(script!(tx => keys::list(tx))).await
    }

    /// Revokes an API key; `None` if there is none, or it is revoked already.
    pub async fn revoke_key(
        &self,
        id: KeyId,
        entry: NewAuditEntry,
        now: Timestamp,
    ) -> Result<Option<StoredKey>> {
        self.write_and_tell(
            Change::Keys,
            script!(tx => keys::change(tx, id, |stored| stored.revoked_at = Some(now), &entry, now)),
        )
        .await
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
        self.write_and_tell(Change::Keys, script!(tx => keys::change(tx, id, update, &entry, now))).await
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
        self.write_and_tell(Change::Keys, script!(tx => keys::change(tx, id, rotate, &entry, now))).await
    }

    /// Adds an entry to the audit log.
    pub async fn add_audit_entry(&self, entry: NewAuditEntry, now: Timestamp) -> Result<()> {
        self.database.write(script!(tx => keys::audit(tx, &entry, now))).await
    }

    /// Adds to the ledger changes of what keys have spent.
    pub async fn add_spending(&self, spent: Vec<Spent>) -> Result<()> {
        self.database.write(script!(tx => spending::add(tx, &spent))).await
    }

    /// Forgets the oldest days of the ledger, except the last `days_max` on which any key has spent something.
    pub async fn prune_spending(&self, days_max: u32) -> Result<()> {
        self.database.write(script!(tx => spending::prune(tx, days_max))).await
    }

    /// Writes and changes nothing: succeeds when the store can be written.
    pub async fn check_writable(&self) -> Result<()> {
        self.database.write(script!(tx => spending::rewrite(tx))).await
    }

    /// Spending of every key on each day from `since` on.
    pub async fn spending(&self, since: i32) -> Result<Vec<Spent>> {
        self.database.read(script!(tx => spending::list(tx, since))).await
    }

    /// The newest entries of the audit log with numbers below `before`, newest first.
    pub async fn audit_entries(&self, before: Option<u64>, limit: usize) -> Result<Vec<AuditEntry>> {
        self.database.read(script!(tx => keys::audit_entries(tx, before, limit))).await
    }

    /// Starts a new current generation, with applied sequence 0. Chunks and embeddings of the previous generation are kept until the new one
    /// is complete, so that switching back to its model before then needs no embedding. `None` if the collection is deleted.
    pub async fn start_generation(
        &self,
        id: CollectionId,
        fingerprint: &str,
        now: Timestamp,
    ) -> Result<Option<Collection>> {
        self.replace_generation(id, fingerprint, None, now).await
    }

    /// The same, and replaces the settings of the collection at once: no process sees the one without the other.
    pub async fn start_generation_with(
        &self,
        id: CollectionId,
        fingerprint: &str,
        settings: &str,
        now: Timestamp,
    ) -> Result<Option<Collection>> {
        self.replace_generation(id, fingerprint, Some(settings.to_owned()), now).await
    }

    async fn replace_generation(
        &self,
        id: CollectionId,
        fingerprint: &str,
        settings: Option<String>,
        now: Timestamp,
    ) -> Result<Option<Collection>> {
        let fingerprint = fingerprint.to_owned();
        self.write_and_tell(
            Change::Collections,
            script!(tx => generations::replace_current(tx, id, &fingerprint, settings, now)),
        )
        .await
    }

    /// Replaces the chunks of each document that is still at the prepared version, and skips the others. Stores the new embeddings that a
    /// chunk refers to, and deletes embeddings that no chunk refers to any more. Does nothing if the generation is no longer current.
    pub async fn save_prepared(
        &self,
        generation: GenerationId,
        prepared: Vec<PreparedDocument>,
        new_embeddings: Vec<(TextHash, Vec<f32>)>,
    ) -> Result<()> {
        let fence = self.fence;
        self.database
            .write(script!(tx => chunks::save_prepared(tx, fence, generation, &prepared, &new_embeddings)))
            .await
    }

    /// Records the applied sequence of a generation's index; a lower one than recorded before is ignored. Jobs whose first operation is
    /// applied become running, jobs whose last operation is applied end and are returned.
    pub async fn record_applied(
        &self,
        generation: GenerationId,
        applied_seq: u64,
        now: Timestamp,
    ) -> Result<Vec<Job>> {
        let fence = self.fence;
        let Some(Fence { collection, .. }) = fence else {
            return self
                .database
                .write(script!(tx => generations::record_applied(tx, None, generation, applied_seq, now)))
                .await;
        };
        // the other gateways apply what is prepared now
        self.write_and_tell(
            Change::Operations(collection),
            script!(tx => generations::record_applied(tx, fence, generation, applied_seq, now)),
        )
        .await
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
        let fence = self.fence;
        self.database
            .write(script!(tx => jobs::fail_documents(tx, fence, id, &failed, job_error.as_deref())))
            .await
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
        let (job, fence) = (job.to_owned(), self.fence);
        self.write_and_tell(
            Change::Operations(id),
            script!(tx => job_control::cancel(tx, fence, id, &job, applied_seq, &applied_early, now)),
        )
        .await
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
        self.database.read(script!(tx => job_control::documents(tx, &access, &id, &query))).await
    }

    /// The result that an earlier submission with this idempotency key stored. `None` if there was none, or it is not kept any more. A later submission
    /// with the key decides again: this read saves work.
    ///
    /// # Errors
    /// `IdempotencyMismatch` if it asked for something else.
    pub async fn repeated(&self, key: IdempotencyKey, now: Timestamp) -> Result<Option<Acceptance>> {
        self.database.read(script!(tx => idempotency::find(tx, &key, now))).await
    }

    /// When the next attempt of any webhook is due; `None` while no job with a webhook has ended.
    pub async fn next_webhook_due(&self) -> Result<Option<Timestamp>> {
        self.database.read(script!(tx => webhooks::next_due(tx))).await
    }

    /// Begins attempts of due webhooks, the longest due first, at most `limit`. `may_send` is asked for the origin of each, in this order; those
    /// for which it is false stay due. The others are due again at `until`, unless [`Store::finish_webhook`] is called before: an attempt that is
    /// interrupted is repeated.
    pub async fn claim_webhooks(
        &self,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
        may_send: impl FnMut(&str) -> bool + Send + 'static,
    ) -> Result<Vec<DueWebhook>> {
        self.database.write(script!(tx => webhooks::claim(tx, now, until, limit, may_send))).await
    }

    /// Records what became of an attempt of a job's webhook. Ignored if a later attempt was begun.
    pub async fn finish_webhook(
        &self,
        job: &str,
        attempt: u64,
        outcome: WebhookOutcome,
        now: Timestamp,
    ) -> Result<()> {
        let job = job.to_owned();
        self.database.write(script!(tx => webhooks::finish(tx, &job, attempt, &outcome, now))).await
    }

    /// Deletes one batch of the finished jobs, of the collection's applied operations, and of the idempotency keys, beyond `retention`. `false` if there are more.
    pub async fn prune(&self, id: CollectionId, retention: Retention) -> Result<bool> {
        self.database.write(script!(tx => collections::prune(tx, id, retention))).await
    }

    /// Takes what was deleted out of the database's files, as far as the gateway can: SQLite overwrites rows when they are deleted, and keeps
    /// them in its write-ahead log, which is emptied; PostgreSQL takes them out by vacuum, and keeps them in its log and backups. `false` if
    /// other transactions were running: try again later.
    pub async fn erase_deleted(&self) -> Result<bool> {
        self.database.erase_deleted().await
    }

    /// The jobs with files that are not read or have failed, oldest first.
    pub async fn jobs_with_files(&self) -> Result<Vec<JobWithFiles>> {
        let damage = self.damage.clone();
        self.database.read(script!(tx => jobs::with_files(tx, &damage))).await
    }

    /// Forgets the files of jobs that have ended: they are not tried again.
    pub async fn forget_files(&self, jobs: Vec<String>) -> Result<()> {
        self.database.write(script!(tx => jobs::forget_files(tx, &jobs))).await
    }

    /// Whether a document was made from the file with this SHA-256.
    pub async fn has_original(&self, sha256: &str) -> Result<bool> {
        let sha256 = sha256.to_owned();
        self.database.read(script!(tx => originals::is_used(tx, &sha256))).await
    }

    /// The job with this id. See [`Store::jobs`] for the jobs that exist for a caller.
    pub async fn job(&self, caller: &Caller, id: &str) -> Result<Option<Job>> {
        let (access, id) = (JobAccess::new(caller), id.to_owned());
        self.database.read(script!(tx => jobs::by_id(tx, &access, &id))).await
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
        let damage = self.damage.clone();
        self.database.read(script!(tx => jobs::list(tx, &access, limit, cursor.as_deref(), &damage))).await
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
        self.database.write(script!(tx => feedback::save_features(tx, id, &fingerprint, &features))).await
    }

    /// Adds to the query log, in one commit, and deletes the oldest entries beyond `entries_max` per collection. Entries of deleted
    /// collections are skipped.
    pub async fn log_queries(&self, queries: Vec<LoggedQuery>, entries_max: u64) -> Result<()> {
        self.database.write(script!(tx => query_log::add(tx, &queries, entries_max))).await
    }

    /// Reads and checks every row: checksums, gaps in the operation numbers, and contradictions between documents, operations and chunks.
    /// Takes as long as reading the whole store.
    pub async fn verify(&self) -> Result<VerifyReport> {
        self.database.read(script!(tx => verify::verify(tx))).await
    }
}

/// Runs what waits for files on a thread that may.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::Closed))
}
