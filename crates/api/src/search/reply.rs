//! The reply of a search.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FacetCounts, FusionMethod, FusionWeights, Mode};
use crate::{Metadata, Problem};

/// The reply of one search, or of `queries`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum SearchOrBatchReply {
    /// The reply of one search.
    One(Box<SearchReply>),
    /// The reply of `queries`.
    Batch(BatchReply),
}

/// The replies to `queries`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BatchReply {
    /// The reply of each query, in the order of the request.
    pub replies: Vec<BatchItem>,
    /// Time from the last byte of the body to the last reply, in milliseconds.
    pub took_ms: f64,
}

/// The reply of one of `queries`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum BatchItem {
    /// The results.
    Reply(Box<SearchReply>),
    /// The error of the query.
    Problem(Box<Problem>),
}

/// The results of a search.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchReply {
    /// The results, best first or in the order of `sort`; one per document, or per unit of `group_by`.
    pub results: Vec<SearchResult>,
    /// Number of results of all pages; `min_relevance` does not change it.
    #[serde(default)]
    pub total: Total,
    /// Number of results of this page omitted by `min_relevance`; absent without `min_relevance`.
    pub left_out: Option<u64>,
    /// The `cursor` of the next page, to be sent with the same request; null on the last page.
    #[serialize_always]
    pub next_cursor: Option<String>,
    /// The values of each facet field, the most frequent first.
    pub facets: Option<BTreeMap<String, Vec<FacetCount>>>,
    /// The documents that `facets` count; absent without `facets`.
    pub facet_counts: Option<FacetCounts>,
    /// How the query was read; absent without `query`.
    pub query: Option<QueryReading>,
    /// Spelling corrections of words that occur in no document.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub corrections: Vec<Correction>,
    /// Whether a stage of the search was skipped, because of load, time or an error; see `degraded_reason`.
    #[serde(default)]
    pub degraded: bool,
    /// The first of `degraded_reasons`.
    pub degraded_reason: Option<DegradedReason>,
    /// The skipped stages, with the cause, in the order of the stages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub degraded_reasons: Vec<DegradedReason>,
    /// How the search was executed; absent without `explain`.
    pub explain: Option<Explain>,
    /// The stage that excluded the document of `why_not`; absent without `why_not`.
    pub why_not: Option<WhyNot>,
    /// Time from the last byte of the body to the finished ranking, in milliseconds.
    pub took_ms: f64,
    /// Time per stage.
    pub timings_ms: Timings,
}

/// Number of results of all pages.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Total {
    /// The number of results.
    pub value: u64,
    /// `true`: `value` is the exact number of matches. `false`: the number of candidates considered.
    pub exact: bool,
    /// The meaning of `value`; `exact` if `exact` is true, else `window`.
    pub relation: TotalRelation,
}

/// The meaning of a total.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TotalRelation {
    /// All matches.
    Exact,
    /// The candidates considered.
    #[default]
    Window,
}

/// A value of a facet field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FacetCount {
    /// The value: a string, a number or a boolean.
    pub value: serde_json::Value,
    /// Number of matching documents with this value.
    pub count: u64,
}

/// How a query was read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QueryReading {
    /// The excluded text: `"low dam"` of `weir -"low dam"`.
    pub excluded: Vec<String>,
    /// The parts that look like operators and were searched as words: `-v` of `grep -v`. The whole query if nothing was found by its
    /// operators.
    pub as_text: Vec<String>,
}

/// The correction of a word that occurs in no document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Correction {
    /// The word of the query, in lower case.
    pub word: String,
    /// The words that were searched instead, as in a document: the nearest first, then the most frequent.
    pub instead: Vec<String>,
}

/// A skipped stage of a search, with the cause.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::IntoStaticStr,
    strum::VariantNames,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DegradedReason {
    /// The embedder was overloaded: only the lexical retriever was used.
    EmbeddingOverloaded,
    /// The query's embedding missed the deadline: only the lexical retriever was used.
    EmbeddingDeadline,
    /// Embedding the query failed: only the lexical retriever was used.
    EmbeddingFailed,
    /// The embedder was overloaded: late interaction was skipped.
    LateInteractionOverloaded,
    /// Late interaction missed the deadline and was skipped.
    LateInteractionDeadline,
    /// Late interaction failed and was skipped.
    LateInteractionFailed,
    /// The reranker was overloaded: the results keep the order before reranking.
    RerankOverloaded,
    /// The reranker missed the deadline: the results keep the order before reranking.
    RerankDeadline,
    /// The reranker failed: the results keep the order before reranking.
    RerankFailed,
}

impl DegradedReason {
    /// The names of all.
    pub const NAMES: &[&str] = <DegradedReason as strum::VariantNames>::VARIANTS;

    /// Whether only the lexical retriever was used.
    pub fn is_lexical_only(self) -> bool {
        matches!(
            self,
            DegradedReason::EmbeddingOverloaded
                | DegradedReason::EmbeddingDeadline
                | DegradedReason::EmbeddingFailed
        )
    }
}

/// How a search was executed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explain {
    /// The parsed query with all operators explicit; null without `query`.
    pub query: Option<String>,
    /// The retrievers that were used; null if no retriever was.
    pub mode: Option<Mode>,
    /// The fusion of the rankings; null without hybrid search.
    pub fusion: Option<ExplainFusion>,
    /// Whether scores were smoothed over similar results.
    #[serde(default)]
    pub smoothing: bool,
    /// The terms, and sequences of terms, that were searched beside the query as its synonyms.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub synonyms: Vec<String>,
    /// The effective reranker; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rerank: Option<ExplainRerank>,
    /// The source of the query's embedding; with a mandatory filter `made` also if it was cached.
    pub embedding: EmbeddingSource,
    /// Number of chunks of the collection that exist for the caller.
    pub chunks: u64,
    /// Number of chunks that match the filter and the query's conditions; null without them.
    pub selected_chunks: Option<u64>,
    /// `selected_chunks` as a share of `chunks`, 0 to 1; null without a filter and conditions.
    pub selectivity: Option<f64>,
    /// Number of candidates of each retriever.
    pub candidates: RetrieverCounts,
    /// Number of the last operation that was applied to the searched index; with a mandatory filter, the version of the caller's newest
    /// document.
    #[serde(alias = "reached")]
    pub applied_seq: u64,
    /// State of the collection's learned relevance; with a mandatory filter nothing, and the caller's searches do without.
    #[serde(default)]
    pub learned: ExplainLearned,
}

/// A collection's relevance as learned from judgments and searches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainLearned {
    /// Judgments that count.
    pub votes: u64,
    /// Callers who gave them, operators left out.
    pub callers: u64,
    /// The largest change of a relevance by judgments; at most `search.feedback_shift_max`, negative if it falls.
    pub shift: f32,
    /// Deviation of the mean cosine of searches from that of other collections.
    pub cosine: f32,
    /// Deviation of the mean drop of scores within the first ten results from that of other collections.
    pub drop: f32,
}

/// The effective fusion.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainFusion {
    /// The method.
    pub method: FusionMethod,
    /// The weight of each retriever.
    pub weights: FusionWeights,
    /// The constant of `rrf`; null for `convex`.
    pub k: Option<f32>,
}

/// The effective reranker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainRerank {
    /// The model's id.
    pub model: String,
    /// Number of first results to rerank.
    pub top_n: u64,
}

/// The source of an embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EmbeddingSource {
    /// No embedding was used.
    None,
    /// `vector` of the request.
    Given,
    /// Computed for this request.
    Made,
    /// The embedding cache.
    Cache,
}

/// A number per retriever.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetrieverCounts {
    /// Number of the lexical retriever.
    pub lexical: u64,
    /// Number of the dense retriever.
    pub dense: u64,
}

/// Why a document is or is not among the results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhyNot {
    /// The document's id.
    pub id: String,
    /// The stage that excluded the document.
    pub stage: WhyNotStage,
    /// The document's position in the lexical ranking; null if it is not among the ranked documents.
    pub lexical: Option<RetrieverPosition>,
    /// The document's position in the dense ranking; null if it is not among the ranked documents.
    pub dense: Option<RetrieverPosition>,
    /// The document's rank among the candidates, from 1.
    pub rank: Option<u32>,
    /// The reason in a sentence, and the remedy.
    pub message: String,
}

/// A stage of a search that can exclude documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WhyNotStage {
    /// The document does not exist or is not yet searchable.
    Missing,
    /// The document does not match the filter, or a condition in the query.
    Filter,
    /// The document is not a candidate of any retriever.
    Candidates,
    /// The document is a candidate but ranks below the page.
    Limit,
    /// Another result is shown instead, because of `group_by`, `collapse` or `diversity`.
    Group,
    /// The document is on the page, but its relevance is below `min_relevance`.
    Relevance,
    /// The document is among the results.
    Found,
}

/// A position in the ranking of one retriever.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RetrieverPosition {
    /// The rank, from 1.
    pub rank: u32,
    /// The retriever's score.
    pub score: f32,
}

/// One result: a document, or a chunk or a group with `group_by`.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SearchResult {
    /// The document's id.
    pub id: String,
    /// The score that determines the rank; comparable within this reply only. For reranked results, the score that the
    /// result's position had before reranking. 0 without `query` and `vector`, or with `sort`.
    pub score: f32,
    /// The reranker's score, usually 0 to 1; absent for results that were not reranked.
    pub rerank_score: Option<f32>,
    /// The estimated probability, 0 to 1, that the document answers the query; comparable across queries. Null without
    /// `query` and `vector`, or with `sort`.
    #[serialize_always]
    pub relevance: Option<f32>,
    /// The text of the document's best chunk. Where it begins among the rows of a table, the table's header precedes it.
    pub text: String,
    /// The document's title, if it has one.
    #[serialize_always]
    pub title: Option<String>,
    /// The document's metadata.
    pub metadata: Metadata,
    /// The position of the text in the document.
    pub citation: Citation,
    /// The ranks in the rankings of the two retrievers.
    pub ranks: Ranks,
    /// The scores in the rankings of the two retrievers.
    #[serde(default)]
    pub scores: Scores,
    /// Number of results with nearly identical texts that were merged into this one; absent without `collapse`.
    pub collapsed_count: Option<u64>,
    /// Ids of the merged documents, at most 100; absent without `collapse`.
    pub collapsed: Option<Vec<String>>,
    /// The chunks before and after, in document order; absent without `context`.
    pub context: Option<Vec<ContextChunk>>,
    /// Byte ranges `[start, end)` of the query's words in `text`; absent without `highlight`.
    pub highlights: Option<Vec<(u64, u64)>>,
    /// The same in `title`, which is searched with each chunk; absent without `highlight` and without a title.
    pub title_highlights: Option<Vec<(u64, u64)>>,
    /// The part of `text` with the most highlights; absent without `highlight`.
    pub snippet: Option<Snippet>,
    /// How the score was computed; absent without `explain`.
    pub explanation: Option<Explanation>,
}

/// The source of a text: document, chunk, byte range and pages.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Citation {
    /// The document's id.
    pub document_id: String,
    /// The chunk's number in the document, from 0.
    pub chunk: u32,
    /// Offset of the chunk's first byte in the document's text (UTF-8).
    pub start: u64,
    /// Offset of the byte after the chunk.
    pub end: u64,
    /// The document's text from `start` to `end`, byte for byte.
    pub quote: String,
    /// `title`: the document has no text and was found by its title, which is quoted; `start` and `end` are offsets in it. Absent: the text.
    pub part: Option<CitedPart>,
    /// The number of the page, slide, sheet, chapter or message on which the text begins, from 1; absent for a document without pages.
    pub page: Option<u64>,
    /// The number of the page on which it ends.
    pub page_end: Option<u64>,
    /// The label of the first page, such as `iv` or the name of a sheet, where that is not its number.
    pub page_label: Option<String>,
    /// `true`: the pages are estimated, because the format leaves them to the program that shows it.
    pub pages_approximate: Option<bool>,
    /// Offsets in the document's text at which the further pages begin.
    pub page_breaks: Option<Vec<u64>>,
}

/// The quoted part of a citation, if it is not the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CitedPart {
    /// The title of a document without text.
    Title,
}

impl Citation {
    /// The pages on which the text stands.
    #[must_use]
    pub fn pages(&self) -> CitedPages {
        CitedPages {
            page: self.page,
            page_end: self.page_end,
            page_label: self.page_label.clone(),
            pages_approximate: self.pages_approximate,
            page_breaks: self.page_breaks.clone(),
        }
    }
}

/// The pages of a cited text. All fields are absent for a document without pages, and the latter ones where they say nothing.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CitedPages {
    /// The number of the page, slide, sheet, chapter or message on which the text begins, from 1.
    pub page: Option<u64>,
    /// The number of the page on which it ends.
    pub page_end: Option<u64>,
    /// The label of the first page, such as `iv` or the name of a sheet, where that is not its number.
    pub page_label: Option<String>,
    /// `true`: the pages are estimated, because the format leaves them to the program that shows it.
    pub pages_approximate: Option<bool>,
    /// Offsets in the document's text at which the further pages begin.
    pub page_breaks: Option<Vec<u64>>,
}

impl CitedPages {
    /// The pages of a part of the text, from byte `start` to byte `end`.
    #[must_use]
    pub fn of_part(&self, start: u64, end: u64) -> CitedPages {
        let Some(page) = self.page else { return CitedPages::default() };
        let breaks = self.page_breaks.as_deref().unwrap_or_default();
        let before = breaks.iter().filter(|begin| **begin <= start).count();
        let within: Vec<u64> = breaks[before..].iter().copied().filter(|begin| *begin < end).collect();
        let first = page + before as u64;
        CitedPages {
            page: Some(first),
            page_end: Some(first + within.len() as u64),
            page_label: self.page_label.clone().filter(|_| before == 0),
            pages_approximate: self.pages_approximate,
            page_breaks: (!within.is_empty()).then_some(within),
        }
    }

    /// The pages in words, such as `page iv` or `pages 3 to 4`.
    #[must_use]
    pub fn in_words(&self) -> Option<String> {
        let first = self.page?;
        let about = if self.pages_approximate == Some(true) { "about " } else { "" };
        Some(match (&self.page_label, self.page_end.filter(|end| *end != first)) {
            (Some(label), None) => format!("{about}page {label}"),
            (Some(label), Some(end)) => format!("{about}page {label} to {end}"),
            (None, None) => format!("{about}page {first}"),
            (None, Some(end)) => format!("{about}pages {first} to {end}"),
        })
    }
}

/// The ranks of a result in the rankings of the two retrievers, from 1; null if a retriever did not return it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ranks {
    /// Rank in the lexical ranking.
    pub lexical: Option<u32>,
    /// Rank in the dense ranking.
    pub dense: Option<u32>,
}

/// The scores of a result in the rankings of the two retrievers; null if a retriever did not return it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Scores {
    /// The BM25 score.
    pub lexical: Option<f32>,
    /// Dot product of the embeddings of query and chunk; equal to the cosine if both have length one.
    pub dense: Option<f32>,
    /// MaxSim: the mean, over the query's tokens, of the highest cosine with a token of the text; absent without
    /// `late_interaction`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_interaction: Option<f32>,
}

/// A chunk before or after a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ContextChunk {
    /// The chunk's number in the document, from 0.
    pub chunk: u32,
    /// Offset of the chunk's first byte in the document's text.
    pub start: u64,
    /// Offset of the byte after the chunk.
    pub end: u64,
    /// The document's text from `start` to `end`.
    pub text: String,
}

/// A part of a result's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Snippet {
    /// Offset of the snippet's first byte in the result's `text`.
    pub start: u64,
    /// Offset of the byte after the snippet.
    pub end: u64,
    /// The text from `start` to `end`.
    pub text: String,
}

/// How the score of a result was computed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The query's terms that occur in the chunk or the title.
    pub terms: Vec<TermScore>,
    /// The query's phrases, compounds and synonyms of several words whose terms are adjacent in the chunk or the title. With `terms` they add
    /// up to the BM25 score (`scores.lexical`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phrases: Vec<PhraseScore>,
    /// Contribution of the lexical retriever to `score`.
    pub lexical: f32,
    /// Contribution of the dense retriever to `score`.
    pub dense: f32,
    /// Contribution of similar results to `score`, negative if those score less; 0 without smoothing.
    #[serde(default)]
    pub neighbours: f32,
    /// Contribution to `score` of a title or an id that the query is, or that begins with it: enough to come first.
    #[serde(default)]
    pub name: f32,
    /// Rank and score before reranking and late interaction, to which the contributions refer; absent without them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fused: Option<FusedPosition>,
}

/// Rank and score before reranking and late interaction.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FusedPosition {
    /// The rank, from 1.
    pub rank: u64,
    /// The fused score.
    pub score: f32,
}

/// The contribution of one term to a chunk's BM25 score.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TermScore {
    /// The term, after analysis.
    pub term: String,
    /// Number of chunks of the collection that contain the term.
    pub chunks: u64,
    /// Occurrences of the term in this chunk, including the title.
    pub frequency: u32,
    /// The term's contribution to the score.
    pub score: f32,
}

/// The contribution of adjacent terms to a chunk's BM25 score, beside those of each term.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhraseScore {
    /// The terms, after analysis, separated by spaces.
    pub phrase: String,
    /// Their contribution to the score.
    pub score: f32,
}

/// Time per stage of a search, in milliseconds; 0 for a stage that was not needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Timings {
    /// Parsing the request and the query.
    pub parse: f64,
    /// Embedding the query, including the wait in the queue.
    pub embed: f64,
    /// Evaluating the filter and the query's conditions.
    #[serde(default)]
    pub select: f64,
    /// The lexical retriever.
    pub lexical: f64,
    /// The dense retriever.
    pub dense: f64,
    /// Fusing the rankings.
    pub fuse: f64,
    /// Smoothing the scores.
    #[serde(default)]
    pub smooth: f64,
    /// Fetching text, title and metadata of the results.
    pub fetch: f64,
    /// Late interaction, including the wait in the queue.
    #[serde(default)]
    pub late_interaction: f64,
    /// Reranking, including the wait in the queue.
    #[serde(default)]
    pub rerank: f64,
}
