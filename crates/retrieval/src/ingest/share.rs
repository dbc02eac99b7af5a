//! The part of this gateway in the work of a collection whose store other gateways use too.
//!
//! The gateway that has the lease of the collection prepares documents and applies them to its index, as the only gateway of a store does. What it
//! has prepared, the others apply to their own indexes, by the same operations: chunks and embeddings are in the store, and nothing is
//! embedded twice. Where all gateways use one index, the gateway that has the lease applies everything to it, also what an earlier one had prepared,
//! and the others take over how far it is. An operation whose document has a version that is not prepared yet is passed over; the operation of that version follows.

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use weir_index::{Change, HistoryPoint, IndexError};
use weir_store::{DocumentState, Position};

use super::IngestError;
use super::worker::{read_batch, store_history};
use crate::open_collection::OpenCollection;
use weir_upkeep::LEASE_SECONDS;

/// Reads of a batch in which embeddings are missing; then they are computed, and stay in this gateway's index alone. Mostly they are
/// missing because a later version replaced them while they were read.
const MISSES_MAX: u32 = 20;

/// The pause before a batch is read again.
const MISS_PAUSE: Duration = Duration::from_millis(50);

/// Operations that are read at once.
const OPERATIONS_PAGE: usize = 1_000;

/// The work to do now.
pub(super) enum Turn {
    /// Prepare operations: this gateway has the lease, and its index shows everything that is prepared.
    Work,
    /// Apply the operations after this one that are prepared.
    Follow(u64, Position),
    /// Nothing, until something changes.
    Wait,
}

/// The state of the worker between two turns.
#[derive(Debug, Default)]
pub(super) struct Share {
    /// Up to this operation, the index is certain to show what is prepared. After a lease was lost, operations beyond it can be in the index
    /// that another gateway decides about; `None` before the first turn.
    sure: Option<u64>,
    /// Whether everything was applied when the store was last asked.
    is_settled: bool,
    /// Reads in sequence of a batch whose embeddings were not all in the store.
    misses: u32,
}

impl Share {
    /// Finds out what is to be done. Asks for the lease if there is something to prepare and nobody has it.
    pub(super) async fn turn(&mut self, collection: &OpenCollection) -> Result<Turn, IngestError> {
        let lease = &collection.preparer.lease;
        let applied_seq = collection.engine.applied_seq();
        let is_told = collection.is_told.swap(false, Ordering::Relaxed);
        if !is_told && self.is_settled && applied_seq >= collection.accepted() {
            return Ok(if lease.get().is_some() { Turn::Work } else { Turn::Wait });
        }
        self.is_settled = false;
        let (store, generation) = (&collection.preparer.store, collection.preparer.generation);
        let (known, point) = (collection.accepted(), collection.engine.read_to().await?);
        let asked = point.map_or(known, |point| point.operation);
        let Some(position) = store.position(generation, asked).await? else {
            // for a gateway that has the next generation
            if let Some(fence) = lease.take() {
                store.release_lease(fence).await?;
            }
            return Ok(Turn::Wait);
        };
        if let Err(error) = check_history(collection, known.max(asked), point, &position) {
            // others may do the work that this gateway refuses
            if let Some(fence) = lease.take() {
                store.release_lease(fence).await?;
            }
            return Err(error);
        }
        collection.accepted.fetch_max(position.last_operation, Ordering::Relaxed);
        if let Some(fence) = lease.get().filter(|fence| fence.number != position.fence) {
            lease.lose(fence);
        }
        if collection.shares_index() {
            return self.turn_of_one_index(collection, position).await;
        }
        let certain = applied_seq.min(position.prepared_to);
        let sure = match self.sure {
            Some(sure) if lease.get().is_none() => sure.min(applied_seq),
            Some(_) | None => certain,
        };
        self.sure = Some(sure);
        if applied_seq > 0 && self.has_missed(collection, sure, position.pruned_to) {
            self.rebuild(collection).await?;
            return Ok(Turn::Wait);
        }
        if sure < position.prepared_to {
            // another gateway may have applied all of it
            if let Some(fence) = lease.take() {
                store.release_lease(fence).await?;
            }
            return Ok(Turn::Follow(sure, position));
        }
        if position.last_operation <= position.prepared_to {
            self.is_settled = true;
            return Ok(if lease.get().is_some() { Turn::Work } else { Turn::Wait });
        }
        if lease.get().is_none() && !(position.lease_seconds == 0.0 && self.claim(collection, sure).await?) {
            return Ok(Turn::Wait);
        }
        Ok(Turn::Work)
    }

    /// The same, where all gateways use one index.
    async fn turn_of_one_index(
        &mut self,
        collection: &OpenCollection,
        position: Position,
    ) -> Result<Turn, IngestError> {
        let (lease, Position { last_operation, prepared_to, .. }) = (&collection.preparer.lease, position);
        if lease.get().is_none() {
            take_over(collection).await?;
        }
        if collection.engine.applied_seq() >= last_operation && prepared_to >= last_operation {
            self.is_settled = true;
            let is_wanted = collection.wants_lease.load(Ordering::Relaxed) && position.lease_seconds == 0.0;
            if lease.get().is_none() && is_wanted {
                self.claim(collection, prepared_to).await?;
            }
            return Ok(if lease.get().is_some() { Turn::Work } else { Turn::Wait });
        }
        if lease.get().is_none()
            && (position.lease_seconds > 0.0 || !self.claim(collection, prepared_to).await?)
        {
            return Ok(Turn::Wait);
        }
        let applied_seq = collection.engine.applied_seq();
        if collection.engine.is_empty().await? {
            collection.empty_at.store(last_operation, Ordering::Relaxed);
        } else if self.has_missed(collection, applied_seq, position.pruned_to) {
            self.rebuild(collection).await?;
            return Ok(Turn::Wait);
        }
        if applied_seq < prepared_to {
            return Ok(Turn::Follow(applied_seq, position));
        }
        Ok(Turn::Work)
    }

    /// Whether operations were pruned that the index has not applied: they can be deletions.
    fn has_missed(&self, collection: &OpenCollection, sure: u64, pruned_to: u64) -> bool {
        // what was deleted before the generation began is in none of its indexes
        let missed_from = collection.stored.generation.complete_from.max(sure);
        missed_from < pruned_to && collection.empty_at.load(Ordering::Relaxed) < pruned_to
    }

    async fn rebuild(&mut self, collection: &OpenCollection) -> Result<(), IngestError> {
        tracing::warn!(
            collection = collection.name,
            "the index is older than what it has missed: it is rebuilt"
        );
        let discarded = collection.engine.discard().await;
        collection.note_lost(&discarded);
        self.sure = Some(0);
        collection.look_again();
        match discarded {
            Ok(()) | Err(IndexError::Lost { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks for the lease; whether this gateway has it now.
    async fn claim(&mut self, collection: &OpenCollection, sure: u64) -> Result<bool, IngestError> {
        let (store, preparer) = (&collection.preparer.store, &collection.preparer);
        let asked = Instant::now();
        let claimed = store.claim_lease(collection.id, &preparer.gateway, LEASE_SECONDS).await?;
        let Some(fence) = claimed else { return Ok(false) };
        preparer.lease.set(fence, asked);
        tracing::info!(collection = collection.name, lease = fence.number, "this gateway does the ingest");
        if collection.shares_index() {
            // also the last batch of the gateway that had it before
            take_over(collection).await?;
        }
        if collection.engine.applied_seq() > sure {
            remove_absent(collection, sure).await?;
        }
        collection.take_cancellation_requests().await?;
        Ok(true)
    }

    /// Applies one batch of what another gateway has prepared after the operation `from`; `false` if its embeddings are not in the store yet.
    pub(super) async fn follow(
        &mut self,
        collection: &OpenCollection,
        from: u64,
        position: Position,
    ) -> Result<bool, IngestError> {
        let Position { prepared_to, .. } = position;
        let (limit, skip_to) =
            (collection.ingest.batch_documents_max, collection.empty_at.load(Ordering::Relaxed));
        let preparer = &collection.preparer;
        let mut operations = preparer.documents.operations_to_index(from, limit, skip_to).await?;
        operations.retain(|operation| operation.number <= prepared_to);
        let (mut changes, mut applied, mut read_to) = (Vec::new(), prepared_to, None);
        if let Some(batch) = read_batch(collection, operations).await? {
            let present = batch.present.into_iter().map(|(_, document)| document);
            let present = present.filter(|document| document.version <= prepared_to).collect();
            let embeds = self.misses >= MISSES_MAX;
            let Some(stored) = preparer.read_prepared(present, embeds).await? else {
                self.misses += 1;
                tokio::time::sleep(MISS_PAUSE).await;
                return Ok(false);
            };
            let removed = batch.absent.into_iter().chain(stored.refused);
            changes.extend(removed.map(|id| Change::Remove { id, before: batch.last_operation + 1 }));
            collection.metrics.documents_indexed(stored.documents.len() as u64);
            changes.extend(stored.documents.into_iter().map(Change::Put));
            (applied, read_to) = (batch.last_operation, batch.read_to);
        }
        self.misses = 0;
        let applied_seq = applied.max(collection.engine.applied_seq());
        collection.apply_to_index(changes, applied_seq, read_to).await?;
        self.sure = Some(applied);
        collection.progress.applied_elsewhere(applied_seq);
        collection.notify_applied(applied_seq);
        Ok(true)
    }
}

/// Refuses a store that has lost an operation which this gateway knows, or has another one of its number.
fn check_history(
    collection: &OpenCollection,
    known: u64,
    point: Option<HistoryPoint>,
    position: &Position,
) -> Result<(), IngestError> {
    // that of an operation that was pruned is not known
    let other = point.filter(|point| position.identity.is_some_and(|found| found != point.identity));
    let lost = other.map(|point| point.operation).or((position.last_operation < known).then_some(known));
    let Some(operation) = lost else { return Ok(()) };
    collection.lost_operation.store(operation, Ordering::Relaxed);
    Err(weir_store::Error::LostCommits { operation }.into())
}

/// Removes the documents of operations after `sure` from the index that do not exist, or are to be kept out of it, by now.
async fn remove_absent(collection: &OpenCollection, sure: u64) -> Result<(), IngestError> {
    let applied_seq = collection.engine.applied_seq();
    let mut after = sure;
    while after < applied_seq {
        let operations = collection.preparer.documents.operations_after(after, OPERATIONS_PAGE).await?;
        let Some(last) = operations.last() else { break };
        after = last.number;
        let mut seen = HashSet::new();
        let ids = operations.into_iter().filter(|one| one.number <= applied_seq);
        let ids = ids.filter(|one| seen.insert(one.document_id.clone())).map(|one| one.document_id);
        let ids: Vec<String> = ids.collect();
        let states = collection.preparer.documents.document_states(ids.clone()).await?;
        let absent = ids.into_iter().zip(states).filter(|(_, state)| *state == DocumentState::Absent);
        let before = applied_seq + 1;
        let changes: Vec<Change> = absent.map(|(id, _)| Change::Remove { id, before }).collect();
        collection.apply_to_index(changes, applied_seq, store_history(collection).await?).await?;
    }
    Ok(())
}

/// Takes over what another gateway has applied to the index that all use.
async fn take_over(collection: &OpenCollection) -> Result<(), IngestError> {
    let before = collection.engine.applied_seq();
    collection.engine.refresh().await?;
    let applied_seq = collection.engine.applied_seq();
    if applied_seq != before {
        // what this gateway knew of an empty index is not true of what others have put into it
        collection.empty_at.store(0, Ordering::Relaxed);
        collection.progress.applied_elsewhere(applied_seq);
        collection.notify_applied(applied_seq);
    }
    Ok(())
}
