//! The wait of each connection and its begin: the time limits of connections, and the choice of one to close when there are too many.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;
use tokio::time::Sleep;
use weir_config::table::Server;

/// A connection whose client has to send or to receive something is closed for another one only after this time.
const BUSY_WAIT_MIN: Duration = Duration::from_secs(1);

/// Limits that begin while others are waited for are noticed after this time, at most.
const CHECK_INTERVAL_MAX: Duration = Duration::from_secs(15);

/// The time limits of connections.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimits {
    head: Duration,
    idle: Duration,
    progress: Duration,
    half_close: Duration,
}

impl TimeLimits {
    pub(super) fn of(server: &Server) -> TimeLimits {
        TimeLimits {
            head: Duration::from_millis(server.head_timeout_ms),
            idle: Duration::from_millis(server.idle_timeout_ms),
            progress: Duration::from_millis(server.progress_timeout_ms),
            half_close: Duration::from_millis(server.half_close_grace_ms),
        }
    }

    fn check_interval(&self) -> Duration {
        (self.head.min(self.idle).min(self.progress) / 2).min(CHECK_INTERVAL_MAX)
    }
}

/// Why the gateway closed a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closed {
    /// The TLS handshake failed or took too long.
    Handshake,
    /// No complete head arrived in time.
    Head,
    /// There was no request for too long.
    Idle,
    /// The client neither sent nor received anything for too long.
    Stalled,
    /// Another client needed the connection.
    Replaced,
}

impl Closed {
    /// The label in the metrics.
    pub(super) fn label(self) -> &'static str {
        match self {
            Closed::Handshake => "handshake",
            Closed::Head => "head_timeout",
            Closed::Idle => "idle_timeout",
            Closed::Stalled => "no_progress",
            Closed::Replaced => "replaced",
        }
    }
}

/// The activity of a connection. Its stream, its requests and their bodies note it here.
pub(super) struct Activity {
    state: Mutex<ActivityState>,
    limits: TimeLimits,
    is_replaced: AtomicBool,
    is_stopping: AtomicBool,
    is_cut_off: AtomicBool,
    /// The connection's task, and whether a time limit has begun that is not waited for.
    task: AtomicWaker,
    has_new_limit: AtomicBool,
    /// Whether the connection is beyond the limit, and answers health checks alone.
    pub(super) is_reserved: bool,
}

struct ActivityState {
    /// Requests that are read, computed or answered, by their numbers: of HTTP/1 at most one.
    requests: Vec<(u64, Waits)>,
    requests_begun: u64,
    is_http2: bool,
    /// Since the connection was opened or its last request ended.
    idle_since: Instant,
    /// Since the first byte of the head that is being received.
    head_since: Option<Instant>,
    /// Since the socket took no more bytes.
    write_blocked_since: Option<Instant>,
    /// Since the client closed its sending half during a request.
    half_closed_since: Option<Instant>,
    /// Woken when the end of what the client sends may be seen.
    reader: Option<Waker>,
}

/// The wait of one request.
#[derive(Default)]
struct Waits {
    /// Since more of the body is awaited.
    body_since: Option<Instant>,
    /// Since the last part of the reply was handed over and no other one was asked for (HTTP/2).
    reply_since: Option<Instant>,
    /// Whether a client that has closed its sending half is taken to have left, because its work is costly: that of a language model.
    ends_with_client: bool,
    /// Whether the reply is a stream.
    is_stream: bool,
}

impl Activity {
    pub(super) fn new(limits: TimeLimits, is_reserved: bool) -> Activity {
        let state = ActivityState {
            requests: Vec::new(),
            requests_begun: 0,
            is_http2: false,
            idle_since: Instant::now(),
            head_since: None,
            write_blocked_since: None,
            half_closed_since: None,
            reader: None,
        };
        Activity {
            state: Mutex::new(state),
            limits,
            is_replaced: AtomicBool::new(false),
            is_stopping: AtomicBool::new(false),
            is_cut_off: AtomicBool::new(false),
            task: AtomicWaker::new(),
            has_new_limit: AtomicBool::new(false),
            is_reserved,
        }
    }

    fn state(&self) -> MutexGuard<'_, ActivityState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes received bytes.
    pub(super) fn received(&self) {
        let mut state = self.state();
        if state.requests.is_empty() && state.head_since.is_none() {
            state.head_since = Some(Instant::now());
        }
    }

    /// Whether the end of what the client sends is to be hidden for now, because requests are still answered.
    pub(super) fn hides_end(&self, context: &Context<'_>) -> bool {
        let mut state = self.state();
        if state.requests.is_empty() || state.waits().any(|waits| waits.ends_with_client) {
            return false;
        }
        let since = *state.half_closed_since.get_or_insert_with(Instant::now);
        let is_hidden = since.elapsed() < self.limits.half_close;
        if is_hidden && state.reader.replace(context.waker().clone()).is_none() {
            // once: the task that waits for the limit is the one that reads, and would read again at once
            self.has_new_limit.store(true, Ordering::Release);
            self.task.wake();
        }
        is_hidden
    }

    /// Notes that the socket took bytes.
    pub(super) fn written(&self) {
        self.state().write_blocked_since = None;
    }

    /// Notes that the socket took no bytes.
    pub(super) fn write_blocked(&self) {
        self.state().write_blocked_since.get_or_insert_with(Instant::now);
    }

    /// Notes that a request begins.
    pub(super) fn begin_request(self: &Arc<Activity>, is_http2: bool) -> (RequestActivity, RequestEnd) {
        let mut state = self.state();
        state.is_http2 = is_http2;
        state.head_since = None;
        let number = state.requests_begun;
        state.requests_begun += 1;
        state.requests.push((number, Waits::default()));
        drop(state);
        let request = RequestActivity { connection: self.clone(), number };
        (request.clone(), RequestEnd(request))
    }

    /// Since when the connection waits for its client; `None` while the gateway works for it.
    pub(super) fn waiting_since(&self, now: Instant) -> Option<Instant> {
        let state = self.state();
        let since = match state.write_blocked_since {
            Some(since) => since,
            None if state.requests.is_empty() => return Some(state.idle_since),
            None => {
                let since = |waits: &Waits| waits.body_since.or(waits.reply_since);
                let all: Option<Vec<Instant>> = state.waits().map(since).collect();
                all?.into_iter().max()?
            }
        };
        (now.duration_since(since) >= BUSY_WAIT_MIN).then_some(since)
    }

    /// Whether a stream is on its way, or the reply of a language model that may become one.
    pub(super) fn has_stream(&self) -> bool {
        self.state().waits().any(|waits| waits.is_stream || waits.ends_with_client)
    }

    /// Closes the connection, which has to make room for another one.
    pub(super) fn replace(&self) {
        self.is_replaced.store(true, Ordering::Release);
        self.task.wake();
    }

    /// Ends the connection after its requests, because the gateway stops.
    pub(super) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        self.task.wake();
    }

    /// Ends the connection with its requests, because the gateway stops now.
    pub(super) fn cut_off(&self) {
        self.is_cut_off.store(true, Ordering::Release);
        self.task.wake();
    }

    /// Whether the connection ends with its requests.
    pub(super) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Acquire)
    }

    /// Whether the connection ends because the gateway stops.
    pub(super) fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }

    /// Whether the connection has to make room for another one.
    pub(super) fn is_replaced(&self) -> bool {
        self.is_replaced.load(Ordering::Acquire)
    }

    /// Wakes the connection's task when one of the answers below changes.
    pub(super) fn watch(&self, context: &Context<'_>) {
        self.task.register(context.waker());
    }

    /// Ready when the connection has to be closed. `timer` belongs to the connection.
    pub(super) fn poll_closed(&self, mut timer: Pin<&mut Sleep>, context: &mut Context<'_>) -> Poll<Closed> {
        if self.is_replaced() {
            return Poll::Ready(Closed::Replaced);
        }
        while timer.as_mut().poll(context).is_ready() || self.has_new_limit.swap(false, Ordering::AcqRel) {
            let now = Instant::now();
            let at_latest = now + self.limits.check_interval();
            let next = self.state().next_limit(&self.limits);
            let until = match next {
                Some((at, Limit::Close(reason))) if at <= now => return Poll::Ready(reason),
                Some((at, Limit::ShowEnd)) if at <= now => {
                    self.show_end();
                    at_latest
                }
                Some((at, _)) => at.min(at_latest),
                None => at_latest,
            };
            timer.as_mut().reset(until.into());
        }
        Poll::Pending
    }

    /// Lets the reader see the end of what the client sends.
    fn show_end(&self) {
        let reader = self.state().reader.take();
        if let Some(reader) = reader {
            reader.wake();
        }
    }
}

/// The action when a time limit is reached.
enum Limit {
    Close(Closed),
    ShowEnd,
}

impl ActivityState {
    fn waits(&self) -> impl Iterator<Item = &Waits> {
        self.requests.iter().map(|(_, waits)| waits)
    }

    fn next_limit(&self, limits: &TimeLimits) -> Option<(Instant, Limit)> {
        if let Some(since) = self.write_blocked_since {
            return Some((since + limits.progress, Limit::Close(Closed::Stalled)));
        }
        if self.requests.is_empty() {
            // the bytes of HTTP/2 are not all of heads
            let head_since = if self.requests_begun == 0 {
                Some(self.idle_since)
            } else {
                self.head_since.filter(|_| !self.is_http2)
            };
            return Some(match head_since {
                Some(since) => (since + limits.head, Limit::Close(Closed::Head)),
                None => (self.idle_since + limits.idle, Limit::Close(Closed::Idle)),
            });
        }
        let waits = self.waits().flat_map(|waits| [waits.body_since, waits.reply_since]);
        let stalled = waits.flatten().min();
        let stalled = stalled.map(|since| (since + limits.progress, Limit::Close(Closed::Stalled)));
        let half_closed = self.half_closed_since.filter(|_| self.reader.is_some());
        let half_closed = half_closed.map(|since| (since + limits.half_close, Limit::ShowEnd));
        stalled.into_iter().chain(half_closed).min_by_key(|(at, _)| *at)
    }
}

/// One request of a connection. Clones are of the same request.
#[derive(Clone)]
pub(crate) struct RequestActivity {
    connection: Arc<Activity>,
    number: u64,
}

impl RequestActivity {
    fn note(&self, change: impl FnOnce(&mut Waits)) {
        let mut state = self.connection.state();
        if let Some((_, waits)) = state.requests.iter_mut().find(|(number, _)| *number == self.number) {
            change(waits);
        }
    }

    /// Notes that more of the body is awaited.
    pub(super) fn awaits_body(&self) {
        self.note(|waits| {
            waits.body_since.get_or_insert_with(Instant::now);
        });
    }

    /// Notes a part of the body, or its end.
    pub(super) fn has_body(&self) {
        self.note(|waits| waits.body_since = None);
    }

    /// Notes that a part of the reply was handed over, or that another one is asked for.
    pub(super) fn reply_since(&self, since: Option<Instant>) {
        self.note(|waits| waits.reply_since = since);
    }

    /// Notes that the reply is a stream.
    pub(super) fn note_stream(&self) {
        self.note(|waits| waits.is_stream = true);
    }

    /// Makes the request end at once when its client closes its sending half, because its work is costly.
    pub(crate) fn end_with_client(&self) {
        self.note(|waits| waits.ends_with_client = true);
        self.connection.show_end();
    }

    /// Whether its connection is beyond the limit, and answers health checks alone.
    pub(crate) fn is_reserved(&self) -> bool {
        self.connection.is_reserved
    }
}

/// Ends a request when it is dropped.
pub(super) struct RequestEnd(RequestActivity);

impl Drop for RequestEnd {
    fn drop(&mut self) {
        let connection = &self.0.connection;
        let mut state = connection.state();
        state.requests.retain(|(number, _)| *number != self.0.number);
        if state.requests.is_empty() {
            state.idle_since = Instant::now();
        }
        drop(state);
        connection.show_end();
    }
}
