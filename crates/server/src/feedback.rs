//! `/v1/feedback` and reports of the query log: handlers.

use axum::extract::RawQuery;
use weir_api::{
    DEFAULT_COLLECTION, ErrorCode, FeedbackDeleteReply, FeedbackReply, FeedbackRequest, Invalid, List,
    QueryReply, QueryReport,
};
use weir_retrieval::{FEEDBACK_PAGE, FeedbackSelection, LOW_RELEVANCE, QUERIES_PAGE};

use super::body::{Body, CallContext, Json, Reply, page_limit, query_pairs, unknown_parameter};
use super::context::Segments;

/// Stores feedback.
pub(super) async fn post(call: CallContext, Body(request): Body<FeedbackRequest>) -> Reply<FeedbackReply> {
    Ok(Json(call.retrieval.add_feedback(&call.caller, request).await?))
}

/// The feedback to a collection, newest first.
pub(super) async fn list(call: CallContext, RawQuery(query): RawQuery) -> Reply<List<FeedbackReply>> {
    let (mut name, mut limit, mut cursor) = (DEFAULT_COLLECTION.to_owned(), FEEDBACK_PAGE.0, None);
    let mut selection = FeedbackSelection::default();
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "collection" => name = value,
            "cursor" => cursor = Some(value),
            "limit" => limit = page_limit(&value, FEEDBACK_PAGE.1)?,
            _ if select(&mut selection, &key, &value)? => {}
            _ => {
                let known = "`collection`, `key`, `since`, `until`, `limit` or `cursor`";
                return Err(unknown_parameter(&key, known));
            }
        }
    }
    Ok(Json(call.retrieval.feedback(&call.caller, &name, selection, limit, cursor.as_deref()).await?))
}

/// Deletes feedback.
pub(super) async fn delete(call: CallContext, RawQuery(query): RawQuery) -> Reply<FeedbackDeleteReply> {
    let mut name = None;
    let mut selection = FeedbackSelection::default();
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "collection" => name = Some(value),
            _ if select(&mut selection, &key, &value)? => {}
            _ => return Err(unknown_parameter(&key, "`collection`, `key`, `since` or `until`")),
        }
    }
    let Some(name) = name else {
        let message = "`collection` is missing; name the collection whose feedback is to be deleted";
        return Err(Invalid::at(ErrorCode::InvalidParameter, &["collection"], message).into());
    };
    Ok(Json(call.retrieval.delete_feedback(&call.caller, &name, selection).await?))
}

/// Reads a parameter that selects feedback; `false` for others.
fn select(selection: &mut FeedbackSelection, key: &str, value: &str) -> Result<bool, Invalid> {
    match key {
        "key" => selection.key = Some(parse_number(key, value, "the id of an API key")?),
        "since" => selection.since = Some(parse_time(key, value)?),
        "until" => selection.until = Some(parse_time(key, value)?),
        _ => return Ok(false),
    }
    Ok(true)
}

fn parse_time(key: &str, text: &str) -> Result<f64, Invalid> {
    parse_number(key, text, "a time in unix seconds").and_then(|time: f64| match time.is_finite() {
        true => Ok(time),
        false => parse_number(key, "", "a time in unix seconds"),
    })
}

fn parse_number<T: std::str::FromStr>(key: &str, text: &str, what: &str) -> Result<T, Invalid> {
    text.parse().map_err(|_| {
        let message = format!("`{key}` is `{}`; it must be {what}", text.escape_debug());
        Invalid::at(ErrorCode::InvalidParameter, &[key], message)
    })
}

/// A report of a collection's logged queries.
pub(super) async fn queries(
    call: CallContext,
    Segments([name]): Segments<1>,
    RawQuery(query): RawQuery,
) -> Reply<List<QueryReply>> {
    let (mut report, mut limit, mut below) = (QueryReport::Popular, QUERIES_PAGE.0, LOW_RELEVANCE);
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "report" => report = parse_report(&value)?,
            "limit" => limit = page_limit(&value, QUERIES_PAGE.1)?,
            "below" => below = parse_below(&value)?,
            _ => return Err(unknown_parameter(&key, "`report`, `limit` or `below`")),
        }
    }
    Ok(Json(call.retrieval.queries(&call.caller, &name, report, below, limit).await?))
}

fn parse_report(text: &str) -> Result<QueryReport, Invalid> {
    text.parse().map_err(|_| {
        let accepted = QueryReport::NAMES.join("`, `");
        let message = format!("`report` is `{}`; it must be one of `{accepted}`", text.escape_debug());
        Invalid::at(ErrorCode::InvalidParameter, &["report"], message)
    })
}

fn parse_below(text: &str) -> Result<f64, Invalid> {
    text.parse().ok().filter(|below| (0.0..=1.0).contains(below)).ok_or_else(|| {
        let message = format!("`below` is `{}`; it must be a number from 0 to 1", text.escape_debug());
        Invalid::at(ErrorCode::InvalidParameter, &["below"], message)
    })
}
