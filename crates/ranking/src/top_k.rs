//! The k best scored chunks, with the threshold for pruning.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::ScoredChunk;

/// The best chunks so far; the threshold is exact at any time.
pub struct TopK {
    heap: BinaryHeap<WorstFirst>,
    capacity: usize,
}

struct WorstFirst(ScoredChunk);

impl TopK {
    /// An empty one that keeps at most `capacity` chunks.
    pub fn new(capacity: usize) -> TopK {
        TopK { heap: BinaryHeap::new(), capacity }
    }

    /// An empty one of the same capacity.
    pub fn empty(&self) -> TopK {
        TopK::new(self.capacity)
    }

    /// Only higher scores can still enter. Just below the worst score kept, so that of equal scores the lower chunk id wins, in
    /// whichever order segments are searched.
    #[inline]
    pub fn threshold(&self) -> f32 {
        match self.heap.peek() {
            Some(worst) if self.heap.len() >= self.capacity => worst.0.score.next_down(),
            _ => f32::MIN,
        }
    }

    /// Keeps the chunk if it is among the best.
    #[inline]
    pub fn push(&mut self, scored: ScoredChunk) {
        if self.heap.len() < self.capacity {
            self.heap.push(WorstFirst(scored));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && scored.by_rank(&worst.0) == Ordering::Less
        {
            *worst = WorstFirst(scored);
        }
    }

    /// The chunks in the order of rankings.
    pub fn into_sorted(self) -> Vec<ScoredChunk> {
        self.heap.into_sorted_vec().into_iter().map(|worst| worst.0).collect()
    }
}

impl Ord for WorstFirst {
    fn cmp(&self, other: &WorstFirst) -> Ordering {
        self.0.by_rank(&other.0)
    }
}

impl PartialOrd for WorstFirst {
    fn partial_cmp(&self, other: &WorstFirst) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for WorstFirst {
    fn eq(&self, other: &WorstFirst) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for WorstFirst {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_are_kept_and_ties_go_to_the_first() {
        let scores = [4.0, 1.0, 4.0, 9.0, 4.0];
        let best = |chunk_ids: &mut dyn Iterator<Item = usize>| {
            let mut best = TopK::new(2);
            for chunk_id in chunk_ids {
                if scores[chunk_id] > best.threshold() {
                    best.push(ScoredChunk { chunk_id: chunk_id as u32, score: scores[chunk_id] });
                }
            }
            best.into_sorted().iter().map(|kept| kept.chunk_id).collect::<Vec<_>>()
        };
        assert_eq!(best(&mut (0..scores.len())), [3, 0]);
        assert_eq!(best(&mut (0..scores.len()).rev()), [3, 0]);
    }
}
