//! `GET /v1/jobs` and `GET /v1/jobs/{id}`.

use axum::extract::{RawQuery, State};
use weir_api::{ErrorCode, JobDocumentError, JobReply, JobStatus, List};
use weir_store::Job;

use super::Gateway;
use super::body::{CallerOf, Json, Segments, page_limit, query_pairs, unknown_parameter};
use super::error::ApiError;

/// Jobs on a page when the caller doesn't say, and at most.
const PAGE: (usize, usize) = (20, 100);

/// One job.
pub(super) async fn get(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([id]): Segments<1>,
) -> Result<Json<JobReply>, ApiError> {
    let job = gateway.store.job(&caller, &id).await?;
    let missing =
        || ApiError::new(ErrorCode::JobNotFound, format!("there is no job `{}`", id.escape_debug()));
    job.map(|job| Json(reply(job))).ok_or_else(missing)
}

/// All jobs, newest first.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    RawQuery(query): RawQuery,
) -> Result<Json<List<JobReply>>, ApiError> {
    let (mut limit, mut cursor) = (PAGE.0, None);
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "cursor" => cursor = Some(value),
            "limit" => limit = page_limit(&value, PAGE.1)?,
            _ => return Err(unknown_parameter(&key, "`limit` or `cursor`")),
        }
    }
    let (jobs, next_cursor) = gateway.store.jobs(&caller, limit, cursor.as_deref()).await?;
    Ok(Json(List { data: jobs.into_iter().map(reply).collect(), next_cursor }))
}

/// A job as the API shows it.
pub(super) fn reply(job: Job) -> JobReply {
    use weir_store::JobStatus as Stored;
    let code_of = |name: &str| {
        weir_api::ERROR_TABLE.iter().find(|row| row.name == name).map_or(ErrorCode::Internal, |r| r.code)
    };
    JobReply {
        job_id: job.id,
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
