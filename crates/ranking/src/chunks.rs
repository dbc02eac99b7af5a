//! Scored chunks: their order, and the best chunk of each document.

use std::cmp;
use std::sync::atomic::{AtomicU32, Ordering};

use hashbrown::HashTable;

/// A chunk and its score in one retriever.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScoredChunk {
    /// The chunk.
    pub chunk_id: u32,
    /// Comparable within its ranking only.
    pub score: f32,
}

impl ScoredChunk {
    /// Order of rankings: higher score first, of equal scores the lower chunk id.
    #[inline]
    pub fn by_rank(&self, other: &ScoredChunk) -> cmp::Ordering {
        other.score.total_cmp(&self.score).then(self.chunk_id.cmp(&other.chunk_id))
    }
}

/// A score threshold shared by the threads that compute parts of one ranking.
pub struct SharedThreshold(AtomicU32);

impl SharedThreshold {
    /// `score` and everything below it is excluded.
    pub fn new(score: f32) -> SharedThreshold {
        SharedThreshold(AtomicU32::new(score.to_bits()))
    }

    /// Excludes scores up to `score` as well. Returns the highest threshold of all threads.
    #[inline]
    pub fn raise(&self, score: f32) -> f32 {
        let mut known = self.0.load(Ordering::Relaxed);
        while score > f32::from_bits(known) {
            match self.0.compare_exchange_weak(known, score.to_bits(), Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return score,
                Err(now) => known = now,
            }
        }
        f32::from_bits(known)
    }
}

/// A document's best chunk in one retriever.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BestChunk {
    /// The document's first chunk id.
    pub document: u32,
    /// The chunk.
    pub chunk_id: u32,
    /// Its score.
    pub score: f32,
}

/// Keeps the first, thus best, chunk of each document, for at most `limit` documents.
///
/// `document_of` maps a chunk to its document; chunks without one are skipped.
pub fn best_chunks(
    chunks: &[ScoredChunk],
    limit: usize,
    document_of: impl Fn(u32) -> Option<u32>,
) -> Vec<BestChunk> {
    let mut seen: HashTable<u32> = HashTable::with_capacity(limit.min(chunks.len()));
    let mut best = Vec::with_capacity(limit.min(chunks.len()));
    for &ScoredChunk { chunk_id, score } in chunks {
        if best.len() == limit {
            break;
        }
        let Some(document) = document_of(chunk_id) else { continue };
        let entry =
            seen.entry(fibonacci_hash(document), |&other| other == document, |&other| fibonacci_hash(other));
        if let hashbrown::hash_table::Entry::Vacant(entry) = entry {
            entry.insert(document);
            best.push(BestChunk { document, chunk_id, score });
        }
    }
    best
}

/// Fibonacci hashing (Knuth, volume 3, 6.4): distributes small numbers over all bits.
pub(crate) fn fibonacci_hash(document: u32) -> u64 {
    u64::from(document).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_is_ranked_once_by_its_best_chunk() {
        let chunks: Vec<ScoredChunk> = [(11, 9.0), (20, 8.0), (10, 7.0), (30, 6.0), (21, 5.0), (40, 4.0)]
            .into_iter()
            .map(|(chunk_id, score)| ScoredChunk { chunk_id, score })
            .collect();
        let tens = |chunk_id: u32| if chunk_id == 30 { None } else { Some(chunk_id / 10 * 10) };
        let best = |limit| -> Vec<(u32, u32)> {
            best_chunks(&chunks, limit, tens).iter().map(|best| (best.document, best.chunk_id)).collect()
        };
        assert_eq!(best(10), [(10, 11), (20, 20), (40, 40)]);
        assert_eq!(best(2), [(10, 11), (20, 20)]);
        assert_eq!(best(0), []);
    }

    #[test]
    fn a_shared_threshold_is_the_maximum_of_all_threads() {
        let threshold = SharedThreshold::new(f32::NEG_INFINITY);
        assert_eq!([-3.0, -4.0, 1.5, 0.5].map(|score| threshold.raise(score)), [-3.0, -3.0, 1.5, 1.5]);
        assert_eq!(threshold.raise(f32::MIN), 1.5);
    }

    #[test]
    fn equal_scores_are_ordered_by_chunk_id() {
        let mut chunks = [ScoredChunk { chunk_id: 5, score: 1.0 }, ScoredChunk { chunk_id: 2, score: 1.0 }];
        chunks.sort_by(ScoredChunk::by_rank);
        assert_eq!(chunks[0].chunk_id, 2);
    }
}
