//! `POST /v1/ingest`.

use std::sync::Arc;

use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::value::RawValue;
use tokio::time::Instant;
use weir_api::{CollectionSettings, Document, ErrorCode, IngestRequest, Invalid, Limits};
use weir_policy::Caller;
use weir_store::{DocumentError, Job, NewDocument, Submission};

use super::Gateway;
use super::body::{self, CallerOf, Json};
use super::error::ApiError;
use super::jobs;
use weir_retrieval::clock::now;
use weir_retrieval::collections::OpenCollection;

/// Accepts documents: when this answers 202 they are on disk, and become searchable soon.
pub(super) async fn ingest(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ApiError> {
    let wait = body::flag(query.as_deref(), "wait")?;
    // reading and storing take their part of the deadline, and the last tenth is for the reply
    let wait_until = Instant::now() + gateway.deadline() * 9 / 10;
    let room = gateway.room_for_ingest(body::content_length(request.headers()))?;
    let limit = gateway.config.limits.ingest_body_bytes_max;
    let bytes = body::read(request, limit, "ingest_body_bytes_max").await?;
    let request: IngestRequest<'_> = weir_api::parse(&bytes)?;
    let limits = gateway.config.request_limits();
    request.check(&limits)?;
    let (documents, refused) = sort_out(&request.documents, &limits);
    if documents.is_empty() {
        return Err(all_refused(refused));
    }
    gateway.metrics.documents_received(documents.len() as u64, refused.len() as u64);
    let collection = match gateway.collections.get(&caller, request.collection()) {
        Some(collection) => collection,
        None if caller.sees(request.collection()) => {
            gateway.collections.create(request.collection(), &CollectionSettings::default()).await?.0
        }
        None => return Err(ApiError::no_collection(request.collection())),
    };
    check_backlog(&gateway, &collection)?;
    let submission = Submission {
        job_id: format!("job_{}", uuid::Uuid::new_v4().simple()),
        documents,
        rejected: refused.into_iter().map(|(document_id, invalid)| as_error(document_id, invalid)).collect(),
    };
    let (store, target) = (gateway.store.clone(), collection.clone());
    let job = super::to_the_end(async move {
        let job = store.accept(target.id, submission, now()).await?;
        let job = job.ok_or_else(|| ApiError::no_collection(&target.name))?;
        target.wake(job.last_operation);
        Ok(job)
    })
    .await?;
    // everything is in the store: whoever waits takes no memory meanwhile
    drop(request);
    drop((bytes, room));
    let job = if wait { wait_until_searchable(&gateway, &collection, job, wait_until).await? } else { job };
    Ok(accepted(job))
}

/// Waits for the job, but not beyond `until`: then the caller gets the job as it stands and can go on asking.
async fn wait_until_searchable(
    gateway: &Gateway,
    collection: &OpenCollection,
    job: Job,
    until: Instant,
) -> Result<Job, ApiError> {
    let searchable = collection.wait_until_searchable(job.last_operation);
    let _ = tokio::time::timeout_at(until, searchable).await;
    Ok(gateway.store.job(&Caller::system(), &job.id).await?.unwrap_or(job))
}

fn accepted(job: Job) -> Response {
    let location = HeaderValue::from_str(&format!("/v1/jobs/{}", job.id));
    let is_finished = job.finished_at.is_some();
    let mut response = (StatusCode::ACCEPTED, Json(jobs::reply(job))).into_response();
    let headers = response.headers_mut();
    if !is_finished {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if let Ok(location) = location {
        headers.insert(header::LOCATION, location);
    }
    response
}

type Refused = Vec<(String, Invalid)>;

/// Parses and checks each document by itself; one bad document does not spoil the others.
fn sort_out(raw: &[&RawValue], limits: &Limits) -> (Vec<NewDocument>, Refused) {
    let (mut documents, mut refused) = (Vec::with_capacity(raw.len()), Vec::new());
    for (index, raw) in raw.iter().enumerate() {
        match Document::parse(raw, limits) {
            Ok(document) => documents.push(to_new(document)),
            Err(invalid) => {
                let id = weir_api::document_id_of(raw).unwrap_or_else(|| format!("documents[{index}]"));
                refused.push((id, invalid.in_document(index)));
            }
        }
    }
    (documents, refused)
}

/// A document without an id gets one made of its content, so that sending it again after a lost reply does not
/// store it twice.
fn to_new(document: Document) -> NewDocument {
    let metadata = document.metadata.unwrap_or_else(weir_api::Metadata::empty).as_json().to_owned();
    let id = document.id.unwrap_or_else(|| {
        let title = document.title.as_deref().unwrap_or_default();
        let content = serde_json::json!([title, document.text, metadata]).to_string();
        let hash = weir_text::text_hash(&content);
        let hex: String = hash[..12].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("doc_{hex}")
    });
    NewDocument { id, title: document.title, text: document.text, metadata }
}

fn as_error(document_id: String, invalid: Invalid) -> DocumentError {
    let message = format!("{}. {}", invalid.message.trim_end_matches('.'), invalid.code.row().remedy);
    DocumentError { document_id, code: invalid.code.as_str().to_owned(), message }
}

/// No document is good: the request is refused with the first reason, and all of them in `errors`.
fn all_refused(refused: Refused) -> ApiError {
    let mut all = refused.into_iter().map(|(_, invalid)| invalid);
    match all.next() {
        Some(first) => ApiError::from(first).with_others(all.take(100).collect()),
        None => {
            ApiError::new(ErrorCode::InvalidParameter, "`documents` is empty; send at least one document")
        }
    }
}

fn check_backlog(gateway: &Gateway, collection: &Arc<OpenCollection>) -> Result<(), ApiError> {
    let (pending, limit) = (collection.pending_operations(), gateway.config.limits.pending_operations_max);
    if pending <= limit {
        return Ok(());
    }
    let message = format!(
        "collection `{}` has {pending} operations that are not searchable yet; the limit \
         `limits.pending_operations_max` is {limit}",
        collection.name
    );
    Err(ApiError::new(ErrorCode::Overloaded, message))
}
