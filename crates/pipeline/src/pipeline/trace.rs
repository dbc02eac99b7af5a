//! Why a document is not among the hits.

use weir_ranking::{BestChunk, RetrievalMode};

use super::candidates::Candidate;
use super::hits::rank_in;
use super::{Outcome, Retriever, Search};
use crate::{DocumentTrace, Result, TraceStage};

/// Depth to which both rankings are searched for the document.
const TRACE_DEPTH: usize = 10_000;

impl<R: Retriever> Search<'_, R> {
    /// Follows a document through the stages of the search.
    pub(super) async fn trace(&mut self, outcome: &Outcome) -> Result<DocumentTrace> {
        let nowhere = |stage| DocumentTrace { stage, lexical: None, dense: None, rank: None };
        let retriever = self.retriever;
        let Some(traced) = retriever.traced() else { return Ok(nowhere(TraceStage::Missing)) };
        if !traced.is_selected {
            return Ok(nowhere(TraceStage::Filter));
        }
        let has_chunk = |chunk_id| retriever.document_of(chunk_id) == Some(traced.document);
        let is_it = |candidate: &Candidate| has_chunk(candidate.chunk_id);
        let rank = outcome.candidates.list.iter().position(is_it);
        let is_found = outcome.page.iter().any(|kept| is_it(&kept.candidate));
        let rankings = self.rankings(TRACE_DEPTH).await?;
        let rank_of = |retriever: &[BestChunk]| {
            let best = retriever.iter().find(|best| has_chunk(best.chunk_id))?;
            rank_in(retriever, best.document)
        };
        let end = self.request.offset.saturating_add(self.request.limit);
        // listings are cut to the page before they become candidates
        let is_listed = self.request.is_listing()
            || self.request.mode == RetrievalMode::Lexical
                && !self.request.sort.is_empty()
                && rank_of(&rankings.lexical).is_some();
        let stage = match rank {
            _ if is_found => TraceStage::Found,
            None if is_listed => TraceStage::Limit,
            None => TraceStage::Candidates,
            Some(rank) if rank < end && self.request.is_postprocessed() => TraceStage::Group,
            Some(_) => TraceStage::Limit,
        };
        Ok(DocumentTrace {
            stage,
            lexical: rank_of(&rankings.lexical),
            dense: rank_of(&rankings.dense),
            rank: rank.map(|rank| rank as u32 + 1),
        })
    }
}
