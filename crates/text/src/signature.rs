//! Detection of near-duplicate texts: long ones by MinHash, short ones by their words.

use crate::{Analyser, Language};

/// Words per shingle.
const SHINGLE_WORDS: usize = 4;
/// Hash functions, one for each value of the signature.
const HASHES: usize = 64;

/// Texts of at most this many words are compared word by word: a changed word changes four shingles, which are most of those of a short text.
const SHORT_WORDS_MAX: usize = 63;
/// Words that two short texts are taken to share beside those that they do, so that texts of at least six words that differ in one
/// have a resemblance of 0.8, and shorter ones that differ have less.
const SHARED_WORDS: usize = 3;

/// The signature of a text among near-duplicates, without case and punctuation: a MinHash signature of 256 bytes, that is the minimum of
/// each hash function over the text's shingles (runs of four words), and the words of a short text.
/// Source: Broder, On the resemblance and containment of documents, 1997.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    minima: [u32; HASHES],
    /// The hashes of the distinct words of a short text, ascending; `None` for a long one.
    words: Option<Vec<u32>>,
}

impl Signature {
    /// The signature of a text. A text of fewer than four words is a single shingle.
    pub fn of(text: &str) -> Signature {
        let mut words: Vec<u32> = Vec::new();
        Analyser::new(Language::None).analyse(text, |token| {
            if token.in_sequence {
                words.push(hash(token.text));
            }
        });
        let mut minima = [u32::MAX; HASHES];
        for shingle in words.windows(SHINGLE_WORDS.min(words.len().max(1))) {
            let value = shingle.iter().fold(0u64, |sum, &word| {
                (sum ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
            });
            for (number, minimum) in (1u64..).zip(&mut minima) {
                // multiply-shift hashing with a different odd factor per function (Dietzfelbinger et al., 1997)
                let hashed = value.wrapping_mul(number.wrapping_mul(0xd6e8_feb8_6659_fd92) | 1) >> 32;
                *minimum = (*minimum).min(hashed as u32);
            }
        }
        let is_short = words.len() <= SHORT_WORDS_MAX;
        words.sort_unstable();
        words.dedup();
        Signature { minima, words: is_short.then_some(words) }
    }

    /// Estimate of the Jaccard similarity of the two sets of shingles, 0 to 1; standard error at most 0.06. Of two short texts, that of
    /// their sets of words, to both of which three words are added.
    pub fn resemblance(&self, other: &Signature) -> f32 {
        if let (Some(one), Some(other)) = (&self.words, &other.words) {
            let shared = shared(one, other);
            return (shared + SHARED_WORDS) as f32 / (one.len() + other.len() - shared + SHARED_WORDS) as f32;
        }
        let equal = self.minima.iter().zip(&other.minima).filter(|(a, b)| a == b).count();
        equal as f32 / HASHES as f32
    }
}

/// The number of values that two ascending lists have in common.
fn shared(one: &[u32], other: &[u32]) -> usize {
    let (mut at, mut count) = (0, 0);
    for value in one {
        while other.get(at).is_some_and(|candidate| candidate < value) {
            at += 1;
        }
        count += usize::from(other.get(at) == Some(value));
    }
    count
}

/// FNV-1a of 32 bits.
fn hash(word: &str) -> u32 {
    word.bytes().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Solar panels on the roof of a house make most of their power at noon, and on a clear day in \
                        June ten of them are enough for the kettle, the washing machine and the car of a family";

    #[test]
    fn texts_that_differ_in_a_word_have_a_high_resemblance_and_others_a_low_one() {
        let signature = Signature::of(TEXT);
        assert_eq!(signature.resemblance(&Signature::of(&TEXT.to_uppercase().replace(',', " ;"))), 1.0);
        let near = signature.resemblance(&Signature::of(&TEXT.replace("family", "friend")));
        assert!((0.85..1.0).contains(&near), "{near}");
        let far =
            signature.resemblance(&Signature::of("The roof of a house is made of tiles, straw or slate."));
        assert!(far < 0.25, "{far}");
    }

    #[track_caller]
    fn check(one: &str, other: &str, expected: f32) {
        let resemblance = Signature::of(one).resemblance(&Signature::of(other));
        assert!((resemblance - expected).abs() < 1e-6, "{one:?}, {other:?}: {resemblance}");
    }

    #[test]
    fn short_texts_that_differ_in_one_word_of_six_are_near_duplicates() {
        check("German language package for Firefox ESR", "Danish language package for Firefox ESR.", 0.8);
        check("German dictionary for hunspell", "Catalan dictionary for hunspell", 0.75);
        check("red apple", "Red apple!", 1.0);
        check("red apple", "green apple", 4.0 / 6.0);
        check("", "!", 1.0);
        check("", "apple", 0.75);
        check("the lock of the mill is open", "a boat waits below", 3.0 / 13.0);
    }

    #[test]
    fn texts_around_the_length_of_short_ones_are_recognised() {
        let words: Vec<String> = (0..SHORT_WORDS_MAX + 1).map(|number| format!("w{number}")).collect();
        let (short, long) = (words[1..].join(" "), words.join(" "));
        let resemblance = Signature::of(&short).resemblance(&Signature::of(&long));
        assert!(resemblance > 0.9, "{resemblance}");
        let resemblance = Signature::of(&long).resemblance(&Signature::of(&long.replace("w30 ", "other ")));
        assert!(resemblance > 0.75, "{resemblance}");
    }
}
