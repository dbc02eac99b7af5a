//! Stemming, with a cache for frequent words.

use crate::Language;
use snowball_stemmers_rs::Stemmer;

/// Longest word that is cached: a word and its length fill one `u128`.
const CACHED_BYTES_MAX: usize = 15;
/// Entries of the cache; 4,096 × 32 bytes fit the second-level cache of a core.
const CACHE_ENTRIES: usize = 4096;
/// The cache is allocated after this many words, so that short texts skip the allocation.
const CACHE_AFTER_WORDS: usize = 512;

/// The stemmer of one language, with a direct-mapped cache: an entry holds the last word with its hash. Most words of an
/// English text of ordinary length are cached; a lookup costs a tenth of stemming.
pub(crate) struct CachedStemmer {
    stemmer: Option<Stemmer>,
    words_seen: usize,
    cache: Vec<CacheEntry>,
}

#[derive(Clone, Copy, Default)]
struct CacheEntry {
    word: u128,
    stem: u128,
}

impl CachedStemmer {
    pub(crate) fn new(language: Language) -> CachedStemmer {
        CachedStemmer { stemmer: language.algorithm().map(Stemmer::create), words_seen: 0, cache: Vec::new() }
    }

    /// Appends the stem of `word`, or the word itself if the language has no stemmer.
    pub(crate) fn stem(&mut self, word: &str, out: &mut String) {
        let Some(stemmer) = &self.stemmer else { return out.push_str(word) };
        let Some(packed) = pack(word) else { return out.push_str(&stemmer.stem(word)) };
        if self.cache.is_empty() {
            self.words_seen += 1;
            if self.words_seen < CACHE_AFTER_WORDS {
                return out.push_str(&stemmer.stem(word));
            }
            self.cache.resize(CACHE_ENTRIES, CacheEntry::default());
        }
        let entry = &mut self.cache[entry_index(packed)];
        if entry.word == packed {
            let bytes = entry.stem.to_le_bytes();
            let length = usize::from(bytes[CACHED_BYTES_MAX]);
            // The packed bytes are those of a string, so this never fails.
            return out.push_str(std::str::from_utf8(&bytes[..length]).unwrap_or(word));
        }
        let stem = stemmer.stem(word);
        if let Some(stem) = pack(&stem) {
            *entry = CacheEntry { word: packed, stem };
        }
        out.push_str(&stem);
    }
}

impl std::fmt::Debug for CachedStemmer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CachedStemmer").field("has_stemmer", &self.stemmer.is_some()).finish_non_exhaustive()
    }
}

/// The bytes of a short word, with its length in the last byte; `None` for a longer word. Never 0 for a non-empty word.
fn pack(word: &str) -> Option<u128> {
    let mut bytes = [0; CACHED_BYTES_MAX + 1];
    bytes.get_mut(..word.len()).filter(|_| word.len() <= CACHED_BYTES_MAX)?.copy_from_slice(word.as_bytes());
    bytes[CACHED_BYTES_MAX] = word.len() as u8;
    Some(u128::from_le_bytes(bytes))
}

fn entry_index(packed: u128) -> usize {
    let mixed = (packed as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (packed >> 64) as u64;
    (mixed.wrapping_mul(0xd6e8_feb8_6659_fd93) >> (64 - CACHE_ENTRIES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::{CACHE_AFTER_WORDS, CachedStemmer};
    use crate::Language;

    #[test]
    fn a_cached_stem_equals_the_computed_stem() {
        let words: Vec<String> = (0..2000)
            .map(|n| {
                ["running", "quickly", "national", "internationalization", "étés"][n % 5].to_owned()
                    + &"x".repeat(n % 7)
            })
            .collect();
        let mut cached_stemmer = CachedStemmer::new(Language::English);
        for word in words.iter().cycle().take(CACHE_AFTER_WORDS + 3 * words.len()) {
            let (mut cached, mut computed) = (String::new(), String::new());
            cached_stemmer.stem(word, &mut cached);
            CachedStemmer::new(Language::English).stem(word, &mut computed);
            assert_eq!(cached, computed);
        }
    }
}
