//! `POST` and `GET /v1/feedback`, and `GET /v1/collections/{name}/queries`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::collections::check_collection_name;
use crate::limits::check_bytes;
use crate::{Count, DEFAULT_COLLECTION, ErrorCode, Invalid, Limits, Result, require};

/// The highest grade of a document.
pub const GRADE_MAX: u32 = 100;

/// A judgment of a document as an answer to a query. Exactly one of `relevant` and `grade` is required.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FeedbackRequest {
    /// The query of the search.
    pub query: String,
    /// The judged document: the `id` of a result.
    pub document_id: String,
    /// The collection; default: `default`.
    pub collection: Option<String>,
    /// Whether the document answers the query: equals grade 1 or 0.
    pub relevant: Option<bool>,
    /// How well the document answers the query, from 0 (not at all) to 100.
    #[schemars(with = "Option<u32>")]
    pub grade: Option<Count>,
    /// The number of the displayed chunk: the `chunk` of a citation.
    pub chunk: Option<u64>,
}

/// Feedback as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Feedback")]
pub struct FeedbackReply {
    /// The number of the feedback in its collection, in increasing order.
    pub number: u64,
    /// The query of the search.
    pub query: String,
    /// The judged document.
    pub document_id: String,
    /// The collection.
    pub collection: String,
    /// The number of the displayed chunk, if it was sent.
    pub chunk: Option<u64>,
    /// How well the document answers the query, from 0 (not at all) to 100.
    pub grade: u32,
    /// Whether the grade is above 0.
    pub relevant: bool,
    /// Time of receipt, in unix seconds.
    pub created_at: f64,
    /// The id of the API key that gave it; null without one.
    #[serde(default)]
    pub key: Option<i64>,
}

/// The reply to a deletion of feedback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FeedbackDeletion")]
pub struct FeedbackDeleteReply {
    /// Number of deleted judgments.
    pub deleted: u64,
    /// Whether everything that relevance has learned was forgotten, that from searches too: no `key`, `since` or `until` was sent.
    pub reset: bool,
}

/// A report over the query log.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::EnumString,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum QueryReport {
    /// All queries, the most frequent first.
    Popular,
    /// Queries without results, those with the most such searches first.
    ZeroResults,
    /// Queries whose first result had a low relevance, the lowest first.
    LowRelevance,
}

impl QueryReport {
    /// The names of all reports.
    pub const NAMES: &[&str] = <QueryReport as strum::VariantNames>::VARIANTS;
}

/// A query of the query log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "LoggedQuery")]
pub struct QueryReply {
    /// The query.
    pub query: String,
    /// Number of searches in the log.
    pub count: u64,
    /// Number of searches without results.
    pub zero_results: u64,
    /// Mean relevance of the first result; null if unknown.
    pub relevance: Option<f64>,
    /// Time of the last search, in unix seconds.
    pub last_asked_at: f64,
}

impl FeedbackRequest {
    /// The collection, or the default one.
    pub fn collection(&self) -> &str {
        self.collection.as_deref().unwrap_or(DEFAULT_COLLECTION)
    }

    /// Validates the feedback by itself and returns the grade.
    ///
    /// # Errors
    /// `invalid_parameter` or `payload_too_large` at the first invalid field.
    pub fn check(&self, limits: &Limits) -> Result<u32> {
        let has_query = !self.query.trim().is_empty();
        require(has_query, &["query"], || "the query is empty; send the query of the search")?;
        check_bytes(&["query"], "the query", self.query.len(), limits.query_bytes_max, "query_bytes_max")?;
        check_bytes(
            &["document_id"],
            "the id",
            self.document_id.len(),
            limits.document_id_bytes_max,
            "document_id_bytes_max",
        )?;
        check_collection_name(self.collection())?;
        match (self.relevant, self.grade) {
            (Some(is_relevant), None) => Ok(u32::from(is_relevant)),
            (None, Some(grade)) => {
                grade.check(&["grade"], 0..=GRADE_MAX.into(), "")?;
                Ok(grade.get_u32())
            }
            (None, None) | (Some(_), Some(_)) => {
                let message = "send either `relevant` (true or false) or `grade` (0 to 100)";
                Err(Invalid::at(ErrorCode::InvalidParameter, &["relevant"], message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Validates feedback in JSON; `expected` is the grade, or `code param`.
    fn check(body: &str, expected: &str) {
        let request: FeedbackRequest = crate::parse(body.as_bytes()).unwrap();
        let limits = Limits { query_bytes_max: 10, document_id_bytes_max: 3, ..Limits::default() };
        let seen = match request.check(&limits) {
            Ok(grade) => grade.to_string(),
            Err(invalid) => format!("{} {}", invalid.code, invalid.param.unwrap_or_default()),
        };
        assert_eq!(seen, expected, "{body}");
    }

    #[test]
    fn feedback_has_either_relevant_or_a_grade() {
        check(r#"{"query":"a","document_id":"d","relevant":true}"#, "1");
        check(r#"{"query":"a","document_id":"d","relevant":false,"chunk":3,"collection":"c"}"#, "0");
        check(r#"{"query":"a","document_id":"d","grade":100}"#, "100");
        check(r#"{"query":"a","document_id":"d","grade":101}"#, "invalid_parameter grade");
        check(r#"{"query":"a","document_id":"d"}"#, "invalid_parameter relevant");
        check(r#"{"query":"a","document_id":"d","grade":1,"relevant":true}"#, "invalid_parameter relevant");
    }

    #[test]
    fn a_grade_out_of_range_is_refused_with_the_range() {
        for grade in ["-1", "101", "4294967296"] {
            let body = format!("{{\"query\":\"a\",\"document_id\":\"d\",\"grade\":{grade}}}");
            let read = crate::parse::<FeedbackRequest>(body.as_bytes());
            let refused = read.and_then(|request| request.check(&Limits::default())).unwrap_err();
            assert_eq!(refused.message, format!("grade is {grade}; it must be from 0 to 100"));
        }
    }

    #[test]
    fn feedback_beyond_a_limit_is_refused_with_the_parameter() {
        check(r#"{"query":" ","document_id":"d","grade":1}"#, "invalid_parameter query");
        check(r#"{"query":"0123456789a","document_id":"d","grade":1}"#, "payload_too_large query");
        check(r#"{"query":"a","document_id":"0123","grade":1}"#, "payload_too_large document_id");
        check(
            r#"{"query":"a","document_id":"d","grade":1,"collection":"a b"}"#,
            "invalid_parameter collection",
        );
    }
}
