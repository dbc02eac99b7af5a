//! Closed loop: each connection sends its next request after the response to the previous one.
//!
//! Measures throughput at a given concurrency. Its latencies do not hold for independent callers, because nothing is sent
//! while the server stalls (coordinated omission).

use std::cell::RefCell;
use std::time::{Duration, Instant};

use crate::client::{Client, Failure, FailureKind};
use crate::plan::Plan;
use crate::recorder::{Recorder, RequestTimes};
use crate::response_check::ResponseCheck;
use crate::run::RequestCounter;

/// Pause after a failed connect, so that a server that is down is not flooded with attempts.
const CONNECT_PAUSE: Duration = Duration::from_millis(10);

/// Sends on one connection until every request is taken or `end` has passed.
pub(crate) async fn send_until_end(
    plan: &Plan,
    counter: &RequestCounter,
    end: Instant,
    client: &mut Client,
    recorder: &RefCell<Recorder>,
) {
    let mut check = ResponseCheck::new(plan);
    while Instant::now() < end
        && let Some(number) = counter.next()
    {
        let sent = Instant::now();
        check.begin();
        let outcome = client.send(plan.request(number), &mut check).await;
        let done = Instant::now();
        let outcome = outcome.and_then(|()| check.result());
        let could_not_connect = is_connect_failure(&outcome);
        recorder.borrow_mut().record_reply(RequestTimes { due: sent, sent, done }, &check, outcome);
        if could_not_connect {
            tokio::time::sleep(CONNECT_PAUSE).await;
        }
    }
}

fn is_connect_failure(outcome: &Result<(), Failure>) -> bool {
    outcome.as_ref().is_err_and(|failure| failure.kind == FailureKind::Connect)
}
