//! Snapshots that pages of an earlier search go on with.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::snapshot::Snapshot;

/// Snapshots that are held at most; each keeps what was replaced since from being freed.
const PINS_MAX: usize = 16;
/// A snapshot that nobody asked for this long is let go.
const PIN_LIFETIME: Duration = Duration::from_secs(300);

/// The held snapshots, that of the latest use last.
#[derive(Default)]
pub(crate) struct SnapshotPins(VecDeque<(Instant, Arc<Snapshot>)>);

impl SnapshotPins {
    /// Holds a snapshot, if none of the same operation is held already.
    pub(crate) fn pin(&mut self, snapshot: &Arc<Snapshot>, now: Instant) {
        self.expire(now);
        if self.find(snapshot.applied_seq, now).is_none() {
            if self.0.len() == PINS_MAX {
                self.0.pop_front();
            }
            self.0.push_back((now, Arc::clone(snapshot)));
        }
    }

    /// The snapshot of operation `applied_seq`, if it is held.
    pub(crate) fn find(&mut self, applied_seq: u64, now: Instant) -> Option<Arc<Snapshot>> {
        let place = self.0.iter().position(|(_, snapshot)| snapshot.applied_seq == applied_seq)?;
        let (_, snapshot) = self.0.remove(place)?;
        self.0.push_back((now, Arc::clone(&snapshot)));
        Some(snapshot)
    }

    /// Lets go what nobody asked for.
    pub(crate) fn expire(&mut self, now: Instant) {
        self.0.retain(|(used, _)| now.duration_since(*used) < PIN_LIFETIME);
    }
}
