//! What a search asks and what it gets.

use std::time::Duration;

use crate::IndexError;
use crate::relevance::Features;

/// A search over one collection.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchRequest {
    /// What the lexical leg looks for; without a term in it, that leg finds nothing.
    pub text: String,
    /// The embedding of the query, as long as the collection's dimension.
    pub embedding: Option<Vec<f32>>,
    /// Which legs search.
    pub mode: Mode,
    /// How hybrid search merges them.
    pub fusion: Fusion,
    /// Documents that each leg hands to the fusion; usually 100. At least `limit` are taken.
    pub depth: usize,
    /// Hits to return at most.
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
    /// Convex with equal weights, which measured best over the development sets.
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
    /// Best first, one per document.
    pub hits: Vec<Hit>,
    /// The lexical leg's ranking; empty in dense mode.
    pub lexical: Ranking,
    /// The dense leg's ranking; empty in lexical mode.
    pub dense: Ranking,
    /// Where the time went.
    pub timings: Timings,
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
    /// The fused score in hybrid mode, else the leg's; comparable within this reply only.
    pub score: f32,
    /// The probability, from 0 to 1, that the document answers the query; comparable across queries.
    pub relevance: f32,
    /// What that was computed from: to be kept with feedback.
    pub features: Features,
    /// Where the lexical leg has the document.
    pub lexical: Option<LegRank>,
    /// Where the dense leg has the document.
    pub dense: Option<LegRank>,
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
    /// The lexical leg.
    pub lexical: Duration,
    /// The dense leg.
    pub dense: Duration,
    /// Merging both rankings.
    pub fuse: Duration,
    /// Reading the hits' texts.
    pub fetch: Duration,
}
