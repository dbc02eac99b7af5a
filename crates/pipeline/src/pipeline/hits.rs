//! From candidates to hits: texts, neighbouring chunks, score breakdowns.

use weir_lexical::ScoreParts;
use weir_ranking::BestChunk;
use weir_ranking::relevance::{Exactness, HitFeatures};

use super::candidates::Candidate;
use super::postprocess::Deduplicated;
use super::{ChunkPlace, FoundChunk, Outcome, Retriever, Search};
use crate::{Hit, Neighbour, Result, RetrieverRank, ScoreBreakdown};

impl<R: Retriever> Search<'_, R> {
    /// The hits of the page.
    pub(super) async fn hits(&self, outcome: &Outcome) -> Result<Vec<Hit>> {
        let retriever = self.retriever;
        let len = outcome.page.len();
        let (mut shown, mut chunk_ids) = (Vec::with_capacity(len), Vec::with_capacity(len));
        for (position, kept) in (self.request.offset..).zip(&outcome.page) {
            // others were removed since the first page
            if retriever.is_current(kept.candidate.chunk_id) {
                shown.push((position, kept));
                chunk_ids.push(kept.candidate.chunk_id);
            }
        }
        let mut contexts = match self.request.context {
            0 => Vec::new(),
            count => retriever.neighbours(&chunk_ids, count).await?,
        }
        .into_iter();
        let mut parts = match self.request.explain && retriever.words().is_some() {
            true => retriever.explain(&chunk_ids).await?,
            false => Vec::new(),
        }
        .into_iter();
        let mut collapsed = self.collapsed(&outcome.page).await?.into_iter();
        let mut hits = Vec::with_capacity(shown.len());
        for ((position, kept), chunk) in shown.into_iter().zip(retriever.chunks(&chunk_ids).await?) {
            let mut hit = self.hit(kept, chunk, position, outcome);
            hit.context = contexts.next().unwrap_or_default();
            hit.collapsed = collapsed.by_ref().take(kept.collapsed.len()).collect();
            if self.request.explain {
                hit.explanation = Some(explanation(kept, parts.next().unwrap_or_default()));
            }
            hits.push(hit);
        }
        Ok(hits)
    }

    fn hit(&self, kept: &Deduplicated, chunk: FoundChunk, position: usize, outcome: &Outcome) -> Hit {
        let candidate = &kept.candidate;
        let features = self.features_of(candidate).filter(|_| self.ranks_by_relevance());
        let learned = &self.retriever.relevance_model().learned;
        let FoundChunk { place, title, metadata, pages, version, start, end, text } = chunk;
        let ChunkPlace { document_id, chunk } = place;
        Hit {
            document_id,
            title,
            metadata,
            pages,
            version,
            chunk,
            start,
            end,
            text,
            position,
            score: candidate.score,
            relevance: features.map(|features| learned.relevance(&features)),
            features,
            lexical: rank_in(&outcome.candidates.lexical, candidate.unit),
            dense: rank_in(&outcome.candidates.dense, candidate.unit),
            context: Vec::<Neighbour>::new(),
            collapsed: Vec::new(),
            explanation: None,
        }
    }

    /// The ids of the documents that the shown hits of a page represent, one after the other.
    async fn collapsed(&self, page: &[Deduplicated]) -> Result<Vec<String>> {
        let shown = page.iter().filter(|kept| self.retriever.is_current(kept.candidate.chunk_id));
        let chunk_ids: Vec<u32> = shown.flat_map(|kept| &kept.collapsed).copied().collect();
        if chunk_ids.is_empty() {
            return Ok(Vec::new());
        }
        let places = self.retriever.places(&chunk_ids).await?;
        Ok(places.into_iter().map(|place| place.document_id).collect())
    }

    /// The features of a candidate; `None` before there are candidates.
    pub(super) fn features_of(&self, candidate: &Candidate) -> Option<HitFeatures> {
        let query_features = self.query_features.as_ref()?;
        Some(match candidate.exactness {
            Exactness::Similar => query_features.features(candidate.comparable, self.best),
            exactness @ (Exactness::Rare | Exactness::Name) => query_features.features_of_exact(exactness),
        })
    }
}

fn explanation(kept: &Deduplicated, parts: ScoreParts) -> ScoreBreakdown {
    let Candidate { lexical, dense, neighbours, name, .. } = kept.candidate;
    let ScoreParts { terms, phrases } = parts;
    ScoreBreakdown { terms, phrases, lexical, dense, neighbours, name }
}

/// The rank of a document in a ranking.
pub(super) fn rank_in(retriever: &[BestChunk], document: u32) -> Option<RetrieverRank> {
    let position = retriever.iter().position(|best| best.document == document)?;
    Some(RetrieverRank { rank: position as u32 + 1, score: retriever[position].score })
}
