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
            let mut state = hash(&text[span].to_lowercase());
            for x in &mut *sum {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                *x += (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
            }
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
    fn tokens_are_the_words() {
        assert_eq!(Pseudo { dimension: 4 }.token_spans(" a bc, é"), [1..2, 3..5, 7..9]);
    }
}
