//! What a search asks and what it gets.

use std::time::Duration;

use crate::IndexError;
use crate::query::Query;
use crate::relevance::Features;
use weir_filter::{Filter, Value};

/// A search over one collection.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// What is searched for; without it every document that the filter lets through is a hit.
    pub query: Option<Query>,
    /// Whether a field in the query that no document has had is an error; else it is searched as it was typed.
    pub strict: bool,
    /// The embedding of the query, as long as the collection's dimension.
    pub embedding: Option<Vec<f32>>,
    /// Which legs search.
    pub mode: Mode,
    /// How hybrid search merges them.
    pub fusion: Fusion,
    /// Hits that each leg hands to the fusion; usually 100. The order of the first hits does not depend on how many
    /// are asked for: whoever wants more than the window holds gets those of a larger window behind it.
    pub depth: usize,
    /// Hits to pass over.
    pub offset: usize,
    /// Hits to return at most.
    pub limit: usize,
    /// The operation up to which the search sees changes, [`SearchReply::reached`] of a search with
    /// [`hold`](SearchRequest::hold); the newest when absent. Documents that were removed since are left out.
    pub at: Option<u64>,
    /// Whether a later search will go on `at` what this one saw. It is held for some minutes.
    pub hold: bool,
    /// Which documents may be found; all without one.
    pub filter: Option<Filter>,
    /// What counts as one hit.
    pub group_by: GroupBy,
    /// How to order the hits; by rank when empty.
    pub sort: Vec<SortKey>,
    /// Fields whose values are counted.
    pub facets: Vec<Facet>,
    /// Whether a lexical total is counted out, which takes the time of visiting every match.
    pub count: bool,
    /// How much a hit's likeness to those before it counts against it, 0..1 (maximal marginal relevance); not at all
    /// when 0.
    pub diversity: f32,
    /// Whether hits whose texts are all but equal become one.
    pub collapse: bool,
    /// Chunks before and after each hit that come with it.
    pub context: u32,
    /// Whether each hit says how it got its score.
    pub explain: bool,
    /// A document whose fate is to be told.
    pub why_not: Option<String>,
}

impl SearchRequest {
    /// The search for `query` and nothing else: no filter, no extras, the first `limit` documents.
    pub fn new(mode: Mode, query: Option<Query>, embedding: Option<Vec<f32>>, limit: usize) -> SearchRequest {
        SearchRequest {
            query,
            strict: false,
            embedding,
            mode,
            fusion: Fusion::default(),
            depth: DEPTH,
            offset: 0,
            limit,
            at: None,
            hold: false,
            filter: None,
            group_by: GroupBy::Document,
            sort: Vec::new(),
            facets: Vec::new(),
            count: false,
            diversity: 0.0,
            collapse: false,
            context: 0,
            explain: false,
            why_not: None,
        }
    }
}

/// The usual [`SearchRequest::depth`].
pub const DEPTH: usize = 100;

/// What counts as one hit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupBy {
    /// A document, shown by its best chunk.
    Document,
    /// A chunk.
    Chunk,
    /// All documents with one value of a field, shown by the best; a document without the field stands for itself.
    /// Of several values the smallest counts.
    Field(String),
}

/// One step of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKey {
    /// The path of a metadata field. Documents without it come last; of several values the smallest counts, or the
    /// largest in a descending order. Booleans come before numbers, numbers before dates, dates before other strings.
    pub field: String,
    /// From the largest to the smallest value.
    pub descending: bool,
}

/// A field whose values are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facet {
    /// The path of a metadata field.
    pub field: String,
    /// Values to return at most, those of most documents.
    pub limit: usize,
}

/// Which legs search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Both, fused.
    Hybrid,
    /// BM25 alone.
    Lexical,
    /// Embeddings alone.
    Dense,
}

/// How two rankings become one, see [`crate::fusion`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fusion {
    /// [`crate::fusion::reciprocal_rank`].
    ReciprocalRank {
        /// Flattens the top; usually 60.
        k: f32,
        /// Weight of the lexical leg.
        lexical: f32,
        /// Weight of the dense leg.
        dense: f32,
    },
    /// [`crate::fusion::convex`].
    Convex {
        /// Weight of the lexical leg.
        lexical: f32,
        /// Weight of the dense leg.
        dense: f32,
    },
}

impl Default for Fusion {
    /// Convex with equal weights, amid those that measured well on every development set.
    fn default() -> Fusion {
        Fusion::Convex { lexical: 0.5, dense: 0.5 }
    }
}

impl Fusion {
    /// Checks that weights and constants are finite and not negative.
    pub(crate) fn check(&self) -> Result<(), IndexError> {
        let settings = match *self {
            Fusion::ReciprocalRank { k, lexical, dense } => {
                [("k", k), ("lexical", lexical), ("dense", dense)]
            }
            Fusion::Convex { lexical, dense } => [("k", 0.0), ("lexical", lexical), ("dense", dense)],
        };
        match settings.into_iter().find(|(_, value)| !value.is_finite() || *value < 0.0) {
            Some((name, value)) => Err(IndexError::FusionSetting { name, value }),
            None => Ok(()),
        }
    }
}

/// The hits, both legs' rankings and where the time went.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchReply {
    /// Best first, or as the request sorts them.
    pub hits: Vec<Hit>,
    /// How many there are to page through.
    pub total: Total,
    /// The counts of each facet, in the order of the request.
    pub facets: Vec<Vec<FacetCount>>,
    /// The lexical leg's ranking; empty in dense mode.
    pub lexical: Ranking,
    /// The dense leg's ranking; empty in lexical mode.
    pub dense: Ranking,
    /// Words that no document holds, and what was searched in their place.
    pub corrections: Vec<Correction>,
    /// The terms of the query that rank, as they were searched: beginnings and corrections as what they stand for.
    pub terms: Vec<String>,
    /// The last operation that the search saw.
    pub reached: u64,
    /// Live chunks that the filter let through; `None` without a filter.
    pub selected: Option<u64>,
    /// Why the document that was asked about is not among the hits.
    pub why_not: Option<WhyNot>,
    /// Where the time went.
    pub timings: Timings,
}

/// What the dense leg found of what an exact comparison finds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recall {
    /// Chunks of the exact answer that the leg found too.
    pub found: usize,
    /// Chunks of the exact answer.
    pub wanted: usize,
    /// The share of the live chunks that the filter lets through, 0..1.
    pub selectivity: f64,
}

/// How many hits there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Total {
    /// So many match.
    Exact(u64),
    /// So many were candidates; those further away were not looked at.
    Window(u64),
}

/// A value of a field and the documents that hold it.
#[derive(Debug, Clone, PartialEq)]
pub struct FacetCount {
    /// The value.
    pub value: Value,
    /// Documents among the matches.
    pub count: u64,
}

/// A word that no document holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Correction {
    /// The term as the query has it.
    pub term: String,
    /// The terms that were searched in its place, those of most documents first.
    pub instead: Vec<String>,
}

/// What became of a document that is not among the hits.
#[derive(Debug, Clone, PartialEq)]
pub struct WhyNot {
    /// The stage at which it fell out.
    pub stage: Stage,
    /// Its place in the lexical ranking, as far as it was followed.
    pub lexical: Option<LegRank>,
    /// Its place in the dense ranking, as far as it was followed.
    pub dense: Option<LegRank>,
    /// Its place among the candidates, from 1.
    pub rank: Option<u32>,
}

/// A stage of a search at which documents fall out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The collection does not hold it.
    Missing,
    /// The filter, or a condition in the query, does not let it through.
    Filter,
    /// No leg has it among its candidates.
    Candidates,
    /// It is a candidate, and hits before it fill the page.
    Limit,
    /// Another hit stands for it: one with the same value of the field, or with all but the same text.
    Group,
    /// It is among the hits.
    Found,
}

/// A document that was found, shown by its best chunk: the one of the leg with the larger share in the score.
#[derive(Debug, Clone, PartialEq)]
pub struct Hit {
    /// The document's id.
    pub document_id: String,
    /// The document's title.
    pub title: Option<String>,
    /// The document's JSON, as it came.
    pub metadata: String,
    /// The document's version.
    pub version: u64,
    /// The chunk's ordinal in the document, from 0.
    pub chunk: u32,
    /// First byte of the chunk in the document's text.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
    /// The document's bytes from `start` to `end`.
    pub text: String,
    /// Its place in the whole order, from 0; those of documents that were removed since the first page stay free.
    pub place: usize,
    /// The fused score in hybrid mode, else the leg's; comparable within this reply only. 0 where nothing was searched for,
    /// or fields order the hits.
    pub score: f32,
    /// The probability, from 0 to 1, that the document answers the query; comparable across queries;
    /// `None` where nothing was searched for, or fields order the hits.
    pub relevance: Option<f32>,
    /// What that was computed from: to be kept with feedback.
    pub features: Option<Features>,
    /// Where the lexical leg has the document.
    pub lexical: Option<LegRank>,
    /// Where the dense leg has the document.
    pub dense: Option<LegRank>,
    /// Chunks before and after, in the order of the text, as many as were asked for.
    pub context: Vec<Neighbour>,
    /// Documents whose texts are all but equal to this one's, which it stands for.
    pub collapsed: Vec<String>,
    /// How the score came about, when that was asked for.
    pub explanation: Option<Explanation>,
}

/// A chunk near a hit.
#[derive(Debug, Clone, PartialEq)]
pub struct Neighbour {
    /// The chunk's ordinal in the document, from 0.
    pub chunk: u32,
    /// First byte of the chunk in the document's text.
    pub start: usize,
    /// The byte after its last.
    pub end: usize,
    /// The document's bytes from `start` to `end`.
    pub text: String,
}

/// How a hit got its score.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The query's terms in the hit's chunk or title.
    pub terms: Vec<TermShare>,
    /// What the lexical leg gave to the fused score; 0 when it does not hold the hit.
    pub lexical: f32,
    /// What the dense leg gave to the fused score; 0 when it does not hold the hit.
    pub dense: f32,
}

/// What one term gave to a chunk's BM25 score.
#[derive(Debug, Clone, PartialEq)]
pub struct TermShare {
    /// The term.
    pub term: String,
    /// Chunks of the collection that hold it.
    pub chunks: u64,
    /// How often it stands in this one, title included.
    pub frequency: u32,
    /// Its share of the score.
    pub score: f32,
}

/// A document's place in one leg's ranking.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LegRank {
    /// From 1.
    pub rank: u32,
    /// The leg's own score: BM25, or the dot product with the query's embedding.
    pub score: f32,
}

/// One leg's ranking of documents.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ranking {
    /// Documents that the leg handed to the fusion.
    pub documents: usize,
    /// The first of them, as many as the request's `limit`, best first.
    pub best: Vec<RankedChunk>,
}

/// A document in one leg's ranking, with the chunk that brought it there.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedChunk {
    /// The document's id.
    pub document_id: String,
    /// The chunk's ordinal in the document, from 0.
    pub chunk: u32,
    /// The leg's own score.
    pub score: f32,
}

/// Where the time of one search went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Compiling the query and finding what the filter lets through.
    pub select: Duration,
    /// The lexical leg.
    pub lexical: Duration,
    /// The dense leg.
    pub dense: Duration,
    /// Merging both rankings.
    pub fuse: Duration,
    /// Reading the hits' texts.
    pub fetch: Duration,
}
