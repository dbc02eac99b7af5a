//! The query log: what was searched and how much it found.

use crate::{CollectionId, Now};

/// A search that was answered.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedQuery {
    /// The collection.
    pub collection: CollectionId,
    /// What was searched.
    pub query: String,
    /// How many results it had.
    pub results: u64,
    /// How relevant the first result was, 0 to 1; `None` when nobody knows.
    pub relevance: Option<f64>,
    /// When it was answered.
    pub asked_at: Now,
}

/// Which logged queries are asked for, and in which order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueryReport {
    /// All of them, those that were asked most first.
    Popular,
    /// Those that found nothing, those that did so most often first.
    ZeroResults,
    /// Those whose first result had a mean relevance below this, the lowest first.
    LowRelevance {
        /// 0 to 1.
        below: f64,
    },
}

/// A query of the log with everything that was logged of it.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryCount {
    /// What was searched.
    pub query: String,
    /// How often.
    pub count: u64,
    /// How often it found nothing.
    pub zero_results: u64,
    /// The mean relevance of the first result, where it is known.
    pub relevance: Option<f64>,
    /// When it was asked last.
    pub last_asked_at: Now,
}
