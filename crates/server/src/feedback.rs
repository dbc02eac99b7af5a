//! `/v1/feedback`, and what the query log says.

use axum::extract::{RawQuery, Request, State};
use weir_api::{
    DEFAULT_COLLECTION, ErrorCode, FeedbackReply, FeedbackRequest, Invalid, List, QueryReply, QueryReport,
};
use weir_store::{Feedback, NewFeedback};

use super::Gateway;
use super::body::{self, CallerOf, Json, Segments, page_limit, query_pairs, unknown_parameter};
use super::error::ApiError;
use weir_retrieval::clock::now;

/// Feedback on a page when the caller doesn't say, and at most.
const FEEDBACK_PAGE: (usize, usize) = (100, 1_000);
/// Queries of a report when the caller doesn't say, and at most.
const REPORT_PAGE: (usize, usize) = (100, 1_000);
/// Below this relevance a result is called low when the caller doesn't say.
const LOW_RELEVANCE: f64 = 0.5;

/// Stores feedback: when this answers, it is on disk. Relevance follows in the background.
pub(super) async fn post(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    request: Request,
) -> Result<Json<FeedbackReply>, ApiError> {
    let bytes = body::read(request, gateway.config.limits.body_bytes_max, "body_bytes_max").await?;
    let request: FeedbackRequest = weir_api::parse(&bytes)?;
    let grade = request.check(&gateway.config.request_limits())?;
    let name = request.collection().to_owned();
    let collection = gateway.collections.get(&caller, &name).ok_or_else(|| ApiError::no_collection(&name))?;
    let FeedbackRequest { query, document_id, chunk, .. } = request;
    let missing = || super::collections::no_document(&name, &document_id);
    if let Some(chunk) = chunk {
        let document = gateway.store.document(collection.id, &document_id).await?.ok_or_else(missing)?;
        check_chunk(chunk, document.chunks.len(), &document_id)?;
    }
    let feedback = NewFeedback { query, document_id: document_id.clone(), chunk, grade };
    let entries_max = gateway.config.search.feedback_entries_max;
    let stored = gateway.store.add_feedback(collection.id, feedback, entries_max, now()).await?;
    let stored = stored.ok_or_else(missing)?;
    collection.feedback_came.notify_one();
    Ok(Json(reply(&name, stored)))
}

/// The feedback to a collection, newest first.
pub(super) async fn list(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    RawQuery(query): RawQuery,
) -> Result<Json<List<FeedbackReply>>, ApiError> {
    let (mut name, mut limit, mut cursor) = (DEFAULT_COLLECTION.to_owned(), FEEDBACK_PAGE.0, None);
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "collection" => name = value,
            "cursor" => cursor = Some(value),
            "limit" => limit = page_limit(&value, FEEDBACK_PAGE.1)?,
            _ => return Err(unknown_parameter(&key, "`collection`, `limit` or `cursor`")),
        }
    }
    let collection = gateway.collections.get(&caller, &name).ok_or_else(|| ApiError::no_collection(&name))?;
    let (found, next_cursor) = gateway.store.feedback(collection.id, limit, cursor.as_deref()).await?;
    Ok(Json(List { data: found.into_iter().map(|feedback| reply(&name, feedback)).collect(), next_cursor }))
}

/// Refuses a chunk that the document has not; one that has not been cut yet may have any.
fn check_chunk(chunk: u64, chunks: usize, document_id: &str) -> Result<(), Invalid> {
    if chunks == 0 || chunk < chunks as u64 {
        return Ok(());
    }
    let has = match chunks {
        1 => "1 chunk, number 0".to_owned(),
        _ => format!("{chunks} chunks, numbers 0 to {}", chunks - 1),
    };
    let message = format!(
        "there is no chunk {chunk} in document `{}`; it has {has}. Send a citation's `chunk`, or leave it out",
        document_id.escape_debug()
    );
    Err(Invalid::at(ErrorCode::InvalidParameter, &["chunk"], message))
}

fn reply(collection: &str, feedback: Feedback) -> FeedbackReply {
    FeedbackReply {
        number: feedback.number,
        query: feedback.query,
        document_id: feedback.document_id,
        collection: collection.to_owned(),
        chunk: feedback.chunk,
        grade: feedback.grade,
        relevant: feedback.grade > 0,
        created_at: feedback.created_at,
    }
}

/// The queries that were logged of a collection, by what became of them.
pub(super) async fn queries(
    State(gateway): State<Gateway>,
    CallerOf(caller): CallerOf,
    Segments([name]): Segments<1>,
    RawQuery(query): RawQuery,
) -> Result<Json<List<QueryReply>>, ApiError> {
    let (mut report, mut limit, mut below) = (QueryReport::Popular, REPORT_PAGE.0, LOW_RELEVANCE);
    for (key, value) in query_pairs(query.as_deref()) {
        match key.as_str() {
            "report" => report = parse_report(&value)?,
            "limit" => limit = page_limit(&value, REPORT_PAGE.1)?,
            "below" => below = parse_below(&value)?,
            _ => return Err(unknown_parameter(&key, "`report`, `limit` or `below`")),
        }
    }
    let collection = gateway.collections.get(&caller, &name).ok_or_else(|| ApiError::no_collection(&name))?;
    let report = match report {
        QueryReport::Popular => weir_store::QueryReport::Popular,
        QueryReport::ZeroResults => weir_store::QueryReport::ZeroResults,
        QueryReport::LowRelevance => weir_store::QueryReport::LowRelevance { below },
    };
    let found = gateway.store.query_report(collection.id, report, limit).await?;
    let reply = |logged: weir_store::QueryCount| QueryReply {
        query: logged.query,
        count: logged.count,
        zero_results: logged.zero_results,
        relevance: logged.relevance,
        last_asked_at: logged.last_asked_at,
    };
    Ok(Json(List::whole(found.into_iter().map(reply).collect())))
}

fn parse_report(text: &str) -> Result<QueryReport, ApiError> {
    QueryReport::ALL.into_iter().find(|report| report.as_str() == text).ok_or_else(|| {
        let accepted: Vec<String> =
            QueryReport::ALL.iter().map(|report| format!("`{}`", report.as_str())).collect();
        let message =
            format!("`report` is `{}`; it must be one of {}", text.escape_debug(), accepted.join(", "));
        Invalid::at(ErrorCode::InvalidParameter, &["report"], message).into()
    })
}

fn parse_below(text: &str) -> Result<f64, ApiError> {
    text.parse().ok().filter(|below| (0.0..=1.0).contains(below)).ok_or_else(|| {
        let message = format!("`below` is `{}`; it must be a number from 0 to 1", text.escape_debug());
        Invalid::at(ErrorCode::InvalidParameter, &["below"], message).into()
    })
}
