//! `/v1/jobs`: handlers.

use axum::extract::{RawQuery, State};
use weir_api::{JobReply, List};
use weir_retrieval::JOBS_PAGE;

use super::Gateway;
use super::body::{CallerOf, Json, Segments, page_limit, query_pairs, unknown_parameter};
use super::error::ApiError;

/// One job.
pub(super) async fn get(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([id]): Segments<1>,
) -> Result<Json<JobReply>, ApiError> {
    Ok(Json(gateway.retrieval.job(&caller, &id).await?))
}

/// All jobs, newest first.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    RawQuery(query): RawQuery,
) -> Result<Json<List<JobReply>>, ApiError> {
    let (mut limit, mut cursor) = (JOBS_PAGE.0, None);
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "cursor" => cursor = Some(value),
            "limit" => limit = page_limit(&value, JOBS_PAGE.1)?,
            _ => return Err(unknown_parameter(&key, "`limit` or `cursor`")),
        }
    }
    Ok(Json(gateway.retrieval.jobs(&caller, limit, cursor.as_deref()).await?))
}
