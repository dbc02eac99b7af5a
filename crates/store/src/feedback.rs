//! Feedback: relevance judgments. Each says how relevant a document is to a query.

use crate::Timestamp;

/// A judgment to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFeedback {
    /// The query text.
    pub query: String,
    /// The id of the judged document.
    pub document_id: String,
    /// The number of the judged chunk; `None` for the whole document.
    pub chunk: Option<u64>,
    /// 0 is not relevant; larger is more relevant.
    pub grade: u32,
}

/// The judgments that relevance is learned from: the last one of each query and document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FeedbackBatch {
    /// Judgments whose features are stored, oldest first: whether the document is relevant, and the features.
    pub processed: Vec<(bool, String)>,
    /// Judgments whose features have not been computed yet, newest first.
    pub pending: Vec<Feedback>,
}

/// A stored judgment.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    /// 1, 2, 3, … in each collection, in the order of arrival.
    pub number: u64,
    /// The query text.
    pub query: String,
    /// The id of the judged document, which may have been changed or deleted since.
    pub document_id: String,
    /// The number of the judged chunk; `None` for the whole document.
    pub chunk: Option<u64>,
    /// 0 is not relevant; larger is more relevant.
    pub grade: u32,
    /// When the judgment was stored.
    pub created_at: Timestamp,
}
