//! The comparison of an index that is not of this process alone with the store: asked for, shown, and carried out by the gateway with the lease.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_api::{ErrorCode, Invalid, ReconciliationReply};
use weir_index::{Change, Engine, Held};
use weir_policy::Caller;
use weir_store::{CollectionId, DocumentState, Error, Store, StoreView};
use weir_upkeep::{Kept, Schedule, UpkeepError};

use crate::clock::now;
use crate::collections::Collections;
use crate::ingest::IngestError;
use crate::open_collection::OpenCollection;
use crate::{CollectionView, Result, Retrieval};

/// How often it is looked whether a comparison is due.
const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Makes the comparisons that are due until the gateway stops.
pub(crate) async fn keep(collections: Collections) {
    let inner = &collections.0;
    let settings = &inner.config.qdrant;
    let schedule =
        Schedule { every_s: settings.reconcile_every_s, points_per_s: settings.reconcile_points_per_s };
    loop {
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = inner.reconcile_asked.notified() => {}
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
        let all: Vec<_> = collections.all(&Caller::system()).into_iter().map(Open).collect();
        let made = weir_upkeep::reconcile_due(&inner.store, &all, schedule, &inner.metrics, now);
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            made = made => if let Err(error) = made {
                tracing::warn!(%error, "what is to be compared can't be read; it is tried again");
            },
        }
    }
}

struct Open(Arc<OpenCollection>);

impl Kept for Open {
    fn id(&self) -> CollectionId {
        self.0.id
    }

    fn name(&self) -> &str {
        &self.0.name
    }

    fn created_at(&self) -> f64 {
        self.0.created_at
    }

    fn engine(&self) -> &Engine {
        &self.0.engine
    }

    fn documents(&self) -> &StoreView {
        &self.0.preparer.documents
    }

    fn may_change(&self, is_wanted: bool) -> bool {
        let may = self.0.may_change_index();
        self.0.wants_lease.store(is_wanted, Ordering::Relaxed);
        if is_wanted && !may {
            self.0.look_again();
        }
        may && !self.0.is_rebuilding() && !self.0.closing.is_cancelled()
    }

    fn worker_store(&self) -> weir_store::Result<Store> {
        self.0.preparer.worker_store()
    }

    async fn mend(&self, ids: Vec<String>, held: &Held<'_>) -> Result<u64, UpkeepError> {
        let preparer = &self.0.preparer;
        let searchable = preparer.documents.versions(ids.clone()).await?;
        let states = preparer.documents.document_states(ids.clone()).await?;
        let (mut changes, mut present) = (Vec::new(), Vec::new());
        let before = held.applied_seq() + 1;
        for ((id, state), searchable) in ids.into_iter().zip(states).zip(searchable) {
            match state {
                DocumentState::Present(one) if searchable.is_some() => present.push(one),
                DocumentState::Present(_) | DocumentState::Absent | DocumentState::Damaged => {
                    changes.push(Change::Remove { id, before });
                }
            }
        }
        // the others were changed meanwhile: their operations follow
        present.retain(|one| one.version <= held.applied_seq());
        if let Some(prepared) = preparer.read_prepared(present, true).await? {
            changes.extend(prepared.refused.into_iter().map(|id| Change::Remove { id, before }));
            changes.extend(prepared.documents.into_iter().map(Change::Put));
        }
        let count = changes.len() as u64;
        self.0.while_leased(held.apply(changes)).await?;
        Ok(count)
    }
}

impl From<IngestError> for UpkeepError {
    fn from(error: IngestError) -> UpkeepError {
        match error {
            IngestError::Store(error) => UpkeepError::Store(error),
            IngestError::Index(error) => UpkeepError::Index(error),
            IngestError::Inference(_) | IngestError::Interrupted => UpkeepError::Prepare(error.to_string()),
        }
    }
}

impl Retrieval {
    /// Has the index of a collection in a cluster compared with the store, soon, unless that is on its way.
    ///
    /// # Errors
    /// `collection_not_found`; `invalid_parameter` for an index in the gateway; `insufficient_scope` for a caller with a filter; store errors.
    pub async fn reconcile(&self, caller: &Arc<Caller>, name: &str) -> Result<ReconciliationReply> {
        let view = self.reconciled_view(caller, name)?;
        let asked = weir_upkeep::ask(&self.store, view.id(), name).await?;
        self.reconcile_asked.notify_one();
        Ok(asked)
    }

    /// The last comparison of an index in a cluster with the store.
    ///
    /// # Errors
    /// As [`Retrieval::reconcile`].
    pub async fn reconciliation(&self, caller: &Arc<Caller>, name: &str) -> Result<ReconciliationReply> {
        let view = self.reconciled_view(caller, name)?;
        Ok(weir_upkeep::last(&self.store, view.id(), name).await?)
    }

    fn reconciled_view(&self, caller: &Arc<Caller>, name: &str) -> Result<CollectionView> {
        let view = self.view(caller, name)?;
        if view.is_filtered() {
            let what = "compare an index with the store, whose numbers are those of all documents; use a key without filter";
            return Err(Error::NotAllowed(what).into());
        }
        if view.has_own_index() {
            let message = format!(
                "the index of collection `{name}` is in the gateway, which finds damage of its files by itself and builds them again from the store; only those in a \
                 Qdrant cluster (`engine`) are compared"
            );
            return Err(Invalid::at(ErrorCode::InvalidParameter, &["collection"], message).into());
        }
        Ok(view)
    }
}
