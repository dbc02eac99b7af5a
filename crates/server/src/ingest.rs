//! `POST /v1/ingest`, `PUT` and `PATCH` of a document.

use std::time::Duration;

use axum::extract::{RawQuery, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio::time::Instant;
use weir_api::{
    DEFAULT_COLLECTION, Document, DocumentPatch, ErrorCode, FileOptions, IngestRequest, Invalid, JobReply,
    Metadata,
};
use weir_retrieval::{IngestOutcome, IngestTerms, UploadedFile};

use super::body::{self, CallContext, Json, query_pairs, unknown_parameter};
use super::conditions;
use super::context::{self, Segments};
use super::error::ApiError;
use super::idempotency::{self, Begun, Keyed};
use super::{Gateway, ingest_lines, upload};
use crate::Result;

/// The id of a document that is also the last segment of a route.
const DELETE: &str = "delete";

/// Stores documents: a 202 means that they are on disk and become searchable soon.
pub(super) async fn ingest(
    call: CallContext,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response> {
    if ingest_lines::is_lines(request.headers()) {
        return ingest_lines::ingest(call, query.as_deref(), request).await;
    }
    if !upload::is_form(request.headers())
        && query_pairs(query.as_deref()).iter().any(|(key, _)| key == FILE_NAME)
    {
        return ingest_file(call, query.as_deref(), request).await;
    }
    let wait = body::flag(query.as_deref(), "wait")?;
    check_kind(request.headers())?;
    let keyed = Keyed::begin(&call, &request)?;
    let wait_until = wait_until(&call, &request, wait);
    let admitted = context::take_admitted(request.extensions());
    let outcome = if upload::is_form(request.headers()) {
        let form = upload::receive_form(&call, request).await?;
        match keyed.check(&call, &[&form.fingerprint()]).await? {
            Begun::Repeated(outcome) => *outcome,
            Begun::New(idempotency) => {
                let upload::Form { collection, files, replace_if_equal, webhook_url } = form;
                let terms = IngestTerms { replace_if_equal, webhook_url, idempotency, test: None };
                call.retrieval.upload(&call.caller, &collection, files, terms, wait_until.is_some()).await?
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

/// Refuses a file whose name is not sent.
fn check_kind(headers: &HeaderMap) -> Result<()> {
    match upload::media_type(headers) {
        Some(media) if !FORMS.contains(&media.as_str()) && !upload::is_json(headers) => {
            let message = format!(
                "the body's media type is `{}`: a file as the body needs the parameter `{FILE_NAME}`, as in `/v1/ingest?{FILE_NAME}=manual.pdf`",
                media.escape_debug()
            );
            Err(ApiError::new(ErrorCode::UnsupportedMediaType, message))
        }
        Some(_) | None => Ok(()),
    }
}

/// Stores the document of a file that is the body.
async fn ingest_file(call: CallContext, query: Option<&str>, request: Request) -> Result<Response> {
    let parameters = FileParameters::parse(query, FileParameters::OF_POST)?;
    let keyed = Keyed::begin(&call, &request)?;
    let wait_until = wait_until(&call, &request, parameters.wait);
    let admitted = context::take_admitted(request.extensions());
    let FileParameters { name, options, collection, replace_if_equal, webhook_url, .. } = parameters;
    let collection = collection.unwrap_or_else(|| DEFAULT_COLLECTION.to_owned());
    let file =
        upload::receive_file(&call, request, name.unwrap_or_else(|| upload::UNNAMED.to_owned()), options)
            .await?;
    let asked = serde_json::json!([collection, replace_if_equal, webhook_url]).to_string();
    let outcome = match keyed.check(&call, &[asked.as_bytes(), &upload::fingerprint(&file)]).await? {
        Begun::Repeated(outcome) => *outcome,
        Begun::New(idempotency) => {
            let terms = IngestTerms { replace_if_equal, webhook_url, idempotency, test: None };
            let waits = wait_until.is_some();
            call.retrieval.upload(&call.caller, &collection, vec![file], terms, waits).await?
        }
    };
    drop((admitted, keyed));
    reply(&call, outcome, wait_until).await
}

/// Stores a document under its id: JSON, or a file whose text is extracted.
pub(super) async fn put(
    call: CallContext,
    Segments([name, id]): Segments<2>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response> {
    let mut parameters = FileParameters::parse(query.as_deref(), FileParameters::OF_PUT)?;
    let keyed = Keyed::begin(&call, &request)?;
    let mut terms = terms_of_one(&request, parameters.webhook_url.take())?;
    let condition = condition_of(&terms);
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
        let file = put_body(&call, request, id, parameters).await?;
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
    call: CallContext,
    Segments([name, id]): Segments<2>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response> {
    let parameters = FileParameters::parse(query.as_deref(), FileParameters::OF_PATCH)?;
    let wait_until = wait_until(&call, &request, parameters.wait);
    let keyed = Keyed::begin(&call, &request)?;
    let terms = terms_of_one(&request, parameters.webhook_url)?;
    let condition = condition_of(&terms);
    let bytes = body::read(&call, request).await?;
    let outcome = match keyed.check(&call, &[condition.as_bytes(), &bytes]).await? {
        Begun::Repeated(outcome) => *outcome,
        Begun::New(idempotency) => {
            let patch: DocumentPatch = weir_api::parse(&bytes)?;
            let terms = IngestTerms { idempotency, ..terms };
            call.retrieval.patch_document(&call.caller, &name, &id, &patch, terms).await?
        }
    };
    drop(keyed);
    reply_of_one(&call, outcome, wait_until).await
}

/// The terms of a request that writes one document.
fn terms_of_one(request: &Request, webhook_url: Option<String>) -> Result<IngestTerms> {
    Ok(IngestTerms { test: conditions::test(request.headers())?, webhook_url, ..IngestTerms::default() })
}

/// Identifies the terms of a request that writes one document.
fn condition_of(terms: &IngestTerms) -> String {
    match &terms.webhook_url {
        None => format!("{:?}", terms.test),
        Some(url) => format!("{:?} {url}", terms.test),
    }
}

/// Changes the document with the id `delete`.
pub(super) async fn patch_named_delete(
    call: CallContext,
    Segments([name]): Segments<1>,
    query: RawQuery,
    request: Request,
) -> Result<Response> {
    patch(call, Segments([name, DELETE.to_owned()]), query, request).await
}

/// Stores the document with the id `delete`.
pub(super) async fn put_named_delete(
    call: CallContext,
    Segments([name]): Segments<1>,
    query: RawQuery,
    request: Request,
) -> Result<Response> {
    put(call, Segments([name, DELETE.to_owned()]), query, request).await
}

async fn put_json(
    call: &CallContext,
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

/// The file of a `PUT` of a document: the whole body, or the only one of a form.
async fn put_body(
    call: &CallContext,
    request: Request,
    id: String,
    parameters: FileParameters,
) -> Result<UploadedFile> {
    let FileParameters { name, options, .. } = parameters;
    if !upload::is_form(request.headers()) {
        let name = name.unwrap_or_else(|| id.clone());
        return upload::receive_file(call, request, name, FileOptions { id: Some(id), ..options }).await;
    }
    let mut form = upload::receive_form(call, request).await?;
    let (Some(file), true) = (form.files.pop(), form.files.is_empty()) else {
        let message = "the form of a document has one part `file`; POST /v1/ingest takes several";
        return Err(Invalid::at(ErrorCode::InvalidParameter, &["file"], message).into());
    };
    if file.options.id.as_ref().is_some_and(|sent| *sent != id) {
        let message = "the id is not that of the path; leave it out";
        return Err(Invalid::at(ErrorCode::InvalidParameter, &["options", "id"], message).into());
    }
    let options = FileOptions {
        id: Some(id),
        title: file.options.title.or(options.title),
        metadata: file.options.metadata.or(options.metadata),
        keep_original: file.options.keep_original.or(options.keep_original),
    };
    Ok(UploadedFile { name: name.unwrap_or(file.name), options, ..file })
}

/// Media types of forms. `curl -d` sends the second one by default, which is read as JSON.
const FORMS: [&str; 2] = [upload::FORM, "application/x-www-form-urlencoded"];

/// The query parameter that names a file.
const FILE_NAME: &str = "filename";

/// The query parameters of a request whose body is a file.
#[derive(Default)]
struct FileParameters {
    name: Option<String>,
    options: FileOptions,
    collection: Option<String>,
    replace_if_equal: Vec<String>,
    webhook_url: Option<String>,
    wait: bool,
}

impl FileParameters {
    /// The names of those of a `PUT` of a document.
    const OF_PUT: &[&str] = &[FILE_NAME, "title", "metadata", "keep_original", "webhook_url", "wait"];
    /// The names of those of a `PATCH`.
    const OF_PATCH: &[&str] = &["webhook_url", "wait"];
    /// The names of those of a `POST`.
    const OF_POST: &[&str] = &[
        FILE_NAME,
        "collection",
        "id",
        "title",
        "metadata",
        "keep_original",
        "replace_if_equal",
        "webhook_url",
        "wait",
    ];

    fn parse(query: Option<&str>, known: &[&str]) -> Result<FileParameters> {
        let flag = |name: &str, value: &str| body::flag(Some(&format!("{name}={value}")), name);
        let mut found = FileParameters::default();
        for (key, value) in query_pairs(query) {
            match key.as_str() {
                other if !known.contains(&other) => {
                    let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
                    return Err(unknown_parameter(&key, &known.join(", ")));
                }
                FILE_NAME => found.name = Some(value).filter(|name| !name.is_empty()),
                "id" => found.options.id = Some(value),
                "title" => found.options.title = Some(value),
                "metadata" => {
                    let read = Metadata::from_json(value).map_err(|error| {
                        Invalid::at(ErrorCode::InvalidParameter, &["metadata"], error.to_string())
                    });
                    found.options.metadata = Some(read?);
                }
                "keep_original" => found.options.keep_original = Some(flag("keep_original", &value)?),
                "collection" => found.collection = Some(value),
                "replace_if_equal" => found.replace_if_equal.push(value),
                "webhook_url" => found.webhook_url = Some(value),
                _ => found.wait = flag("wait", &value)?,
            }
        }
        Ok(found)
    }

    fn check_json(&self) -> Result<()> {
        if self.name.is_none() && self.options == FileOptions::default() {
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
async fn reply_of_one(
    call: &CallContext,
    outcome: IngestOutcome,
    wait_until: Option<Instant>,
) -> Result<Response> {
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

async fn reply(call: &CallContext, outcome: IngestOutcome, wait_until: Option<Instant>) -> Result<Response> {
    let is_repeated = outcome.is_repeated();
    Ok(idempotency::mark(accepted(job_of(call, outcome, wait_until).await?), is_repeated))
}

async fn job_of(call: &CallContext, outcome: IngestOutcome, wait_until: Option<Instant>) -> Result<JobReply> {
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
