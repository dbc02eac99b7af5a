//! The worker of one collection: applies the store's operations to the index, in order, batch by batch.

use std::collections::HashSet;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use weir_api::ErrorCode;
use weir_index::{Change, HistoryPoint, IndexError, IndexedDocument};
use weir_store::{DocumentError, DocumentState, Operation, StoredDocument};

use super::large::LargeDocuments;
use super::share::{Share, Turn};
use super::{IngestError, cancel};
use crate::clock::now;
use crate::open_collection::OpenCollection;
use weir_inference::InferenceError;
use weir_preparation::Preparation;

/// Documents per read from the store, so that the bytes of a batch are checked often.
const READ_DOCUMENTS_MAX: usize = 16;

/// Estimated bytes per token.
const BYTES_PER_TOKEN: usize = 4;

/// First and longest wait after a failure; it doubles each time.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Why jobs wait while the engine does not answer. The log has the addresses.
const ENGINE_UNAVAILABLE: &str = "the engine of the collection does not answer";

/// Longest wait for a database or an engine that can't be reached.
const UNAVAILABLE_RETRY_AFTER: Duration = Duration::from_secs(1);

/// Attempts of a whole batch; after that, documents are prepared one by one to find the one that cannot be embedded.
const WHOLE_ATTEMPTS_MAX: u64 = 3;

/// Interval at which finished jobs and applied operations beyond their limits are removed.
const PRUNE_EVERY: Duration = Duration::from_secs(60);

/// Interval at which an idle collection checks that its index files still exist.
const CHECK_FILES_EVERY: Duration = Duration::from_secs(5);

/// Idle time after which small segments are merged.
const FLUSH_AFTER: Duration = Duration::from_secs(2);

/// Applies operations until the collection is closed.
pub(crate) async fn run(collection: Arc<OpenCollection>) {
    let mut wait = RETRY_AFTER.0;
    let mut failures = 0;
    let mut chores = Chores::new(&collection);
    let (mut is_flushed, mut has_error) = (false, false);
    let mut large = LargeDocuments::none(collection.engine.applied_seq());
    let mut failed_at = 0;
    let mut share = collection.preparer.store.is_shared().then(Share::default);
    loop {
        let idle = collection.operations_added.notified();
        match share.is_none() || collection.preparer.lease.get().is_some() {
            true => cancel::carry_out(&collection, &mut large).await,
            false => collection.cancellations.refuse_all(),
        }
        let attempt = Attempt::after(failures, collection.ingest.attempts_max);
        // a panic must not end the worker: nothing would become searchable any more
        let step = step_shared(&collection, attempt, &mut chores, &mut large, share.as_mut());
        let step = AssertUnwindSafe(step).catch_unwind();
        let step = tokio::select! {
            () = collection.closing.cancelled() => return,
            step = step => step.unwrap_or(Err(IngestError::Interrupted)),
        };
        collection.tend_previous().await;
        let applied_seq = collection.engine.applied_seq();
        if step.is_err() {
            large = LargeDocuments::none(applied_seq);
        }
        if matches!(step, Ok(Step::Idle | Step::Applied)) && std::mem::take(&mut has_error) {
            // also when there was nothing to apply: what failed was a chore
            collection.note_failure(None);
        }
        match step {
            Ok(Step::Applied) => {
                is_flushed = false;
                // what is applied beside a document that fails again and again is no success
                if applied_seq > failed_at {
                    (wait, failures, failed_at) = (RETRY_AFTER.0, 0, 0);
                }
            }
            // the next batch has one attempt, until the model works again
            Ok(Step::GaveUp) => {
                is_flushed = false;
                pause(&collection, wait).await;
            }
            Ok(Step::Interrupted) => {}
            Ok(Step::Idle) => tokio::select! {
                () = collection.closing.cancelled() => return,
                () = idle => {}
                () = collection.cancellations.added() => {}
                () = large.wait(), if !large.is_empty() => {}
                () = flush_when_idle(&collection), if !is_flushed => is_flushed = true,
                () = tokio::time::sleep(CHECK_FILES_EVERY) => check_files(&collection).await,
            },
            Err(IngestError::Store(error @ weir_store::Error::Damaged { what: "operation", .. })) => {
                // it may have been a deletion: an index that is built from the documents that exist does not need it
                tracing::warn!(collection = collection.name, %error, "an operation cannot be read: the index is rebuilt");
                let discarded = collection.engine.discard().await;
                collection.note_lost(&discarded);
                if let Err(error) = discarded
                    && !matches!(error, IndexError::Lost { .. })
                {
                    collection.note_failure(Some(error.to_string()));
                    has_error = true;
                    pause(&collection, wait).await;
                }
            }
            Err(IngestError::Store(weir_store::Error::LeaseLost)) => collection.lose_lease(),
            Err(IngestError::Index(error @ IndexError::Lost { .. })) => {
                collection.note_lost(&Err::<(), _>(error))
            }
            Err(error) => {
                tracing::error!(collection = collection.name, %error, retry_after = ?wait, "ingest failed; it is retried");
                // what fails at all gateways alike makes none of them unready
                if matches!(error, IngestError::Index(IndexError::Unavailable { .. })) {
                    collection.note_unavailable(ENGINE_UNAVAILABLE.to_owned());
                } else if !(share.is_some() && is_unavailable(&error)) {
                    collection.note_failure(Some(error.to_string()));
                }
                has_error = true;
                failed_at = applied_seq;
                failures += u64::from(matches!(error, IngestError::Inference(_) | IngestError::Interrupted));
                pause(&collection, wait).await;
                let wait_max = if is_unavailable(&error) { UNAVAILABLE_RETRY_AFTER } else { RETRY_AFTER.1 };
                wait = (wait * 2).min(wait_max);
            }
        }
    }
}

fn is_unavailable(error: &IngestError) -> bool {
    matches!(
        error,
        IngestError::Store(weir_store::Error::Unavailable { .. })
            | IngestError::Index(IndexError::Unavailable { .. })
    )
}

/// Waits after a failure, until the collection is closed or a job is to be cancelled.
async fn pause(collection: &OpenCollection, wait: Duration) {
    tokio::select! {
        () = collection.closing.cancelled() => {}
        () = collection.cancellations.added() => {}
        () = tokio::time::sleep(wait) => {}
    }
}

/// Periodic work, and the time at which it was last done.
struct Chores {
    prune_at: Instant,
    /// The applied sequence when the store's log was last emptied.
    emptied_at: u64,
    /// The applied sequence that the store knows; `None` before the first time, when the last process may have ended before it recorded that.
    recorded: Option<u64>,
}

impl Chores {
    fn new(collection: &OpenCollection) -> Chores {
        Chores { prune_at: Instant::now(), emptied_at: collection.engine.applied_seq(), recorded: None }
    }

    /// Records the applied sequence if that did not succeed when it was reached: jobs end by it.
    async fn record_applied(&mut self, collection: &OpenCollection) -> Result<(), IngestError> {
        let applied_seq = collection.engine.applied_seq();
        if self.recorded != Some(applied_seq) {
            record_applied(collection, applied_seq).await?;
            self.recorded = Some(applied_seq);
        }
        Ok(())
    }

    /// Removes what was deleted from the index, and earlier ones, if that is due.
    async fn tidy(&mut self, collection: &OpenCollection) {
        if Instant::now() >= self.prune_at {
            tidy_index(collection).await;
            self.prune_at = Instant::now() + PRUNE_EVERY.min(collection.compact_after.max(CHECK_FILES_EVERY));
        }
    }

    /// Prunes the store, removes what was deleted from index and store; `false` if there is more to prune.
    async fn prune(&mut self, collection: &OpenCollection) -> Result<bool, IngestError> {
        if Instant::now() < self.prune_at {
            return Ok(true);
        }
        let store = &collection.preparer.store;
        let is_done = store.prune(collection.id, collection.retention()).await?;
        tidy_index(collection).await;
        let applied_seq = collection.engine.applied_seq();
        if applied_seq != self.emptied_at && store.erase_deleted().await? {
            self.emptied_at = applied_seq;
        }
        if is_done {
            self.prune_at = Instant::now() + PRUNE_EVERY.min(collection.compact_after.max(CHECK_FILES_EVERY));
        }
        Ok(is_done)
    }
}

/// Checks that the files of the index exist.
async fn check_files(collection: &OpenCollection) {
    if !collection.may_change_index() {
        return;
    }
    match collection.engine.check_files().await {
        Ok(()) => {}
        Err(error @ IndexError::Lost { .. }) => collection.note_lost(&Err::<(), _>(error)),
        Err(error) => {
            tracing::warn!(collection = collection.name, %error, "the files of the index were not checked")
        }
    }
}

/// Removes what was deleted from the index files, copies them, and removes earlier ones, if it is time.
async fn tidy_index(collection: &OpenCollection) {
    let started = Instant::now();
    match collection.engine.compact_if_due(collection.compact_after).await {
        Ok(false) => {}
        Ok(true) => {
            tracing::info!(collection = collection.name, took = ?started.elapsed(), "the index was compacted")
        }
        Err(error @ IndexError::Lost { .. }) => collection.note_lost(&Err::<(), _>(error)),
        Err(error) => {
            tracing::warn!(collection = collection.name, %error, "the index was not compacted; it is tried again")
        }
    }
    if collection.pending_operations() == 0 {
        let engine = collection.engine.clone();
        // not awaited: batches are applied meanwhile
        tokio::spawn(async move { engine.copy_if_due().await });
    }
    collection.remove_superseded().await;
}

/// Waits until the collection is idle and merges small segments. Batches are applied meanwhile.
async fn flush_when_idle(collection: &OpenCollection) {
    tokio::time::sleep(FLUSH_AFTER).await;
    let started = Instant::now();
    match collection.engine.flush().await {
        Ok(()) => {
            tracing::debug!(collection = collection.name, took = ?started.elapsed(), "small segments merged")
        }
        // searches use the segments as they are
        Err(error) => tracing::warn!(collection = collection.name, %error, "small segments were not merged"),
    }
}

/// How a batch is prepared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// All documents together.
    Whole,
    /// One by one, to find those that the model refuses.
    Apart,
    /// One by one; what fails now has failed.
    Last,
}

impl Attempt {
    /// The attempt after some failures of the model.
    fn after(failures: u64, attempts_max: u64) -> Attempt {
        match failures.saturating_add(1) {
            attempt if attempt >= attempts_max => Attempt::Last,
            attempt if attempt > WHOLE_ATTEMPTS_MAX => Attempt::Apart,
            _ => Attempt::Whole,
        }
    }
}

/// The outcome of a batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// There was none.
    Idle,
    /// It is searchable, except for the documents that the model refuses.
    Applied,
    /// The model failed too often: its documents are not searchable, and their jobs have failed.
    GaveUp,
    /// A job is to be cancelled; the batch was not applied.
    Interrupted,
}

/// As [`step`]; where other gateways use the store, only with the lease, and otherwise what another gateway has prepared.
async fn step_shared(
    collection: &OpenCollection,
    attempt: Attempt,
    chores: &mut Chores,
    large: &mut LargeDocuments,
    share: Option<&mut Share>,
) -> Result<Step, IngestError> {
    let Some(share) = share else { return step(collection, attempt, chores, large).await };
    let turn = share.turn(collection).await?;
    if !matches!(turn, Turn::Work) {
        *large = LargeDocuments::none(collection.engine.applied_seq());
        chores.tidy(collection).await;
    }
    match turn {
        Turn::Work => step(collection, attempt, chores, large).await,
        Turn::Follow(from, position) => match share.follow(collection, from, position).await? {
            true => Ok(Step::Applied),
            false => Ok(Step::Interrupted),
        },
        Turn::Wait => Ok(Step::Idle),
    }
}

/// Applies one batch, and prunes the store when that is due.
async fn step(
    collection: &OpenCollection,
    attempt: Attempt,
    chores: &mut Chores,
    large: &mut LargeDocuments,
) -> Result<Step, IngestError> {
    large.check(collection.engine.applied_seq());
    chores.record_applied(collection).await?;
    let step = match large.take_finished()? {
        Some(prepared) => {
            let changes = prepared.documents.into_iter().map(Change::Put).collect();
            let read_to = store_history(collection).await?;
            apply(collection, changes, (large.next_applied_seq(), read_to), &prepared.preparation).await?;
            collection.metrics.documents_indexed(1);
            Step::Applied
        }
        None if large.is_full() => Step::Idle,
        None => apply_next(collection, attempt, large).await?,
    };
    if step == Step::Interrupted {
        return Ok(step);
    }
    chores.recorded = Some(collection.engine.applied_seq());
    let is_done = chores.prune(collection).await?;
    // what is left to prune is not idleness
    Ok(if step == Step::Idle && !is_done { Step::Applied } else { step })
}

/// Applies one batch, without its documents that fill a batch by themselves: their preparation is started.
async fn apply_next(
    collection: &OpenCollection,
    attempt: Attempt,
    large: &mut LargeDocuments,
) -> Result<Step, IngestError> {
    let preparer = &collection.preparer;
    let limit = collection.ingest.batch_documents_max;
    let skip_to = collection.empty_at.load(Ordering::Relaxed);
    let operations = collection.preparer.documents.operations_to_index(large.read_to, limit, skip_to).await?;
    let Some(mut batch) = read_batch(collection, operations).await? else { return Ok(Step::Idle) };
    if attempt == Attempt::Whole {
        for (operation, document) in batch.take_large(large_bytes_min(collection)) {
            let preparation = collection.progress.prepare(std::iter::once(operation));
            large.start(preparer, operation, document, preparation);
        }
    }
    let ids = batch.present.iter().map(|(_, document)| &document.id).chain(&batch.absent);
    ids.for_each(|id| large.supersede(id));
    let preparation = collection.progress.prepare(batch.present.iter().map(|(operation, _)| *operation));
    let present: Vec<StoredDocument> = batch.present.into_iter().map(|(_, document)| document).collect();

    let started = Instant::now();
    let count = present.len() + batch.absent.len();
    let prepared = tokio::select! {
        () = collection.cancellations.added() => return Ok(Step::Interrupted),
        prepared = prepare(collection, present, attempt, &preparation) => prepared?,
    };
    let Prepared { documents, failed, job_error } = prepared;
    // the previous version of a document that cannot be embedded must not be found in its place
    let refused = failed.iter().map(|(_, error)| error.document_id.clone());
    // not by what is applied, which a large document may hold up
    let before = batch.last_operation + 1;
    let removed = batch.absent.into_iter().chain(refused).map(|id| Change::Remove { id, before });
    let changes: Vec<Change> = removed.chain(documents.into_iter().map(Change::Put)).collect();
    let (refused, indexed) =
        ((failed.len() + batch.damaged) as u64, (count - failed.len() - batch.damaged) as u64);
    if !failed.is_empty() {
        preparer.worker_store()?.fail_documents(collection.id, failed, job_error.clone()).await?;
    }
    large.read_to = batch.last_operation;
    let applied_seq = large.next_applied_seq();
    apply(collection, changes, (applied_seq, batch.read_to), &preparation).await?;

    collection.metrics.documents_indexed(indexed);
    collection.metrics.documents_failed(refused);
    let step = if job_error.is_some() { Step::GaveUp } else { Step::Applied };
    collection.note_failure(job_error);
    tracing::debug!(collection = collection.name, applied_seq, documents = count, took = ?started.elapsed(), "batch applied");
    Ok(step)
}

/// Bytes of a document that fills a batch by itself.
fn large_bytes_min(collection: &OpenCollection) -> usize {
    collection.ingest.batch_tokens_max.saturating_mul(BYTES_PER_TOKEN)
}

/// Applies changes to the index and records the applied sequence.
async fn apply(
    collection: &OpenCollection,
    changes: Vec<Change>,
    (applied_seq, read_to): (u64, Option<HistoryPoint>),
    preparation: &Preparation,
) -> Result<(), IngestError> {
    collection.apply_to_index(changes, applied_seq, read_to).await?;
    record_applied(collection, applied_seq).await?;
    collection.progress.applied(preparation, applied_seq);
    collection.notify_applied(applied_seq);
    Ok(())
}

/// Records the applied sequence, by which jobs advance and end.
async fn record_applied(collection: &OpenCollection, applied_seq: u64) -> Result<(), IngestError> {
    let preparer = &collection.preparer;
    let store = preparer.worker_store()?;
    let ended = store.record_applied(preparer.generation, applied_seq, now()).await?;
    ended.iter().for_each(|job| collection.note_ended(job));
    Ok(())
}

/// The store's last operation.
pub(super) async fn store_history(collection: &OpenCollection) -> Result<Option<HistoryPoint>, IngestError> {
    let last = collection.preparer.documents.last_operation().await?;
    Ok(last.map(|(operation, identity)| HistoryPoint { operation, identity }))
}

/// Documents that could not be embedded: the operation that stored each, and its error.
type Failed = Vec<(u64, DocumentError)>;

/// Documents of a batch that were prepared.
#[derive(Default)]
struct Prepared {
    documents: Vec<IndexedDocument>,
    failed: Failed,
    /// Why the jobs of the failed documents have failed: the model embeds no text.
    job_error: Option<String>,
}

/// Prepares the documents of a batch.
async fn prepare(
    collection: &OpenCollection,
    documents: Vec<StoredDocument>,
    attempt: Attempt,
    preparation: &Preparation,
) -> Result<Prepared, IngestError> {
    match attempt {
        Attempt::Whole => {
            let documents = collection.preparer.prepare(documents, preparation).await?;
            Ok(Prepared { documents, ..Prepared::default() })
        }
        Attempt::Apart | Attempt::Last => {
            prepare_apart(collection, documents, attempt == Attempt::Last, preparation).await
        }
    }
}

/// Prepares each document by itself and separates those whose text the model refuses, and if `is_last` every one that fails.
async fn prepare_apart(
    collection: &OpenCollection,
    documents: Vec<StoredDocument>,
    is_last: bool,
    preparation: &Preparation,
) -> Result<Prepared, IngestError> {
    let preparer = &collection.preparer;
    let mut prepared = Prepared::default();
    for document in documents {
        let (id, version) = (document.id.clone(), document.version);
        let error = match preparer.prepare(vec![document], preparation).await {
            Ok(one) => {
                prepared.documents.extend(one);
                continue;
            }
            Err(
                error @ (IngestError::Inference(InferenceError::Stopping)
                | IngestError::Store(_)
                | IngestError::Index(_)),
            ) => return Err(error),
            Err(error) => error,
        };
        let is_refused = match &error {
            IngestError::Inference(error) => preparer.is_text_refused(error).await,
            // reading the text panicked
            IngestError::Store(_) | IngestError::Index(_) | IngestError::Interrupted => true,
        };
        if !is_refused && !is_last {
            return Err(error);
        }
        tracing::warn!(collection = collection.name, document = id, %error, "a document cannot be embedded");
        if !is_refused && prepared.job_error.is_none() {
            let attempts = collection.ingest.attempts_max;
            prepared.job_error =
                Some(format!("{error}, {attempts} times in sequence (`ingest.attempts_max`)"));
        }
        prepared.failed.push((version, refused(id, &error)));
    }
    Ok(prepared)
}

fn refused(document_id: String, error: &IngestError) -> DocumentError {
    let is_upstream = matches!(error, IngestError::Inference(InferenceError::Upstream(_)));
    let code = if is_upstream { ErrorCode::UpstreamError } else { ErrorCode::Internal };
    let message = format!("{error}. The document is stored and not searchable; change it, or send it again.");
    DocumentError { document_id, code: code.as_str().to_owned(), message }
}

/// Documents to apply, and the last of their operations.
pub(super) struct Batch {
    /// With the operation of each.
    pub(super) present: Vec<(u64, StoredDocument)>,
    /// Deleted documents, and damaged ones.
    pub(super) absent: Vec<String>,
    /// How many of them are damaged.
    damaged: usize,
    pub(super) last_operation: u64,
    /// The store's last operation after the documents were read.
    pub(super) read_to: Option<HistoryPoint>,
}

impl Batch {
    /// Takes out the documents of at least `bytes_min`.
    fn take_large(&mut self, bytes_min: usize) -> Vec<(u64, StoredDocument)> {
        self.present.extract_if(.., |(_, document)| document.text.len() >= bytes_min).collect()
    }
}

/// Reads the current versions of the operations' documents until the batch has its limit of bytes.
pub(super) async fn read_batch(
    collection: &OpenCollection,
    operations: Vec<Operation>,
) -> Result<Option<Batch>, IngestError> {
    let bytes_max = large_bytes_min(collection);
    let mut seen = HashSet::new();
    let mut batch =
        Batch { present: Vec::new(), absent: Vec::new(), damaged: 0, last_operation: 0, read_to: None };
    let mut bytes = 0;
    for part in operations.chunks(READ_DOCUMENTS_MAX) {
        let fresh: Vec<&Operation> = part.iter().filter(|op| seen.insert(op.document_id.clone())).collect();
        let ids: Vec<String> = fresh.iter().map(|op| op.document_id.clone()).collect();
        let states = collection.preparer.documents.document_states(ids.clone()).await?;
        for ((operation, id), state) in fresh.iter().map(|op| op.number).zip(ids).zip(states) {
            match state {
                DocumentState::Present(document) => {
                    bytes += document.text.len();
                    batch.present.push((operation, document));
                }
                DocumentState::Absent => batch.absent.push(id),
                DocumentState::Damaged => {
                    tracing::error!(
                        collection = collection.name,
                        document = id,
                        "a document is damaged and not searchable; ingest it again"
                    );
                    batch.damaged += 1;
                    batch.absent.push(id);
                }
            }
        }
        batch.last_operation = part.last().map_or(batch.last_operation, |op| op.number);
        if bytes >= bytes_max {
            break;
        }
    }
    if batch.last_operation == 0 {
        return Ok(None);
    }
    batch.read_to = store_history(collection).await?;
    Ok(Some(batch))
}
