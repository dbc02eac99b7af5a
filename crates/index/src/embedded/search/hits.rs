//! From candidates to hits: texts, neighbours, explanations.

use super::candidates::Candidate;
use super::thin::Kept;
use super::{Outcome, Search};
use crate::embedded::ranking::BestChunk;
use crate::embedded::snapshot::{Chunk, Snapshot};
use crate::{Explanation, Hit, IndexError, LegRank, Neighbour};
use weir_filter::{Value, flatten};

impl Search<'_> {
    /// The hits of the page; `None` when the files contradict each other.
    pub(super) fn hits(&self, outcome: &Outcome) -> Result<Option<Vec<Hit>>, IndexError> {
        let mut hits = Vec::with_capacity(outcome.page.len());
        for (at, kept) in outcome.page.iter().enumerate() {
            if !self.current.tombstones.is_live(kept.candidate.slot) {
                continue; // removed since the first page
            }
            let place = self.request.offset + at;
            let Some(mut hit) = self.hit(kept, place, outcome) else { return Ok(None) };
            if self.request.explain {
                hit.explanation = Some(self.explanation(kept)?);
            }
            hits.push(hit);
        }
        Ok(Some(hits))
    }

    fn hit(&self, kept: &Kept, place: usize, outcome: &Outcome) -> Option<Hit> {
        let candidate = &kept.candidate;
        let chunk = self.snapshot.chunk(candidate.slot)?;
        let collapsed =
            kept.collapsed.iter().map(|&slot| Some(self.snapshot.chunk(slot)?.document.id.to_owned()));
        let lexical = rank_in(&outcome.candidates.lexical, candidate.unit);
        let dense = rank_in(&outcome.candidates.dense, candidate.unit);
        let evidence = self.evidence.filter(|_| self.is_judged());
        let features = evidence
            .map(|evidence| evidence.features(lexical.map(|leg| leg.score), dense.map(|leg| leg.score)));
        Some(Hit {
            document_id: chunk.document.id.to_owned(),
            title: chunk.document.title.map(str::to_owned),
            metadata: chunk.document.metadata.to_owned(),
            version: chunk.document.version,
            chunk: chunk.record.chunk,
            start: usize::try_from(chunk.record.start).ok()?,
            end: usize::try_from(chunk.record.end).ok()?,
            text: self.snapshot.text(&chunk.record)?,
            place,
            score: candidate.score,
            relevance: features.map(|features| self.judge.calibration.relevance(&features)),
            features,
            lexical,
            dense,
            context: self.neighbours(&chunk, candidate.slot)?,
            collapsed: collapsed.collect::<Option<_>>()?,
            explanation: None,
        })
    }

    /// The chunks of the same document before and after.
    fn neighbours(&self, chunk: &Chunk<'_>, slot: u32) -> Option<Vec<Neighbour>> {
        let count = self.request.context;
        let first = chunk.document.first_slot;
        let last = first + chunk.document.chunks - 1;
        let around = slot.saturating_sub(count).max(first)..=slot.saturating_add(count).min(last);
        let others = around.filter(|&other| other != slot).map(|other| {
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

    fn explanation(&self, kept: &Kept) -> Result<Explanation, IndexError> {
        let terms = match &self.query {
            Some(query) => self.snapshot.lexical.explain(query, kept.candidate.slot)?,
            None => Vec::new(),
        };
        let Candidate { lexical, dense, .. } = kept.candidate;
        Ok(Explanation { terms, lexical, dense })
    }
}

impl Snapshot {
    /// The smallest value of a field of the document that a slot belongs to. The outer `None` when the files contradict each
    /// other.
    pub(super) fn value_of(&self, slot: u32, field: &str) -> Option<Option<Value>> {
        let chunk = self.chunk(slot)?;
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

/// Where a leg has the document.
pub(super) fn rank_in(leg: &[BestChunk], document: u32) -> Option<LegRank> {
    let place = leg.iter().position(|best| best.document == document)?;
    Some(LegRank { rank: place as u32 + 1, score: leg[place].score })
}
