//! Queries to an index, and their results.

use std::sync::Arc;
use std::time::Duration;

use weir_filter::{Filter, Value};
use weir_lexical::{LexicalSettings, PhraseContribution, SpellingCorrection, TermContribution};
use weir_query::Query;
use weir_ranking::RetrievalMode;
use weir_ranking::relevance::HitFeatures;

use crate::change::check_embedding;
use crate::{IndexError, Result};

/// The lexical field that a query can name; every other name is a metadata field.
pub const TITLE: &str = "title";

/// A search in one collection.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexQuery {
    /// The query; if absent, every document that passes the filter is a hit.
    pub query: Option<Query>,
    /// Whether the last word of the query may be the beginning of a word; only of a query of words alone.
    pub is_unfinished: bool,
    /// Maximum number of terms that all prefixes and wildcards of the query together stand for: the most frequent of each.
    pub expanded_terms_max: usize,
    /// Synonyms, stop words and weights of the collection.
    pub lexical: Arc<LexicalSettings>,
    /// Whether an unknown field in the query is an error; otherwise it is searched as text.
    pub strict: bool,
    /// Embedding of the query, with as many values as the collection's dimension.
    pub embedding: Option<Vec<f32>>,
    /// The retrievers to use.
    pub mode: RetrievalMode,
    /// The fusion of both rankings in hybrid search.
    pub fusion: FusionFunction,
    /// Whether scores are smoothed over similar documents, see [`weir_ranking::smoothing`]; of lexical and of convex hybrid searches.
    pub smoothing: bool,
    /// Candidates that each retriever contributes to the fusion, usually 100. The order of the first hits does not depend on
    /// `limit`: if more hits are wanted than one window of candidates holds, those of a deeper window follow it.
    pub depth: usize,
    /// Hits to skip.
    pub offset: usize,
    /// Maximum number of hits.
    pub limit: usize,
    /// Searches the pinned snapshot with this applied sequence ([`IndexResult::applied_seq`] of a search with
    /// [`pin`](IndexQuery::pin)); if absent, the newest. Documents removed since are left out.
    pub as_of: Option<u64>,
    /// Keeps the snapshot for some minutes, for later searches with `as_of`.
    pub pin: bool,
    /// The documents that may be found; all if absent.
    pub filter: Option<Filter>,
    /// The unit of a hit.
    pub group_by: Grouping,
    /// Order of the hits; by rank if empty.
    pub sort: Vec<SortKey>,
    /// Fields whose values are to be counted.
    pub facets: Vec<FacetSpec>,
    /// Whether facets of hybrid and dense searches count all documents that contain a word of the query, or pass the filter where there
    /// are no words; otherwise the candidates.
    pub exact_facets: bool,
    /// Whether to count all matches of a lexical search, which visits every match.
    pub count: bool,
    /// Weight from 0 to 1 of a hit's similarity to earlier hits, which counts against it (maximal marginal relevance); 0 disables
    /// it.
    pub diversity: f32,
    /// Whether to merge hits whose texts are near-duplicates.
    pub collapse: bool,
    /// Number of neighbouring chunks to return before and after each hit.
    pub context: u32,
    /// Whether each hit explains its score.
    pub explain: bool,
    /// A document to follow through the stages of the search.
    pub trace: Option<String>,
}

/// Default of [`IndexQuery::expanded_terms_max`].
const EXPANDED_TERMS: usize = 256;

impl IndexQuery {
    /// A search with defaults: no filter, no extras, the first `limit` documents.
    pub fn new(
        mode: RetrievalMode,
        query: Option<Query>,
        embedding: Option<Vec<f32>>,
        limit: usize,
    ) -> IndexQuery {
        IndexQuery {
            query,
            is_unfinished: false,
            expanded_terms_max: EXPANDED_TERMS,
            lexical: Arc::default(),
            strict: false,
            embedding,
            mode,
            fusion: FusionFunction::default(),
            smoothing: true,
            depth: DEPTH,
            offset: 0,
            limit,
            as_of: None,
            pin: false,
            filter: None,
            group_by: Grouping::Document,
            sort: Vec::new(),
            facets: Vec::new(),
            exact_facets: false,
            count: false,
            diversity: 0.0,
            collapse: false,
            context: 0,
            explain: false,
            trace: None,
        }
    }

    /// Checks the parameters, and the embedding for chunks with embeddings of `dimension` values.
    pub fn check(&self, dimension: usize) -> Result<()> {
        self.fusion.check()?;
        if !(0.0..=1.0).contains(&self.diversity) {
            return Err(IndexError::InvalidParameter { name: "diversity", value: self.diversity });
        }
        if self.diversity > 0.0 && dimension == 0 {
            return Err(IndexError::NoEmbeddings);
        }
        match (self.mode, &self.embedding) {
            (RetrievalMode::Lexical, _) => Ok(()),
            (RetrievalMode::Hybrid | RetrievalMode::Dense, _) if self.is_listing() => Ok(()),
            (RetrievalMode::Hybrid | RetrievalMode::Dense, _) if dimension == 0 => {
                Err(IndexError::NoEmbeddings)
            }
            (RetrievalMode::Hybrid | RetrievalMode::Dense, None) => {
                Err(IndexError::EmbeddingMissing(dimension))
            }
            (RetrievalMode::Hybrid | RetrievalMode::Dense, Some(embedding)) => {
                check_embedding(embedding, dimension)
            }
        }
    }

    /// Whether there is nothing to rank by: all documents that pass the filter are listed.
    pub fn is_listing(&self) -> bool {
        self.query.is_none() && self.embedding.is_none()
    }

    /// The fields that must be known: of a strict query, the filter, facets, sort keys and groups.
    pub fn named_fields(&self) -> impl Iterator<Item = &str> {
        let strict = self.query.iter().filter(|_| self.strict);
        let in_query = strict.flat_map(Query::fields).filter(|name| *name != TITLE);
        let in_filter = self.filter.iter().flat_map(|filter| filter.paths());
        let facets = self.facets.iter().map(|facet| facet.field.as_str());
        let keys = self.sort.iter().map(|key| key.field.as_str());
        let group = match &self.group_by {
            Grouping::Field(field) => Some(field.as_str()),
            Grouping::Document | Grouping::Chunk => None,
        };
        in_query.chain(in_filter).chain(facets).chain(keys).chain(group)
    }

    /// Whether postprocessing removes or reorders candidates.
    pub fn is_postprocessed(&self) -> bool {
        self.collapse || self.diversity > 0.0 || matches!(self.group_by, Grouping::Field(_))
    }

    /// The text that may be the name of a document: words, maybe in quotes, that rank by terms.
    pub fn name(&self) -> Option<&str> {
        match (&self.query, self.mode) {
            (
                Some(Query::Words(text) | Query::Phrase(text)),
                RetrievalMode::Lexical | RetrievalMode::Hybrid,
            ) => Some(text),
            _ => None,
        }
    }
}

/// The default of [`IndexQuery::depth`].
pub const DEPTH: usize = 100;

/// The unit of a hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grouping {
    /// A document, shown by its best chunk.
    Document,
    /// A chunk.
    Chunk,
    /// One hit per value of a field, shown by its best document. A document without the field is its own group; of several values
    /// the smallest counts.
    Field(String),
}

/// One key of a sort order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// Path of a metadata field. Documents without it come last. Of several values the smallest counts, or the largest in
    /// descending order. Booleans come before numbers, numbers before dates, dates before other strings.
    pub field: String,
    /// From the largest value to the smallest.
    pub descending: bool,
}

/// A field whose values are to be counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FacetSpec {
    /// The path of a metadata field.
    pub field: String,
    /// Maximum number of values: those with the most documents.
    pub limit: usize,
}

/// Fusion of two rankings, see [`weir_ranking::fusion`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FusionFunction {
    /// [`weir_ranking::fusion::reciprocal_rank`].
    ReciprocalRank {
        /// Larger values flatten the top; usually 60.
        k: f32,
        /// Weight of the lexical retriever.
        lexical: f32,
        /// Weight of the dense retriever.
        dense: f32,
    },
    /// [`weir_ranking::fusion::convex`].
    Convex {
        /// Weight of the lexical retriever.
        lexical: f32,
        /// Weight of the dense retriever.
        dense: f32,
        /// Whether the lexical weight is lowered for queries whose words say little:
        /// [`weir_ranking::fusion::weights_by_evidence`].
        follows_query: bool,
    },
}

impl Default for FusionFunction {
    /// Convex with equal weights that follow the query: among the best settings on every development set.
    fn default() -> FusionFunction {
        FusionFunction::Convex { lexical: 0.5, dense: 0.5, follows_query: true }
    }
}

impl FusionFunction {
    /// Checks that weights and constants are finite and not negative.
    pub fn check(&self) -> Result<()> {
        let settings = match *self {
            FusionFunction::ReciprocalRank { k, lexical, dense } => {
                [("k", k), ("lexical", lexical), ("dense", dense)]
            }
            FusionFunction::Convex { lexical, dense, .. } => {
                [("k", 0.0), ("lexical", lexical), ("dense", dense)]
            }
        };
        match settings.into_iter().find(|(_, value)| !value.is_finite() || *value < 0.0) {
            Some((name, value)) => Err(IndexError::InvalidParameter { name, value }),
            None => Ok(()),
        }
    }
}

/// Hits, the rankings of both retrievers, and timings.
#[derive(Debug, Clone, PartialEq)]
pub struct IndexResult {
    /// Best first, or in the requested order.
    pub hits: Vec<Hit>,
    /// How many hits there are to page through.
    pub total: MatchCount,
    /// Value counts of each facet, in the order of the query.
    pub facets: Vec<Vec<ValueCount>>,
    /// Whether `facets` count all matches: those of lexical searches and listings do, unless a prefix or wildcard has more terms than are
    /// searched.
    pub exact_facets: bool,
    /// Ranking of the lexical retriever; empty in dense mode.
    pub lexical: RetrieverRanking,
    /// Ranking of the dense retriever; empty in lexical mode.
    pub dense: RetrieverRanking,
    /// Whether scores were smoothed.
    pub is_smoothed: bool,
    /// The fusion of a hybrid search, with the weights of this query.
    pub fusion: FusionFunction,
    /// Query words that occur in no document, and their replacements.
    pub corrections: Vec<SpellingCorrection>,
    /// The query's ranking terms, with prefixes expanded and words corrected.
    pub terms: Vec<String>,
    /// The terms, and sequences of terms, that were searched beside the query as its synonyms.
    pub synonyms: Vec<String>,
    /// The last operation visible to the search.
    pub applied_seq: u64,
    /// The same, as far as the caller may know: with a mandatory filter, and if [`IndexQuery::explain`] is set, the version of the last
    /// document that exists for the caller; 0 without `explain`.
    pub shown_seq: u64,
    /// Live chunks that exist for the caller.
    pub existing_chunks: u64,
    /// Live chunks that pass the filter; `None` without one.
    pub selected: Option<u64>,
    /// The result for [`IndexQuery::trace`].
    pub trace: Option<DocumentTrace>,
    /// Duration of each stage.
    pub timings: StageTimings,
}

/// How much of the exact answer the dense retriever found.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recall {
    /// Chunks of the exact answer that the retriever found.
    pub found: usize,
    /// Chunks of the exact answer.
    pub wanted: usize,
    /// Share of the live chunks that pass the filter, 0..1.
    pub selectivity: f64,
}

/// The number of hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MatchCount {
    /// The exact number of matches.
    Exact(u64),
    /// The number of candidates considered; matches outside the window are not counted.
    Window(u64),
}

/// A value of a field, and the number of documents with it.
#[derive(Debug, Clone, PartialEq)]
pub struct ValueCount {
    /// The value.
    pub value: Value,
    /// Matching documents with the value.
    pub count: u64,
}

/// A document's way through the stages of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct DocumentTrace {
    /// The stage that excluded it, or [`TraceStage::Found`].
    pub stage: TraceStage,
    /// Its lexical rank, searched to a limited depth.
    pub lexical: Option<RetrieverRank>,
    /// Its dense rank, searched to a limited depth.
    pub dense: Option<RetrieverRank>,
    /// Its rank among the candidates, from 1.
    pub rank: Option<u32>,
}

/// A stage of a search that excludes documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceStage {
    /// The collection does not contain it.
    Missing,
    /// It does not pass the filter, or a condition in the query.
    Filter,
    /// No retriever has it among its candidates.
    Candidates,
    /// It is a candidate, but ranks below the page.
    Limit,
    /// Another hit represents it: one with the same value of the group's field, or a near-duplicate.
    Group,
    /// It is a hit.
    Found,
}

/// A document, shown by its best chunk: that of the retriever that contributed more to the score.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The document's id.
    pub document_id: String,
    /// The document's title.
    pub title: Option<String>,
    /// The document's JSON, unchanged.
    pub metadata: String,
    /// The pages of the document's text, as they were given.
    pub pages: Option<String>,
    /// The document's version.
    pub version: u64,
    /// Position of the chunk in the document, from 0.
    pub chunk: u32,
    /// First byte of the chunk in the document's text.
    pub start: usize,
    /// End of the chunk, exclusive.
    pub end: usize,
    /// The document's bytes from `start` to `end`.
    pub text: String,
    /// Position in the whole order, from 0. Positions of documents removed since the first page stay empty.
    pub position: usize,
    /// The fused score in hybrid mode, otherwise the retriever's; comparable within this result only. 0 without a query, or if
    /// fields order the hits.
    pub score: f32,
    /// Probability from 0 to 1 that the document answers the query; comparable across queries. `None` without a query, or if
    /// fields order the hits.
    pub relevance: Option<f32>,
    /// The input of [`relevance`](Hit::relevance): to be stored with feedback.
    pub features: Option<HitFeatures>,
    /// Its rank in the lexical retriever.
    pub lexical: Option<RetrieverRank>,
    /// Its rank in the dense retriever.
    pub dense: Option<RetrieverRank>,
    /// Neighbouring chunks, in the order of the text.
    pub context: Vec<Neighbour>,
    /// Ids of documents with near-duplicate texts, which this hit represents.
    pub collapsed: Vec<String>,
    /// If [`IndexQuery::explain`] is set.
    pub explanation: Option<ScoreBreakdown>,
}

/// A chunk beside a hit.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbour {
    /// Position of the chunk in the document, from 0.
    pub chunk: u32,
    /// First byte of the chunk in the document's text.
    pub start: usize,
    /// End of the chunk, exclusive.
    pub end: usize,
    /// The document's bytes from `start` to `end`.
    pub text: String,
}

/// The parts of a hit's score.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoreBreakdown {
    /// The query's terms that occur in the hit's chunk or title.
    pub terms: Vec<TermContribution>,
    /// Those that are adjacent there, and so add to the BM25 score beside each term.
    pub phrases: Vec<PhraseContribution>,
    /// Contribution of the lexical retriever to the score; 0 if it did not return the hit.
    pub lexical: f32,
    /// Contribution of the dense retriever to the score.
    pub dense: f32,
    /// Contribution of similar documents to the score; 0 without smoothing.
    pub neighbours: f32,
    /// Contribution of the title or the id, which the query is or begins, to the score.
    pub name: f32,
}

/// A document's rank in one retriever.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RetrieverRank {
    /// From 1.
    pub rank: u32,
    /// The retriever's score: BM25, or the dot product with the query's embedding.
    pub score: f32,
}

/// The ranking of one retriever.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RetrieverRanking {
    /// Number of candidates that the retriever contributed to the fusion.
    pub documents: usize,
    /// The first of them, best first, up to the query's `limit`.
    pub best: Vec<RankedChunk>,
}

/// A document in the ranking of one retriever, with its best chunk.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedChunk {
    /// The document's id.
    pub document_id: String,
    /// Position of the chunk in the document, from 0.
    pub chunk: u32,
    /// The retriever's score.
    pub score: f32,
}

/// Duration of the stages of one search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StageTimings {
    /// Compiling the query and evaluating the filter.
    pub select: Duration,
    /// The lexical retriever.
    pub lexical: Duration,
    /// The dense retriever.
    pub dense: Duration,
    /// Fusing both rankings.
    pub fuse: Duration,
    /// Smoothing the scores.
    pub smooth: Duration,
    /// Reading the texts of the hits.
    pub fetch: Duration,
}
