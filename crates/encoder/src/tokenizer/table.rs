//! The vocabulary of WordPiece as a hash table.

use std::collections::HashMap;

use super::wordpiece::WORD_CHARS_MAX;

/// Bytes of an entry of the vocabulary.
const SPELLING_BYTES_MAX: usize = 100;

/// The vocabulary: word starts and continuations with their ids.
pub(super) struct Table {
    /// `id + 1` in the lower 32 bits, the upper half of the hash in the upper 32 bits; 0 is an empty slot.
    slots: Vec<u64>,
    /// Start and length in `text` of the spelling of each id, without `##`, and whether it is a continuation.
    spellings: Vec<(u32, u8, bool)>,
    text: Vec<u8>,
    longest: usize,
}

impl Table {
    /// `None` for an entry that a word can have and that is too long for the table.
    pub(super) fn new(vocab: &HashMap<String, u32>) -> Option<Table> {
        let size = (vocab.len() * 4).next_power_of_two();
        let mut table = Table { slots: vec![0; size], spellings: Vec::new(), text: Vec::new(), longest: 0 };
        for (token, id) in vocab {
            let is_continuation = token.len() > 2 && token.starts_with("##");
            // no word starts with a literal "##", since every punctuation character is a word of its own
            let spelling = if is_continuation { &token[2..] } else { token.as_str() };
            match spelling.len() {
                0 => {}
                1..=SPELLING_BYTES_MAX => table.insert(spelling.as_bytes(), is_continuation, *id),
                // no word is as long
                _ if spelling.chars().count() > WORD_CHARS_MAX => {}
                _ => return None,
            }
        }
        Some(table)
    }

    fn insert(&mut self, spelling: &[u8], is_continuation: bool, id: u32) {
        let index = id as usize;
        if self.spellings.len() <= index {
            self.spellings.resize(index + 1, (0, 0, false));
        }
        self.spellings[index] = (self.text.len() as u32, spelling.len() as u8, is_continuation);
        self.text.extend_from_slice(spelling);
        self.longest = self.longest.max(spelling.len());
        let hash = spelling.iter().fold(seed(is_continuation), |hash, byte| mix(hash, *byte));
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = hash >> 32 << 32 | u64::from(id + 1);
    }

    /// Id and length of the longest prefix of `letters` in the vocabulary.
    pub(super) fn longest(&self, letters: &[u8], is_continuation: bool) -> Option<(u32, usize)> {
        let mut hashes = [0u64; SPELLING_BYTES_MAX];
        let mut hash = seed(is_continuation);
        let longest = letters.len().min(self.longest);
        for (slot, byte) in hashes[..longest].iter_mut().zip(letters) {
            hash = mix(hash, *byte);
            *slot = hash;
        }
        (1..=longest)
            .rev()
            .find_map(|len| self.find(&letters[..len], is_continuation, hashes[len - 1]).map(|id| (id, len)))
    }

    fn find(&self, spelling: &[u8], is_continuation: bool, hash: u64) -> Option<u32> {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if slot >> 32 == hash >> 32 {
                let id = slot as u32 - 1;
                let (start, len, continues) = self.spellings[id as usize];
                let same = continues == is_continuation && usize::from(len) == spelling.len();
                if same && &self.text[start as usize..][..spelling.len()] == spelling {
                    return Some(id);
                }
            }
            at = (at + 1) & mask;
        }
    }
}

fn seed(is_continuation: bool) -> u64 {
    if is_continuation { 0x9e37_79b9_7f4a_7c15 } else { 0xcbf2_9ce4_8422_2325 }
}

/// One step of a multiplicative hash that mixes upper and lower halves.
fn mix(hash: u64, byte: u8) -> u64 {
    let product = (hash ^ u64::from(byte)).wrapping_mul(0x2545_f491_4f6c_dd1d);
    product ^ product >> 29
}
