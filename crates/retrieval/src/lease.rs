//! Which gateway of those over one store prepares the documents of a collection: the one that has its lease.
//!
//! A gateway asks for a lease when there is something to prepare, and prolongs all that it has while it runs. When it has died, another one gets
//! its leases at the latest after [`LEASE_SECONDS`] and the pause of an idle worker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_policy::Caller;
use weir_store::Fence;

use crate::collections::Collections;
use crate::open_collection::OpenCollection;

/// How long a lease lasts without being prolonged, by the clock of the database.
pub(crate) const LEASE_SECONDS: f64 = 15.0;

/// How often leases are prolonged.
const RENEW_EVERY: Duration = Duration::from_secs(4);

/// The lease that this gateway has on a collection, if it has it. Unused over a store of its own.
#[derive(Debug, Default)]
pub(crate) struct Lease(Mutex<Option<Fence>>);

impl Lease {
    pub(crate) fn get(&self) -> Option<Fence> {
        *self.lock()
    }

    pub(crate) fn set(&self, fence: Fence) {
        *self.lock() = Some(fence);
    }

    pub(crate) fn take(&self) -> Option<Fence> {
        self.lock().take()
    }

    /// Forgets a lease, unless there is another one by now.
    pub(crate) fn lose(&self, fence: Fence) {
        self.lock().take_if(|held| *held == fence);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Fence>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prolongs the leases of this gateway until it stops.
pub(crate) async fn renew(collections: Collections) {
    let inner = &collections.0;
    loop {
        tokio::select! {
            () = inner.stopping.cancelled() => return,
            () = tokio::time::sleep(RENEW_EVERY) => {}
        }
        let all = collections.all(&Caller::system()).into_iter();
        let held = all.filter_map(|one| one.preparer.lease.get().map(|fence| (one, fence)));
        let held: Vec<(Arc<OpenCollection>, Fence)> = held.collect();
        if held.is_empty() {
            continue;
        }
        let live = match inner.store.renew_leases(&inner.gateway, LEASE_SECONDS).await {
            Ok(live) => live,
            // what is written without a lease is refused
            Err(error) => {
                tracing::warn!(%error, "leases were not prolonged");
                continue;
            }
        };
        for (collection, fence) in held {
            if !live.contains(&fence) {
                tracing::info!(collection = collection.name, "another gateway has taken over the ingest");
                collection.preparer.lease.lose(fence);
                collection.look_again();
            }
        }
    }
}
