//! Scores of both retrievers for every candidate, smoothed over similar candidates.

use std::ops::Range;

use hashbrown::HashSet;
use weir_ranking::smoothing::{self, SMOOTHED_MAX};
use weir_ranking::{BestChunk, RetrievalMode, ScoredChunk};

use super::Search;
use super::candidates::Candidate;
use super::rankings::RetrieverRankings;
use crate::embedded::dense;
use crate::{FusionFunction, Grouping, Result};

/// Chunks before and after the best one that are compared with the query, of a document that only the lexical retriever found.
const CHUNKS_AROUND: u32 = 128;

impl Search<'_> {
    /// The documents to smooth that the dense ranking lacks, with their best chunks for the dense retriever.
    pub(super) fn dense_of_others(
        &self,
        rankings: &RetrieverRankings,
        fused: &[Candidate],
    ) -> Result<Vec<BestChunk>> {
        let (Some(embedding), Some(vectors)) = (&self.request.embedding, &self.snapshot.files.vectors) else {
            return Ok(Vec::new());
        };
        let first: HashSet<u32> = fused[..self.smoothed_len(fused)].iter().map(|one| one.unit).collect();
        let ranked: HashSet<u32> = rankings.dense.iter().map(|best| best.document).collect();
        let others = rankings
            .lexical
            .iter()
            .filter(|best| first.contains(&best.document) && !ranked.contains(&best.document));
        let visible = self.visible();
        let chunks = others
            .flat_map(|best| self.chunks_around(best))
            .filter(|&chunk_id| visible.contains(chunk_id))
            .map(|chunk_id| ScoredChunk { chunk_id, score: 0.0 })
            .collect();
        let best = dense::best_of_documents(vectors, embedding, chunks, |chunk_id| self.unit_of(chunk_id));
        best.ok_or_else(|| self.engine.missing_row())
    }

    /// The chunks of a ranked unit; of a long document those around its best chunk.
    fn chunks_around(&self, best: &BestChunk) -> Range<u32> {
        let chunk_id = best.chunk_id;
        if self.request.group_by == Grouping::Chunk {
            return chunk_id..chunk_id + 1;
        }
        let first = best.document.max(chunk_id.saturating_sub(CHUNKS_AROUND));
        let is_of_document = |chunk_id: &u32| self.snapshot.document_of(*chunk_id) == Some(best.document);
        let after = (chunk_id + 1..=chunk_id.saturating_add(CHUNKS_AROUND)).take_while(is_of_document);
        first..after.last().unwrap_or(chunk_id) + 1
    }

    /// Whether scores are smoothed: where one ranking alone decides, or both by their scores.
    pub(super) fn is_smoothed(&self) -> bool {
        let can_be = match (self.request.mode, self.request.fusion) {
            (RetrievalMode::Lexical, _) | (RetrievalMode::Hybrid, FusionFunction::Convex { .. }) => true,
            (RetrievalMode::Hybrid, FusionFunction::ReciprocalRank { .. }) | (RetrievalMode::Dense, _) => {
                false
            }
        };
        can_be && self.request.smoothing && self.snapshot.files.vectors.is_some()
    }

    /// The number of candidates to smooth.
    fn smoothed_len(&self, candidates: &[Candidate]) -> usize {
        candidates.len().min(self.request.depth).min(SMOOTHED_MAX)
    }

    /// Smooths the scores of the first candidates and orders them anew. The others follow in their order.
    pub(super) fn smooth(&self, candidates: &mut [Candidate]) -> Result<()> {
        let Some(vectors) = &self.snapshot.files.vectors else { return Ok(()) };
        let (first, rest) = candidates.split_at_mut(self.smoothed_len(candidates));
        let chunk_ids = first.iter().map(|candidate| candidate.chunk_id);
        let rows = dense::int8_rows(vectors, self.engine.settings().dimension, chunk_ids);
        let rows = rows.ok_or_else(|| self.engine.missing_row())?;
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
