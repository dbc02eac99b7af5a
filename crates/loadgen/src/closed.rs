//! The closed loop: a connection sends its next request when the last one was answered.
//!
//! It finds the throughput at a given concurrency. Its latencies say nothing about callers who don't
//! wait for each other: while the server stalls, it sends nothing.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::check::Check;
use crate::client::{Client, Failure, FailureKind};
use crate::plan::Plan;
use crate::record::{Recorder, Times};
use crate::run::Tickets;

/// Rest after a refused connection, so that a server that is down isn't hammered.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// Sends on one connection until the tickets or the time are used up.
pub(crate) async fn drive(
    plan: &Plan,
    tickets: &Tickets,
    end: Instant,
    client: &mut Client,
    recorder: &RefCell<Recorder>,
) {
    let mut check = Check::new(&plan.expect);
    while Instant::now() < end
        && let Some(ticket) = tickets.take()
    {
        let sent = Instant::now();
        let outcome = client.send(plan.request(ticket), &mut check).await;
        let done = Instant::now();
        let outcome = outcome.and_then(|()| check.verdict());
        let refused = is_refused(&outcome);
        recorder.borrow_mut().record(Times { due: sent, sent, done }, check.status(), outcome);
        if refused {
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
    }
}

fn is_refused(outcome: &Result<(), Failure>) -> bool {
    outcome.as_ref().is_err_and(|failure| failure.kind == FailureKind::Connect)
}
