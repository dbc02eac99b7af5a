//! From the rankings of both retrievers to one list of candidates.

use std::time::Instant;

use hashbrown::{HashMap, HashSet};
use weir_ranking::fusion::{self, FusedDocument, ScoredDocument, WeightedRanking};
use weir_ranking::relevance::{Bm25Bounds, Exactness};
use weir_ranking::{BestChunk, RetrievalMode};

use super::{Rankings, Retriever, Search};
use crate::{FusionFunction, Result};

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
    /// Contribution of similar documents to the score.
    pub(super) neighbours: f32,
    /// Contribution of the title or the id, which the query is or begins, to the score.
    pub(super) name: f32,
    /// Whether the query names it.
    pub(super) exactness: Exactness,
    /// The score by which relevance compares candidates: without names, and as convex fusion scores if ranks are fused.
    pub(super) comparable: f32,
}

impl Candidate {
    /// A candidate that nothing scores yet.
    pub(super) fn unscored(unit: u32, chunk_id: u32) -> Candidate {
        Candidate {
            unit,
            chunk_id,
            score: 0.0,
            lexical: 0.0,
            dense: 0.0,
            neighbours: 0.0,
            name: 0.0,
            exactness: Exactness::Similar,
            comparable: 0.0,
        }
    }
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

impl<R: Retriever> Search<'_, R> {
    /// Collects candidates from windows of `depth`, then ten times `depth`, and so on, until there are `wanted` or no more.
    ///
    /// Candidates of a deeper window follow those of the earlier ones, so that the order of the first hits does not depend on the
    /// number of hits requested.
    pub(super) async fn candidates(&mut self, wanted: usize) -> Result<Candidates> {
        let mut candidates = Candidates::default();
        let mut depth = self.request.depth.max(1);
        if self.request.mode == RetrievalMode::Lexical {
            // the order of a single ranking does not depend on its depth
            depth = depth.max(wanted);
        }
        loop {
            let rankings = self.rankings(depth).await?;
            if self.query_features.is_none() {
                self.study(&rankings).await?;
            }
            let is_last = rankings.lexical.len() < depth && rankings.dense.len() < depth;
            let started = Instant::now();
            let is_first = candidates.list.is_empty();
            candidates.extend(self.fused(&rankings).await?);
            (candidates.lexical, candidates.dense) = (rankings.lexical, rankings.dense);
            self.timings.fuse += started.elapsed();
            if is_first && self.is_smoothed() {
                let started = Instant::now();
                self.smooth(&mut candidates.list).await?;
                self.timings.smooth += started.elapsed();
            }
            if is_first {
                let comparable = candidates.list.iter().map(|candidate| candidate.comparable);
                self.best = comparable.fold(0.0, f32::max);
                self.raise_named(&mut candidates.list);
                self.mark_exact(&mut candidates.list);
            }
            if candidates.list.len() >= wanted || is_last {
                candidates.is_all = is_last;
                return Ok(candidates);
            }
            depth = depth.saturating_mul(WINDOW_FACTOR);
        }
    }

    /// The rankings of both retrievers.
    pub(super) async fn rankings(&mut self, depth: usize) -> Result<Rankings> {
        let rankings = self.retriever.rankings(depth).await?;
        self.timings.lexical += rankings.lexical_took;
        self.timings.dense += rankings.dense_took;
        Ok(rankings)
    }

    /// Finds out what the first window says about the query: its features, what a rare word points out, and the weights of the fusion.
    async fn study(&mut self, rankings: &Rankings) -> Result<()> {
        let Rankings { lexical, dense, .. } = rankings;
        let bm25 = match self.retriever.words() {
            Some(_) if !lexical.is_empty() => self.retriever.bm25_bounds().await?,
            Some(_) | None => Bm25Bounds::default(),
        };
        let scope = self.retriever.scope();
        let chunks = scope.selected.unwrap_or(scope.live_chunks);
        let model = self.retriever.relevance_model();
        self.query_features = Some(model.query_features(self.request, bm25, chunks, lexical, dense));
        self.exact_units = self.units_with_rare_word().await?;
        self.fusion = self.fusion_for(bm25, lexical.first().map_or(0.0, |best| best.score));
        Ok(())
    }

    /// The fusion of this search: weights that follow the query depend on what the best lexical hit says. A corrected word has its whole
    /// weight, since no embedding knows what was meant. So have a rare word, and a single one, which is all that the query says.
    fn fusion_for(&self, bm25: Bm25Bounds, best_bm25: f32) -> FusionFunction {
        let has_whole_weight = self
            .retriever
            .words()
            .is_some_and(|words| !words.corrections.is_empty() || words.terms.len() == 1);
        let fusion = self.request.fusion;
        if has_whole_weight || !self.exact_units.is_empty() {
            return fusion;
        }
        let FusionFunction::Convex { lexical, dense, follows_query: true } = fusion else { return fusion };
        let (lexical, dense) = fusion::weights_by_evidence(lexical, dense, bm25.words(best_bm25));
        FusionFunction::Convex { lexical, dense, follows_query: true }
    }

    /// The documents of both rankings, best first.
    async fn fused(&self, rankings: &Rankings) -> Result<Vec<Candidate>> {
        let Rankings { lexical, dense, .. } = rankings;
        Ok(match self.request.mode {
            RetrievalMode::Lexical => {
                as_candidates(lexical, |one| Candidate { lexical: one.score, ..one }).collect()
            }
            RetrievalMode::Dense => {
                as_candidates(dense, |one| Candidate { dense: one.score, ..one }).collect()
            }
            RetrievalMode::Hybrid if self.is_smoothed() => {
                let fused = fuse(lexical, dense, self.fusion);
                match self.dense_of_others(rankings, &fused).await? {
                    others if others.is_empty() => fused,
                    others => fuse(lexical, &[dense.as_slice(), &others].concat(), self.fusion),
                }
            }
            RetrievalMode::Hybrid => match self.fusion {
                FusionFunction::Convex { .. } => fuse(lexical, dense, self.fusion),
                FusionFunction::ReciprocalRank { .. } => fuse_ranks(lexical, dense, self.fusion),
            },
        })
    }
}

impl Candidates {
    /// Adds the candidates of a deeper window behind those of the earlier ones.
    fn extend(&mut self, found: Vec<Candidate>) {
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

/// Fuses both rankings. The dense one is last, so that it wins if both contribute equally.
fn fuse(lexical: &[BestChunk], dense: &[BestChunk], fusion: FusionFunction) -> Vec<Candidate> {
    let limit = lexical.len() + dense.len();
    let (lexical_scored, mut dense_scored) = (scored(lexical), scored(dense));
    // only the zero of BM25 is meaningful; that of cosines depends on the model
    fusion::spread(&mut dense_scored);
    let weighted = |lexical_weight, dense_weight| {
        [
            WeightedRanking { ranking: &lexical_scored, weight: lexical_weight },
            WeightedRanking { ranking: &dense_scored, weight: dense_weight },
        ]
    };
    let fused = match fusion {
        FusionFunction::ReciprocalRank { k, lexical, dense } => {
            fusion::reciprocal_rank(&weighted(lexical, dense), k, limit)
        }
        FusionFunction::Convex { lexical, dense, .. } => fusion::convex(&weighted(lexical, dense), limit),
    };
    fused.into_iter().map(|fused| fused_candidate(lexical, dense, fused)).collect()
}

/// Fuses by ranks; the scores of convex fusion are the comparable ones.
fn fuse_ranks(lexical: &[BestChunk], dense: &[BestChunk], fusion: FusionFunction) -> Vec<Candidate> {
    let convex = fuse(lexical, dense, FusionFunction::default());
    let convex: HashMap<u32, f32> =
        convex.into_iter().map(|candidate| (candidate.unit, candidate.score)).collect();
    let mut fused = fuse(lexical, dense, fusion);
    for candidate in &mut fused {
        candidate.comparable = convex.get(&candidate.unit).copied().unwrap_or_default();
    }
    fused
}

/// The chunk to show is that of the retriever with the larger contribution.
fn fused_candidate(lexical: &[BestChunk], dense: &[BestChunk], fused: FusedDocument) -> Candidate {
    let FusedDocument { document, score, strongest, largest, rank_index } = fused;
    let rest = score - largest;
    let (ranking, lexical, dense) =
        if strongest == 0 { (lexical, largest, rest) } else { (dense, rest, largest) };
    let chunk_id = ranking[rank_index].chunk_id;
    Candidate { score, lexical, dense, comparable: score, ..Candidate::unscored(document, chunk_id) }
}

/// `assign` sets the retriever's contribution, which is the whole score.
fn as_candidates(
    retriever: &[BestChunk],
    assign: impl Fn(Candidate) -> Candidate,
) -> impl Iterator<Item = Candidate> {
    retriever.iter().map(move |&BestChunk { document, chunk_id, score }| {
        assign(Candidate { score, comparable: score, ..Candidate::unscored(document, chunk_id) })
    })
}

pub(super) fn scored(retriever: &[BestChunk]) -> Vec<ScoredDocument> {
    retriever.iter().map(|best| ScoredDocument { document: best.document, score: best.score }).collect()
}
