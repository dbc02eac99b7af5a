//! The words of a segment in memory, by first letter and length, for spelling correction.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use tantivy::SegmentReader;
use tantivy::schema::Field;

/// Lengths in characters of the words kept: others are never corrections.
const CHARS: std::ops::RangeInclusive<usize> = 2..=64;
/// Minimum bits per word in the Bloom filter, for few false positives.
const FILTER_BITS: usize = 16;
/// Bits per word of the filter's array.
const BITS: usize = u64::BITS as usize;

/// The terms of a segment's field without digits and symbols.
pub(super) struct SpellingIndex {
    buckets: HashMap<(char, usize), Bucket>,
    /// Bloom filter of all words, because most words looked up are in no segment.
    filter: Vec<u64>,
}

/// Words of one first letter and length in characters, ascending.
#[derive(Default)]
struct Bucket {
    text: String,
    /// End of each word in `text`.
    ends: Vec<u32>,
    /// The set of letters of each word.
    letters: Vec<u32>,
    /// Number of chunks that contain each word.
    chunks: Vec<u32>,
}

impl SpellingIndex {
    /// Reads all terms of the segment once.
    pub(super) fn read(segment: &SegmentReader, field: Field) -> tantivy::Result<Arc<SpellingIndex>> {
        let index = segment.inverted_index(field)?;
        let mut terms = index.terms().stream()?;
        let mut words = SpellingIndex { buckets: HashMap::new(), filter: Vec::new() };
        while terms.advance() {
            if let Ok(term) = std::str::from_utf8(terms.key()) {
                words.push(term, terms.value().doc_freq);
            }
        }
        words.finish();
        Ok(Arc::new(words))
    }

    /// Releases spare capacity and builds the Bloom filter.
    fn finish(&mut self) {
        let count: usize = self.buckets.values().map(|bucket| bucket.ends.len()).sum();
        self.filter = vec![0; (count * FILTER_BITS / BITS).next_power_of_two()];
        for bucket in self.buckets.values_mut() {
            bucket.text.shrink_to_fit();
            bucket.ends.shrink_to_fit();
            bucket.letters.shrink_to_fit();
            bucket.chunks.shrink_to_fit();
            for word in (0..bucket.ends.len()).filter_map(|index| bucket.word(index)) {
                let (index, bits) = filter_bits(hash(word), self.filter.len());
                self.filter[index] |= bits;
            }
        }
    }

    /// Adds a term; terms come in ascending order.
    fn push(&mut self, term: &str, chunks: u32) {
        let is_word = !term.contains(|c: char| c.is_numeric() || c.is_ascii_punctuation());
        let Some(kind) = kind(term).filter(|_| is_word) else { return };
        let bucket = self.buckets.entry(kind).or_default();
        bucket.text.push_str(term);
        bucket.ends.push(bucket.text.len() as u32);
        bucket.letters.push(letters(term));
        bucket.chunks.push(chunks);
    }

    /// Number of chunks that contain the word, given with its [`hash`]; 0 if there is none.
    pub(super) fn chunks_with(&self, word: &str, hash: u64) -> u32 {
        let (index, bits) = filter_bits(hash, self.filter.len());
        if self.filter[index] & bits != bits {
            return 0;
        }
        let Some(bucket) = kind(word).and_then(|kind| self.buckets.get(&kind)) else { return 0 };
        let index = bucket.count_less(word);
        if bucket.word(index) == Some(word) { bucket.chunks[index] } else { 0 }
    }

    /// Calls `visit` with every word that starts with the same letter, differs in length by at most `edits`, and by its set of
    /// letters may be within `edits` edits; and with the number of chunks that contain it.
    pub(super) fn for_each_near<'a>(&'a self, word: &str, edits: usize, mut visit: impl FnMut(&'a str, u32)) {
        let Some((first, chars)) = kind(word) else { return };
        let wanted = letters(word);
        for chars in chars.saturating_sub(edits)..=chars + edits {
            let Some(bucket) = self.buckets.get(&(first, chars)) else { continue };
            for (index, letters) in bucket.letters.iter().enumerate() {
                // an edit removes at most one letter and adds at most one
                if (letters ^ wanted).count_ones() as usize <= 2 * edits
                    && let Some(word) = bucket.word(index)
                {
                    visit(word, bucket.chunks[index]);
                }
            }
        }
    }
}

impl Bucket {
    fn word(&self, index: usize) -> Option<&str> {
        let start = index.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        self.text.get(start as usize..*self.ends.get(index)? as usize)
    }

    /// Number of words less than `text`.
    fn count_less(&self, text: &str) -> usize {
        let (mut from, mut to) = (0, self.ends.len());
        while from < to {
            let middle = from.midpoint(to);
            if self.word(middle).is_some_and(|word| word < text) {
                from = middle + 1;
            } else {
                to = middle;
            }
        }
        from
    }
}

/// The hash of a word.
pub(super) fn hash(word: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    hasher.finish()
}

/// The position and bits of a word in a filter of `len` numbers: two bits of one number.
fn filter_bits(hash: u64, len: usize) -> (usize, u64) {
    let bit = |shift: usize| 1 << (hash >> shift & (BITS as u64 - 1));
    ((hash >> 12) as usize & (len - 1), bit(0) | bit(6))
}

fn kind(word: &str) -> Option<(char, usize)> {
    let mut chars = word.chars();
    let first = chars.next()?;
    let count = 1 + chars.count();
    CHARS.contains(&count).then_some((first, count))
}

/// The set of letters of a word: one bit for each of a to z; other characters share six bits.
fn letters(word: &str) -> u32 {
    word.chars().fold(0, |letters, char| {
        let bit = match char {
            'a'..='z' => u32::from(char) - u32::from('a'),
            _ => 26 + u32::from(char) % 6,
        };
        letters | 1 << bit
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(all: &[(&str, u32)]) -> SpellingIndex {
        let mut words = SpellingIndex { buckets: HashMap::new(), filter: Vec::new() };
        all.iter().for_each(|(word, chunks)| words.push(word, *chunks));
        words.finish();
        words
    }

    #[test]
    fn words_are_found_with_their_chunk_counts() {
        let words =
            words(&[("a", 1), ("ant", 2), ("apt", 3), ("bee", 4), ("bees", 5), ("b52", 6), ("ähre", 7)]);
        let pins = ["a", "ant", "aps", "apt", "bee", "bees", "b52", "ähre", "", "zoo"];
        assert_eq!(pins.map(|word| words.chunks_with(word, hash(word))), [0, 2, 0, 3, 4, 5, 0, 7, 0, 0]);
    }

    #[test]
    fn near_words_share_the_first_letter_and_have_similar_letters_and_lengths() {
        let words = words(&[("baker", 1), ("bakery", 2), ("bakeries", 3), ("bread", 4), ("cakes", 5)]);
        let near = |word, edits| {
            let mut near = Vec::new();
            words.for_each_near(word, edits, |word, chunks| near.push((word, chunks)));
            near
        };
        assert_eq!(near("bakes", 1), [("baker", 1)]);
        assert_eq!(near("bakes", 2), [("baker", 1), ("bread", 4), ("bakery", 2)]);
        assert_eq!(near("akers", 1), []);
    }
}
