//! The ids that a run has sent, to notice documents that replace others of the same run.

use std::collections::HashSet;
use std::hash::{BuildHasher, RandomState};

/// Ids that are remembered, at most: 3.5 million hashes take 38 MB, one more million twice as much.
const IDS_MAX: usize = 3_500_000;

/// Hashes of the first ids of a run. Later ones are compared with these and not remembered.
#[derive(Default)]
pub(crate) struct SeenIds {
    hashes: HashSet<u64>,
    state: RandomState,
}

impl SeenIds {
    /// Remembers an id; whether it was there before. Two ids have the same hash by chance once in a million runs of
    /// millions of documents.
    pub(crate) fn is_repeated(&mut self, id: &str) -> bool {
        self.is_repeated_of(id, IDS_MAX)
    }

    fn is_repeated_of(&mut self, id: &str, ids_max: usize) -> bool {
        let hash = self.state.hash_one(id);
        match self.hashes.len() < ids_max {
            true => !self.hashes.insert(hash),
            false => self.hashes.contains(&hash),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_repeated_the_second_time() {
        let mut seen = SeenIds::default();
        let repeated = ["a", "b", "a", "a", "c"].map(|id| seen.is_repeated(id));
        assert_eq!(repeated, [false, false, true, true, false]);
    }

    #[test]
    fn no_more_ids_are_remembered_than_the_limit() {
        let mut seen = SeenIds::default();
        let repeated = ["a", "b", "c", "c", "a"].map(|id| seen.is_repeated_of(id, 2));
        assert_eq!(repeated, [false, false, false, false, true]);
        assert_eq!(seen.hashes.len(), 2);
    }
}
