//! Jobs, as the API shows them.

use weir_api::{ErrorCode, JobDocumentError, JobReply, JobStatus, List};
use weir_policy::Caller;
use weir_store::Job;

use crate::error::RequestError;
use crate::ingest::IngestProgress;
use crate::{Result, Retrieval};

/// Jobs on a page: by default, and at most.
pub const JOBS_PAGE: (usize, usize) = (20, 100);

impl Retrieval {
    /// The job called `id`.
    ///
    /// # Errors
    /// `job_not_found`, also for a job of a collection that the caller may not see; store errors.
    pub async fn job(&self, caller: &Caller, id: &str) -> Result<JobReply> {
        let job = self.store.job(caller, id).await?;
        let missing =
            || RequestError::new(ErrorCode::JobNotFound, format!("there is no job `{}`", id.escape_debug()));
        job.map(|job| self.render_job(caller, job)).ok_or_else(missing)
    }

    /// A page of the jobs that the caller may see, newest first.
    ///
    /// # Errors
    /// `invalid_parameter` for an unknown cursor; store errors.
    pub async fn jobs(&self, caller: &Caller, limit: usize, cursor: Option<&str>) -> Result<List<JobReply>> {
        let (jobs, next_cursor) = self.store.jobs(caller, limit, cursor).await?;
        Ok(List { data: jobs.into_iter().map(|job| self.render_job(caller, job)).collect(), next_cursor })
    }

    /// A job as the API shows it, with the progress of its collection.
    pub(crate) fn render_job(&self, caller: &Caller, job: Job) -> JobReply {
        let collection = self.collections.get(caller, &job.collection);
        render(job, collection.as_ref().map(|collection| &collection.progress))
    }
}

/// A job as the API shows it. `progress` has what the index shows of it before its turn, and the chunks that are embedded.
pub(crate) fn render(mut job: Job, progress: Option<&IngestProgress>) -> JobReply {
    let mut shares = 0.0;
    if job.finished_at.is_none()
        && let Some(progress) = progress
    {
        let first = (job.last_operation + 1).saturating_sub(job.new + job.changed);
        let (applied, embedded) = progress.of(first..=job.last_operation);
        job.processed = (job.processed + applied).min(job.total);
        shares = embedded;
        if job.status == weir_store::JobStatus::Pending && applied > 0 {
            job.status = weir_store::JobStatus::Running;
        }
    }
    let done = job.processed as f64 + shares;
    let progress = if job.finished_at.is_some() { 1.0 } else { (done / job.total.max(1) as f64).min(1.0) };
    use weir_store::JobStatus as Stored;
    let code_of = |name: &str| {
        weir_api::ERROR_TABLE.iter().find(|row| row.name == name).map_or(ErrorCode::Internal, |r| r.code)
    };
    JobReply {
        job_id: job.id,
        collection: job.collection,
        status: match job.status {
            Stored::Pending => JobStatus::Pending,
            Stored::Running => JobStatus::Running,
            Stored::Completed => JobStatus::Completed,
            Stored::Failed => JobStatus::Failed,
            Stored::Cancelled => JobStatus::Cancelled,
        },
        total_documents: job.total,
        processed_documents: job.processed.saturating_sub(job.failed),
        failed_documents: job.failed,
        new_documents: job.new,
        changed_documents: job.changed,
        unchanged_documents: job.unchanged,
        chunks: job.chunks,
        progress,
        error: job.error,
        started_at: job.created_at,
        finished_at: job.finished_at,
        version: None,
        errors: job
            .errors
            .into_iter()
            .map(|error| JobDocumentError {
                document_id: error.document_id,
                code: code_of(&error.code),
                message: error.message,
            })
            .collect(),
    }
}
