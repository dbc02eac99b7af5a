//! Counters, and the guard that counts cancelled requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value, json};

use crate::chaos::{FAULTS, FaultSet};

/// Progress of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The request is read or the reply is delayed.
    Headers,
    /// The headers are sent.
    FirstToken,
    /// A part of the body is sent.
    Midstream,
}

/// Counters of a server. `…_open` are gauges, which a reset does not change.
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) connections_open: AtomicU64,
    pub(crate) connections: AtomicU64,
    requests_open: AtomicU64,
    requests: AtomicU64,
    streams_open: AtomicU64,
    completed: AtomicU64,
    cancelled: [AtomicU64; 3],
    request_body_bytes: AtomicU64,
    response_body_bytes: AtomicU64,
    faults: [AtomicU64; FAULTS.len()],
}

fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

impl Stats {
    /// Counts a request until the guard is dropped.
    pub(crate) fn begin(self: &Arc<Stats>) -> RequestGuard {
        add(&self.requests_open, 1);
        let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        RequestGuard {
            stats: Arc::clone(self),
            number,
            phase: Phase::Headers,
            is_stream: false,
            is_settled: false,
        }
    }

    pub(crate) fn add_faults(&self, faults: FaultSet) {
        if faults.is_empty() {
            return;
        }
        for (fault, ..) in FAULTS {
            if faults.has(fault) {
                add(&self.faults[fault as usize], 1);
            }
        }
    }

    pub(crate) fn to_json(&self) -> Value {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let faults: Map<String, Value> = FAULTS
            .iter()
            .map(|(fault, name, _)| ((*name).to_owned(), count(&self.faults[*fault as usize]).into()))
            .collect();
        json!({
            "requests": count(&self.requests),
            "completed": count(&self.completed),
            "cancelled": {
                "before_headers": count(&self.cancelled[Phase::Headers as usize]),
                "before_first_token": count(&self.cancelled[Phase::FirstToken as usize]),
                "midstream": count(&self.cancelled[Phase::Midstream as usize]),
            },
            "requests_open": count(&self.requests_open),
            "streams_open": count(&self.streams_open),
            "connections": count(&self.connections),
            "connections_open": count(&self.connections_open),
            "request_body_bytes": count(&self.request_body_bytes),
            "response_body_bytes": count(&self.response_body_bytes),
            "faults": faults,
        })
    }

    /// Sets every counter but the gauges to 0.
    pub(crate) fn reset(&self) {
        let totals = [
            &self.connections,
            &self.requests,
            &self.completed,
            &self.request_body_bytes,
            &self.response_body_bytes,
        ];
        for counter in totals.into_iter().chain(&self.cancelled).chain(&self.faults) {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// One request that is being answered. Dropped before it is settled, it was cancelled by the client.
#[derive(Debug)]
pub(crate) struct RequestGuard {
    stats: Arc<Stats>,
    /// Number of the request since the start or the last reset, from 1.
    pub(crate) number: u64,
    pub(crate) phase: Phase,
    is_stream: bool,
    is_settled: bool,
}

impl RequestGuard {
    /// The guard of a request that no counter shows.
    pub(crate) fn uncounted() -> RequestGuard {
        Arc::new(Stats::default()).begin()
    }

    /// Counts the reply as an open stream; `false` if there are `max` already.
    pub(crate) fn open_stream(&mut self, max: u64) -> bool {
        if self.stats.streams_open.fetch_add(1, Ordering::Relaxed) >= max {
            self.stats.streams_open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        self.is_stream = true;
        true
    }

    pub(crate) fn add_request_bytes(&self, count: usize) {
        add(&self.stats.request_body_bytes, count as u64);
    }

    pub(crate) fn add_response_bytes(&self, count: usize) {
        add(&self.stats.response_body_bytes, count as u64);
    }

    /// The whole reply was passed on.
    pub(crate) fn complete(&mut self) {
        if !self.is_settled {
            self.is_settled = true;
            add(&self.stats.completed, 1);
        }
    }

    /// The server itself ends the request without a reply.
    pub(crate) fn abandon(&mut self) {
        self.is_settled = true;
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.stats.requests_open.fetch_sub(1, Ordering::Relaxed);
        if self.is_stream {
            self.stats.streams_open.fetch_sub(1, Ordering::Relaxed);
        }
        if !self.is_settled {
            add(&self.stats.cancelled[self.phase as usize], 1);
        }
    }
}
