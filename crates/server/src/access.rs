//! `/v1/keys` and `/v1/audit`.

use axum::extract::RawQuery;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use weir_access::{AccessError, unix_now};
use weir_api::{AuditReply, ErrorCode, Invalid, KeyReply, KeyRequest, KeyUpdate, List, NewKeyReply};

use super::body::{Body, CallContext, Json, Reply, page_limit, query_pairs, unknown_parameter};
use super::context::Segments;
use super::error::ApiError;
use crate::Result;

/// Entries on a page of the audit log: by default, and at most.
const AUDIT_PAGE: (usize, usize) = (100, 1_000);

/// Creates a key.
pub(super) async fn create(call: CallContext, Body(request): Body<KeyRequest>) -> Result<Response> {
    let made = call.keys.create(&call.caller, &request, unix_now()).await.map_err(refused)?;
    Ok((StatusCode::CREATED, Json(made)).into_response())
}

/// All keys that the caller may see.
pub(super) async fn list(call: CallContext) -> Reply<List<KeyReply>> {
    Ok(Json(List { data: call.keys.list(&call.caller, unix_now()), next_cursor: None }))
}

/// Changes what a key allows, its limits, its name or when it expires.
pub(super) async fn update(
    call: CallContext,
    Segments([id]): Segments<1>,
    Body(update): Body<KeyUpdate>,
) -> Reply<KeyReply> {
    Ok(Json(call.keys.update(&call.caller, number(&id)?, &update, unix_now()).await.map_err(refused)?))
}

/// Revokes a key.
pub(super) async fn revoke(call: CallContext, Segments([id]): Segments<1>) -> Reply<KeyReply> {
    let revoked = call.keys.revoke(&call.caller, number(&id)?, unix_now()).await;
    Ok(Json(revoked.map_err(refused)?))
}

/// Gives a key another text.
pub(super) async fn rotate(
    call: CallContext,
    Segments([id]): Segments<1>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Reply<NewKeyReply> {
    let has_body = headers.get(header::CONTENT_LENGTH).is_some_and(|length| length != "0");
    if has_body || headers.contains_key(header::TRANSFER_ENCODING) {
        let message = "this route takes no body; write `?grace_seconds=60` behind the path";
        return Err(Invalid::at(ErrorCode::InvalidParameter, &["grace_seconds"], message).into());
    }
    let mut grace = 0.0;
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "grace_seconds" => grace = seconds(&value)?,
            _ => return Err(unknown_parameter(&key, "`grace_seconds`")),
        }
    }
    Ok(Json(call.keys.rotate(&call.caller, number(&id)?, grace, unix_now()).await.map_err(refused)?))
}

/// The audit log, newest first. It contains all keys, so that only callers without restrictions read it.
pub(super) async fn audit(call: CallContext, RawQuery(query): RawQuery) -> Reply<List<AuditReply>> {
    let (mut limit, mut before) = (AUDIT_PAGE.0, None);
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "limit" => limit = page_limit(&value, AUDIT_PAGE.1)?,
            "cursor" => before = Some(cursor(&value)?),
            _ => return Err(unknown_parameter(&key, "`limit` or `cursor`")),
        }
    }
    if !call.caller.is_unrestricted() {
        let message =
            "the audit log tells of all keys; use a key of an administrator without allow lists and filter";
        return Err(ApiError::new(ErrorCode::InsufficientScope, message));
    }
    let data = call.keys.audit(before, limit).await.map_err(refused)?;
    let next_cursor = data.last().filter(|_| data.len() == limit).map(|last| last.number.to_string());
    Ok(Json(List { data, next_cursor }))
}

/// Adds what an administrator has done to the audit log. It is done: an error is logged and does not fail the request.
pub(super) async fn record(call: &CallContext, action: &str, subject: &str) {
    if let Err(error) = call.keys.record(&call.caller, action, subject, unix_now()).await {
        tracing::error!(%error, action, subject, "the audit log could not be written");
    }
}

fn number(id: &str) -> Result<i64> {
    id.parse().map_err(|_| {
        let message = format!("`{}` is no number of a key; send the `id` of a key", id.escape_debug());
        ApiError::new(ErrorCode::KeyNotFound, message)
    })
}

fn seconds(text: &str) -> Result<f64> {
    text.parse().map_err(|_| {
        let message = format!("`grace_seconds` is `{}`; send a number of seconds", text.escape_debug());
        Invalid::at(ErrorCode::InvalidParameter, &["grace_seconds"], message).into()
    })
}

fn cursor(text: &str) -> Result<u64> {
    let message = "the cursor is not one of the audit log; send the `next_cursor` of a reply";
    text.parse().map_err(|_| Invalid::at(ErrorCode::InvalidCursor, &["cursor"], message.to_owned()).into())
}

fn refused(error: AccessError) -> ApiError {
    match error {
        AccessError::Invalid(invalid) => invalid.into(),
        AccessError::Exceeds(_) => ApiError::new(ErrorCode::InsufficientScope, error.to_string()),
        AccessError::TooMany { .. } => ApiError::new(ErrorCode::KeyLimitReached, error.to_string()),
        AccessError::NotFound(_) => ApiError::new(ErrorCode::KeyNotFound, error.to_string()),
        AccessError::Unreadable { .. } => ApiError::internal(&error),
        AccessError::LostChanges => ApiError::new(ErrorCode::StoreUnavailable, error.to_string()),
        AccessError::RevocationNotStored { ref source, .. } => {
            let code = weir_retrieval::RequestError::from(source.clone()).code();
            ApiError::new(code, error.to_string())
        }
        AccessError::Store(error) => weir_retrieval::RequestError::from(error).into(),
    }
}
