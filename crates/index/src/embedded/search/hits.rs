//! From candidates to hits: texts, neighbouring chunks, score breakdowns.

use weir_filter::{Value, flatten};
use weir_lexical::ScoreParts;
use weir_ranking::BestChunk;
use weir_ranking::relevance::{Exactness, HitFeatures};

use super::candidates::Candidate;
use super::postprocess::Deduplicated;
use super::{Outcome, Search};
use crate::embedded::snapshot::{Chunk, Snapshot};
use crate::{Hit, Neighbour, Result, RetrieverRank, ScoreBreakdown};

impl Search<'_> {
    /// The hits of the page; `None` if the files contradict each other.
    pub(super) fn hits(&self, outcome: &Outcome) -> Result<Option<Vec<Hit>>> {
        let mut hits = Vec::with_capacity(outcome.page.len());
        for (index, kept) in outcome.page.iter().enumerate() {
            if !self.current.tombstones.is_live(kept.candidate.chunk_id) {
                continue; // removed since the first page
            }
            let position = self.request.offset + index;
            let Some(mut hit) = self.hit(kept, position, outcome) else { return Ok(None) };
            if self.request.explain {
                hit.explanation = Some(self.explanation(kept)?);
            }
            hits.push(hit);
        }
        Ok(Some(hits))
    }

    fn hit(&self, kept: &Deduplicated, position: usize, outcome: &Outcome) -> Option<Hit> {
        let candidate = &kept.candidate;
        let chunk = self.snapshot.chunk(candidate.chunk_id)?;
        let collapsed = kept
            .collapsed
            .iter()
            .map(|&chunk_id| Some(self.snapshot.chunk(chunk_id)?.document.id.to_owned()));
        let lexical = rank_in(&outcome.candidates.lexical, candidate.unit);
        let dense = rank_in(&outcome.candidates.dense, candidate.unit);
        let features = self.features_of(candidate).filter(|_| self.ranks_by_relevance());
        Some(Hit {
            document_id: chunk.document.id.to_owned(),
            title: chunk.document.title.map(str::to_owned),
            metadata: chunk.document.metadata.to_owned(),
            pages: chunk.document.pages.map(str::to_owned),
            version: chunk.document.version,
            chunk: chunk.record.chunk,
            start: usize::try_from(chunk.record.start).ok()?,
            end: usize::try_from(chunk.record.end).ok()?,
            text: self.snapshot.text(&chunk.record)?,
            position,
            score: candidate.score,
            relevance: features.map(|features| self.relevance_model.learned.relevance(&features)),
            features,
            lexical,
            dense,
            context: self.neighbours(&chunk, candidate.chunk_id)?,
            collapsed: collapsed.collect::<Option<_>>()?,
            explanation: None,
        })
    }

    /// The features of a candidate; `None` before there are candidates.
    pub(super) fn features_of(&self, candidate: &Candidate) -> Option<HitFeatures> {
        let query_features = self.query_features.as_ref()?;
        Some(match candidate.exactness {
            Exactness::Similar => query_features.features(candidate.comparable, self.best),
            exactness @ (Exactness::Rare | Exactness::Name) => query_features.features_of_exact(exactness),
        })
    }

    /// The neighbouring chunks of the same document.
    fn neighbours(&self, chunk: &Chunk<'_>, chunk_id: u32) -> Option<Vec<Neighbour>> {
        let count = self.request.context;
        let first = chunk.document.first_chunk;
        let last = first + chunk.document.chunks - 1;
        let around = chunk_id.saturating_sub(count).max(first)..=chunk_id.saturating_add(count).min(last);
        let others = around.filter(|&other| other != chunk_id).map(|other| {
            let chunk = self.snapshot.chunk(other)?;
            Some(Neighbour {
                chunk: chunk.record.chunk,
                start: usize::try_from(chunk.record.start).ok()?,
                end: usize::try_from(chunk.record.end).ok()?,
                text: self.snapshot.text(&chunk.record)?,
            })
        });
        others.collect()
    }

    fn explanation(&self, kept: &Deduplicated) -> Result<ScoreBreakdown> {
        let parts = match &self.query {
            Some(query) => self.snapshot.lexical.explain(query, kept.candidate.chunk_id)?,
            None => ScoreParts::default(),
        };
        let Candidate { lexical, dense, neighbours, name, .. } = kept.candidate;
        let ScoreParts { terms, phrases } = parts;
        Ok(ScoreBreakdown { terms, phrases, lexical, dense, neighbours, name })
    }
}

impl Snapshot {
    /// The smallest value of a field in the document of a chunk. The outer `None` means that the files contradict each other.
    pub(super) fn value_of(&self, chunk_id: u32, field: &str) -> Option<Option<Value>> {
        let chunk = self.chunk(chunk_id)?;
        let Ok(metadata) = serde_json::from_str(chunk.document.metadata) else { return Some(None) };
        let mut values = Vec::new();
        flatten(&metadata, |path, value| {
            if path == field {
                values.push(value);
            }
        });
        Some(crate::embedded::fields::smallest(values))
    }
}

/// The rank of a document in a ranking.
pub(super) fn rank_in(retriever: &[BestChunk], document: u32) -> Option<RetrieverRank> {
    let position = retriever.iter().position(|best| best.document == document)?;
    Some(RetrieverRank { rank: position as u32 + 1, score: retriever[position].score })
}
