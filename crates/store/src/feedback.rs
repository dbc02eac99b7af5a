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
