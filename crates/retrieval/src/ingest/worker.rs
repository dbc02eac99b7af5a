//! The worker of one collection: applies the store's operations to the index, in order, batch by batch.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_api::ErrorCode;
use weir_index::{Change, IndexedDocument};
use weir_store::{DocumentError, Operation, StoredDocument};

use super::IngestError;
use crate::clock::now;
use crate::collections::OpenCollection;
use weir_inference::InferenceError;

/// Documents that are read from the store at a time, so that a batch of very long ones is noticed early.
const READ_AT_ONCE: usize = 16;

/// A token has about this many bytes; what a batch weighs is estimated by it.
const BYTES_PER_TOKEN: usize = 4;

/// After a failure the worker waits, twice as long each time, between these.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Times in a row that a batch is tried as a whole; then the text that keeps it from being embedded is looked for.
const TRIED_WHOLE: u32 = 3;

/// What is beyond the bounds of what is kept is removed so often.
const PRUNE_EVERY: Duration = Duration::from_secs(60);

/// When nothing has come for so long, what was written in small parts is put together.
const SETTLE_AFTER: Duration = Duration::from_secs(2);

/// Applies operations until the collection is closed.
pub(crate) async fn run(collection: Arc<OpenCollection>) {
    let mut wait = RETRY_AFTER.0;
    let mut failures = 0;
    let mut prune_at = Instant::now();
    let mut is_settled = false;
    loop {
        let idle = collection.operations_added.notified();
        let step = tokio::select! {
            () = collection.closing.cancelled() => return,
            step = step(&collection, failures >= TRIED_WHOLE, &mut prune_at) => step,
        };
        match step {
            Ok(true) => (wait, failures, is_settled) = (RETRY_AFTER.0, 0, false),
            Ok(false) => tokio::select! {
                () = collection.closing.cancelled() => return,
                () = idle => {}
                () = settle(&collection), if !is_settled => is_settled = true,
            },
            Err(error) => {
                tracing::error!(collection = collection.name, %error, retry_after = ?wait, "ingest failed; it will be tried again");
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

/// Waits for a while and merges small segments. What comes meanwhile is applied beside that.
async fn settle(collection: &OpenCollection) {
    tokio::time::sleep(SETTLE_AFTER).await;
    let started = Instant::now();
    match collection.engine.flush().await {
        Ok(()) => tracing::debug!(collection = collection.name, took = ?started.elapsed(), "index settled"),
        // searches go on with the segments that there are
        Err(error) => tracing::warn!(collection = collection.name, %error, "small segments were not merged"),
    }
}

/// Applies one batch, and removes from the store what is no longer kept when it is time for that; `false` when there was
/// nothing to do.
async fn step(collection: &OpenCollection, apart: bool, prune_at: &mut Instant) -> Result<bool, IngestError> {
    let has_applied = apply_next(collection, apart).await?;
    if Instant::now() < *prune_at {
        return Ok(has_applied);
    }
    let is_done = collection.preparer.store.prune(collection.id, collection.retention()).await?;
    if is_done {
        *prune_at = Instant::now() + PRUNE_EVERY;
    }
    Ok(has_applied || !is_done)
}

/// Applies one batch, document by document if it is taken `apart`; `false` when there was nothing to do.
async fn apply_next(collection: &OpenCollection, apart: bool) -> Result<bool, IngestError> {
    let store = &collection.preparer.store;
    let after = collection.engine.applied_seq();
    let limit = collection.ingest.batch_documents_max;
    let operations = collection.preparer.documents.operations_after(after, limit).await?;
    let Some(batch) = read_batch(collection, operations).await? else { return Ok(false) };

    let started = Instant::now();
    let count = batch.present.len() + batch.absent.len();
    let (documents, failed) = match apart {
        false => (collection.preparer.prepare(batch.present).await?, Vec::new()),
        true => prepare_apart(collection, batch.present).await?,
    };
    // what came before a text that can't be embedded shall not be found in its place
    let refused = failed.iter().map(|(_, error)| error.document_id.clone());
    let removed = batch.absent.into_iter().chain(refused).map(|id| Change::Remove { id });
    let changes = removed.chain(documents.into_iter().map(Change::Put)).collect();
    let (refused, indexed) = (failed.len() as u64, (count - failed.len()) as u64);
    if !failed.is_empty() {
        store.fail_documents(collection.id, failed).await?;
    }
    collection.engine.apply(changes, batch.reached).await?;
    store.record_applied(collection.preparer.generation, batch.reached, now()).await?;

    collection.metrics.documents_indexed(indexed);
    collection.metrics.documents_failed(refused);
    collection.note_failure(None);
    collection.notify_applied(batch.reached);
    tracing::debug!(collection = collection.name, reached = batch.reached, documents = count, took = ?started.elapsed(), "batch applied");
    Ok(true)
}

/// Documents that could not be embedded, each with the operation that stored it and the reason.
type Failed = Vec<(u64, DocumentError)>;

/// Prepares each document by itself; those whose text the model refuses are told apart.
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
                tracing::warn!(collection = collection.name, document = id, %error, "a document can't be embedded");
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

/// Documents to bring the index up to date with, and the operation that it has then reached.
struct Batch {
    present: Vec<StoredDocument>,
    absent: Vec<String>,
    reached: u64,
}

/// Reads the current state of the documents that the operations name, until the batch is heavy enough.
async fn read_batch(
    collection: &OpenCollection,
    operations: Vec<Operation>,
) -> Result<Option<Batch>, IngestError> {
    let bytes_max = collection.ingest.batch_tokens_max.saturating_mul(BYTES_PER_TOKEN);
    let mut seen = HashSet::new();
    let mut batch = Batch { present: Vec::new(), absent: Vec::new(), reached: 0 };
    let mut bytes = 0;
    for part in operations.chunks(READ_AT_ONCE) {
        let fresh = part.iter().map(|op| op.document_id.clone()).filter(|id| seen.insert(id.clone()));
        let ids: Vec<String> = fresh.collect();
        let documents = collection.preparer.documents.documents(ids.clone()).await?;
        for (id, document) in ids.into_iter().zip(documents) {
            match document {
                Some(document) => {
                    bytes += document.text.len();
                    batch.present.push(document);
                }
                None => batch.absent.push(id),
            }
        }
        batch.reached = part.last().map_or(batch.reached, |op| op.number);
        if bytes >= bytes_max {
            break;
        }
    }
    Ok((batch.reached > 0).then_some(batch))
}
