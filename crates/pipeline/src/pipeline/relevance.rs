//! The relevance of one search's hits.

use std::sync::Arc;

use weir_ranking::relevance::{
    Bm25Bounds, LearnedRelevance, QueryContext, QueryFeatures, RankedList, ScoreBaseline,
};
use weir_ranking::{BestChunk, RetrievalMode};

use super::candidates::scored;
use crate::IndexQuery;

/// The parameters from which the relevance of one search's hits is computed.
#[derive(Debug, Clone)]
pub struct RelevanceModel {
    /// How close the query's embedding is to those of the documents; 0 without statistics.
    pub topicality: f32,
    /// The usual scores of the collection.
    pub baseline: ScoreBaseline,
    /// Relevance learned from judgments.
    pub learned: Arc<LearnedRelevance>,
}

impl RelevanceModel {
    /// For a caller with a mandatory filter: without what other callers' searches and judgments have taught, which can be of hidden
    /// documents. `topicality` is that among the caller's documents.
    pub fn restricted(topicality: f32) -> RelevanceModel {
        RelevanceModel { topicality, baseline: ScoreBaseline::default(), learned: Arc::default() }
    }

    /// Computes the features of a search among `chunks` chunks from the complete rankings.
    pub(super) fn query_features(
        &self,
        request: &IndexQuery,
        bm25: Bm25Bounds,
        chunks: u64,
        lexical: &[BestChunk],
        dense: &[BestChunk],
    ) -> QueryFeatures {
        let (lexical, dense) = (scored(lexical), scored(dense));
        let depth = request.depth.max(1);
        let lexical = RankedList { ranking: &lexical, is_truncated: lexical.len() >= depth };
        let dense = RankedList { ranking: &dense, is_truncated: dense.len() >= depth };
        let (lexical, dense) = match request.mode {
            RetrievalMode::Hybrid => (Some(lexical), Some(dense)),
            RetrievalMode::Lexical => (Some(lexical), None),
            RetrievalMode::Dense => (None, Some(dense)),
        };
        let chunks = u32::try_from(chunks).unwrap_or(u32::MAX);
        let context = QueryContext { bm25, topicality: self.topicality, chunks };
        QueryFeatures::of(lexical, dense, context, &self.baseline)
    }
}
