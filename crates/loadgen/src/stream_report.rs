//! The part of a report that is about streams of server-sent events.

use serde::Serialize;

use crate::recorder::StreamRecorder;
use crate::report::Latency;

serde_with::with_prefix!(first_byte "first_byte_");
serde_with::with_prefix!(first_event "first_event_");
serde_with::with_prefix!(gap "event_gap_");

/// Events of the successful replies and their times.
#[derive(Debug, Clone, Serialize)]
pub struct StreamReport {
    /// Events of all replies, `[DONE]` included.
    pub events: u64,
    /// Fewest events of a reply.
    pub events_per_reply_min: u64,
    /// Mean number of events of a reply.
    pub events_per_reply_mean: f64,
    /// Most events of a reply; precise to 0.1 %.
    pub events_per_reply_max: u64,
    /// From the due instant (in the closed loop: from sending) to the head of the reply.
    #[serde(flatten, with = "first_byte")]
    pub first_byte: Latency,
    /// From the due instant to the end of the first event.
    #[serde(flatten, with = "first_event")]
    pub first_event: Latency,
    /// Between the ends of two events of a reply.
    #[serde(flatten, with = "gap")]
    pub gap: Latency,
}

impl StreamReport {
    pub(crate) fn new(streams: &StreamRecorder) -> StreamReport {
        StreamReport {
            events: streams.events_total,
            events_per_reply_min: streams.events.min(),
            events_per_reply_mean: streams.events_total as f64 / streams.events.len().max(1) as f64,
            events_per_reply_max: streams.events.max(),
            first_byte: Latency::of(&streams.first_byte),
            first_event: Latency::of(&streams.first_event),
            gap: Latency::of(&streams.gap),
        }
    }
}
