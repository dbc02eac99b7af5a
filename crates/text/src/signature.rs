//! Detection of near-duplicate texts by MinHash.

use crate::{Analyser, Language};

/// Words per shingle.
const SHINGLE_WORDS: usize = 4;
/// Hash functions, one for each value of the signature.
const HASHES: usize = 64;

/// A MinHash signature of 256 bytes: the minimum of each hash function over the text's shingles (runs of four words,
/// without case and punctuation). Source: Broder, On the resemblance and containment of documents, 1997.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature([u32; HASHES]);

impl Signature {
    /// The signature of a text. A text of fewer than four words is a single shingle.
    pub fn of(text: &str) -> Signature {
        let mut words: Vec<u32> = Vec::new();
        Analyser::new(Language::None).analyse(text, |token| words.push(hash(token.text)));
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
        Signature(minima)
    }

    /// Estimate of the Jaccard similarity of the two sets of shingles, 0 to 1; standard error at most 0.06.
    pub fn resemblance(&self, other: &Signature) -> f32 {
        let equal = self.0.iter().zip(&other.0).filter(|(a, b)| a == b).count();
        equal as f32 / HASHES as f32
    }
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
        assert!(far < 0.2, "{far}");
    }

    #[test]
    fn short_texts_are_one_shingle() {
        assert_eq!(Signature::of("red apple").resemblance(&Signature::of("Red apple!")), 1.0);
        assert_eq!(Signature::of("red apple").resemblance(&Signature::of("green apple")), 0.0);
        assert_eq!(Signature::of("").resemblance(&Signature::of("!")), 1.0);
    }
}
