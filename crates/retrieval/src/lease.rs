//! Which gateway of those over one store prepares the documents of a collection: the one that has its lease.
//!
//! A gateway asks for a lease when there is something to prepare, and prolongs all that it has while it runs. When it has died, another one gets
//! its leases at the latest after [`LEASE_SECONDS`] and the pause of an idle worker.

use std::sync::Arc;
use std::time::{Duration, Instant};

use weir_policy::Caller;
use weir_store::Fence;
use weir_upkeep::LEASE_SECONDS;

use crate::collections::Collections;
use crate::open_collection::OpenCollection;

/// How often leases are prolonged.
const RENEW_EVERY: Duration = Duration::from_secs(4);

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
