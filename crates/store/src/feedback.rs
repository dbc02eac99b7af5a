//! Feedback: what people said about a document as an answer to a query.

use crate::Now;

/// A judgment as it is handed in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFeedback {
    /// What was searched.
    pub query: String,
    /// The document that was judged.
    pub document_id: String,
    /// The chunk, when the judgment is about one.
    pub chunk: Option<u64>,
    /// 0 is not relevant; larger is more relevant.
    pub grade: u32,
}

/// What people have last said of each document as an answer to each query.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Voices {
    /// Whether the document was relevant, and the features that it had in a search; the oldest first.
    pub weighed: Vec<(bool, String)>,
    /// Those whose features are not known yet; the newest first.
    pub waiting: Vec<Feedback>,
}

/// A judgment as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Feedback {
    /// Its number: 1, 2, 3, … in each collection, in the order of arrival.
    pub number: u64,
    /// What was searched.
    pub query: String,
    /// The document that was judged; it may have changed or gone since.
    pub document_id: String,
    /// The chunk, when the judgment is about one.
    pub chunk: Option<u64>,
    /// 0 is not relevant; larger is more relevant.
    pub grade: u32,
    /// When it came.
    pub created_at: Now,
}
