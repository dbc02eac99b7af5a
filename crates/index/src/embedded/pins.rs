//! Pinned snapshots: later pages of a search see the snapshot of the first page.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::snapshot::Snapshot;

/// Maximum number of pins; each keeps replaced data from being freed.
const PINS_MAX: usize = 16;
/// A pin expires when it has not been used for this long.
const PIN_LIFETIME: Duration = Duration::from_secs(300);

/// The pinned snapshots, the most recently used last.
#[derive(Default)]
pub(crate) struct SnapshotPins(VecDeque<(Instant, Arc<Snapshot>)>);

impl SnapshotPins {
    /// Pins a snapshot, unless one with the same applied sequence is pinned.
    pub(crate) fn pin(&mut self, snapshot: &Arc<Snapshot>, now: Instant) {
        self.expire(now);
        if self.find(snapshot.applied_seq, now).is_none() {
            if self.0.len() == PINS_MAX {
                self.0.pop_front();
            }
            self.0.push_back((now, Arc::clone(snapshot)));
        }
    }

    /// The pinned snapshot with this applied sequence.
    pub(crate) fn find(&mut self, applied_seq: u64, now: Instant) -> Option<Arc<Snapshot>> {
        let place = self.0.iter().position(|(_, snapshot)| snapshot.applied_seq == applied_seq)?;
        let (_, snapshot) = self.0.remove(place)?;
        self.0.push_back((now, Arc::clone(&snapshot)));
        Some(snapshot)
    }

    /// Drops expired pins.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.0.retain(|(used, _)| now.duration_since(*used) < PIN_LIFETIME);
    }
}
