//! The worker of one collection: applies the store's operations to the index, in order, batch by batch.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_api::ErrorCode;
use weir_index::{Change, IndexError, IndexedDocument};
use weir_store::{DocumentError, DocumentState, Operation, StoredDocument};

use super::IngestError;
use crate::clock::now;
use crate::open_collection::OpenCollection;
use weir_inference::InferenceError;

/// Documents per read from the store, so that the bytes of a batch are checked often.
const READ_DOCUMENTS_MAX: usize = 16;

/// Estimated bytes per token.
const BYTES_PER_TOKEN: usize = 4;

/// First and longest wait after a failure; it doubles each time.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Attempts of a whole batch; after that, documents are prepared one by one to find the one that cannot be embedded.
const WHOLE_ATTEMPTS_MAX: u32 = 3;

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
    let mut chores = Chores { prune_at: Instant::now(), emptied_at: collection.engine.applied_seq() };
    let mut is_flushed = false;
    loop {
        let idle = collection.operations_added.notified();
        let step = tokio::select! {
            () = collection.closing.cancelled() => return,
            step = step(&collection, failures >= WHOLE_ATTEMPTS_MAX, &mut chores) => step,
        };
        match step {
            Ok(true) => (wait, failures, is_flushed) = (RETRY_AFTER.0, 0, false),
            Ok(false) => tokio::select! {
                () = collection.closing.cancelled() => return,
                () = idle => {}
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
                    tokio::time::sleep(wait).await;
                }
            }
            Err(IngestError::Index(error @ IndexError::Lost { .. })) => {
                collection.note_lost(&Err::<(), _>(error))
            }
            Err(error) => {
                tracing::error!(collection = collection.name, %error, retry_after = ?wait, "ingest failed; it is retried");
                collection.note_failure(Some(error.to_string()));
                failures += u32::from(matches!(error, IngestError::Inference(_)));
                tokio::select! {
                    () = collection.closing.cancelled() => return,
                    () = tokio::time::sleep(wait) => {}
                }
                wait = (wait * 2).min(RETRY_AFTER.1);
            }
        }
    }
}

/// What is done from time to time, and when it was last done.
struct Chores {
    prune_at: Instant,
    /// The applied sequence when the store's log was last emptied.
    emptied_at: u64,
}

impl Chores {
    /// Prunes the store, removes what was deleted from index and store; `false` if there is more to prune.
    async fn prune(&mut self, collection: &OpenCollection) -> Result<bool, IngestError> {
        if Instant::now() < self.prune_at {
            return Ok(true);
        }
        let store = &collection.preparer.store;
        let is_done = store.prune(collection.id, collection.retention()).await?;
        compact_if_due(collection).await;
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
    match collection.engine.check_files().await {
        Ok(()) => {}
        Err(error @ IndexError::Lost { .. }) => collection.note_lost(&Err::<(), _>(error)),
        Err(error) => {
            tracing::warn!(collection = collection.name, %error, "the files of the index were not checked")
        }
    }
}

/// Removes what was deleted from the index files, if it is time.
async fn compact_if_due(collection: &OpenCollection) {
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

/// Applies one batch, and prunes the store when that is due; `false` if there was nothing to do.
async fn step(collection: &OpenCollection, apart: bool, chores: &mut Chores) -> Result<bool, IngestError> {
    let has_applied = apply_next(collection, apart).await?;
    let is_done = chores.prune(collection).await?;
    Ok(has_applied || !is_done)
}

/// Applies one batch, preparing its documents one by one if `apart`; `false` if there was nothing to do.
async fn apply_next(collection: &OpenCollection, apart: bool) -> Result<bool, IngestError> {
    let store = &collection.preparer.store;
    let after = collection.engine.applied_seq();
    let limit = collection.ingest.batch_documents_max;
    let skip_to = collection.empty_at.load(Ordering::Relaxed);
    let operations = collection.preparer.documents.operations_to_index(after, limit, skip_to).await?;
    let Some(batch) = read_batch(collection, operations).await? else { return Ok(false) };

    let started = Instant::now();
    let count = batch.present.len() + batch.absent.len();
    let (documents, failed) = match apart {
        false => (collection.preparer.prepare(batch.present).await?, Vec::new()),
        true => prepare_apart(collection, batch.present).await?,
    };
    // the previous version of a document that cannot be embedded must not be found in its place
    let refused = failed.iter().map(|(_, error)| error.document_id.clone());
    let removed = batch.absent.into_iter().chain(refused).map(|id| Change::Remove { id });
    let changes = removed.chain(documents.into_iter().map(Change::Put)).collect();
    let (refused, indexed) =
        ((failed.len() + batch.damaged) as u64, (count - failed.len() - batch.damaged) as u64);
    if !failed.is_empty() {
        store.fail_documents(collection.id, failed).await?;
    }
    collection.engine.apply(changes, batch.applied_seq).await?;
    store.record_applied(collection.preparer.generation, batch.applied_seq, now()).await?;

    collection.metrics.documents_indexed(indexed);
    collection.metrics.documents_failed(refused);
    collection.note_failure(None);
    collection.notify_applied(batch.applied_seq);
    tracing::debug!(collection = collection.name, applied_seq = batch.applied_seq, documents = count, took = ?started.elapsed(), "batch applied");
    Ok(true)
}

/// Documents that could not be embedded: the operation that stored each, and its error.
type Failed = Vec<(u64, DocumentError)>;

/// Prepares each document by itself and separates those whose text the model refuses.
async fn prepare_apart(
    collection: &OpenCollection,
    documents: Vec<StoredDocument>,
) -> Result<(Vec<IndexedDocument>, Failed), IngestError> {
    let (mut prepared, mut failed) = (Vec::with_capacity(documents.len()), Vec::new());
    for document in documents {
        let (id, version) = (document.id.clone(), document.version);
        match collection.preparer.prepare(vec![document]).await {
            Ok(one) => prepared.extend(one),
            Err(IngestError::Inference(error)) if collection.preparer.is_text_refused(&error).await => {
                tracing::warn!(collection = collection.name, document = id, %error, "a document cannot be embedded");
                failed.push((version, refused(id, &error)));
            }
            Err(error) => return Err(error),
        }
    }
    Ok((prepared, failed))
}

fn refused(document_id: String, error: &InferenceError) -> DocumentError {
    let is_upstream = matches!(error, InferenceError::Upstream(_));
    let code = if is_upstream { ErrorCode::UpstreamError } else { ErrorCode::Internal };
    let message = format!("{error}. The document is stored and not searchable; change it, or send it again.");
    DocumentError { document_id, code: code.as_str().to_owned(), message }
}

/// Documents to apply, and the applied sequence after them.
struct Batch {
    present: Vec<StoredDocument>,
    /// Deleted documents, and damaged ones.
    absent: Vec<String>,
    /// How many of them are damaged.
    damaged: usize,
    applied_seq: u64,
}

/// Reads the current versions of the operations' documents until the batch has its limit of bytes.
async fn read_batch(
    collection: &OpenCollection,
    operations: Vec<Operation>,
) -> Result<Option<Batch>, IngestError> {
    let bytes_max = collection.ingest.batch_tokens_max.saturating_mul(BYTES_PER_TOKEN);
    let mut seen = HashSet::new();
    let mut batch = Batch { present: Vec::new(), absent: Vec::new(), damaged: 0, applied_seq: 0 };
    let mut bytes = 0;
    for part in operations.chunks(READ_DOCUMENTS_MAX) {
        let fresh = part.iter().map(|op| op.document_id.clone()).filter(|id| seen.insert(id.clone()));
        let ids: Vec<String> = fresh.collect();
        let states = collection.preparer.documents.document_states(ids.clone()).await?;
        for (id, state) in ids.into_iter().zip(states) {
            match state {
                DocumentState::Present(document) => {
                    bytes += document.text.len();
                    batch.present.push(document);
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
        batch.applied_seq = part.last().map_or(batch.applied_seq, |op| op.number);
        if bytes >= bytes_max {
            break;
        }
    }
    Ok((batch.applied_seq > 0).then_some(batch))
}
