//! What a search found.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FusionMethod, FusionWeights, Mode};
use crate::{Metadata, Problem};

/// The reply: of one search, or of `queries`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SearchOrBatchReply {
    /// Of one search.
    One(Box<SearchReply>),
    /// Of `queries`.
    Batch(BatchReply),
}

/// The replies to `queries`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchReply {
    /// What each of them would have been answered alone, in their order.
    pub replies: Vec<BatchItem>,
    /// From the body's last byte to the last of them, in milliseconds.
    pub took_ms: f64,
}

/// The reply to one of `queries`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BatchItem {
    /// What it found.
    Reply(Box<SearchReply>),
    /// Why it was not answered.
    Problem(Box<Problem>),
}

/// What a search found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchReply {
    /// Best first, or as `sort` says; one entry per document, or as `group_by` says.
    pub results: Vec<SearchResult>,
    /// How many there are to page through, whatever their relevance.
    #[serde(default)]
    pub total: Total,
    /// Results of this page that are missing because they are less relevant than `min_relevance`; absent without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<u64>,
    /// What to send as `cursor`, with the same request, to get the next page; null on the last one.
    #[serde(default)]
    pub next_cursor: Option<String>,
    /// The values of each field that `facets` names, those of most documents first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub facets: Option<BTreeMap<String, Vec<FacetCount>>>,
    /// Words that no document holds, and what was searched in their place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Correction>,
    /// Whether a part of the search was left out so that there is an answer at all; `degraded_reason` says which.
    #[serde(default)]
    pub degraded: bool,
    /// Why the search is degraded: the first of `degraded_reasons`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub degraded_reason: Option<DegradedReason>,
    /// Every reason, in the order of the stages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded_reasons: Vec<DegradedReason>,
    /// How the search was understood, when `explain` asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explain: Option<Explain>,
    /// What became of the document that `why_not` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why_not: Option<WhyNot>,
    /// From the body's last byte to the finished ranking, in milliseconds.
    pub took_ms: f64,
    /// Where the time went.
    pub timings_ms: Timings,
}

/// How many results there are to page through.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Total {
    /// The number.
    pub value: u64,
    /// Whether so many match; else so many were candidates, and those further away were not looked at.
    pub exact: bool,
    /// The same in a word.
    pub relation: TotalRelation,
}

/// What a total counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TotalRelation {
    /// All that match.
    Exact,
    /// The candidates of a window.
    #[default]
    Window,
}

/// A value of a field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FacetCount {
    /// The value: a string, a number or a boolean.
    pub value: serde_json::Value,
    /// Documents among the matches that have it.
    pub count: u64,
}

/// A word that no document holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Correction {
    /// The term as the query has it, after analysis.
    pub term: String,
    /// The terms that were searched in its place, those of most documents first.
    pub instead: Vec<String>,
}

/// What a degraded search left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DegradedReason {
    /// The embedder had too much to do: words alone were searched.
    EmbeddingOverloaded,
    /// The query's embedding was not ready in time: words alone were searched.
    EmbeddingDeadline,
    /// The query could not be embedded: words alone were searched.
    EmbeddingFailed,
    /// The embedder had too much to do for late interaction: it is left out of the order.
    LateInteractionOverloaded,
    /// Late interaction was not ready in time: it is left out of the order.
    LateInteractionDeadline,
    /// Late interaction failed: it is left out of the order.
    LateInteractionFailed,
    /// The reranker had too much to do: the order is the one before it.
    RerankOverloaded,
    /// The reranker did not answer in time: the order is the one before it.
    RerankDeadline,
    /// The reranker failed: the order is the one before it.
    RerankFailed,
}

impl DegradedReason {
    /// Every reason, in the order of the stages.
    pub const ALL: [DegradedReason; 9] = [
        DegradedReason::EmbeddingOverloaded,
        DegradedReason::EmbeddingDeadline,
        DegradedReason::EmbeddingFailed,
        DegradedReason::LateInteractionOverloaded,
        DegradedReason::LateInteractionDeadline,
        DegradedReason::LateInteractionFailed,
        DegradedReason::RerankOverloaded,
        DegradedReason::RerankDeadline,
        DegradedReason::RerankFailed,
    ];

    /// Whether the search went on by words alone.
    pub fn is_lexical_only(self) -> bool {
        matches!(
            self,
            DegradedReason::EmbeddingOverloaded
                | DegradedReason::EmbeddingDeadline
                | DegradedReason::EmbeddingFailed
        )
    }

    /// The reason's name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            DegradedReason::EmbeddingOverloaded => "embedding_overloaded",
            DegradedReason::EmbeddingDeadline => "embedding_deadline",
            DegradedReason::EmbeddingFailed => "embedding_failed",
            DegradedReason::LateInteractionOverloaded => "late_interaction_overloaded",
            DegradedReason::LateInteractionDeadline => "late_interaction_deadline",
            DegradedReason::LateInteractionFailed => "late_interaction_failed",
            DegradedReason::RerankOverloaded => "rerank_overloaded",
            DegradedReason::RerankDeadline => "rerank_deadline",
            DegradedReason::RerankFailed => "rerank_failed",
        }
    }
}

/// How a search was understood.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explain {
    /// The query as it was read, with every operator written out; null without one.
    pub query: Option<String>,
    /// The legs that ranked; null when nothing was ranked.
    pub mode: Option<Mode>,
    /// How their rankings were fused; null when there were not two.
    pub fusion: Option<ExplainFusion>,
    /// The reranker in force, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerank: Option<ExplainRerank>,
    /// Where the query's embedding came from.
    pub embedding: EmbeddingSource,
    /// Chunks of the collection.
    pub chunks: u64,
    /// Those that the filter and the query's conditions let through; null without any.
    pub selected_chunks: Option<u64>,
    /// The share that they let through, 0..1; null without any.
    pub selectivity: Option<f64>,
    /// Candidates that each leg handed on.
    pub candidates: RetrieverCounts,
    /// The last operation that the search saw.
    pub reached: u64,
}

/// The fusion in force.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainFusion {
    /// The method.
    pub method: FusionMethod,
    /// The weight of each leg.
    pub weights: FusionWeights,
    /// The constant of `rrf`.
    pub k: Option<f32>,
}

/// The reranker in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainRerank {
    /// The model's id.
    pub model: String,
    /// How many of the first results it orders.
    pub top_n: u64,
}

/// Where an embedding came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingSource {
    /// There was none.
    None,
    /// The request had it as `vector`.
    Given,
    /// It was made for this request.
    Made,
    /// It was made for an earlier one.
    Cache,
}

/// A number for each leg.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetrieverCounts {
    /// Of the lexical leg.
    pub lexical: u64,
    /// Of the dense leg.
    pub dense: u64,
}

/// What became of a document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyNot {
    /// The document's id.
    pub id: String,
    /// The stage at which it fell out.
    pub stage: WhyNotStage,
    /// Its place in the lexical ranking, as far as that was followed.
    pub lexical: Option<RetrieverPosition>,
    /// Its place in the dense ranking, as far as that was followed.
    pub dense: Option<RetrieverPosition>,
    /// Its place among the candidates, from 1.
    pub rank: Option<u32>,
    /// All that in a sentence, and what to do.
    pub message: String,
}

/// A stage of a search at which documents fall out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhyNotStage {
    /// The collection does not hold it, or not yet.
    Missing,
    /// The filter, or a condition in the query, does not let it through.
    Filter,
    /// No leg has it among its candidates.
    Candidates,
    /// It is a candidate, and others fill the page.
    Limit,
    /// Another result stands for it.
    Group,
    /// It is on the page and less relevant than `min_relevance`.
    Relevance,
    /// It is among the results.
    Found,
}

/// A place in one leg's ranking.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetrieverPosition {
    /// From 1.
    pub rank: u32,
    /// The leg's own score.
    pub score: f32,
}

/// One document that was found; or one chunk or group, as `group_by` says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchResult {
    /// The document's id.
    pub id: String,
    /// Its rank score; comparable within this reply only. Of results that a reranker ordered it is that of the place; 0 where
    /// nothing was searched for, or `sort` orders the results.
    pub score: f32,
    /// What the reranker says of query and text, usually 0 to 1; absent where none read them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerank_score: Option<f32>,
    /// The probability, 0 to 1, that it answers the query; comparable across queries. Null where nothing was searched for, or
    /// `sort` orders the results.
    pub relevance: Option<f32>,
    /// The text of its best chunk.
    pub text: String,
    /// The document's title, when it has one.
    pub title: Option<String>,
    /// The document's metadata.
    pub metadata: Metadata,
    /// Where the text stands.
    pub citation: Citation,
    /// The places in the rankings of the two legs.
    pub ranks: Ranks,
    /// The scores in the rankings of the two legs.
    #[serde(default)]
    pub scores: Scores,
    /// How many results with all but the same text this one stands for; absent without `collapse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapsed_count: Option<u64>,
    /// The documents of these results, the first hundred; absent without `collapse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collapsed: Option<Vec<String>>,
    /// Chunks before and after, in the order of the text; absent without `context`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Vec<ContextChunk>>,
    /// Where words of the query stand in `text`: first byte and the byte after the last; absent without `highlight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub highlights: Option<Vec<(u64, u64)>>,
    /// The part of `text` that shows most of them; absent without `highlight`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snippet: Option<Snippet>,
    /// How it got its score; absent without `explain`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub explanation: Option<Explanation>,
}

/// A place in a document that anybody can look up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Citation {
    /// The document's id.
    pub document_id: String,
    /// The chunk's number in the document, from 0.
    pub chunk: u32,
    /// The first byte of the chunk in the document's text (UTF-8).
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// The document's text from `start` to `end`, byte for byte.
    pub quote: String,
}

/// The places of a result in the rankings of the two legs, from 1; null when a leg didn't return it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ranks {
    /// The place among the lexical hits.
    pub lexical: Option<u32>,
    /// The place among the dense hits.
    pub dense: Option<u32>,
}

/// The scores of a result in the rankings of the two legs; null when a leg didn't return it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scores {
    /// BM25.
    pub lexical: Option<f32>,
    /// The dot product of the embeddings of query and chunk: their cosine where both have length one.
    pub dense: Option<f32>,
    /// The mean, over the query's tokens, of the best cosine with a token of the text; absent without `late_interaction`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_interaction: Option<f32>,
}

/// A chunk near a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextChunk {
    /// The chunk's number in the document, from 0.
    pub chunk: u32,
    /// The first byte of the chunk in the document's text.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// The document's text from `start` to `end`.
    pub text: String,
}

/// A part of a result's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snippet {
    /// Its first byte in the result's `text`.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// The part itself.
    pub text: String,
}

/// How a result got its score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The query's terms in the chunk or the title.
    pub terms: Vec<TermScore>,
    /// What the lexical leg gave to `score`.
    pub lexical: f32,
    /// What the dense leg gave to `score`.
    pub dense: f32,
    /// Where it stood before reranking and late interaction, which both legs' shares are of; absent without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fused: Option<FusedPosition>,
}

/// A place in the order before reranking and late interaction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FusedPosition {
    /// From 1.
    pub rank: u64,
    /// The score there.
    pub score: f32,
}

/// What one term gave to a chunk's BM25 score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TermScore {
    /// The term, after analysis.
    pub term: String,
    /// Chunks of the collection that hold it.
    pub chunks: u64,
    /// How often it stands in this one, title included.
    pub frequency: u32,
    /// Its share of the score.
    pub score: f32,
}

/// Where a search's time went, in milliseconds; 0 for a stage that had nothing to do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timings {
    /// Reading the request and the query.
    pub parse: f64,
    /// Embedding the query, waiting for it included.
    pub embed: f64,
    /// Finding what the filter and the query's conditions let through.
    #[serde(default)]
    pub select: f64,
    /// The lexical leg.
    pub lexical: f64,
    /// The dense leg.
    pub dense: f64,
    /// Fusing the rankings.
    pub fuse: f64,
    /// Fetching text, title and metadata of the hits.
    pub fetch: f64,
    /// Comparing tokens, waiting for it included.
    #[serde(default)]
    pub late_interaction: f64,
    /// Reranking, waiting for it included.
    #[serde(default)]
    pub rerank: f64,
}
