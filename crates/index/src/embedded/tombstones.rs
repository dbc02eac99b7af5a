//! One bit per slot: set when the slot's chunk is no longer there.

/// The dead among the slots `0..slots`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tombstones {
    words: Vec<u64>,
    slots: u32,
    dead: u32,
}

const WORD_BITS: u32 = u64::BITS;

impl Tombstones {
    /// Number of slots, dead or alive.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    /// One bit per slot, set when it is dead.
    pub(crate) fn words(&self) -> &[u64] {
        &self.words
    }

    /// Number of dead slots.
    pub(crate) fn dead(&self) -> u32 {
        self.dead
    }

    /// Whether the slot's chunk is there: committed, and neither removed nor replaced.
    #[inline]
    pub(crate) fn is_live(&self, slot: u32) -> bool {
        slot < self.slots && self.words[(slot / WORD_BITS) as usize] >> (slot % WORD_BITS) & 1 == 0
    }

    /// Makes room for slots up to `slots`; the new ones are live.
    pub(crate) fn grow(&mut self, slots: u32) {
        self.slots = self.slots.max(slots);
        self.words.resize(self.slots.div_ceil(WORD_BITS) as usize, 0);
    }

    /// Kills `count` slots from `first` on; those that are not committed stay as they are.
    pub(crate) fn kill(&mut self, first: u32, count: u32) {
        for slot in first..first.saturating_add(count) {
            if self.is_live(slot) {
                self.words[(slot / WORD_BITS) as usize] |= 1 << (slot % WORD_BITS);
                self.dead += 1;
            }
        }
    }

    /// Kills every slot that is dead in `other`.
    pub(crate) fn kill_all(&mut self, other: &Tombstones) {
        self.grow(other.slots);
        for (word, others) in self.words.iter_mut().zip(&other.words) {
            *word |= others;
        }
        self.dead = self.words.iter().map(|word| word.count_ones()).sum();
    }

    /// The slots that are dead here and not in `earlier`, ascending.
    pub(crate) fn since(&self, earlier: &Tombstones) -> Vec<u32> {
        let mut slots = Vec::new();
        for (index, word) in self.words.iter().enumerate() {
            let mut fresh = word & !earlier.words.get(index).unwrap_or(&0);
            while fresh != 0 {
                slots.push(index as u32 * WORD_BITS + fresh.trailing_zeros());
                fresh &= fresh - 1;
            }
        }
        slots
    }

    /// The bitmap for the head file: bit `slot % 8` of byte `slot / 8`.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        self.words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// The reverse of [`Tombstones::to_bytes`]; `None` unless the bytes are exactly those of `slots` slots.
    pub(crate) fn from_bytes(bytes: &[u8], slots: u32) -> Option<Tombstones> {
        let (words, rest) = bytes.as_chunks::<8>();
        if !rest.is_empty() || words.len() != slots.div_ceil(WORD_BITS) as usize {
            return None;
        }
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let beyond = slots % WORD_BITS;
        if beyond != 0 && words.last().is_some_and(|last| last >> beyond != 0) {
            return None;
        }
        let dead = words.iter().map(|word| word.count_ones()).sum();
        Some(Tombstones { words, slots, dead })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(slots: u32, dead: &[u32]) -> Tombstones {
        let mut tombstones = Tombstones::default();
        tombstones.grow(slots);
        dead.iter().for_each(|&slot| tombstones.kill(slot, 1));
        tombstones
    }

    #[test]
    fn slots_beyond_the_last_are_not_live_and_cannot_be_killed() {
        let mut tombstones = of(65, &[]);
        assert!(tombstones.is_live(64));
        assert!(!tombstones.is_live(65));
        tombstones.kill(60, 100);
        assert_eq!(tombstones.dead(), 5);
        tombstones.grow(70);
        assert!(tombstones.is_live(65));
    }

    #[test]
    fn killing_twice_counts_once() {
        assert_eq!(of(10, &[3, 3, 4]).dead(), 2);
    }

    #[test]
    fn the_difference_names_the_newly_dead() {
        assert_eq!(of(130, &[0, 64, 129]).since(&of(65, &[64])), [0, 129]);
    }

    #[test]
    fn merging_kills_what_either_killed() {
        let mut tombstones = of(10, &[1]);
        tombstones.kill_all(&of(5, &[1, 2]));
        assert_eq!((tombstones.slots(), tombstones.dead()), (10, 2));
    }

    #[test]
    fn bytes_come_back_and_wrong_ones_are_refused() {
        let tombstones = of(70, &[0, 9, 69]);
        let bytes = tombstones.to_bytes();
        assert_eq!(bytes, [1, 2, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Tombstones::from_bytes(&bytes, 70), Some(tombstones));
        assert_eq!(Tombstones::from_bytes(&bytes, 64), None);
        assert_eq!(Tombstones::from_bytes(&bytes, 69), None);
        assert_eq!(Tombstones::from_bytes(&bytes[1..], 70), None);
    }
}
