//! The worker of one collection: applies the store's operations to the index, in order, batch by batch.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use weir_index::Change;
use weir_store::{Operation, StoredDocument};

use super::IngestError;
use crate::clock::now;
use crate::collections::OpenCollection;

/// Documents that are read from the store at a time, so that a batch of very long ones is noticed early.
const READ_AT_ONCE: usize = 16;

/// A token has about this many bytes; what a batch weighs is estimated by it.
const BYTES_PER_TOKEN: usize = 4;

/// After a failure the worker waits, twice as long each time, between these.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Applies operations until the collection is closed.
pub async fn run(collection: Arc<OpenCollection>) {
    let mut wait = RETRY_AFTER.0;
    loop {
        let idle = collection.work_came.notified();
        let step = tokio::select! {
            () = collection.closing.cancelled() => return,
            step = apply_next(&collection) => step,
        };
        match step {
            Ok(true) => wait = RETRY_AFTER.0,
            Ok(false) => tokio::select! {
                () = collection.closing.cancelled() => return,
                () = idle => {}
            },
            Err(error) => {
                tracing::error!(collection = collection.name, %error, retry_after = ?wait, "ingest failed; it will be tried again");
                collection.note_failure(Some(error.to_string()));
                tokio::select! {
                    () = collection.closing.cancelled() => return,
                    () = tokio::time::sleep(wait) => {}
                }
                wait = (wait * 2).min(RETRY_AFTER.1);
            }
        }
    }
}

/// Applies one batch; `false` when there was nothing to do.
async fn apply_next(collection: &OpenCollection) -> Result<bool, IngestError> {
    let store = &collection.preparer.store;
    let after = collection.engine.reached();
    let limit = collection.ingest.batch_documents_max;
    let operations = store.operations_after(collection.id, after, limit).await?;
    let Some(batch) = read_batch(collection, operations).await? else { return Ok(false) };

    let started = std::time::Instant::now();
    let count = batch.present.len() + batch.absent.len();
    let removed = batch.absent.into_iter().map(|id| Change::Remove { id });
    let documents = collection.preparer.prepare(batch.present).await?;
    let changes = removed.chain(documents.into_iter().map(Change::Put)).collect();
    collection.engine.apply(changes, batch.reached).await?;
    store.mark_indexed(collection.preparer.generation, batch.reached, now()).await?;

    collection.metrics.documents_indexed(count as u64);
    collection.note_failure(None);
    collection.publish_reached(batch.reached);
    tracing::debug!(collection = collection.name, reached = batch.reached, documents = count, took = ?started.elapsed(), "batch applied");
    Ok(true)
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
        let documents = collection.preparer.store.documents(collection.id, ids.clone()).await?;
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
