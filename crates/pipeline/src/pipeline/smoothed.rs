//! Scores of both retrievers for every candidate, smoothed over similar candidates.

use hashbrown::HashSet;
use weir_ranking::smoothing::{self, SMOOTHED_MAX};
use weir_ranking::{BestChunk, RetrievalMode};

use super::candidates::Candidate;
use super::{Rankings, Retriever, Search};
use crate::{FusionFunction, Result};

impl<R: Retriever> Search<'_, R> {
    /// The documents to smooth that the dense ranking lacks, with their best chunks for the dense retriever.
    pub(super) async fn dense_of_others(
        &self,
        rankings: &Rankings,
        fused: &[Candidate],
    ) -> Result<Vec<BestChunk>> {
        let first: HashSet<u32> = fused[..self.smoothed_len(fused)].iter().map(|one| one.unit).collect();
        let ranked: HashSet<u32> = rankings.dense.iter().map(|best| best.document).collect();
        let is_other = |best: &&BestChunk| first.contains(&best.document) && !ranked.contains(&best.document);
        let others: Vec<BestChunk> = rankings.lexical.iter().filter(is_other).copied().collect();
        match others.is_empty() {
            true => Ok(Vec::new()),
            false => self.retriever.dense_of(&others).await,
        }
    }

    /// Whether scores are smoothed: where one ranking alone decides, or both by their scores.
    pub(super) fn is_smoothed(&self) -> bool {
        let can_be = match (self.request.mode, self.request.fusion) {
            (RetrievalMode::Lexical, _) | (RetrievalMode::Hybrid, FusionFunction::Convex { .. }) => true,
            (RetrievalMode::Hybrid, FusionFunction::ReciprocalRank { .. }) | (RetrievalMode::Dense, _) => {
                false
            }
        };
        can_be && self.request.smoothing && self.retriever.scope().has_embeddings
    }

    /// The number of candidates to smooth.
    fn smoothed_len(&self, candidates: &[Candidate]) -> usize {
        candidates.len().min(self.request.depth).min(SMOOTHED_MAX)
    }

    /// Smooths the scores of the first candidates and orders them anew. The others follow in their order.
    pub(super) async fn smooth(&self, candidates: &mut [Candidate]) -> Result<()> {
        let (first, rest) = candidates.split_at_mut(self.smoothed_len(candidates));
        let chunk_ids: Vec<u32> = first.iter().map(|candidate| candidate.chunk_id).collect();
        let rows = self.retriever.int8_rows(&chunk_ids).await?;
        let mut scores: Vec<f32> = first.iter().map(|candidate| candidate.score).collect();
        smoothing::smooth(&mut scores, &rows);
        for (candidate, score) in first.iter_mut().zip(scores) {
            candidate.smoothed(score);
        }
        first.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.unit.cmp(&b.unit)));
        let worst = first.last().map_or(f32::MAX, |last| last.score);
        for candidate in rest {
            let score = candidate.score.min(worst);
            candidate.neighbours += score - candidate.score;
            (candidate.score, candidate.comparable) = (score, score);
        }
        Ok(())
    }
}

impl Candidate {
    /// Replaces the score by a smoothed one, of which a fixed share is the candidate's own.
    fn smoothed(&mut self, score: f32) {
        if score != self.score {
            self.lexical *= 1.0 - smoothing::SHARE;
            self.dense *= 1.0 - smoothing::SHARE;
        }
        self.neighbours = score - self.lexical - self.dense;
        (self.score, self.comparable) = (score, score);
    }
}
