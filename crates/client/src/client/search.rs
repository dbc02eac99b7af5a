//! `/v1/search`, and reranking of texts that are not stored.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use weir_api::{Problem, RerankReply, RerankRequest, SearchReply, SearchRequest};

use super::pages::SearchPages;
use crate::call::ApiCall;
use crate::{Client, ClientError, Reply, Result};

/// Several searches.
#[derive(Serialize)]
struct BatchBody<'a> {
    queries: &'a [SearchRequest],
}

/// Their replies, each of which is a [`SearchReply`] or a [`Problem`].
#[derive(Deserialize)]
struct BatchReplies {
    replies: Vec<Box<RawValue>>,
}

impl Client {
    /// Searches.
    pub async fn search(&self, request: &SearchRequest) -> Result<Reply<SearchReply>> {
        self.reply(ApiCall::post("/v1/search", request), |_| {}).await
    }

    /// The results of a search, page by page; `top_k` is the size of a page.
    pub fn search_pages(&self, request: SearchRequest) -> SearchPages<'_> {
        SearchPages::new(self, request)
    }

    /// Several searches in one call, up to the gateway's limit of 32: for each, in this order, its reply or its refusal.
    pub async fn search_many(&self, requests: &[SearchRequest]) -> Result<Vec<Result<SearchReply>>> {
        let batch: BatchReplies =
            self.value(ApiCall::post("/v1/search", &BatchBody { queries: requests })).await?;
        if batch.replies.len() != requests.len() {
            let reason = format!("has {} replies to {} searches", batch.replies.len(), requests.len());
            return Err(ClientError::Malformed { url: self.url().to_owned(), reason });
        }
        batch.replies.iter().map(|reply| self.outcome(reply.get())).collect()
    }

    fn outcome(&self, reply: &str) -> Result<Result<SearchReply>> {
        if let Ok(problem) = serde_json::from_str::<Problem>(reply) {
            return Ok(Err(ClientError::refused(problem.code, &problem.detail)));
        }
        let found = serde_json::from_str(reply);
        found.map(Ok).map_err(|_| ClientError::NotAGateway { url: self.url().to_owned(), status: 200 })
    }

    /// Sorts documents by their relevance to a query, best first, by a model that reranks.
    pub async fn rerank(&self, mut request: RerankRequest) -> Result<RerankReply> {
        // with `texts` the reply would be TEI's
        let texts = request.take_texts();
        request.documents = texts.into_iter().map(Into::into).collect();
        self.value(ApiCall::post("/v2/rerank", &request)).await
    }
}
