//! Feedback and the query log.

use weir_api::{FeedbackDeleteReply, FeedbackReply, FeedbackRequest, List, QueryReply, QueryReport};

use super::collections::collection_path;
use super::pages::{Listing, Pages};
use crate::call::{ApiCall, with_query};
use crate::{Client, Result};

/// Which report of the query log, and how much of it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueryLogOptions {
    /// The report; default: the most frequent queries.
    pub report: Option<QueryReport>,
    /// Queries, 1 to 1,000; default: 100.
    pub limit: Option<u64>,
    /// The relevance that counts as low, 0 to 1; default: 0.5.
    pub below: Option<f64>,
}

/// Which feedback is listed or deleted.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct FeedbackOptions {
    /// Only that of this API key.
    pub key: Option<i64>,
    /// Only that of this time, in unix seconds, or later.
    pub since: Option<f64>,
    /// Only that before this time.
    pub until: Option<f64>,
}

impl FeedbackOptions {
    fn parameters(self, collection: &str) -> [(&'static str, Option<String>); 4] {
        [
            ("collection", Some(collection.to_owned())),
            ("key", self.key.map(|key| key.to_string())),
            ("since", self.since.map(|time| time.to_string())),
            ("until", self.until.map(|time| time.to_string())),
        ]
    }
}

impl Client {
    /// Stores a judgment of a document as an answer to a query. It is not repeated when its reply is lost, because it could
    /// be stored twice.
    pub async fn add_feedback(&self, request: &FeedbackRequest) -> Result<FeedbackReply> {
        self.value(ApiCall::post("/v1/feedback", request).once()).await
    }

    /// A page of the feedback to a collection, newest first. `cursor` is the `next_cursor` of the page before.
    pub async fn feedback(
        &self,
        collection: &str,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<List<FeedbackReply>> {
        self.value(listing(collection, limit).page(cursor)).await
    }

    /// As [`Client::feedback`], only that which `options` name.
    pub async fn selected_feedback(
        &self,
        collection: &str,
        options: FeedbackOptions,
        limit: usize,
        cursor: Option<&str>,
    ) -> Result<List<FeedbackReply>> {
        let page = [("limit", Some(limit.to_string())), ("cursor", cursor.map(str::to_owned))];
        let parameters: Vec<_> = options.parameters(collection).into_iter().chain(page).collect();
        self.value(ApiCall::get(with_query("/v1/feedback".to_owned(), &parameters))).await
    }

    /// Deletes the feedback that `options` name; without any, all of it, and what searches have taught relevance.
    pub async fn delete_feedback(
        &self,
        collection: &str,
        options: FeedbackOptions,
    ) -> Result<FeedbackDeleteReply> {
        let path = with_query("/v1/feedback".to_owned(), &options.parameters(collection));
        self.value(ApiCall::delete(path)).await
    }

    /// All feedback to a collection, newest first, in pages of up to `limit`, 1 to 1,000.
    pub fn feedback_pages(&self, collection: &str, limit: usize) -> Pages<'_, FeedbackReply> {
        Pages::new(self, listing(collection, limit))
    }

    /// A report of the query log.
    pub async fn logged_queries(
        &self,
        collection: &str,
        options: QueryLogOptions,
    ) -> Result<Vec<QueryReply>> {
        let QueryLogOptions { report, limit, below } = options;
        let parameters = [
            ("report", report.map(|report| <&str>::from(report).to_owned())),
            ("limit", limit.map(|limit| limit.to_string())),
            ("below", below.map(|below| below.to_string())),
        ];
        let path = with_query(format!("{}/queries", collection_path(collection)), &parameters);
        let list: List<QueryReply> = self.value(ApiCall::get(path)).await?;
        Ok(list.data)
    }
}

fn listing(collection: &str, limit: usize) -> Listing {
    Listing {
        path: "/v1/feedback".to_owned(),
        parameters: vec![("collection", Some(collection.to_owned())), ("limit", Some(limit.to_string()))],
    }
}
