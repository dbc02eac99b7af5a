//! `POST /v1/ingest`.

use axum::extract::{RawQuery, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;
use weir_api::{IngestRequest, JobReply};

use super::body::{self, Call, Json};
use super::context;
use crate::Result;

/// Stores documents: a 202 means that they are on disk and become searchable soon.
pub(super) async fn ingest(call: Call, RawQuery(query): RawQuery, request: Request) -> Result<Response> {
    let wait = body::flag(query.as_deref(), "wait")?;
    // a tenth of the deadline is left for the reply
    let deadline = context::deadline(&request).map(Instant::from_std);
    let wait_until = deadline.map(|end| end - (end - Instant::now()) / 10);
    let admitted = context::take_admitted(request.extensions());
    let bytes = body::read(&call, request).await?;
    let request: IngestRequest<'_> = weir_api::parse(&bytes)?;
    let outcome = call.retrieval.accept(&call.caller, &request).await?;
    // the documents are in the store: a waiting request holds no memory for them
    drop(request);
    drop((bytes, admitted));
    let job = match wait_until.filter(|_| wait) {
        Some(until) => call.retrieval.wait_until_searchable(outcome, until).await?,
        None => outcome.job(),
    };
    Ok(accepted(job))
}

fn accepted(job: JobReply) -> Response {
    let location = HeaderValue::from_str(&format!("/v1/jobs/{}", job.job_id));
    let is_finished = job.finished_at.is_some();
    let mut response = (StatusCode::ACCEPTED, Json(job)).into_response();
    let headers = response.headers_mut();
    if !is_finished {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if let Ok(location) = location {
        headers.insert(header::LOCATION, location);
    }
    response
}
