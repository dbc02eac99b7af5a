//! Deterministic embeddings without a model, for development and load tests.

use std::ops::Range;

use super::normalise::l2_normalise;

/// The embedding of a text is the normalised sum of pseudo-random vectors of its words: only texts that share words are similar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pseudo {
    /// The length of an embedding.
    pub dimension: usize,
}

impl Pseudo {
    /// Appends the embedding of `text`, of length one: `[1, 0, …]` for a text without words.
    pub(super) fn embed(self, text: &str, floats: &mut Vec<f32>) {
        let start = floats.len();
        floats.resize(start + self.dimension, 0.0);
        let sum = &mut floats[start..];
        for span in word_spans(text) {
            add_numbers(hash(&text[span].to_lowercase()), sum);
        }
        match sum.first_mut() {
            Some(first) if word_spans(text).next().is_none() => *first = 1.0,
            Some(_) | None => l2_normalise(sum),
        }
    }

    /// One token per word.
    pub fn token_spans(self, text: &str) -> Vec<Range<usize>> {
        word_spans(text).collect()
    }

    /// Identifies comparable embeddings: those of the same dimension.
    pub fn fingerprint(self) -> String {
        format!("pseudo-1-{}", self.dimension)
    }
}

/// A linear congruential generator: Knuth's multiplier, "The Art of Computer Programming", section 3.3.4.
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;
const INCREMENT: u64 = 1_442_695_040_888_963_407;
/// Numbers that are made at once: each step of one generator needs the one before.
const LANES: usize = 8;
/// Multiplier and increment of [`LANES`] steps.
const LEAP: (u64, u64) = leap(LANES);

const fn leap(steps: usize) -> (u64, u64) {
    let (mut multiplier, mut increment, mut step) = (1u64, 0u64, 0);
    while step < steps {
        multiplier = multiplier.wrapping_mul(MULTIPLIER);
        increment = increment.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        step += 1;
    }
    (multiplier, increment)
}

/// Adds numbers from -1 to 1 of a generator that begins at `seed`.
fn add_numbers(seed: u64, sum: &mut [f32]) {
    let mut states = [0u64; LANES];
    let mut state = seed;
    for lane in &mut states {
        state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
        *lane = state;
    }
    for part in sum.chunks_mut(LANES) {
        for (x, state) in part.iter_mut().zip(&mut states) {
            // 24 bits: a signed number converts in one instruction
            *x += (*state >> 40) as i32 as f32 / (1u64 << 23) as f32 - 1.0;
            *state = state.wrapping_mul(LEAP.0).wrapping_add(LEAP.1);
        }
    }
}

/// The byte span of each run of letters and digits.
pub(super) fn word_spans(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let start_of = move |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(move |word| start_of(word)..start_of(word) + word.len())
}

/// FNV-1a.
fn hash(word: &str) -> u64 {
    word.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cosine(a: &str, b: &str) -> f32 {
        let embed = |text| {
            let mut floats = Vec::new();
            Pseudo { dimension: 64 }.embed(text, &mut floats);
            floats
        };
        embed(a).iter().zip(embed(b)).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn texts_that_share_words_are_similar() {
        assert!((cosine("red apple", "Apple, red!") - 1.0).abs() < 1e-6);
        assert!(cosine("red apple pie", "red apple cake") > 0.4);
        assert!(cosine("red apple", "green pear").abs() < 0.4);
    }

    #[test]
    fn every_embedding_has_length_one() {
        for text in ["", "?!", "one", "zwei drei 東京"] {
            assert!((cosine(text, text) - 1.0).abs() < 1e-5, "{text:?}");
        }
    }

    #[test]
    fn numbers_are_those_of_one_generator() {
        let mut sum = [0.0; 21];
        add_numbers(7, &mut sum);
        let mut state = 7u64;
        for x in sum {
            state = state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
            assert_eq!(x, (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0);
        }
    }

    #[test]
    fn tokens_are_the_words() {
        assert_eq!(Pseudo { dimension: 4 }.token_spans(" a bc, é"), [1..2, 3..5, 7..9]);
    }
}
