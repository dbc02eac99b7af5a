//! Grouping by a field, deduplication of near-duplicate texts, and diversity (MMR).

use std::collections::HashSet;

use weir_filter::Value;
use weir_kernels::Kernels;
use weir_text::Signature;

use super::candidates::Candidate;
use super::{Retriever, Search};
use crate::{Grouping, Result};

/// Texts with at least this resemblance of their word shingles are near-duplicates.
const NEAR_DUPLICATE_MIN: f32 = 0.8;
/// How many texts that are compared are read at a time.
const TEXTS_PER_READ: usize = 64;
/// Diversity reorders at most this many candidates; the others follow in their order.
const DIVERSIFIED_MAX: usize = 200;

/// A candidate, with the near-duplicates that it represents.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Deduplicated {
    pub(super) candidate: Candidate,
    /// Chunk ids of the near-duplicates.
    pub(super) collapsed: Vec<u32>,
}

impl<R: Retriever> Search<'_, R> {
    /// Keeps one candidate per value of the grouping field and per text, in order, then diversifies.
    pub(super) async fn postprocess(&self, candidates: &[Candidate]) -> Result<Vec<Deduplicated>> {
        let grouped = match &self.request.group_by {
            Grouping::Document | Grouping::Chunk => candidates.to_vec(),
            Grouping::Field(field) => self.group_by(field, candidates).await?,
        };
        let kept = if self.request.collapse {
            self.collapse(&grouped).await?
        } else {
            grouped.into_iter().map(|candidate| Deduplicated { candidate, collapsed: Vec::new() }).collect()
        };
        if self.request.diversity > 0.0 { self.diversify(kept).await } else { Ok(kept) }
    }

    async fn group_by(&self, field: &str, candidates: &[Candidate]) -> Result<Vec<Candidate>> {
        let chunk_ids: Vec<u32> = candidates.iter().map(|candidate| candidate.chunk_id).collect();
        let values = self.retriever.values(&chunk_ids, field).await?;
        let mut seen: HashSet<Value> = HashSet::new();
        let mut is_first = |value: Option<Value>| value.is_none_or(|value| seen.insert(value));
        let first = candidates.iter().zip(values).filter_map(|(one, value)| is_first(value).then_some(*one));
        Ok(first.collect())
    }

    async fn collapse(&self, candidates: &[Candidate]) -> Result<Vec<Deduplicated>> {
        let mut kept: Vec<(Signature, Deduplicated)> = Vec::new();
        for candidates in candidates.chunks(TEXTS_PER_READ) {
            let chunk_ids: Vec<u32> = candidates.iter().map(|candidate| candidate.chunk_id).collect();
            let texts = self.retriever.texts(&chunk_ids).await?;
            for (&candidate, text) in candidates.iter().zip(&texts) {
                let signature = Signature::of(text);
                match kept.iter_mut().find(|(other, _)| other.resemblance(&signature) >= NEAR_DUPLICATE_MIN) {
                    Some((_, kept)) => kept.collapsed.push(candidate.chunk_id),
                    None => kept.push((signature, Deduplicated { candidate, collapsed: Vec::new() })),
                }
            }
        }
        Ok(kept.into_iter().map(|(_, kept)| kept).collect())
    }

    /// Selects, repeatedly, the candidate with the best score minus its maximum similarity to those selected: maximal marginal
    /// relevance (Carbonell and Goldstein, SIGIR 1998), with scores scaled to 0..1.
    async fn diversify(&self, mut kept: Vec<Deduplicated>) -> Result<Vec<Deduplicated>> {
        let rest = kept.split_off(kept.len().min(DIVERSIFIED_MAX));
        let score = |kept: &Deduplicated| kept.candidate.score;
        let highest = kept.iter().map(score).fold(f32::NEG_INFINITY, f32::max);
        let lowest = kept.iter().map(score).fold(f32::INFINITY, f32::min);
        let range = if highest > lowest { highest - lowest } else { 1.0 };
        let chunk_ids: Vec<u32> = kept.iter().map(|kept| kept.candidate.chunk_id).collect();
        let embeddings = self.retriever.embeddings(&chunk_ids).await?;
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
                similarity[index] = similarity[index].max(cosine(&embeddings[selected], &embeddings[index]));
            }
            order.push(selected);
        }
        let mut by_index: Vec<Option<Deduplicated>> = kept.into_iter().map(Some).collect();
        Ok(order.into_iter().filter_map(|index| by_index[index].take()).chain(rest).collect())
    }
}

/// Cosine of two embeddings; 0 if one is all zeros.
pub fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = Kernels::current().dot;
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
}
