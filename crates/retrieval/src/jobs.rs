//! Jobs, as the API shows and steers them.

use std::sync::Arc;

use weir_api::{
    ErrorCode, JobDocument, JobDocumentError, JobDocumentState, JobReply, JobStatus, JobWebhook, List,
    WebhookStatus,
};
use weir_policy::Caller;
use weir_store::{Job, JobDocumentsQuery, JobStatus as Stored};

use crate::ingest::{IngestTerms, new_job_id};
use crate::open_collection::OpenCollection;
use crate::{Result, Retrieval, run_to_completion};
use weir_refusal::RequestError;

/// Jobs on a page: by default, and at most.
pub const JOBS_PAGE: (usize, usize) = (20, 100);

/// Documents of a job on a page: by default, and at most.
pub const JOB_DOCUMENTS_PAGE: (usize, usize) = (100, 1_000);

/// The reason that a caller with a filter gets.
const WAITING_FOR_THE_MODEL: &str =
    "the model or the disk of the gateway fails; its operator sees the reason";

impl Retrieval {
    /// The job called `id`.
    ///
    /// # Errors
    /// `job_not_found`, also for a job of a collection that the caller may not see; store errors.
    pub async fn job(&self, caller: &Caller, id: &str) -> Result<JobReply> {
        let job = self.stored_job(caller, id).await?;
        Ok(self.render_job(caller, job))
    }

    /// A page of the jobs that the caller may see, newest first.
    ///
    /// # Errors
    /// `invalid_parameter` for an unknown cursor; store errors.
    pub async fn jobs(&self, caller: &Caller, limit: usize, cursor: Option<&str>) -> Result<List<JobReply>> {
        let (jobs, next_cursor) = self.store.jobs(caller, limit, cursor).await?;
        Ok(List { data: jobs.into_iter().map(|job| self.render_job(caller, job)).collect(), next_cursor })
    }

    /// A page of the documents of a job, each with its state. Documents that were unchanged are not listed.
    ///
    /// # Errors
    /// `job_not_found`; `invalid_parameter` for an unknown cursor; store errors.
    pub async fn job_documents(
        &self,
        caller: &Caller,
        id: &str,
        state: Option<JobDocumentState>,
        limit: usize,
        cursor: Option<String>,
    ) -> Result<List<JobDocument>> {
        let job = self.stored_job(caller, id).await?;
        let applied_early = match self.collections.get(caller, &job.collection) {
            Some(collection) if job.finished_at.is_none() => {
                collection.progress.applied_early(operations(&job)).into_iter().collect()
            }
            Some(_) | None => Default::default(),
        };
        let state = state.and_then(|state| <&str>::from(state).parse().ok());
        let query = JobDocumentsQuery { state, limit, cursor, applied_early };
        let page = self.store.job_documents(caller, id, query).await?;
        let (documents, next_cursor) = page.ok_or_else(|| no_job(id))?;
        let data = documents.into_iter().map(|document| JobDocument {
            document_id: document.document_id,
            state: <&str>::from(document.state).parse().unwrap_or(JobDocumentState::Pending),
            code: document.code.as_deref().map(code_of),
            message: document.message,
        });
        Ok(List { data: data.collect(), next_cursor })
    }

    /// Cancels a job: what is not searchable by now is not embedded. A cancelled job stays as it is.
    ///
    /// # Errors
    /// `job_not_found`; `job_finished` for a job that has completed or failed; store errors.
    pub async fn cancel_job(&self, caller: &Caller, id: &str) -> Result<JobReply> {
        let job = self.stored_job(caller, id).await?;
        let collection = self.collections.get(caller, &job.collection);
        let cancelled = match collection.filter(|_| job.finished_at.is_none()) {
            Some(collection) => {
                run_to_completion(async move { Ok(collection.cancel_job(&job).await?) }).await?
            }
            None => None,
        };
        self.reading.cancel(id);
        let job = match cancelled {
            Some(job) => job,
            None => self.stored_job(caller, id).await?,
        };
        match job.status {
            Stored::Cancelled => Ok(self.render_job(caller, job)),
            Stored::Completed | Stored::Failed => {
                let message = format!("the job is `{}` and cannot be cancelled", <&str>::from(job.status));
                Err(RequestError::new(ErrorCode::JobFinished, message))
            }
            Stored::Pending | Stored::Running => {
                Err(RequestError::new(ErrorCode::Overloaded, "the collection of the job is being closed"))
            }
        }
    }

    /// Stores the documents of a job that failed or were cancelled again, with a new job, whose end is reported to `webhook_url`.
    ///
    /// # Errors
    /// `job_not_found`; `job_not_retryable` for a job that has not ended, and one without such documents; `invalid_parameter` for an
    /// address that is not allowed; `overloaded`; store errors.
    pub async fn retry_job(
        &self,
        caller: &Arc<Caller>,
        id: &str,
        webhook_url: Option<String>,
    ) -> Result<JobReply> {
        let terms = IngestTerms { webhook_url, ..IngestTerms::default() };
        let webhook = terms.webhook(&self.config.webhooks)?;
        let job = self.stored_job(caller, id).await?;
        if job.finished_at.is_none() {
            return Err(RequestError::new(ErrorCode::JobNotRetryable, "the job has not ended"));
        }
        let view = self.view(caller, &job.collection)?;
        view.check_pending(self.config.limits.pending_operations_max)?;
        if let Some(job) = self.retry_files(&view, &job.id, webhook.clone()).await? {
            return Ok(self.render_job(caller, job));
        }
        let retried =
            run_to_completion(async move { view.retry_job(&job.id, &new_job_id(), webhook).await }).await?;
        let none = || {
            let message = "none of the documents of the job is stored and not searchable, and none of its files can be read again";
            RequestError::new(ErrorCode::JobNotRetryable, message)
        };
        Ok(self.render_job(caller, retried.ok_or_else(none)?))
    }

    /// The job called `id` in the store.
    async fn stored_job(&self, caller: &Caller, id: &str) -> Result<Job> {
        self.store.job(caller, id).await?.ok_or_else(|| no_job(id))
    }

    /// A job as the API shows it, with the progress of its collection.
    pub(crate) fn render_job(&self, caller: &Caller, job: Job) -> JobReply {
        let collection = self.collections.get(caller, &job.collection);
        let left = self.reading.left(&job.id);
        let operation = self.store.is_shared().then_some(job.last_operation);
        let mut shown = JobReply { operation, ..render(job, collection.as_deref()) };
        // an upload that is not read is shown as far as it is; the last file counts until all documents are stored
        if let Some(left) = left.filter(|_| shown.unread_files > 1) {
            shown.unread_files = left.clamp(1, shown.unread_files);
        }
        if caller.filter().is_some() {
            // an upstream's message can be about hidden documents
            shown.waiting_for = shown.waiting_for.map(|_| WAITING_FOR_THE_MODEL.to_owned());
        }
        shown
    }
}

fn no_job(id: &str) -> RequestError {
    RequestError::new(ErrorCode::JobNotFound, format!("there is no job `{}`", id.escape_debug()))
}

/// The code called `name`.
pub(crate) fn code_of(name: &str) -> ErrorCode {
    weir_api::ERROR_TABLE.iter().find(|row| row.name == name).map_or(ErrorCode::Internal, |row| row.code)
}

/// The operations of a job.
fn operations(job: &Job) -> std::ops::RangeInclusive<u64> {
    (job.last_operation + 1).saturating_sub(job.new + job.changed)..=job.last_operation
}

/// A job as the API shows it. `collection` has what the index shows of it before its turn, the chunks that are embedded, and why it does not
/// advance.
pub(crate) fn render(mut job: Job, collection: Option<&OpenCollection>) -> JobReply {
    let collection = collection.filter(|_| job.finished_at.is_none());
    let mut shares = 0.0;
    if let Some(collection) = collection {
        let (applied, embedded) = collection.progress.of(operations(&job));
        job.processed = (job.processed + applied).min(job.total);
        shares = embedded;
        if job.status == Stored::Pending && applied > 0 {
            job.status = Stored::Running;
        }
    }
    let rate = collection.and_then(|collection| collection.progress.rate());
    let failure = collection.and_then(OpenCollection::failure);
    let done = job.processed as f64 + shares;
    let is_whole = job.finished_at.is_some() && job.status != Stored::Cancelled;
    let progress = if is_whole { 1.0 } else { (done / job.total.max(1) as f64).min(1.0) };
    let cancelled =
        if job.status == Stored::Cancelled { job.total - job.processed.min(job.total) } else { 0 };
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
        cancelled_documents: cancelled,
        new_documents: job.new,
        changed_documents: job.changed,
        unchanged_documents: job.unchanged,
        unread_files: job.unread,
        chunks: job.chunks,
        progress,
        chunks_per_second: rate.map(|rate| rate.chunks_per_second),
        eta_seconds: rate.and_then(|rate| rate.seconds_until(job.last_operation)),
        waiting_since: failure.as_ref().map(|failure| failure.since),
        waiting_for: failure.map(|failure| failure.reason),
        error: job.error,
        started_at: job.created_at,
        finished_at: job.finished_at,
        operation: None,
        version: None,
        webhook: job.webhook.map(render_webhook),
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

fn render_webhook(webhook: weir_store::Webhook) -> JobWebhook {
    let status = match (&webhook.error, webhook.ended_at, webhook.due_at) {
        (None, Some(_), _) => WebhookStatus::Delivered,
        (Some(_), Some(_), _) => WebhookStatus::Failed,
        (_, None, Some(_)) => WebhookStatus::Pending,
        (_, None, None) => WebhookStatus::Waiting,
    };
    JobWebhook {
        status,
        attempts: webhook.attempts,
        next_attempt_at: webhook.due_at.filter(|_| webhook.ended_at.is_none()),
        finished_at: webhook.ended_at,
        error: webhook.error,
    }
}
