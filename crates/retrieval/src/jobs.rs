//! Jobs, as the API shows them.

use weir_api::{ErrorCode, JobDocumentError, JobReply, JobStatus, List};
use weir_policy::Caller;
use weir_store::Job;

use crate::error::RequestError;
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
        job.map(render).ok_or_else(missing)
    }

    /// A page of the jobs that the caller may see, newest first.
    ///
    /// # Errors
    /// `invalid_parameter` for an unknown cursor; store errors.
    pub async fn jobs(&self, caller: &Caller, limit: usize, cursor: Option<&str>) -> Result<List<JobReply>> {
        let (jobs, next_cursor) = self.store.jobs(caller, limit, cursor).await?;
        Ok(List { data: jobs.into_iter().map(render).collect(), next_cursor })
    }
}

/// A job as the API shows it.
pub(crate) fn render(job: Job) -> JobReply {
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
        error: job.error,
        started_at: job.created_at,
        finished_at: job.finished_at,
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
