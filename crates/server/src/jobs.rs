//! `/v1/jobs`: handlers.

use axum::extract::RawQuery;
use weir_api::{JobReply, List};
use weir_retrieval::JOBS_PAGE;

use super::body::{Call, Json, Reply, page_limit, query_pairs, unknown_parameter};
use super::context::Segments;

/// One job.
pub(super) async fn get(call: Call, Segments([id]): Segments<1>) -> Reply<JobReply> {
    Ok(Json(call.retrieval.job(&call.caller, &id).await?))
}

/// All jobs, newest first.
pub(super) async fn list(call: Call, RawQuery(query): RawQuery) -> Reply<List<JobReply>> {
    let (mut limit, mut cursor) = (JOBS_PAGE.0, None);
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "cursor" => cursor = Some(value),
            "limit" => limit = page_limit(&value, JOBS_PAGE.1)?,
            _ => return Err(unknown_parameter(&key, "`limit` or `cursor`")),
        }
    }
    Ok(Json(call.retrieval.jobs(&call.caller, limit, cursor.as_deref()).await?))
}
