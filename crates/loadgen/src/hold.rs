//! Holds replies open: each connection sends one request and reads its reply until the end of the run.
//!
//! Measures what open streams cost a server: memory, and CPU time of those that send events. The replies are cut off at the
//! end, so that they need not be whole.

use std::cell::RefCell;
use std::time::Instant;

use crate::client::{Client, Failure, FailureKind};
use crate::plan::Plan;
use crate::recorder::{Recorder, RequestTimes};
use crate::response_check::ResponseCheck;
use crate::run::RequestCounter;

/// Sends one request and keeps its reply open until `end`.
pub(crate) async fn hold_until_end(
    plan: &Plan,
    counter: &RequestCounter,
    end: Instant,
    client: &mut Client,
    recorder: &RefCell<Recorder>,
) {
    let Some(number) = counter.next() else { return };
    let mut check = ResponseCheck::new(plan);
    let sent = Instant::now();
    let exchange = client.send(plan.request(number), &mut check);
    let outcome = match tokio::time::timeout_at(end.into(), exchange).await {
        Err(_) if check.status() == 0 => Err(no_head()),
        Err(_) => check.status_result(),
        Ok(Ok(())) => check.status_result().and_then(|()| Err(ended_early(sent))),
        Ok(Err(failure)) => Err(failure),
    };
    client.close();
    recorder.borrow_mut().record_reply(
        RequestTimes { due: sent, sent, done: Instant::now() },
        &check,
        outcome,
    );
}

fn no_head() -> Failure {
    Failure::new(FailureKind::Timeout, "no head of a response until the end of the run")
}

fn ended_early(sent: Instant) -> Failure {
    let detail = format!("the stream ended after {:.1?}, before the end of the run", sent.elapsed());
    Failure::new(FailureKind::StreamTruncated, detail)
}
