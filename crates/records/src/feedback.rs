//! Feedback: relevance judgments. Each says how relevant a document is to a query.

use weir_policy::KeyId;

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
    /// The API key of the caller; `None` without one.
    pub caller: Option<KeyId>,
    /// Whether the caller may administrate the gateway.
    pub is_operator: bool,
}

/// Which judgments are listed or deleted: all, or those of a caller and of a time.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FeedbackFilter {
    /// Only those of this API key.
    pub caller: Option<KeyId>,
    /// Only those stored at this time or later.
    pub since: Option<Timestamp>,
    /// Only those stored before this time.
    pub until: Option<Timestamp>,
}

/// Which judgments count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeedbackLimits {
    /// The newest judgments of all callers that are looked at.
    pub entries_max: usize,
    /// The newest judgments of one caller that count.
    pub per_caller_max: usize,
    /// Judgments without features that are returned.
    pub pending_max: usize,
}

/// A judgment whose features are stored.
#[derive(Debug, Clone, PartialEq)]
pub struct ProcessedFeedback {
    /// Whether the document is relevant.
    pub is_relevant: bool,
    /// The features, as they were stored.
    pub features: String,
    /// The API key of the caller; `None` without one.
    pub caller: Option<KeyId>,
    /// Whether the caller was an operator.
    pub is_operator: bool,
    /// When the judgment was stored.
    pub created_at: Timestamp,
}

/// The judgments that relevance is learned from: the last one of each caller, query and document.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FeedbackBatch {
    /// Judgments whose features are stored, oldest first.
    pub processed: Vec<ProcessedFeedback>,
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
    /// The API key of the caller; `None` without one.
    pub caller: Option<KeyId>,
    /// Whether the caller was an operator.
    pub is_operator: bool,
}
