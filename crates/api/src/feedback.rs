//! `POST` and `GET /v1/feedback`, and `GET /v1/collections/{name}/queries`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::collections::check_collection_name;
use crate::limits::check_bytes;
use crate::{Count, DEFAULT_COLLECTION, ErrorCode, Invalid, Limits};

/// The highest grade of a document.
pub const GRADE_MAX: u32 = 100;

/// What somebody says about a document as an answer to a query. Exactly one of `relevant` and `grade` is needed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FeedbackRequest {
    /// What was searched.
    pub query: String,
    /// The document that was judged: a result's `id`.
    pub document_id: String,
    /// The collection; `default` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collection: Option<String>,
    /// Whether the document answers the query: grade 1 or 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relevant: Option<bool>,
    /// How well it does, from 0 (not at all) to 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<u32>")]
    pub grade: Option<Count>,
    /// The number of the chunk that was shown: a citation's `chunk`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u64>,
}

/// Feedback as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FeedbackReply {
    /// Its number in the collection; it grows with every feedback.
    pub number: u64,
    /// What was searched.
    pub query: String,
    /// The document that was judged.
    pub document_id: String,
    /// The collection.
    pub collection: String,
    /// The chunk that was shown, if it was said.
    pub chunk: Option<u64>,
    /// How well the document answers the query; 0 is not at all.
    pub grade: u32,
    /// Whether the grade is above 0.
    pub relevant: bool,
    /// When it came, in unix seconds.
    pub created_at: f64,
}

/// Which queries of the log are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueryReport {
    /// All, those asked most first.
    Popular,
    /// Those that found nothing, those that did so most often first.
    ZeroResults,
    /// Those whose first result had a low relevance, the lowest first.
    LowRelevance,
}

impl QueryReport {
    /// Every report.
    pub const ALL: [QueryReport; 3] =
        [QueryReport::Popular, QueryReport::ZeroResults, QueryReport::LowRelevance];

    /// The report's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            QueryReport::Popular => "popular",
            QueryReport::ZeroResults => "zero_results",
            QueryReport::LowRelevance => "low_relevance",
        }
    }
}

/// A query of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueryReply {
    /// What was searched.
    pub query: String,
    /// How often, as far as the log goes back.
    pub count: u64,
    /// How often it found nothing.
    pub zero_results: u64,
    /// The mean relevance of the first result; null when it isn't known.
    pub relevance: Option<f64>,
    /// When it was asked last, in unix seconds.
    pub last_asked_at: f64,
}

impl FeedbackRequest {
    /// The collection that is meant.
    pub fn collection(&self) -> &str {
        self.collection.as_deref().unwrap_or(DEFAULT_COLLECTION)
    }

    /// Checks everything that can be checked without looking anything up, and returns the grade.
    ///
    /// # Errors
    /// `invalid_parameter` or `payload_too_large` at the first field that is wrong.
    pub fn check(&self, limits: &Limits) -> Result<u32, Invalid> {
        if self.query.trim().is_empty() {
            let message = "the query is empty; send what was searched";
            return Err(Invalid::at(ErrorCode::InvalidParameter, &["query"], message));
        }
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
                let message = "send one of `relevant` (true or false) and `grade` (0 to 100)";
                Err(Invalid::at(ErrorCode::InvalidParameter, &["relevant"], message))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks feedback written as JSON; `expected` is the grade, or `code param`.
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
    fn feedback_says_either_relevant_or_a_grade() {
        check(r#"{"query":"a","document_id":"d","relevant":true}"#, "1");
        check(r#"{"query":"a","document_id":"d","relevant":false,"chunk":3,"collection":"c"}"#, "0");
        check(r#"{"query":"a","document_id":"d","grade":100}"#, "100");
        check(r#"{"query":"a","document_id":"d","grade":101}"#, "invalid_parameter grade");
        check(r#"{"query":"a","document_id":"d"}"#, "invalid_parameter relevant");
        check(r#"{"query":"a","document_id":"d","grade":1,"relevant":true}"#, "invalid_parameter relevant");
    }

    #[test]
    fn a_grade_hears_of_its_range_however_far_out_it_is() {
        for grade in ["-1", "101", "4294967296"] {
            let body = format!("{{\"query\":\"a\",\"document_id\":\"d\",\"grade\":{grade}}}");
            let read = crate::parse::<FeedbackRequest>(body.as_bytes());
            let refused = read.and_then(|request| request.check(&Limits::default())).unwrap_err();
            assert_eq!(refused.message, format!("grade is {grade}; it must be from 0 to 100"));
        }
    }

    #[test]
    fn feedback_out_of_its_limits_is_refused_at_the_place() {
        check(r#"{"query":" ","document_id":"d","grade":1}"#, "invalid_parameter query");
        check(r#"{"query":"0123456789a","document_id":"d","grade":1}"#, "payload_too_large query");
        check(r#"{"query":"a","document_id":"0123","grade":1}"#, "payload_too_large document_id");
        check(
            r#"{"query":"a","document_id":"d","grade":1,"collection":"a b"}"#,
            "invalid_parameter collection",
        );
    }
}
