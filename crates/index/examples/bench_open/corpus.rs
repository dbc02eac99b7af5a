//! Made-up documents of one chunk: short texts after Zipf's law, random unit embeddings, two fields of metadata.

use weir_index::{Change, IndexedChunk, IndexedDocument};

use crate::DIMENSION;

/// Distinct words.
const WORDS: u64 = 30_000;
/// Words per text.
const TEXT_WORDS: usize = 10;

/// A document of one chunk, made of its number alone.
pub(crate) fn put(number: usize) -> Change {
    let mut random = Random(number as u64 + 1);
    let text = text(&mut random);
    let chunk = IndexedChunk { start: 0, end: text.len(), text, embedding: Some(unit_vector(&mut random)) };
    Change::Put(IndexedDocument {
        id: format!("d{number}"),
        version: 1,
        title: None,
        metadata: format!("{{\"n\":{number},\"group\":\"g{}\"}}", number % 100),
        pages: None,
        chunks: vec![chunk],
    })
}

/// A query that shares words with texts, and its embedding.
pub(crate) fn query() -> (String, Vec<f32>) {
    let mut random = Random(u64::MAX / 3);
    (text(&mut random), unit_vector(&mut random))
}

fn text(random: &mut Random) -> String {
    // the number of a word is log-uniform: its frequency is inverse to its rank
    let number = |random: &mut Random| ((WORDS as f64).powf(random.uniform()) as u64).min(WORDS - 1);
    (0..TEXT_WORDS).map(|_| word(number(random))).collect::<Vec<_>>().join(" ")
}

/// A pronounceable word for each number.
fn word(mut number: u64) -> String {
    const CONSONANTS: &[u8] = b"bcdfghjklmnprstvwz";
    const VOWELS: &[u8] = b"aeiou";
    let mut word = String::new();
    loop {
        word.push(char::from(CONSONANTS[(number % 18) as usize]));
        word.push(char::from(VOWELS[(number / 18 % 5) as usize]));
        number /= 90;
        if number == 0 {
            return word + "r";
        }
    }
}

fn unit_vector(random: &mut Random) -> Vec<f32> {
    let values: Vec<f32> =
        (0..DIMENSION).map(|_| (random.uniform() + random.uniform() - 1.0) as f32).collect();
    let length = values.iter().map(|value| value * value).sum::<f32>().sqrt();
    values.into_iter().map(|value| value / length).collect()
}

/// SplitMix64 (Steele, Lea, Flood, 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// In 0..1.
    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}
