//! Feedback on hits, and reports of the query log.

use std::sync::Arc;

use weir_api::{ErrorCode, FeedbackReply, FeedbackRequest, Invalid, List, QueryReply, QueryReport};
use weir_policy::Caller;
use weir_store::{Feedback, NewFeedback};

use crate::clock::now;
use crate::documents::no_document;
use crate::{Result, Retrieval};

/// Feedback on a page: by default, and at most.
pub const FEEDBACK_PAGE: (usize, usize) = (100, 1_000);
/// Queries of a report: by default, and at most.
pub const QUERIES_PAGE: (usize, usize) = (100, 1_000);
/// Relevance below which a result counts as low, by default.
pub const LOW_RELEVANCE: f64 = 0.5;

impl Retrieval {
    /// Stores feedback. On return it is on disk; relevance is updated in the background.
    ///
    /// # Errors
    /// `invalid_parameter`, `collection_not_found`, `document_not_found`; store errors.
    pub async fn add_feedback(
        &self,
        caller: &Arc<Caller>,
        request: FeedbackRequest,
    ) -> Result<FeedbackReply> {
        let grade = request.check(&self.config.request_limits())?;
        let view = self.view(caller, request.collection())?;
        let FeedbackRequest { query, document_id, chunk, .. } = request;
        let missing = || no_document(&view.name, &document_id);
        if let Some(chunk) = chunk {
            let document = view.store.document(&document_id).await?.ok_or_else(missing)?;
            check_chunk(chunk, document.chunks.len(), &document_id)?;
        }
        let feedback = NewFeedback { query, document_id: document_id.clone(), chunk, grade };
        let entries_max = self.config.search.feedback_entries_max;
        let stored = view.store.add_feedback(feedback, entries_max, now()).await?.ok_or_else(missing)?;
        view.feedback_added.notify_one();
        Ok(render(&view.name, stored))
    }

    /// A page of the feedback to a collection, newest first.
    ///
    /// # Errors
    /// `collection_not_found`; `invalid_parameter` for an unknown cursor; store errors.
    pub async fn feedback(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<List<FeedbackReply>> {
        let view = self.view(caller, collection)?;
        let (found, next_cursor) = view.store.feedback(limit, cursor).await?;
        let data = found.into_iter().map(|feedback| render(collection, feedback)).collect();
        Ok(List { data, next_cursor })
    }

    /// The logged queries of a collection; `below` is the relevance that `low_relevance` reports.
    ///
    /// # Errors
    /// `collection_not_found`; store errors.
    pub async fn queries(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        report: QueryReport,
        below: f64,
        limit: usize,
    ) -> Result<List<QueryReply>> {
        let view = self.view(caller, collection)?;
        let report = match report {
            QueryReport::Popular => weir_store::QueryReport::Popular,
            QueryReport::ZeroResults => weir_store::QueryReport::ZeroResults,
            QueryReport::LowRelevance => weir_store::QueryReport::LowRelevance { below },
        };
        let found = view.store.query_report(report, limit).await?;
        let reply = |logged: weir_store::QueryCount| QueryReply {
            query: logged.query,
            count: logged.count,
            zero_results: logged.zero_results,
            relevance: logged.relevance,
            last_asked_at: logged.last_asked_at,
        };
        Ok(List::whole(found.into_iter().map(reply).collect()))
    }
}

/// Refuses a chunk that the document does not have; a document without chunks is not prepared yet, and any is accepted.
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

fn render(collection: &str, feedback: Feedback) -> FeedbackReply {
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
