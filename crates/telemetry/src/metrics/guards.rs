//! Guards that count something until they are dropped.

use std::time::{Duration, Instant};

use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;

/// Counts texts as waiting until it is dropped.
pub struct Queued {
    depth: Gauge,
    wait: Histogram,
    texts: i64,
    since: Instant,
}

impl Queued {
    /// A guard of `texts`, which `depth` counts already.
    pub(super) fn of(depth: Gauge, wait: Histogram, texts: i64) -> Queued {
        Queued { depth, wait, texts, since: Instant::now() }
    }

    /// Ends the wait, records it and returns it.
    pub fn finish(self) -> Duration {
        let waited = self.since.elapsed();
        self.wait.observe(waited.as_secs_f64());
        waited
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.depth.dec_by(self.texts);
    }
}

/// Counts a connection as open until it is dropped.
pub struct OpenConnection(Gauge);

impl OpenConnection {
    /// A guard of this gauge, which counts it already.
    pub(super) fn of(connections: Gauge) -> OpenConnection {
        OpenConnection(connections)
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
