//! The best of many scored slots, with the threshold that pruning needs.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::embedded::ranking::ScoredSlot;

/// The best slots so far, with an exact threshold at every moment.
pub(super) struct BestSlots {
    heap: BinaryHeap<WorstFirst>,
    capacity: usize,
}

struct WorstFirst(ScoredSlot);

impl BestSlots {
    pub(super) fn new(capacity: usize) -> BestSlots {
        BestSlots { heap: BinaryHeap::new(), capacity }
    }

    /// Another for as many.
    pub(super) fn empty(&self) -> BestSlots {
        BestSlots::new(self.capacity)
    }

    /// Only higher scores can still matter. Just below the worst that is kept, so that of equal scores the lower slot
    /// wins wherever its segment comes.
    pub(super) fn threshold(&self) -> f32 {
        match self.heap.peek() {
            Some(worst) if self.heap.len() >= self.capacity => worst.0.score.next_down(),
            _ => f32::MIN,
        }
    }

    pub(super) fn push(&mut self, scored: ScoredSlot) {
        if self.heap.len() < self.capacity {
            self.heap.push(WorstFirst(scored));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && scored.by_rank(&worst.0) == Ordering::Less
        {
            *worst = WorstFirst(scored);
        }
    }

    pub(super) fn into_sorted(self) -> Vec<ScoredSlot> {
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
