//! The lease that a gateway has on a collection.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_store::Fence;

/// How long a lease lasts without being prolonged, by the clock of the database.
pub const LEASE_SECONDS: f64 = 15.0;

/// How often it is looked whether a lease was lost or taken.
const CHECK_EVERY: Duration = Duration::from_millis(200);

/// The lease that this gateway has on a collection, if it has it. Unused over a store of its own.
#[derive(Debug, Default)]
pub struct Lease(Mutex<Option<Held>>);

/// A lease, and until when no other gateway can have a later one: by the clock of this machine, from before it was asked for.
#[derive(Debug, Clone, Copy)]
struct Held {
    fence: Fence,
    until: Instant,
}

impl Lease {
    /// The lease, if there is one.
    pub fn get(&self) -> Option<Fence> {
        self.lock().map(|held| held.fence)
    }

    /// A lease that was asked for at `asked`.
    pub fn set(&self, fence: Fence, asked: Instant) {
        *self.lock() = Some(Held { fence, until: asked + Duration::from_secs_f64(LEASE_SECONDS) });
    }

    /// Forgets the lease, and returns it.
    pub fn take(&self) -> Option<Fence> {
        self.lock().take().map(|held| held.fence)
    }

    /// Forgets a lease, unless there is another one by now.
    pub fn lose(&self, fence: Fence) {
        self.lock().take_if(|held| held.fence == fence);
    }

    /// Notes that a lease was prolonged, as was asked for at `asked`.
    pub fn prolong(&self, fence: Fence, asked: Instant) {
        if let Some(held) = self.lock().as_mut().filter(|held| held.fence == fence) {
            held.until = asked + Duration::from_secs_f64(LEASE_SECONDS);
        }
    }

    /// Waits until another gateway may have a later lease. Cancel safe.
    pub async fn ended(&self) {
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
