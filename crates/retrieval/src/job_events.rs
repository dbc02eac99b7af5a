//! The states of a job one after another, until it ends.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use weir_api::{ErrorCode, JobReply};
use weir_policy::Caller;
use weir_telemetry::metrics::OpenConnection;

use crate::{Result, Retrieval};
use weir_refusal::RequestError;

/// How often the state is looked at.
const INTERVAL: Duration = Duration::from_millis(300);
/// After this time without a change, a sign of life is sent: proxies close connections that are silent for a minute.
const SILENCE_MAX: Duration = Duration::from_secs(15);
/// The longest time of one stream. Clients ask again, so that a key that was revoked ends within this time.
const STREAM_TIME_MAX: Duration = Duration::from_secs(3600);

/// An event of a job.
#[derive(Debug)]
pub enum JobEvent {
    /// It is at work, in this state, which is given without its `errors`.
    Progress(JobReply),
    /// It has ended, in this state. Nothing follows.
    End(JobReply),
    /// Nothing changed for some time.
    Silence,
}

/// The events of a job. They begin with its present state, so that a client that was interrupted asks again.
pub struct JobEvents {
    retrieval: Retrieval,
    caller: Arc<Caller>,
    id: String,
    last: Option<JobReply>,
    last_at: Instant,
    is_ended: bool,
    until: Instant,
    _permit: OwnedSemaphorePermit,
    _counted: OpenConnection,
}

impl Retrieval {
    /// The events of the job called `id`.
    ///
    /// # Errors
    /// `job_not_found`; `overloaded` when there are `limits.job_streams_max` streams; store errors.
    pub async fn job_events(&self, caller: &Arc<Caller>, id: &str) -> Result<JobEvents> {
        self.job(caller, id).await?;
        let permit = self.job_streams.clone().try_acquire_owned().map_err(|_| {
            let limit = self.config.limits.job_streams_max;
            let message = format!(
                "{limit} streams of the events of jobs are open; that is the limit `limits.job_streams_max`"
            );
            RequestError::new(ErrorCode::Overloaded, message)
        })?;
        let now = Instant::now();
        Ok(JobEvents {
            retrieval: self.clone(),
            caller: caller.clone(),
            id: id.to_owned(),
            last: None,
            last_at: now,
            is_ended: false,
            until: now + STREAM_TIME_MAX,
            _permit: permit,
            _counted: self.metrics.job_stream(),
        })
    }
}

impl JobEvents {
    /// The next event; `None` after the end, after the longest time of a stream, when the gateway stops, and when the job cannot be read.
    pub async fn next(&mut self) -> Option<JobEvent> {
        while !self.is_ended && Instant::now() < self.until {
            let mut job = self.retrieval.job(&self.caller, &self.id).await.ok()?;
            if job.status.is_finished() {
                self.is_ended = true;
                return Some(JobEvent::End(job));
            }
            job.errors.clear();
            if self.last.as_ref() != Some(&job) {
                (self.last, self.last_at) = (Some(job.clone()), Instant::now());
                return Some(JobEvent::Progress(job));
            }
            if self.last_at.elapsed() >= SILENCE_MAX {
                self.last_at = Instant::now();
                return Some(JobEvent::Silence);
            }
            tokio::select! {
                () = self.retrieval.stopping.cancelled() => return None,
                () = tokio::time::sleep(INTERVAL) => {}
            }
        }
        None
    }
}
