//! Snapshots that pages of an earlier search go on with.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::snapshot::Snapshot;

/// Snapshots that are held at most; each keeps what was replaced since from being freed.
const HELD_MAX: usize = 16;
/// A snapshot that nobody asked for this long is let go.
const HELD_FOR: Duration = Duration::from_secs(300);

/// The held snapshots, that of the latest use last.
#[derive(Default)]
pub(crate) struct Held(VecDeque<(Instant, Arc<Snapshot>)>);

impl Held {
    /// Holds a snapshot, if none of the same operation is held already.
    pub(crate) fn hold(&mut self, snapshot: &Arc<Snapshot>, now: Instant) {
        self.let_go(now);
        if self.find(snapshot.reached, now).is_none() {
            if self.0.len() == HELD_MAX {
                self.0.pop_front();
            }
            self.0.push_back((now, Arc::clone(snapshot)));
        }
    }

    /// The snapshot of operation `reached`, if it is held.
    pub(crate) fn find(&mut self, reached: u64, now: Instant) -> Option<Arc<Snapshot>> {
        let place = self.0.iter().position(|(_, snapshot)| snapshot.reached == reached)?;
        let (_, snapshot) = self.0.remove(place)?;
        self.0.push_back((now, Arc::clone(&snapshot)));
        Some(snapshot)
    }

    /// Lets go what nobody asked for.
    pub(crate) fn let_go(&mut self, now: Instant) {
        self.0.retain(|(used, _)| now.duration_since(*used) < HELD_FOR);
    }
}
