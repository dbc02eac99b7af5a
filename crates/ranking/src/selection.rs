//! A set of chunk ids: those that pass a filter.

use crate::Tombstones;

/// The chunks that satisfy a condition, one bit each. May include deleted chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    words: Vec<u64>,
    count: u32,
}

const WORD_BITS: u32 = u64::BITS;

impl Selection {
    /// Bytes of the set.
    pub fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    /// The set with these bits: bit `chunk_id % 64` of word `chunk_id / 64`.
    pub fn of_words(words: Vec<u64>) -> Selection {
        let count = words.iter().map(|word| word.count_ones()).sum();
        Selection { words, count }
    }

    /// The chunk ids below `chunk_count`.
    pub fn first(chunk_count: u32) -> Selection {
        let mut words = vec![u64::MAX; chunk_count.div_ceil(WORD_BITS) as usize];
        if let Some(last) = words.last_mut().filter(|_| !chunk_count.is_multiple_of(WORD_BITS)) {
            *last = (1 << (chunk_count % WORD_BITS)) - 1;
        }
        Selection { words, count: chunk_count }
    }

    /// The set as bits, of the chunk ids below `chunk_count` at least.
    pub fn into_words(mut self, chunk_count: u32) -> Vec<u64> {
        let len = chunk_count.div_ceil(WORD_BITS) as usize;
        self.words.resize(len.max(self.words.len()), 0);
        self.words
    }

    /// Number of chunks in the set.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Number of live chunks in the set.
    pub fn live(&self, tombstones: &Tombstones) -> u32 {
        let pairs = self.words.iter().zip(tombstones.words());
        pairs.map(|(selected, deleted)| (selected & !deleted).count_ones()).sum()
    }

    /// Whether the chunk is in the set.
    #[inline]
    pub fn contains(&self, chunk_id: u32) -> bool {
        match self.words.get((chunk_id / WORD_BITS) as usize) {
            Some(word) => word >> (chunk_id % WORD_BITS) & 1 != 0,
            None => false,
        }
    }

    /// The chunk ids, ascending.
    pub fn chunk_ids(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.words).flat_map(|(index, &word)| {
            let first = index * WORD_BITS;
            std::iter::successors(Some(word), |word| Some(word & word.wrapping_sub(1)))
                .take_while(|&word| word != 0)
                .map(move |word| first + word.trailing_zeros())
        })
    }

    /// The intersection.
    pub fn and(&self, other: &Selection) -> Selection {
        Selection::of_words(self.words.iter().zip(&other.words).map(|(a, b)| a & b).collect())
    }

    /// The difference; both sets are of the same snapshot.
    pub fn without(&self, other: &Selection) -> Selection {
        Selection::of_words(self.words.iter().zip(&other.words).map(|(a, b)| a & !b).collect())
    }
}

/// The chunks that a search may show: live, and selected if there is a selection.
#[derive(Clone, Copy)]
pub struct Visible<'a> {
    /// The deleted chunks.
    pub tombstones: &'a Tombstones,
    /// The chunks that pass the filter; all if absent.
    pub selection: Option<&'a Selection>,
}

impl Visible<'_> {
    /// Whether a search may show the chunk.
    #[inline]
    pub fn contains(&self, chunk_id: u32) -> bool {
        self.tombstones.is_live(chunk_id)
            && self.selection.is_none_or(|selection| selection.contains(chunk_id))
    }
}

/// Sets the bits `from..to` of `words`.
pub fn set_bits(words: &mut [u64], from: u32, to: u32) {
    for bit in from..to {
        words[(bit / WORD_BITS) as usize] |= 1 << (bit % WORD_BITS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(chunk_ids: &[u32]) -> Selection {
        let mut words = vec![0; 3];
        chunk_ids.iter().for_each(|&chunk_id| set_bits(&mut words, chunk_id, chunk_id + 1));
        Selection::of_words(words)
    }

    #[test]
    fn a_selection_contains_the_bits_set() {
        let selection = of(&[0, 63, 64, 130]);
        assert_eq!(selection.chunk_ids().collect::<Vec<_>>(), [0, 63, 64, 130]);
        assert_eq!(selection.count(), 4);
        assert!(selection.contains(130));
        assert!(!selection.contains(131) && !selection.contains(1000));
        assert_eq!(selection.and(&of(&[63, 65, 130])), of(&[63, 130]));
        assert_eq!(selection.without(&of(&[63, 65, 130])), of(&[0, 64]));
    }

    #[test]
    fn first_selects_all_lower_chunk_ids() {
        for count in [0, 1, 63, 64, 65, 130] {
            assert_eq!(
                Selection::first(count).chunk_ids().collect::<Vec<_>>(),
                (0..count).collect::<Vec<_>>()
            );
            assert_eq!(Selection::first(count).count(), count);
        }
    }

    #[test]
    fn a_deleted_chunk_is_not_visible_even_if_selected() {
        let mut tombstones = Tombstones::default();
        tombstones.grow(100);
        tombstones.delete(63, 1);
        let selection = of(&[62, 63]);
        let visible = |selection| Visible { tombstones: &tombstones, selection };
        let pins = |selection| (60..101).filter(|&chunk_id| visible(selection).contains(chunk_id)).count();
        assert_eq!((pins(Some(&selection)), pins(None)), (1, 39));
        assert_eq!((selection.count(), selection.live(&tombstones)), (2, 1));
    }
}
