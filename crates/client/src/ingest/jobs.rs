//! The jobs of an ingest: they are watched until they have ended.

use std::collections::HashMap;
use std::time::Duration;

use weir_api::JobReply;

use super::Ingest;
use crate::Result;
use crate::client::{POLL_FIRST, POLL_MAX};

/// How long the jobs are asked for their documents after a cancellation.
const LAST_LOOK_MAX: Duration = Duration::from_secs(2);
/// The events of a job are asked for when it was looked at with delays of this length: most jobs have ended by then.
const EVENTS_AFTER: Duration = Duration::from_millis(100);

/// A batch whose job is not finished, as far as is known.
pub(super) struct AcceptedBatch {
    pub(super) job_id: String,
    /// Those that are known: a file that is read can have files within it.
    pub(super) documents: u64,
    /// The number of them that replace an earlier document of the ingest.
    pub(super) replaced: u64,
    pub(super) file_bytes: u64,
    /// The files by the ids of their documents.
    pub(super) places: HashMap<String, String>,
    /// The documents and bytes that were reported as progress.
    pub(super) shown: (u64, u64),
}

impl AcceptedBatch {
    /// Documents that the job processed since the last call, and the bytes that its progress stands for.
    fn advance(&mut self, job: &JobReply) -> (u64, u64) {
        self.documents = self.documents.max(job.total_documents);
        let processed = job.processed_documents + job.failed_documents;
        let processed = if job.status.is_finished() { self.documents } else { processed.min(self.documents) };
        let documents = processed.max(self.shown.0);
        let share = job.progress.max(documents as f64 / self.documents.max(1) as f64);
        let bytes = ((self.file_bytes as f64 * share) as u64).min(self.file_bytes).max(self.shown.1);
        let (documents_before, bytes_before) = std::mem::replace(&mut self.shown, (documents, bytes));
        (documents - documents_before, bytes - bytes_before)
    }
}

/// The documents of unfinished jobs.
#[derive(Default)]
pub(super) struct Unfinished {
    pub(super) searchable: u64,
    pub(super) accepted: u64,
}

impl Ingest<'_> {
    /// Takes note of a batch that was accepted. Its job has ended if all of its documents were stored already.
    pub(super) fn add_batch(&mut self, batch: AcceptedBatch, job: &JobReply) {
        self.report.jobs.push(job.job_id.clone());
        self.accepted.push_back(batch);
        if job.status.is_finished() {
            self.show(self.accepted.len() - 1, job);
            if let Some(batch) = self.accepted.pop_back() {
                self.report.add(job, &batch);
            }
        }
    }

    /// Waits until at most `count` jobs are unfinished: any, as a large document does not delay the others.
    pub(super) async fn finish_jobs(&mut self, count: usize) -> Result<()> {
        let mut delay = POLL_FIRST;
        while self.accepted.len() > count {
            if self.look_at_jobs().await? {
                delay = POLL_FIRST;
                continue;
            }
            if self.has_events && delay >= EVENTS_AFTER && self.accepted.len() == 1 {
                self.has_events = self.follow_last().await;
            } else {
                tokio::time::sleep(delay).await;
            }
            delay = (delay * 2).min(POLL_MAX);
        }
        Ok(())
    }

    /// Shows the events of the last unfinished job until it has ended; `false` if the gateway sends none.
    async fn follow_last(&mut self) -> bool {
        let Some(batch) = self.accepted.front() else { return false };
        let Ok(mut stream) = self.client.job_events(&batch.job_id).await else { return false };
        let mut has_events = false;
        while let Some(Ok(job)) = stream.next().await {
            has_events = true;
            self.show(0, &job);
        }
        has_events
    }

    /// Shows the state of an unfinished job.
    fn show(&mut self, index: usize, job: &JobReply) {
        let Some(batch) = self.accepted.get_mut(index) else { return };
        let (documents, bytes) = batch.advance(job);
        if let Some(rate) = job.chunks_per_second {
            self.progress.rate(rate);
        }
        self.advance(bytes, documents);
    }

    /// Shows the progress of every unfinished job; `true` if one of them has finished.
    async fn look_at_jobs(&mut self) -> Result<bool> {
        let count = self.accepted.len();
        let mut index = 0;
        while let Some(batch) = self.accepted.get(index) {
            let job = self.client.job(&batch.job_id).await?.parse()?;
            self.show(index, &job);
            if !job.status.is_finished() {
                index += 1;
            } else if let Some(batch) = self.accepted.remove(index) {
                self.report.add(&job, &batch);
            }
        }
        Ok(self.accepted.len() < count)
    }

    /// Looks at the unfinished jobs once more. A job that can't be asked in time counts as it was seen last.
    pub(super) async fn count_unfinished(&mut self) -> Unfinished {
        let end = tokio::time::Instant::now() + LAST_LOOK_MAX;
        let mut unfinished = Unfinished::default();
        for batch in &self.accepted {
            let reply = tokio::time::timeout_at(end, self.client.job(&batch.job_id)).await;
            let job = reply.ok().and_then(|reply| reply.ok()?.parse().ok());
            let (searchable, failed) =
                job.map_or((batch.shown.0, 0), |job| (job.processed_documents, job.failed_documents));
            unfinished.searchable += searchable;
            unfinished.accepted += batch.documents.saturating_sub(searchable + failed);
        }
        unfinished
    }
}

#[cfg(test)]
mod tests {
    use weir_api::JobStatus;

    use super::*;

    fn job(status: JobStatus, processed_documents: u64, failed_documents: u64) -> JobReply {
        JobReply {
            job_id: "j".to_owned(),
            collection: "default".to_owned(),
            status,
            total_documents: 4,
            processed_documents,
            failed_documents,
            new_documents: 0,
            changed_documents: 0,
            unchanged_documents: 0,
            unread_files: 0,
            chunks: 0,
            progress: 0.0,
            cancelled_documents: 0,
            chunks_per_second: None,
            eta_seconds: None,
            waiting_for: None,
            waiting_since: None,
            error: None,
            started_at: 1.0,
            finished_at: None,
            operation: None,
            version: None,
            webhook: None,
            errors: Vec::new(),
        }
    }

    #[test]
    fn a_batch_advances_by_the_processed_documents_of_its_job() {
        let mut batch = AcceptedBatch {
            job_id: "j".to_owned(),
            documents: 4,
            replaced: 0,
            file_bytes: 10,
            places: HashMap::new(),
            shown: (0, 0),
        };
        let steps = [
            (job(JobStatus::Pending, 0, 0), (0, 0)),
            (job(JobStatus::Running, 1, 0), (1, 2)),
            (job(JobStatus::Running, 1, 0), (0, 0)),
            (job(JobStatus::Running, 2, 1), (2, 5)),
            (job(JobStatus::Running, 2, 0), (0, 0)),
            (job(JobStatus::Completed, 3, 1), (1, 3)),
        ];
        for (job, expected) in steps {
            assert_eq!(batch.advance(&job), expected, "{job:?}");
        }
    }
}
