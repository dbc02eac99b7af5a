//! `POST /v1/ingest`, `PUT` and `PATCH` of a document.

use std::time::Duration;

use axum::extract::{RawQuery, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;
use weir_api::{Document, DocumentPatch, ErrorCode, FileOptions, IngestRequest, Invalid, JobReply, Metadata};
use weir_retrieval::{IngestOutcome, IngestTerms};

use super::body::{self, Call, Json, query_pairs, unknown_parameter};
use super::conditions;
use super::context::{self, Segments};
use super::error::ApiError;
use super::idempotency::{self, Begun, Keyed};
use super::{Gateway, ingest_lines, upload};
use crate::Result;

/// The id of a document that is also the last segment of a route.
const DELETE: &str = "delete";

/// Stores documents: a 202 means that they are on disk and become searchable soon.
pub(super) async fn ingest(call: Call, RawQuery(query): RawQuery, request: Request) -> Result<Response> {
    if ingest_lines::is_lines(request.headers()) {
        return ingest_lines::ingest(call, query.as_deref(), request).await;
    }
    let keyed = Keyed::begin(&call, &request)?;
    let wait_until = wait_until(&call, &request, body::flag(query.as_deref(), "wait")?);
    let admitted = context::take_admitted(request.extensions());
    let outcome = if upload::is_form(request.headers()) {
        let form = upload::receive_form(&call, request).await?;
        match keyed.check(&call, &[&form.fingerprint()]).await? {
            Begun::Repeated(outcome) => *outcome,
            Begun::New(idempotency) => {
                let upload::Form { collection, files, replace_if_equal, webhook_url } = form;
                let terms = IngestTerms { replace_if_equal, webhook_url, idempotency, test: None };
                call.retrieval.upload(&call.caller, &collection, files, terms).await?
            }
        }
    } else {
        let bytes = body::read(&call, request).await?;
        match keyed.check(&call, &[&bytes]).await? {
            Begun::Repeated(outcome) => *outcome,
            Begun::New(idempotency) => {
                let request: IngestRequest<'_> = weir_api::parse(&bytes)?;
                call.retrieval.accept(&call.caller, &request, idempotency).await?
            }
        }
    };
    // the documents are in the store: a waiting request holds no memory for them, and its key is in the store
    drop((admitted, keyed));
    reply(&call, outcome, wait_until).await
}

/// Stores a document under its id: JSON, or a file whose text is extracted.
pub(super) async fn put(
    call: Call,
    Segments([name, id]): Segments<2>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response> {
    let parameters = PutParameters::parse(query.as_deref(), &id)?;
    let keyed = Keyed::begin(&call, &request)?;
    let mut terms = IngestTerms { test: conditions::test(request.headers())?, ..IngestTerms::default() };
    let condition = format!("{:?}", terms.test);
    let wait_until = wait_until(&call, &request, parameters.wait);
    let admitted = context::take_admitted(request.extensions());
    let outcome = if upload::is_json(request.headers()) {
        parameters.check_json()?;
        let bytes = body::read(&call, request).await?;
        match keyed.check(&call, &[condition.as_bytes(), &bytes]).await? {
            Begun::Repeated(outcome) => *outcome,
            Begun::New(idempotency) => {
                terms.idempotency = idempotency;
                let document: Document = weir_api::parse(&bytes)?;
                put_json(&call, &name, id, document, terms).await?
            }
        }
    } else {
        let PutParameters { title, metadata, keep_original, .. } = &parameters;
        let options = FileOptions {
            id: Some(id),
            title: title.clone(),
            metadata: metadata.clone(),
            keep_original: *keep_original,
        };
        let file = upload::receive_file(&call, request, parameters.name.clone(), options).await?;
        match keyed.check(&call, &[condition.as_bytes(), &upload::fingerprint(&file)]).await? {
            Begun::Repeated(outcome) => *outcome,
            Begun::New(idempotency) => {
                terms.idempotency = idempotency;
                call.retrieval.put_file(&call.caller, &name, file, terms).await?
            }
        }
    };
    drop((admitted, keyed));
    reply_of_one(&call, outcome, wait_until).await
}

/// Changes title and metadata of a document.
pub(super) async fn patch(
    call: Call,
    Segments([name, id]): Segments<2>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response> {
    let wait_until = wait_until(&call, &request, body::flag(query.as_deref(), "wait")?);
    let keyed = Keyed::begin(&call, &request)?;
    let test = conditions::test(request.headers())?;
    let condition = format!("{test:?}");
    let bytes = body::read(&call, request).await?;
    let outcome = match keyed.check(&call, &[condition.as_bytes(), &bytes]).await? {
        Begun::Repeated(outcome) => *outcome,
        Begun::New(idempotency) => {
            let patch: DocumentPatch = weir_api::parse(&bytes)?;
            let terms = IngestTerms { test, idempotency, ..IngestTerms::default() };
            call.retrieval.patch_document(&call.caller, &name, &id, &patch, terms).await?
        }
    };
    drop(keyed);
    reply_of_one(&call, outcome, wait_until).await
}

/// Changes the document with the id `delete`.
pub(super) async fn patch_named_delete(
    call: Call,
    Segments([name]): Segments<1>,
    query: RawQuery,
    request: Request,
) -> Result<Response> {
    patch(call, Segments([name, DELETE.to_owned()]), query, request).await
}

/// Stores the document with the id `delete`.
pub(super) async fn put_named_delete(
    call: Call,
    Segments([name]): Segments<1>,
    query: RawQuery,
    request: Request,
) -> Result<Response> {
    put(call, Segments([name, DELETE.to_owned()]), query, request).await
}

async fn put_json(
    call: &Call,
    name: &str,
    id: String,
    document: Document,
    terms: IngestTerms,
) -> Result<IngestOutcome> {
    if document.id.as_ref().is_some_and(|sent| *sent != id) {
        let message = "the id is not that of the path; leave it out";
        return Err(Invalid::at(ErrorCode::InvalidParameter, &["id"], message).into());
    }
    let document = Document { id: Some(id), ..document };
    Ok(call.retrieval.put_document(&call.caller, name, document, terms).await?)
}

/// The query parameters of a `PUT`.
struct PutParameters {
    /// The name of the file.
    name: String,
    title: Option<String>,
    metadata: Option<Metadata>,
    keep_original: Option<bool>,
    wait: bool,
    /// Whether one of them is given that JSON has as a field.
    has_fields: bool,
}

impl PutParameters {
    fn parse(query: Option<&str>, id: &str) -> Result<PutParameters> {
        let (mut title, mut metadata, mut wait, mut name, mut keep_original) = (None, None, None, None, None);
        let flag = |name: &str, value: &str| body::flag(Some(&format!("{name}={value}")), name);
        for (key, value) in query_pairs(query) {
            match key.as_str() {
                "filename" => name = Some(value),
                "title" => title = Some(value),
                "metadata" => {
                    let read = Metadata::from_json(value).map_err(|error| {
                        Invalid::at(ErrorCode::InvalidParameter, &["metadata"], error.to_string())
                    });
                    metadata = Some(read?);
                }
                "wait" => wait = Some(flag("wait", &value)?),
                "keep_original" => keep_original = Some(flag("keep_original", &value)?),
                _ => {
                    let known = "`filename`, `title`, `metadata`, `keep_original` or `wait`";
                    return Err(unknown_parameter(&key, known));
                }
            }
        }
        let has_fields = name.is_some() || title.is_some() || metadata.is_some() || keep_original.is_some();
        let name = name.unwrap_or_else(|| id.to_owned());
        Ok(PutParameters { name, title, metadata, keep_original, wait: wait.unwrap_or_default(), has_fields })
    }

    fn check_json(&self) -> Result<()> {
        if !self.has_fields {
            return Ok(());
        }
        let message = "`filename`, `title`, `metadata` and `keep_original` are for files; send title and metadata as fields of the JSON document, or the file with its media type, such as `application/pdf`";
        Err(Invalid::whole(ErrorCode::InvalidParameter, message).into())
    }
}

/// Until when a request waits for its documents to be searchable: a tenth of the time is left for the reply.
fn wait_until(gateway: &Gateway, request: &Request, wait: bool) -> Option<Instant> {
    let limit = Duration::from_millis(gateway.config.server.request_deadline_ms);
    let end = context::deadline(request).map_or_else(|| Instant::now() + limit, Instant::from_std);
    wait.then(|| end - (end - Instant::now()) / 10)
}

/// The reply to a request that writes one document: its errors are those of the document.
async fn reply_of_one(call: &Call, outcome: IngestOutcome, wait_until: Option<Instant>) -> Result<Response> {
    if let Some((code, message)) = outcome.refusal() {
        return Err(ApiError::new(code, message));
    }
    let (version, is_repeated) = (outcome.version(), outcome.is_repeated());
    let mut job = job_of(call, outcome, wait_until).await?;
    job.version = version;
    let mut response = accepted(job);
    if let Some(version) = version {
        response.headers_mut().insert(header::ETAG, conditions::tag(version));
    }
    Ok(idempotency::mark(response, is_repeated))
}

async fn reply(call: &Call, outcome: IngestOutcome, wait_until: Option<Instant>) -> Result<Response> {
    let is_repeated = outcome.is_repeated();
    Ok(idempotency::mark(accepted(job_of(call, outcome, wait_until).await?), is_repeated))
}

async fn job_of(call: &Call, outcome: IngestOutcome, wait_until: Option<Instant>) -> Result<JobReply> {
    Ok(match wait_until {
        Some(until) => call.retrieval.wait_until_searchable(outcome, until).await?,
        None => outcome.job(),
    })
}

pub(super) fn accepted(job: JobReply) -> Response {
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
