//! Constant rate: request `n` is due at `start + n / rate`, independent of all other requests.
//!
//! Response times count from the due instant. A stall of the server therefore delays every request that falls due during
//! it, also those for which no connection is free. This avoids coordinated omission (Gil Tene, "How NOT to Measure
//! Latency").

use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::client::Client;
use crate::plan::Plan;
use crate::recorder::{Recorder, RequestTimes};
use crate::response_check::ResponseCheck;
use crate::run::RequestCounter;
use crate::timer::PreciseTimer;

/// The due instant of each request, and the instant after which none is sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    start: Instant,
    per_second: f64,
    planned: u64,
    timeout: Duration,
}

impl Schedule {
    pub(crate) fn new(plan: &Plan, per_second: f64, start: Instant) -> Schedule {
        Schedule { start, per_second, planned: plan.requests_max(), timeout: plan.timeout }
    }

    /// When request `n`, from 0, is due.
    pub(crate) fn due(&self, n: u64) -> Instant {
        self.start + Duration::from_secs_f64(n as f64 / self.per_second)
    }

    /// Length of the schedule.
    pub(crate) fn span(&self) -> Duration {
        self.due(self.planned) - self.start
    }

    /// No request is sent after this instant: one timeout after the end of the schedule.
    pub(crate) fn send_deadline(&self) -> Instant {
        self.due(self.planned) + self.timeout
    }

    /// Records the requests that were never sent. Numbers are taken in order, so these are the last ones.
    pub(crate) fn record_unsent(&self, recorder: &mut Recorder) {
        for n in recorder.sent..self.planned {
            recorder.record_unsent(self.send_deadline() - self.due(n));
        }
    }
}

/// Sends on one connection as requests become due. The connections of a thread share one timer: one connection holds it
/// and waits for the next due instant; the others send, or wait for the timer.
pub(crate) async fn send_on_schedule(
    plan: &Plan,
    counter: &RequestCounter,
    schedule: &Schedule,
    timer: &Mutex<PreciseTimer>,
    client: &mut Client,
    recorder: &RefCell<Recorder>,
) -> io::Result<()> {
    let mut check = ResponseCheck::new(plan);
    loop {
        let free = Instant::now();
        let mut timer_guard = timer.lock().await;
        let Some(number) = counter.next() else { return Ok(()) };
        let due = schedule.due(number);
        timer_guard.wait_until(due).await?;
        drop(timer_guard);
        let sent = Instant::now();
        if sent >= schedule.send_deadline() {
            return Ok(());
        }
        recorder.borrow_mut().record_lateness(due, free, sent);
        check.begin();
        let outcome = client.send(plan.request(number), &mut check).await;
        let done = Instant::now();
        let outcome = outcome.and_then(|()| check.result());
        recorder.borrow_mut().record_reply(RequestTimes { due, sent, done }, &check, outcome);
    }
}
