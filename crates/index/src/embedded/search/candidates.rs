//! From the rankings of both retrievers to one list of candidates.

use hashbrown::HashSet;

use super::rankings::RetrieverRankings;
use super::{Search, timed};
use crate::embedded::ranking::BestChunk;
use crate::fusion::{self, FusedDocument, ScoredDocument, WeightedRanking};
use crate::{FusionFunction, Result, RetrievalMode};

/// Each window of candidates is this many times deeper than the previous one.
const WINDOW_FACTOR: usize = 10;

/// A document, or chunk, that may become a hit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    /// The document (its first chunk id) or the chunk id, depending on the grouping.
    pub(super) unit: u32,
    /// The chunk to show.
    pub(super) chunk_id: u32,
    pub(super) score: f32,
    /// Contribution of the lexical retriever to the score.
    pub(super) lexical: f32,
    /// Contribution of the dense retriever to the score.
    pub(super) dense: f32,
}

/// The candidates of a search, best first, and the rankings they come from.
#[derive(Default)]
pub(super) struct Candidates {
    pub(super) list: Vec<Candidate>,
    pub(super) lexical: Vec<BestChunk>,
    pub(super) dense: Vec<BestChunk>,
    /// Whether no other document matches.
    pub(super) is_all: bool,
}

impl Search<'_> {
    /// Collects candidates from windows of `depth`, then ten times `depth`, and so on, until there are `wanted` or no more.
    ///
    /// Candidates of a deeper window follow those of the earlier ones, so that the order of the first hits does not depend on the
    /// number of hits requested.
    pub(super) fn candidates(&mut self, wanted: usize) -> Result<Candidates> {
        let mut candidates = Candidates::default();
        let mut depth = self.request.depth.max(1);
        if self.request.mode == RetrievalMode::Lexical {
            // the order of a single ranking does not depend on its depth
            depth = depth.max(wanted);
        }
        loop {
            let rankings = self.rankings(depth)?;
            if self.query_features.is_none() {
                let (lexical, dense) = (&rankings.lexical, &rankings.dense);
                let query = self.query.as_ref();
                self.query_features = Some(self.relevance_model.query_features(
                    self.snapshot,
                    self.request,
                    query,
                    lexical,
                    dense,
                )?);
            }
            let is_last = rankings.lexical.len() < depth && rankings.dense.len() < depth;
            let (request, fuse) = (self.request, &mut self.timings.fuse);
            timed(fuse, || candidates.extend(rankings, request.mode, request.fusion));
            if candidates.list.len() >= wanted || is_last {
                candidates.is_all = is_last;
                return Ok(candidates);
            }
            depth = depth.saturating_mul(WINDOW_FACTOR);
        }
    }
}

impl Candidates {
    fn extend(&mut self, rankings: RetrieverRankings, mode: RetrievalMode, fusion: FusionFunction) {
        let found = match mode {
            RetrievalMode::Lexical => {
                as_candidates(&rankings.lexical, |one| Candidate { lexical: one.score, ..one }).collect()
            }
            RetrievalMode::Dense => {
                as_candidates(&rankings.dense, |one| Candidate { dense: one.score, ..one }).collect()
            }
            RetrievalMode::Hybrid => {
                let fused = fuse(&rankings, fusion, rankings.lexical.len() + rankings.dense.len());
                fused.into_iter().map(|fused| rankings.candidate(fused)).collect()
            }
        };
        (self.lexical, self.dense) = (rankings.lexical, rankings.dense);
        if self.list.is_empty() {
            self.list = found;
            return;
        }
        let known: HashSet<u32> = self.list.iter().map(|candidate| candidate.unit).collect();
        let worst = self.list.last().map_or(f32::MAX, |last| last.score);
        let behind = found.into_iter().filter(|candidate| !known.contains(&candidate.unit));
        self.list
            .extend(behind.map(|candidate| Candidate { score: candidate.score.min(worst), ..candidate }));
    }
}

impl RetrieverRankings {
    /// The chunk to show is that of the retriever with the larger contribution.
    fn candidate(&self, fused: FusedDocument) -> Candidate {
        let FusedDocument { document, score, strongest, largest, rank_index } = fused;
        let rest = score - largest;
        let (retriever, lexical, dense) =
            if strongest == 0 { (&self.lexical, largest, rest) } else { (&self.dense, rest, largest) };
        Candidate { unit: document, chunk_id: retriever[rank_index].chunk_id, score, lexical, dense }
    }
}

/// The dense ranking is last, so that it wins if both contribute equally.
fn fuse(rankings: &RetrieverRankings, fusion: FusionFunction, limit: usize) -> Vec<FusedDocument> {
    let (lexical, mut dense) = (scored(&rankings.lexical), scored(&rankings.dense));
    // only the zero of BM25 is meaningful; that of cosines depends on the model
    fusion::spread(&mut dense);
    let weighted = |lexical_weight, dense_weight| {
        [
            WeightedRanking { ranking: &lexical, weight: lexical_weight },
            WeightedRanking { ranking: &dense, weight: dense_weight },
        ]
    };
    match fusion {
        FusionFunction::ReciprocalRank { k, lexical, dense } => {
            fusion::reciprocal_rank(&weighted(lexical, dense), k, limit)
        }
        FusionFunction::Convex { lexical, dense } => fusion::convex(&weighted(lexical, dense), limit),
    }
}

/// `assign` sets the retriever's contribution, which is the whole score.
fn as_candidates(
    retriever: &[BestChunk],
    assign: impl Fn(Candidate) -> Candidate,
) -> impl Iterator<Item = Candidate> {
    retriever.iter().map(move |&BestChunk { document, chunk_id, score }| {
        assign(Candidate { unit: document, chunk_id, score, lexical: 0.0, dense: 0.0 })
    })
}

pub(in crate::embedded) fn scored(retriever: &[BestChunk]) -> Vec<ScoredDocument> {
    retriever.iter().map(|best| ScoredDocument { document: best.document, score: best.score }).collect()
}
