//! Ingest jobs in the log: their start, their end and their counts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use weir_store::Job;

/// The time in which at most [`LOGGED_MAX`] lines are logged.
const PERIOD: Duration = Duration::from_secs(1);
/// Clients that send each document by itself make thousands of jobs a second.
const LOGGED_MAX: u32 = 10;

/// Logs the jobs of a collection.
#[derive(Debug, Default)]
pub struct JobLog(Mutex<Limit>);

#[derive(Debug, Default)]
struct Limit {
    began: Option<Instant>,
    logged: u32,
    skipped: u64,
}

impl JobLog {
    /// A job was accepted from the caller with this key: its documents are on disk.
    pub fn accepted(&self, job: &Job, (key, key_name): (Option<i64>, Option<&str>)) {
        if self.may_log(Instant::now()) {
            tracing::info!(
                job = job.id,
                collection = job.collection,
                key,
                key_name,
                documents = job.total,
                new = job.new,
                changed = job.changed,
                unchanged = job.unchanged,
                refused = job.failed,
                "ingest job accepted"
            );
        }
        if job.finished_at.is_some() {
            self.ended(job);
        }
    }

    /// A job has ended: its documents are searchable, or failed.
    pub fn ended(&self, job: &Job) {
        if self.may_log(Instant::now()) {
            let took = job.finished_at.unwrap_or(job.created_at) - job.created_at;
            tracing::info!(
                job = job.id,
                collection = job.collection,
                status = <&str>::from(job.status),
                documents = job.total,
                failed = job.failed,
                chunks = job.chunks,
                error = job.error,
                took_ms = (took * 1e3) as u64,
                "ingest job ended"
            );
        }
    }

    /// Whether another line is logged now; skipped lines are reported first.
    fn may_log(&self, now: Instant) -> bool {
        let (is_logged, skipped) = self.0.lock().unwrap_or_else(PoisonError::into_inner).count(now);
        if skipped > 0 {
            tracing::info!(skipped, "further starts and ends of ingest jobs are not listed");
        }
        is_logged
    }
}

impl Limit {
    /// Whether a line is logged now, and the number of lines of an earlier period that were not.
    fn count(&mut self, now: Instant) -> (bool, u64) {
        let mut skipped = 0;
        if self.began.is_none_or(|began| now.duration_since(began) >= PERIOD) {
            skipped = self.skipped;
            *self = Limit { began: Some(now), ..Limit::default() };
        }
        if self.logged == LOGGED_MAX {
            self.skipped += 1;
            return (false, skipped);
        }
        self.logged += 1;
        (true, skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_jobs_is_counted_and_not_listed() {
        let (mut limit, start) = (Limit::default(), Instant::now());
        let seen: Vec<(bool, u64)> = (0..12).map(|_| limit.count(start)).collect();
        assert!(seen[..10].iter().all(|seen| *seen == (true, 0)));
        assert_eq!(seen[10..], [(false, 0), (false, 0)]);
        assert_eq!(limit.count(start + PERIOD), (true, 2));
        assert_eq!(limit.count(start + PERIOD), (true, 0));
    }
}
