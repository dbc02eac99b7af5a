//! Deterministic embeddings without a model, for development and load tests.

use std::ops::Range;

/// The embedding of a text is the normalised sum of pseudo-random vectors of its words: only texts that share words are similar.
///
/// The vector of a word is a sequence of [runs](RUN). A counter-based generator, seeded by the word's hash, picks for each run a position in
/// a table of random numbers, so that a word costs a load and an addition for each number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pseudo {
    /// The length of an embedding.
    pub dimension: usize,
}

impl Pseudo {
    /// Appends the embedding of a text with these [`hashes_of_words`], of length one: `[1, 0, …]` for a text without words.
    pub(super) fn embed(self, words: &[u64], floats: &mut Vec<f32>) {
        let start = floats.len();
        let mut squares = [0.0; RUN];
        for run in 0..self.dimension.div_ceil(RUN) {
            let mut sum = sum_of_runs(words, run as u64);
            let width = RUN.min(self.dimension - run * RUN);
            sum[width..].fill(0.0);
            floats.extend_from_slice(&sum[..width]);
            squares.iter_mut().zip(&sum).for_each(|(square, x)| *square += x * x);
        }
        let length = squares.iter().sum::<f32>().sqrt();
        if length > 0.0 {
            let scale = 1.0 / length;
            floats[start..].iter_mut().for_each(|x| *x *= scale);
        } else if let Some(first) = floats.get_mut(start) {
            *first = 1.0;
        }
    }

    /// One token per word.
    pub fn token_spans(self, text: &str) -> Vec<Range<usize>> {
        word_spans(text).collect()
    }

    /// Identifies comparable embeddings: those of the same dimension, made in the same way.
    pub fn fingerprint(self) -> String {
        format!("pseudo-2-{}", self.dimension)
    }
}

/// Numbers that are taken from the table at once. Their sums fit the registers of every instruction set.
const RUN: usize = 32;

/// Numbers of the table at which a run can begin; 16 KB stay in the first-level cache.
const POSITIONS: usize = 1 << 12;

/// Numbers from -1 to 1.
static NUMBERS: [f32; POSITIONS + RUN] = random_numbers();

const fn random_numbers() -> [f32; POSITIONS + RUN] {
    let (mut numbers, mut at) = ([0.0; POSITIONS + RUN], 0);
    while at < numbers.len() {
        // 24 bits are exact in a float
        numbers[at] = (mix(at as u64 + 1) >> 40) as f32 / (1u64 << 23) as f32 - 1.0;
        at += 1;
    }
    numbers
}

/// The sum of one run of all words.
#[inline]
fn sum_of_runs(words: &[u64], run: u64) -> [f32; RUN] {
    let mut sum = [0.0; RUN];
    for word in words {
        let position = position_of(*word, run);
        let numbers = &NUMBERS[position..position + RUN];
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
    }
    sum
}

/// Where a run of a word begins in the table: the upper bits of a counter's hash.
#[inline]
fn position_of(word: u64, run: u64) -> usize {
    let counter = word.wrapping_add(run.wrapping_mul(GOLDEN_RATIO));
    let hash = (counter ^ (counter >> 32)).wrapping_mul(MULTIPLIER);
    (hash >> (u64::BITS - POSITIONS.trailing_zeros())) as usize
}

/// 2^64 divided by the golden ratio: the step of the counter of SplitMix64.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;
/// The first multiplier of [`mix`].
const MULTIPLIER: u64 = 0xbf58_476d_1ce4_e5b9;

/// The output function of SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
const fn mix(counter: u64) -> u64 {
    let hash = counter.wrapping_mul(GOLDEN_RATIO);
    let hash = (hash ^ (hash >> 30)).wrapping_mul(MULTIPLIER);
    let hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

/// A hash of each word of `text` in lower case, in order.
pub(super) fn hashes_of_words(text: &str) -> Vec<u64> {
    let hash_of = |word: &str| {
        mix(if word.is_ascii() {
            word.bytes().map(|byte| byte.to_ascii_lowercase()).fold(HASH_START, add_byte)
        } else {
            word.to_lowercase().bytes().fold(HASH_START, add_byte)
        })
    };
    word_spans(text).map(|span| hash_of(&text[span])).collect()
}

/// FNV-1a.
const HASH_START: u64 = 0xcbf2_9ce4_8422_2325;

fn add_byte(hash: u64, byte: u8) -> u64 {
    (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
}

/// The byte span of each run of letters and digits.
pub(super) fn word_spans(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let start_of = move |word: &str| word.as_ptr() as usize - text.as_ptr() as usize;
    text.split(|c: char| !c.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(move |word| start_of(word)..start_of(word) + word.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn embed(text: &str, dimension: usize) -> Vec<f32> {
        let mut floats = Vec::new();
        Pseudo { dimension }.embed(&hashes_of_words(text), &mut floats);
        assert_eq!(floats.len(), dimension);
        floats
    }

    fn cosine(a: &str, b: &str, dimension: usize) -> f32 {
        embed(a, dimension).iter().zip(embed(b, dimension)).map(|(x, y)| x * y).sum()
    }

    #[test]
    fn texts_that_share_words_are_similar() {
        assert!((cosine("red apple", "Apple, red!", 64) - 1.0).abs() < 1e-6);
        assert!(cosine("red apple pie", "red apple cake", 64) > 0.4);
        assert!((cosine("red apple pie", "red apple cake", 1024) - 2.0 / 3.0).abs() < 0.1);
        assert!(cosine("red apple", "green pear", 64).abs() < 0.4);
    }

    #[test]
    fn different_words_are_unrelated_in_every_dimension() {
        let words: Vec<Vec<f32>> = (0..300).map(|word| embed(&word.to_string(), 1024)).collect();
        let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        for (at, word) in words.iter().enumerate() {
            assert!(words[..at].iter().all(|other| dot(word, other).abs() < 0.25), "word {at}");
            // the expected dot product of halves is 0: a run does not repeat in its word
            assert!(dot(&word[..512], &word[512..]).abs() < 0.15, "word {at}");
        }
        for dimension in 0..1024 {
            let mean = words.iter().map(|word| word[dimension]).sum::<f32>() / words.len() as f32;
            assert!(mean.abs() < 0.01, "dimension {dimension}: {mean}");
        }
    }

    #[test]
    fn every_embedding_has_length_one() {
        for text in ["", "?!", "one", "zwei drei 東京"] {
            for dimension in [1, 31, 32, 33, 384] {
                assert!((cosine(text, text, dimension) - 1.0).abs() < 1e-5, "{text:?} {dimension}");
            }
        }
        assert_eq!(embed("?!", 3), [1.0, 0.0, 0.0]);
        assert!(embed("one", 0).is_empty());
    }

    #[test]
    fn the_fingerprint_stands_for_these_numbers() {
        assert_eq!(Pseudo { dimension: 8 }.fingerprint(), "pseudo-2-8");
        let expected = [
            0.06796782,
            0.09370349,
            0.049090005,
            -0.63229626,
            0.13957195,
            -0.5666172,
            -0.0020103257,
            -0.49381402,
        ];
        assert_eq!(embed("A weir, 7 m", 8), expected);
        let long = embed("a weir 7 m", 1000);
        let expected = [0.0039007843, 0.01713051, -0.009297275, 0.040851932];
        assert_eq!([long[0], long[31], long[32], long[999]], expected);
    }

    #[test]
    fn words_are_the_same_in_ascii_and_beyond() {
        let ascii = hashes_of_words("Red, APPLE-pie 7");
        assert_eq!(ascii.len(), 4);
        assert_eq!(hashes_of_words("red é apple PIE 7 É")[..], {
            let e = hashes_of_words("é")[0];
            [ascii[0], e, ascii[1], ascii[2], ascii[3], e]
        });
    }

    #[test]
    fn tokens_are_the_words() {
        assert_eq!(Pseudo { dimension: 4 }.token_spans(" a bc, é"), [1..2, 3..5, 7..9]);
    }
}
