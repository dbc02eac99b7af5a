//! `/v1/jobs`: handlers.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::RawQuery;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;
use weir_api::{ErrorCode, Invalid, JobDocument, JobDocumentState, JobReply, List};
use weir_retrieval::{JOB_DOCUMENTS_PAGE, JOBS_PAGE, JobEvent};

use super::body::{CallContext, Json, Reply, page_limit, query_pairs, unknown_parameter};
use super::context::Segments;
use super::ingest::accepted;
use crate::Result;

/// One job.
pub(super) async fn get(call: CallContext, Segments([id]): Segments<1>) -> Reply<JobReply> {
    Ok(Json(call.retrieval.job(&call.caller, &id).await?))
}

/// All jobs, newest first.
pub(super) async fn list(call: CallContext, RawQuery(query): RawQuery) -> Reply<List<JobReply>> {
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

/// The documents of a job.
pub(super) async fn documents(
    call: CallContext,
    Segments([id]): Segments<1>,
    RawQuery(query): RawQuery,
) -> Reply<List<JobDocument>> {
    let (mut limit, mut cursor, mut state) = (JOB_DOCUMENTS_PAGE.0, None, None);
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "cursor" => cursor = Some(value),
            "limit" => limit = page_limit(&value, JOB_DOCUMENTS_PAGE.1)?,
            "state" => state = Some(parse_state(&value)?),
            _ => return Err(unknown_parameter(&key, "`state`, `limit` or `cursor`")),
        }
    }
    Ok(Json(call.retrieval.job_documents(&call.caller, &id, state, limit, cursor).await?))
}

fn parse_state(value: &str) -> Result<JobDocumentState> {
    value.parse().map_err(|_| {
        let message = format!(
            "`{}` is no state; it is `pending`, `searchable`, `failed`, `cancelled` or `replaced`",
            value.escape_debug()
        );
        Invalid::at(ErrorCode::InvalidParameter, &["state"], message).into()
    })
}

/// Cancels a job.
pub(super) async fn cancel(call: CallContext, Segments([id]): Segments<1>) -> Reply<JobReply> {
    Ok(Json(call.retrieval.cancel_job(&call.caller, &id).await?))
}

/// Stores the documents of a job that are not searchable again.
pub(super) async fn retry_failed(
    call: CallContext,
    Segments([id]): Segments<1>,
    RawQuery(query): RawQuery,
) -> Result<Response> {
    let mut webhook_url = None;
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "webhook_url" => webhook_url = Some(value),
            _ => return Err(unknown_parameter(&key, "`webhook_url`")),
        }
    }
    Ok(accepted(call.retrieval.retry_job(&call.caller, &id, webhook_url).await?))
}

/// The states of a job until it ends, as server-sent events.
pub(super) async fn events(call: CallContext, Segments([id]): Segments<1>) -> Result<Response> {
    let events = call.retrieval.job_events(&call.caller, &id).await?;
    let events = stream::unfold(events, |mut events| async move {
        let event = render_event(&events.next().await?);
        Some((Ok::<_, Infallible>(Bytes::from(event)), events))
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache")];
    Ok((headers, Body::from_stream(events)).into_response())
}

/// An event as a stream has it; a comment without a change.
fn render_event(event: &JobEvent) -> String {
    let (name, job) = match event {
        JobEvent::Progress(job) => ("progress", job),
        JobEvent::End(job) => ("end", job),
        JobEvent::Silence => return ": nothing changed\n\n".to_owned(),
    };
    format!("event: {name}\ndata: {}\n\n", json(job))
}

/// A job in one line. Jobs consist of texts and numbers, which always have a JSON form.
fn json(job: &impl Serialize) -> String {
    serde_json::to_string(job).unwrap_or_default()
}
