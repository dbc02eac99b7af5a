//! The deleted chunks: one bit per chunk id.

/// The deleted among the chunk ids `0..len`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tombstones {
    words: Vec<u64>,
    len: u32,
    deleted: u32,
}

const WORD_BITS: u32 = u64::BITS;

impl Tombstones {
    /// Number of chunk ids, live or deleted.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is no chunk id.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// One bit per chunk id, set if it is deleted.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Number of deleted chunks.
    pub fn deleted(&self) -> u32 {
        self.deleted
    }

    /// Whether the chunk is committed, and neither removed nor replaced.
    #[inline]
    pub fn is_live(&self, chunk_id: u32) -> bool {
        chunk_id < self.len && self.words[(chunk_id / WORD_BITS) as usize] >> (chunk_id % WORD_BITS) & 1 == 0
    }

    /// Extends the set to `len` chunk ids; the new ones are live.
    pub fn grow(&mut self, len: u32) {
        self.len = self.len.max(len);
        self.words.resize(self.len.div_ceil(WORD_BITS) as usize, 0);
    }

    /// Marks `count` chunks from `first` on as deleted; uncommitted ones are skipped.
    pub fn delete(&mut self, first: u32, count: u32) {
        for chunk_id in first..first.saturating_add(count) {
            if self.is_live(chunk_id) {
                self.words[(chunk_id / WORD_BITS) as usize] |= 1 << (chunk_id % WORD_BITS);
                self.deleted += 1;
            }
        }
    }

    /// Marks every chunk as deleted that is deleted in `other`.
    pub fn delete_all(&mut self, other: &Tombstones) {
        self.grow(other.len);
        for (word, others) in self.words.iter_mut().zip(&other.words) {
            *word |= others;
        }
        self.deleted = self.words.iter().map(|word| word.count_ones()).sum();
    }

    /// The chunks deleted here and not in `earlier`, ascending.
    pub fn deleted_since(&self, earlier: &Tombstones) -> Vec<u32> {
        let mut len = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            let mut fresh = word & !earlier.words.get(index).unwrap_or(&0);
            while fresh != 0 {
                len.push(index as u32 * WORD_BITS + fresh.trailing_zeros());
                fresh &= fresh - 1;
            }
        }
        len
    }

    /// The bitmap for the head file: bit `chunk_id % 8` of byte `chunk_id / 8`.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The inverse of [`Tombstones::to_bytes`]; `None` unless the bytes are exactly those of `len` chunk ids.
    pub fn from_bytes(bytes: &[u8], len: u32) -> Option<Tombstones> {
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || words.len() != len.div_ceil(WORD_BITS) as usize {
            return None;
        }
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let beyond = len % WORD_BITS;
        if beyond != 0 && words.last().is_some_and(|last| last >> beyond != 0) {
            return None;
        }
        let deleted = words.iter().map(|word| word.count_ones()).sum();
        Some(Tombstones { words, len, deleted })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(len: u32, deleted: &[u32]) -> Tombstones {
        let mut tombstones = Tombstones::default();
        tombstones.grow(len);
        deleted.iter().for_each(|&chunk_id| tombstones.delete(chunk_id, 1));
        tombstones
    }

    #[test]
    fn chunk_ids_beyond_the_last_are_not_live_and_cannot_be_deleted() {
        let mut tombstones = of(65, &[]);
        assert!(tombstones.is_live(64));
        assert!(!tombstones.is_live(65));
        tombstones.delete(60, 100);
        assert_eq!(tombstones.deleted(), 5);
        tombstones.grow(70);
        assert!(tombstones.is_live(65));
    }

    #[test]
    fn deleting_twice_counts_once() {
        assert_eq!(of(10, &[3, 3, 4]).deleted(), 2);
    }

    #[test]
    fn deleted_since_lists_newly_deleted_chunks() {
        assert_eq!(of(130, &[0, 64, 129]).deleted_since(&of(65, &[64])), [0, 129]);
    }

    #[test]
    fn delete_all_is_the_union() {
        let mut tombstones = of(10, &[1]);
        tombstones.delete_all(&of(5, &[1, 2]));
        assert_eq!((tombstones.len(), tombstones.deleted()), (10, 2));
    }

    #[test]
    fn tombstones_round_trip_and_invalid_bytes_are_rejected() {
        let tombstones = of(70, &[0, 9, 69]);
        let bytes = tombstones.to_bytes();
        assert_eq!(bytes, [1, 2, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Tombstones::from_bytes(&bytes, 70), Some(tombstones));
        assert_eq!(Tombstones::from_bytes(&bytes, 64), None);
        assert_eq!(Tombstones::from_bytes(&bytes, 69), None);
        assert_eq!(Tombstones::from_bytes(&bytes[1..], 70), None);
    }
}
