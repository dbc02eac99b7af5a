//! Grouping by a field, deduplication of near-duplicate texts, and diversity (MMR).

use std::collections::HashSet;

use weir_text::Signature;

use super::Search;
use super::candidates::Candidate;
use crate::Grouping;
use crate::embedded::dense;
use weir_filter::Value;

/// Texts with at least this resemblance of their word shingles are near-duplicates.
const NEAR_DUPLICATE_MIN: f32 = 0.8;
/// Diversity reorders at most this many candidates; the others follow in their order.
const DIVERSIFIED_MAX: usize = 200;

/// A candidate, with the near-duplicates that it represents.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Deduplicated {
    pub(super) candidate: Candidate,
    /// Chunk ids of the near-duplicates.
    pub(super) collapsed: Vec<u32>,
}

impl Search<'_> {
    /// Keeps one candidate per value of the grouping field and per text, in order, then diversifies. `None` if the files
    /// contradict each other.
    pub(super) fn postprocess(&self, candidates: &[Candidate]) -> Option<Vec<Deduplicated>> {
        let grouped = match &self.request.group_by {
            Grouping::Document | Grouping::Chunk => candidates.to_vec(),
            Grouping::Field(field) => self.group_by(field, candidates)?,
        };
        let kept = if self.request.collapse {
            self.collapse(&grouped)?
        } else {
            grouped.into_iter().map(|candidate| Deduplicated { candidate, collapsed: Vec::new() }).collect()
        };
        if self.request.diversity > 0.0 { self.diversify(kept) } else { Some(kept) }
    }

    fn group_by(&self, field: &str, candidates: &[Candidate]) -> Option<Vec<Candidate>> {
        let mut seen: HashSet<Value> = HashSet::new();
        let mut first = Vec::new();
        for candidate in candidates {
            let value = self.snapshot.value_of(candidate.chunk_id, field)?;
            if value.is_none_or(|value| seen.insert(value)) {
                first.push(*candidate);
            }
        }
        Some(first)
    }

    fn collapse(&self, candidates: &[Candidate]) -> Option<Vec<Deduplicated>> {
        let mut kept: Vec<(Signature, Deduplicated)> = Vec::new();
        for &candidate in candidates {
            let record = self.snapshot.chunk(candidate.chunk_id)?.record;
            let signature = Signature::of(&self.snapshot.text(&record)?);
            match kept.iter_mut().find(|(other, _)| other.resemblance(&signature) >= NEAR_DUPLICATE_MIN) {
                Some((_, kept)) => kept.collapsed.push(candidate.chunk_id),
                None => kept.push((signature, Deduplicated { candidate, collapsed: Vec::new() })),
            }
        }
        Some(kept.into_iter().map(|(_, kept)| kept).collect())
    }

    /// Selects, repeatedly, the candidate with the best score minus its maximum similarity to those selected: maximal marginal
    /// relevance (Carbonell and Goldstein, SIGIR 1998), with scores scaled to 0..1.
    fn diversify(&self, mut kept: Vec<Deduplicated>) -> Option<Vec<Deduplicated>> {
        let rest = kept.split_off(kept.len().min(DIVERSIFIED_MAX));
        let score = |kept: &Deduplicated| kept.candidate.score;
        let highest = kept.iter().map(score).fold(f32::NEG_INFINITY, f32::max);
        let lowest = kept.iter().map(score).fold(f32::INFINITY, f32::min);
        let range = if highest > lowest { highest - lowest } else { 1.0 };
        let embeddings = kept
            .iter()
            .map(|kept| self.snapshot.embedding(kept.candidate.chunk_id))
            .collect::<Option<Vec<Vec<f32>>>>()?;
        let mut similarity = vec![0.0f32; kept.len()];
        let mut order: Vec<usize> = Vec::with_capacity(kept.len());
        let mut remaining: Vec<usize> = (0..kept.len()).collect();
        let weight = self.request.diversity;
        let value = |index: usize, similarity: &[f32]| {
            (1.0 - weight) * (score(&kept[index]) - lowest) / range - weight * similarity[index]
        };
        while !remaining.is_empty() {
            // the first of equal ones
            let best = (0..remaining.len()).fold(0, |best, next| {
                if value(remaining[next], &similarity) > value(remaining[best], &similarity) {
                    next
                } else {
                    best
                }
            });
            let selected = remaining.remove(best);
            for &index in &remaining {
                similarity[index] =
                    similarity[index].max(dense::cosine(&embeddings[selected], &embeddings[index]));
            }
            order.push(selected);
        }
        let mut by_index: Vec<Option<Deduplicated>> = kept.into_iter().map(Some).collect();
        Some(order.into_iter().filter_map(|index| by_index[index].take()).chain(rest).collect())
    }
}
