//! One attempt: its time limits, its permit, and the one outcome that it reports to the circuit breaker.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::time::Sleep;
use weir_policy::upstream::Outcome;

use crate::endpoint::Endpoint;
use crate::{Awaited, Permit, Result, UpstreamError};

/// Time limits of one attempt. A limit that passes is an [`UpstreamError::Timeout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeLimits {
    /// From the start to the head of the reply.
    pub head: Duration,
    /// From the start to the first byte of the reply's body.
    pub first_byte: Duration,
    /// Between two chunks of the reply's body.
    pub idle: Duration,
    /// From the start to the end of the reply's body.
    pub total: Duration,
    /// When the caller stops waiting. If this limit ends the attempt, the upstream is not taken for ill.
    pub deadline: Option<Instant>,
}

impl TimeLimits {
    /// Limits of a reply that is read as a whole.
    pub fn whole_reply(total: Duration, deadline: Option<Instant>) -> TimeLimits {
        TimeLimits { head: total, first_byte: total, idle: total, total, deadline }
    }
}

/// Added to the limit of the first byte: an attempt that recorded no outcome by then is lost.
const PROBE_GRACE: Duration = Duration::from_secs(1);

/// An attempt that the circuit breaker allowed. Dropping it unfinished reports an unknown outcome to the breaker.
pub(crate) struct Attempt {
    pub(crate) endpoint: Arc<Endpoint>,
    limits: TimeLimits,
    started: Instant,
    /// When the attempt as a whole must end.
    end: Instant,
    /// The limit that is measured now, what it is for, and when it passes.
    limit: Duration,
    awaited: Awaited,
    limit_at: Instant,
    /// May be set to an earlier time than the limit's, to be set again then: chunks of a body put the limit off more often than it passes.
    timer: Pin<Box<Sleep>>,
    is_recorded: bool,
    _permit: Permit,
}

impl Attempt {
    pub(crate) fn start(endpoint: Arc<Endpoint>, permit: Permit, limits: TimeLimits) -> Result<Attempt> {
        let started = Instant::now();
        let own_end = started + limits.total;
        let end = limits.deadline.map_or(own_end, |deadline| deadline.min(own_end));
        if end <= started {
            return Err(endpoint.timeout(Awaited::End, Duration::ZERO));
        }
        endpoint.allow(limits.first_byte.min(end - started) + PROBE_GRACE)?;
        let (limit, awaited) = match limits.head <= limits.first_byte {
            true => (limits.head, Awaited::Head),
            false => (limits.first_byte, Awaited::FirstByte),
        };
        let limit_at = end.min(started + limit);
        let timer = Box::pin(tokio::time::sleep_until(limit_at.into()));
        Ok(Attempt {
            endpoint,
            limits,
            started,
            end,
            limit,
            awaited,
            limit_at,
            timer,
            is_recorded: false,
            _permit: permit,
        })
    }

    /// When the attempt as a whole must end.
    pub(crate) fn end(&self) -> Instant {
        self.end
    }

    /// The time that the attempt as a whole may take.
    pub(crate) fn total(&self) -> Duration {
        self.end - self.started
    }

    /// When the limit that is measured now passes.
    pub(crate) fn limit_at(&self) -> Instant {
        self.limit_at
    }

    /// The output of `work`, unless a limit passes before.
    pub(crate) async fn within_limits<T>(
        &mut self,
        mut work: Pin<&mut impl Future<Output = T>>,
    ) -> Result<T> {
        poll_fn(|context| match work.as_mut().poll(context) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => self.poll_timeout(context).map(Err),
        })
        .await
    }

    /// The head of the reply is there: measures the time to the first byte of its body.
    pub(crate) fn await_first_byte(&mut self) {
        if self.awaited != Awaited::FirstByte {
            self.limit_from(self.started, self.limits.first_byte, Awaited::FirstByte);
        }
    }

    /// Measures the time to the next chunk of the body from now.
    pub(crate) fn restart_idle_timer(&mut self) {
        self.limit_from(Instant::now(), self.limits.idle, Awaited::Chunk);
    }

    fn limit_from(&mut self, start: Instant, limit: Duration, awaited: Awaited) {
        (self.limit, self.awaited) = (limit, awaited);
        self.limit_at = self.end.min(start + limit);
        if self.limit_at < self.timer.deadline().into_std() {
            self.timer.as_mut().reset(self.limit_at.into());
        }
    }

    /// Ready with the error when a limit has passed.
    pub(crate) fn poll_timeout(&mut self, context: &mut Context<'_>) -> Poll<UpstreamError> {
        loop {
            ready!(self.timer.as_mut().poll(context));
            if self.timer.deadline().into_std() >= self.limit_at {
                break;
            }
            self.timer.as_mut().reset(self.limit_at.into());
        }
        let ended = self.limit_at;
        let (awaited, waited) = match ended == self.end {
            true => (Awaited::End, self.end - self.started),
            false => (self.awaited, self.limit),
        };
        if self.limits.deadline == Some(ended) {
            self.record(Outcome::Unknown);
        }
        Poll::Ready(self.fail(self.endpoint.timeout(awaited, waited)))
    }

    /// Ends the attempt by an error of the connection or a time limit.
    pub(crate) fn fail(&mut self, error: UpstreamError) -> UpstreamError {
        self.record(Outcome::Failed);
        self.endpoint.failed(error)
    }

    /// Reports the outcome. Only the first final outcome counts.
    pub(crate) fn record(&mut self, outcome: Outcome) {
        if !self.is_recorded {
            self.endpoint.record(outcome);
            self.is_recorded = outcome != Outcome::Started;
        }
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.record(Outcome::Unknown);
    }
}
