//! One record per request, for telemetry: written when the last owner of its [`RequestEntry`] is done with it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is known of a request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RequestRecord {
    /// When it began, in unix seconds.
    pub at: f64,
    /// Its id, as in the reply and the log.
    pub request_id: Arc<str>,
    /// The number of the API key.
    pub key: Option<i64>,
    /// The method and the pattern of the route.
    pub method: &'static str,
    /// The pattern of the route.
    pub route: &'static str,
    /// The model that was asked for.
    pub model: Option<Arc<str>>,
    /// The upstream that answered or failed last.
    pub upstream: Option<Arc<str>>,
    /// The HTTP status of the reply; 499 when the client left before.
    pub status: u16,
    /// The code of the error, also of one after the head of the reply.
    pub error: Option<&'static str>,
    /// Tokens of the prompt or of the texts.
    pub prompt_tokens: u64,
    /// Tokens of the prompt that the provider had cached.
    pub cached_tokens: u64,
    /// Tokens of the completion.
    pub completion_tokens: u64,
    /// Cost in billionths of the currency of the price table.
    pub cost_nanos: u64,
    /// Attempts at upstreams.
    pub attempts: u32,
    /// From the head of the request to the first byte of the reply's body, of streams.
    pub first_token: Option<Duration>,
    /// From the head of the request to the end of the reply.
    pub duration: Duration,
    /// Whether the reply was streamed.
    pub is_stream: bool,
}

/// Where the records go. Clones share it.
#[derive(Clone, Default)]
pub struct RequestLog;

impl RequestLog {
    /// Writes nothing.
    pub fn disabled() -> RequestLog {
        RequestLog
    }

    /// The entry of a request that has begun.
    pub fn begin(&self, record: RequestRecord) -> RequestEntry {
        RequestEntry(Arc::new(Entry {
            log: self.clone(),
            started: Instant::now(),
            record: Mutex::new(record),
        }))
    }

    /// Hands a record over; never waits.
    fn write(&self, _record: RequestRecord) {}
}

/// The record of a request on its way. Handlers and streams hold clones; the record is written when the last one is dropped.
#[derive(Clone)]
pub struct RequestEntry(Arc<Entry>);

struct Entry {
    log: RequestLog,
    started: Instant,
    record: Mutex<RequestRecord>,
}

impl RequestEntry {
    /// Changes the record.
    pub fn update(&self, change: impl FnOnce(&mut RequestRecord)) {
        change(&mut self.0.record.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// When the request began.
    pub fn started(&self) -> Instant {
        self.0.started
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut record = std::mem::take(self.record.get_mut().unwrap_or_else(PoisonError::into_inner));
        record.duration = self.started.elapsed();
        self.log.write(record);
    }
}
