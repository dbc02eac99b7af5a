//! Feedback on hits, and reports of the query log.

use std::sync::Arc;

use weir_api::{
    ErrorCode, FeedbackDeleteReply, FeedbackReply, FeedbackRequest, Invalid, List, QueryReply, QueryReport,
};
use weir_policy::{Caller, KeyId, Scope};
use weir_store::{Feedback, FeedbackFilter, NewFeedback};

use crate::clock::now;
use crate::documents::no_document;
use crate::{Result, Retrieval};
use weir_refusal::RequestError;

/// Feedback on a page: by default, and at most.
pub const FEEDBACK_PAGE: (usize, usize) = (100, 1_000);
/// Queries of a report: by default, and at most.
pub const QUERIES_PAGE: (usize, usize) = (100, 1_000);
/// Relevance below which a result counts as low, by default.
pub const LOW_RELEVANCE: f64 = 0.5;

/// Which feedback is listed or deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FeedbackSelection {
    /// Only that of this API key.
    pub key: Option<i64>,
    /// Only that of this time, in unix seconds, or later.
    pub since: Option<f64>,
    /// Only that before this time.
    pub until: Option<f64>,
}

impl FeedbackSelection {
    fn filter(self) -> FeedbackFilter {
        FeedbackFilter { caller: self.key.map(KeyId), since: self.since, until: self.until }
    }
}

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
        let missing = || no_document(view.name(), &document_id);
        if let Some(chunk) = chunk {
            let document = view.store().document(&document_id).await?.ok_or_else(missing)?;
            check_chunk(chunk, document.chunks.len(), &document_id)?;
        }
        let feedback = NewFeedback {
            query,
            document_id: document_id.clone(),
            chunk,
            grade,
            caller: caller.key,
            is_operator: judges_for_all(caller),
        };
        let entries_max = self.config.search.feedback_entries_max;
        let stored = view.store().add_feedback(feedback, entries_max, now()).await?.ok_or_else(missing)?;
        view.notify_feedback_changed();
        Ok(render(view.name(), stored))
    }

    /// Deletes the feedback that `selection` names; relevance follows in the background. Callers without the scope `admin`, and
    /// those with a mandatory filter, delete their own. All of it is deleted together with what searches have taught.
    ///
    /// # Errors
    /// `collection_not_found`, `insufficient_scope`; store errors.
    pub async fn delete_feedback(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        selection: FeedbackSelection,
    ) -> Result<FeedbackDeleteReply> {
        let view = self.view(caller, collection)?;
        let mut filter = selection.filter();
        if !judges_for_all(caller) {
            let own = caller.key.filter(|own| filter.caller.is_none_or(|named| named == *own));
            let Some(own) = own else {
                let message =
                    "feedback of others is deleted with a key that has the scope `admin` and no filter";
                return Err(RequestError::new(ErrorCode::InsufficientScope, message));
            };
            filter.caller = Some(own);
        }
        let deleted = view.store().delete_feedback(filter).await?;
        let is_reset = filter == FeedbackFilter::default();
        if is_reset {
            view.reset_baseline().await?;
        }
        view.notify_feedback_changed();
        Ok(FeedbackDeleteReply { deleted, reset: is_reset })
    }

    /// A page of the feedback to a collection that `selection` names, newest first.
    ///
    /// # Errors
    /// `collection_not_found`; `invalid_parameter` for an unknown cursor; store errors.
    pub async fn feedback(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        selection: FeedbackSelection,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<List<FeedbackReply>> {
        let view = self.view(caller, collection)?;
        let (found, next_cursor) = view.store().feedback(selection.filter(), limit, cursor).await?;
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
        let found = view.store().query_report(report, limit).await?;
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

/// Whether the caller stands for the operator of a collection: an administrator from whom no document is hidden.
fn judges_for_all(caller: &Caller) -> bool {
    caller.may(Scope::Admin) && caller.filter().is_none()
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
        key: feedback.caller.map(|key| key.0),
    }
}
