//! Constant rate: request `n` is due at `start + n / rate`, whatever became of the others.
//!
//! Response times count from the due instant. A server that stalls is so charged with every request
//! that a caller would have sent meanwhile, though no connection was free to send it ("coordinated
//! omission", Gil Tene, "How NOT to Measure Latency").

use std::cell::RefCell;
use std::io;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use crate::check::Check;
use crate::client::Client;
use crate::pacer::Pacer;
use crate::plan::Plan;
use crate::record::{Recorder, Times};
use crate::run::Tickets;

/// When each request is due, and when to give up on those that are late.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schedule {
    start: Instant,
    per_second: f64,
    planned: u64,
    timeout: Duration,
}

impl Schedule {
    pub(crate) fn new(plan: &Plan, per_second: f64, start: Instant) -> Schedule {
        Schedule { start, per_second, planned: plan.planned(), timeout: plan.timeout }
    }

    /// When request `n`, from 0, is due.
    pub(crate) fn due(&self, n: u64) -> Instant {
        self.start + Duration::from_secs_f64(n as f64 / self.per_second)
    }

    /// How long the schedule takes.
    pub(crate) fn span(&self) -> Duration {
        self.due(self.planned) - self.start
    }

    /// From here on no late request is sent any more: one timeout after the end.
    pub(crate) fn give_up(&self) -> Instant {
        self.due(self.planned) + self.timeout
    }

    /// Counts the requests that were never sent. Tickets are taken in order, so they are the last ones.
    pub(crate) fn record_unsent(&self, recorder: &mut Recorder) {
        for n in recorder.sent..self.planned {
            recorder.record_unsent(self.give_up() - self.due(n));
        }
    }
}

/// Sends on one connection as requests become due. The connections of a thread queue for its pacer, so
/// that one of them waits for the next due instant while the others are free or busy.
pub(crate) async fn drive(
    plan: &Plan,
    tickets: &Tickets,
    schedule: &Schedule,
    pacer: &Mutex<Pacer>,
    client: &mut Client,
    recorder: &RefCell<Recorder>,
) -> io::Result<()> {
    let mut check = Check::new(&plan.expect);
    loop {
        let free = Instant::now();
        let mut turn = pacer.lock().await;
        let Some(ticket) = tickets.take() else { return Ok(()) };
        let due = schedule.due(ticket);
        turn.wait_until(due).await?;
        drop(turn);
        let sent = Instant::now();
        if sent >= schedule.give_up() {
            return Ok(());
        }
        recorder.borrow_mut().record_start(due, free, sent);
        let outcome = client.send(plan.request(ticket), &mut check).await;
        let done = Instant::now();
        let outcome = outcome.and_then(|()| check.verdict());
        recorder.borrow_mut().record(Times { due, sent, done }, check.status(), outcome);
    }
}
