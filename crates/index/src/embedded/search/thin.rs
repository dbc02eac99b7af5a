//! Candidates that stand for others: one for each value of a field, one for texts that are all but equal; and an order
//! in which like does not follow like.

use std::collections::HashSet;

use weir_text::Signature;

use super::Search;
use super::candidates::Candidate;
use crate::GroupBy;
use crate::embedded::dense;
use weir_filter::Value;

/// Texts that share so many of their runs of words are all but equal.
const ALL_BUT_EQUAL: f32 = 0.8;
/// Diversity orders no more candidates than this; the others follow as they are.
const DIVERSIFIED_MAX: usize = 200;

/// A candidate that is left, and those that it stands for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Kept {
    pub(super) candidate: Candidate,
    /// Slots of candidates with all but the same text.
    pub(super) collapsed: Vec<u32>,
}

impl Search<'_> {
    /// Leaves one candidate per value of the grouping field and per text, in order, and spreads what is left.
    /// `None` when the files contradict each other.
    pub(super) fn thin(&self, candidates: &[Candidate]) -> Option<Vec<Kept>> {
        let grouped = match &self.request.group_by {
            GroupBy::Document | GroupBy::Chunk => candidates.to_vec(),
            GroupBy::Field(field) => self.first_of_groups(field, candidates)?,
        };
        let kept = if self.request.collapse {
            self.collapse(&grouped)?
        } else {
            grouped.into_iter().map(|candidate| Kept { candidate, collapsed: Vec::new() }).collect()
        };
        if self.request.diversity > 0.0 { self.diversify(kept) } else { Some(kept) }
    }

    fn first_of_groups(&self, field: &str, candidates: &[Candidate]) -> Option<Vec<Candidate>> {
        let mut seen: HashSet<Value> = HashSet::new();
        let mut first = Vec::new();
        for candidate in candidates {
            let value = self.snapshot.value_of(candidate.slot, field)?;
            if value.is_none_or(|value| seen.insert(value)) {
                first.push(*candidate);
            }
        }
        Some(first)
    }

    fn collapse(&self, candidates: &[Candidate]) -> Option<Vec<Kept>> {
        let mut kept: Vec<(Signature, Kept)> = Vec::new();
        for &candidate in candidates {
            let record = self.snapshot.chunk(candidate.slot)?.record;
            let signature = Signature::of(&self.snapshot.text(&record)?);
            match kept.iter_mut().find(|(other, _)| other.resemblance(&signature) >= ALL_BUT_EQUAL) {
                Some((_, kept)) => kept.collapsed.push(candidate.slot),
                None => kept.push((signature, Kept { candidate, collapsed: Vec::new() })),
            }
        }
        Some(kept.into_iter().map(|(_, kept)| kept).collect())
    }

    /// Takes, again and again, the candidate that is best by its score less its likeness to the most like of those
    /// taken: maximal marginal relevance (Carbonell and Goldstein, SIGIR 1998), scores stretched to 0..1.
    fn diversify(&self, mut kept: Vec<Kept>) -> Option<Vec<Kept>> {
        let rest = kept.split_off(kept.len().min(DIVERSIFIED_MAX));
        let score = |kept: &Kept| kept.candidate.score;
        let highest = kept.iter().map(score).fold(f32::NEG_INFINITY, f32::max);
        let lowest = kept.iter().map(score).fold(f32::INFINITY, f32::min);
        let range = if highest > lowest { highest - lowest } else { 1.0 };
        let embeddings = kept
            .iter()
            .map(|kept| self.snapshot.embedding(kept.candidate.slot))
            .collect::<Option<Vec<Vec<f32>>>>()?;
        let mut likeness = vec![0.0f32; kept.len()];
        let mut order: Vec<usize> = Vec::with_capacity(kept.len());
        let mut left: Vec<usize> = (0..kept.len()).collect();
        let weight = self.request.diversity;
        let value = |place: usize, likeness: &[f32]| {
            (1.0 - weight) * (score(&kept[place]) - lowest) / range - weight * likeness[place]
        };
        while !left.is_empty() {
            // of equal ones the first
            let best = (0..left.len()).fold(0, |best, next| {
                if value(left[next], &likeness) > value(left[best], &likeness) { next } else { best }
            });
            let taken = left.remove(best);
            for &place in &left {
                likeness[place] = likeness[place].max(dense::cosine(&embeddings[taken], &embeddings[place]));
            }
            order.push(taken);
        }
        let mut by_place: Vec<Option<Kept>> = kept.into_iter().map(Some).collect();
        Some(order.into_iter().filter_map(|place| by_place[place].take()).chain(rest).collect())
    }
}
