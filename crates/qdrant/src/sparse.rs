//! Sparse vectors: the terms of our analysis with our weights.

use std::collections::{BTreeMap, HashMap};

use qdrant_client::qdrant::SparseVector;
use weir_text::Language;

/// The parameters of BM25.
const K1: f32 = 1.2;
const B: f32 = 0.75;
/// The mean number of terms of a chunk. A constant, because the stored weights of a chunk depend on it: the mean of chunks of 256 tokens.
const MEAN_TERMS: f32 = 180.0;

/// The number of a term in sparse vectors. Terms with equal numbers, of which a vocabulary of a million has about a hundred, count as one.
pub fn term_index(term: &str) -> u32 {
    // FNV-1a in 64 bits, folded
    let hash = term.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    (hash ^ (hash >> 32)) as u32
}

/// How often each term occurs in texts, and the number of all occurrences.
pub fn frequencies(texts: &[&str], language: Language) -> (HashMap<String, u32>, u32) {
    let (mut frequencies, mut count) = (HashMap::<String, u32>::new(), 0);
    for text in texts {
        weir_text::analyse(text, language, |token| {
            match frequencies.get_mut(token.text) {
                Some(frequency) => *frequency += 1,
                None => drop(frequencies.insert(token.text.to_owned(), 1)),
            }
            count += 1;
        });
    }
    (frequencies, count)
}

/// The terms of a chunk with what BM25 gives for each, but for its inverse document frequency.
pub fn sparse_of(title: &str, text: &str, language: Language) -> SparseVector {
    let (frequencies, count) = frequencies(&[title, text], language);
    let norm = K1 * (1.0 - B + B * count as f32 / MEAN_TERMS);
    let mut by_index: BTreeMap<u32, u32> = BTreeMap::new();
    for (term, frequency) in frequencies {
        *by_index.entry(term_index(&term)).or_default() += frequency;
    }
    let weight = |frequency: &u32| (1.0 + K1) * *frequency as f32 / (*frequency as f32 + norm);
    SparseVector { values: by_index.values().map(weight).collect(), indices: by_index.into_keys().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_have_the_weights_of_bm25_without_their_rarity() {
        let terms = sparse_of("", "weir weir dam", Language::English);
        let norm = K1 * (1.0 - B + B * 3.0 / MEAN_TERMS);
        let by_index: HashMap<u32, f32> = terms.indices.iter().copied().zip(terms.values).collect();
        assert_eq!(by_index[&term_index("weir")], (1.0 + K1) * 2.0 / (2.0 + norm));
        assert_eq!(by_index[&term_index("dam")], (1.0 + K1) / (1.0 + norm));
        assert!(terms.indices.is_sorted() && by_index.len() == 2);
    }
}
