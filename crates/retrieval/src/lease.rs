//! Which gateway of those over one store prepares the documents of a collection: the one that has its lease.
//!
//! A gateway asks for a lease when there is something to prepare, and prolongs all that it has while it runs. When it has died, another one gets
//! its leases at the latest after [`LEASE_SECONDS`] and the pause of an idle worker.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_policy::Caller;
use weir_store::Fence;

use crate::collections::Collections;
use crate::open_collection::OpenCollection;

/// How long a lease lasts without being prolonged, by the clock of the database.
pub(crate) const LEASE_SECONDS: f64 = 15.0;

/// How often leases are prolonged.
const RENEW_EVERY: Duration = Duration::from_secs(4);

/// How often it is looked whether a lease was lost or taken.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// The lease that this gateway has on a collection, if it has it. Unused over a store of its own.
#[derive(Debug, Default)]
pub(crate) struct Lease(Mutex<Option<Held>>);

/// A lease, and until when no other gateway can have a later one: by the clock of this machine, from before it was asked for.
#[derive(Debug, Clone, Copy)]
struct Held {
    fence: Fence,
    until: Instant,
}

impl Lease {
    pub(crate) fn get(&self) -> Option<Fence> {
        self.lock().map(|held| held.fence)
    }

    /// A lease that was asked for at `asked`.
    pub(crate) fn set(&self, fence: Fence, asked: Instant) {
        *self.lock() = Some(Held { fence, until: asked + Duration::from_secs_f64(LEASE_SECONDS) });
    }

    pub(crate) fn take(&self) -> Option<Fence> {
        self.lock().take().map(|held| held.fence)
    }

    /// Forgets a lease, unless there is another one by now.
    pub(crate) fn lose(&self, fence: Fence) {
        self.lock().take_if(|held| held.fence == fence);
    }

    /// Notes that a lease was prolonged, as was asked for at `asked`.
    fn prolong(&self, fence: Fence, asked: Instant) {
        if let Some(held) = self.lock().as_mut().filter(|held| held.fence == fence) {
            held.until = asked + Duration::from_secs_f64(LEASE_SECONDS);
        }
    }

    /// Waits until another gateway may have a later lease. Cancel safe.
    pub(crate) async fn ended(&self) {
        loop {
            let now = Instant::now();
            let until = self.lock().map(|held| held.until);
            match until {
                Some(until) if now < until => tokio::time::sleep((until - now).min(CHECK_EVERY)).await,
                Some(_) | None => return,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Held>> {
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
        let asked = Instant::now();
        let live = match inner.store.renew_leases(&inner.gateway, LEASE_SECONDS).await {
            Ok(live) => live,
            // what is written without a lease is refused
            Err(error) => {
                tracing::warn!(%error, "leases were not prolonged");
                continue;
            }
        };
        for (collection, fence) in held {
            if live.contains(&fence) {
                collection.preparer.lease.prolong(fence, asked);
            } else {
                tracing::info!(collection = collection.name, "another gateway has taken over the ingest");
                collection.preparer.lease.lose(fence);
                collection.look_again();
            }
        }
    }
}
