//! Stemming, with a memory for the words that come again and again.

use crate::Language;
use snowball_stemmers_rs::Stemmer;

/// Words of up to this many bytes are remembered, so that a word and its length fill one `u128`.
const REMEMBERED_BYTES: usize = 15;
/// Entries of the memory; 4,096 × 32 bytes stay in a core's second-level cache.
const MEMORY_SLOTS: usize = 4096;
/// A text of fewer words than this never pays for the memory's allocation.
const MEMORY_AFTER_WORDS: usize = 512;

/// The stemmer of one language.
///
/// The memory is direct-mapped: a slot keeps the last word that fell on it. English text of ordinary length
/// finds most of its words there, at a tenth of the price of stemming.
pub(crate) struct Stemming {
    stemmer: Option<Stemmer>,
    words_seen: usize,
    memory: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    word: u128,
    stem: u128,
}

impl Stemming {
    pub(crate) fn new(language: Language) -> Stemming {
        Stemming { stemmer: language.algorithm().map(Stemmer::create), words_seen: 0, memory: Vec::new() }
    }

    /// Appends the stem of `word`, or the word itself in a language without stemmer.
    pub(crate) fn stem(&mut self, word: &str, out: &mut String) {
        let Some(stemmer) = &self.stemmer else { return out.push_str(word) };
        let Some(packed) = pack(word) else { return out.push_str(&stemmer.stem(word)) };
        if self.memory.is_empty() {
            self.words_seen += 1;
            if self.words_seen < MEMORY_AFTER_WORDS {
                return out.push_str(&stemmer.stem(word));
            }
            self.memory.resize(MEMORY_SLOTS, Slot::default());
        }
        let slot = &mut self.memory[slot_of(packed)];
        if slot.word == packed {
            let bytes = slot.stem.to_le_bytes();
            let length = usize::from(bytes[REMEMBERED_BYTES]);
            // What was packed was a string, so this never fails.
            return out.push_str(std::str::from_utf8(&bytes[..length]).unwrap_or(word));
        }
        let stem = stemmer.stem(word);
        if let Some(stem) = pack(&stem) {
            *slot = Slot { word: packed, stem };
        }
        out.push_str(&stem);
    }
}

impl std::fmt::Debug for Stemming {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stemming").field("stems", &self.stemmer.is_some()).finish_non_exhaustive()
    }
}

/// The bytes of a short word with its length in the last; never 0 for a word that is not empty.
fn pack(word: &str) -> Option<u128> {
    let mut bytes = [0; REMEMBERED_BYTES + 1];
    bytes.get_mut(..word.len()).filter(|_| word.len() <= REMEMBERED_BYTES)?.copy_from_slice(word.as_bytes());
    bytes[REMEMBERED_BYTES] = word.len() as u8;
    Some(u128::from_le_bytes(bytes))
}

fn slot_of(packed: u128) -> usize {
    let mixed = (packed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (packed >> 64) as u64;
    (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> (64 - MEMORY_SLOTS.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::{MEMORY_AFTER_WORDS, Stemming};
    use crate::Language;

    #[test]
    fn a_remembered_stem_is_the_stem() {
        let words: Vec<String> = (0..2000)
            .map(|n| {
                ["running", "quickly", "national", "internationalization", "étés"][n % 5].to_owned()
                    + &"x".repeat(n % 7)
            })
            .collect();
        let mut warm = Stemming::new(Language::English);
        for word in words.iter().cycle().take(MEMORY_AFTER_WORDS + 3 * words.len()) {
            let (mut remembered, mut fresh) = (String::new(), String::new());
            warm.stem(word, &mut remembered);
            Stemming::new(Language::English).stem(word, &mut fresh);
            assert_eq!(remembered, fresh);
        }
    }
}
