//! The query log: the queries of answered searches, with the number of results.

use crate::{CollectionId, Timestamp};

/// The log entry of an answered search.
#[derive(Debug, Clone, PartialEq)]
pub struct LoggedQuery {
    /// The collection that was searched.
    pub collection: CollectionId,
    /// The query text.
    pub query: String,
    /// Number of results.
    pub results: u64,
    /// Relevance of the first result, 0 to 1; `None` when unknown.
    pub relevance: Option<f64>,
    /// When the search was answered.
    pub asked_at: Timestamp,
}

/// Which logged queries a report lists, and in which order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum QueryReport {
    /// All queries, the most frequent first.
    Popular,
    /// Queries that found nothing, the most frequent of these first.
    ZeroResults,
    /// Queries whose first result had a mean relevance below `below`, the lowest first.
    LowRelevance {
        /// 0 to 1.
        below: f64,
    },
}

/// All log entries of one query, summed up.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryCount {
    /// The query text.
    pub query: String,
    /// Number of searches.
    pub count: u64,
    /// Number of searches without results.
    pub zero_results: u64,
    /// Mean relevance of the first result, over the searches where it is known.
    pub relevance: Option<f64>,
    /// When the query was searched last.
    pub last_asked_at: Timestamp,
}
