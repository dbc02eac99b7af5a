//! A cache of embeddings.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use crate::request::Truncation;

/// Estimated overhead of an entry.
const ENTRY_BYTES: usize = 128;

/// Version of the encoding of what is hashed.
const KEY_VERSION: u8 = 1;

/// Hash of the embedder's fingerprint and the token ids, the words' hashes or the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct CacheKey([u8; 32]);

impl CacheKey {
    pub(super) fn of_ids(fingerprint: &str, ids: &[u32]) -> CacheKey {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        CacheKey::of_bytes(b'i', fingerprint, &bytes)
    }

    pub(super) fn of_words(fingerprint: &str, hashes: &[u64]) -> CacheKey {
        let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        CacheKey::of_bytes(b'w', fingerprint, &bytes)
    }

    /// A text from which an upstream cuts off what `truncation` says.
    pub(super) fn of_text(fingerprint: &str, truncation: Truncation, text: &str) -> CacheKey {
        let kind = match truncation {
            Truncation::End => b'e',
            Truncation::Start => b's',
            Truncation::Never => b'n',
        };
        CacheKey::of_bytes(kind, fingerprint, text.as_bytes())
    }

    fn of_bytes(kind: u8, fingerprint: &str, bytes: &[u8]) -> CacheKey {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[KEY_VERSION, kind]);
        hasher.update(&(fingerprint.len() as u64).to_le_bytes()).update(fingerprint.as_bytes());
        CacheKey(*hasher.update(bytes).finalize().as_bytes())
    }
}

/// The most recently used embeddings, up to a number of bytes. Clones share them.
#[derive(Clone)]
pub(super) struct EmbeddingCache {
    entries: Arc<Mutex<Entries>>,
    bytes_max: usize,
}

struct Entries {
    by_key: LruCache<CacheKey, Arc<[f32]>>,
    bytes: usize,
}

impl EmbeddingCache {
    pub(super) fn new(bytes_max: usize) -> EmbeddingCache {
        let entries = Entries { by_key: LruCache::unbounded(), bytes: 0 };
        EmbeddingCache { entries: Arc::new(Mutex::new(entries)), bytes_max }
    }

    /// Whether its limit is above 0.
    pub(super) fn is_enabled(&self) -> bool {
        self.bytes_max > 0
    }

    pub(super) fn get(&self, key: &CacheKey) -> Option<Arc<[f32]>> {
        self.lock().by_key.get(key).cloned()
    }

    /// Whether it has an entry for `key`. Does not count as a use.
    pub(super) fn contains(&self, key: &CacheKey) -> bool {
        self.lock().by_key.contains(key)
    }

    /// Adds an embedding, and removes the least recently used ones beyond the limit.
    pub(super) fn put(&self, key: CacheKey, embedding: &[f32]) {
        let mut entries = self.lock();
        entries.bytes += bytes_of(embedding);
        if let Some((_, replaced)) = entries.by_key.push(key, embedding.into()) {
            entries.bytes -= bytes_of(&replaced);
        }
        while entries.bytes > self.bytes_max {
            let Some((_, oldest)) = entries.by_key.pop_lru() else { return };
            entries.bytes -= bytes_of(&oldest);
        }
    }

    /// Bytes of all entries.
    pub(super) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes_of(embedding: &[f32]) -> usize {
    size_of_val(embedding) + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: u32) -> CacheKey {
        CacheKey::of_ids("model", &[id])
    }

    #[test]
    fn the_least_recently_used_embeddings_are_evicted() {
        let cache = EmbeddingCache::new(3 * (ENTRY_BYTES + 8));
        for id in 0..3 {
            cache.put(key(id), &[id as f32, 0.5]);
        }
        assert_eq!(cache.get(&key(0)), Some([0.0, 0.5].into()));
        cache.put(key(3), &[3.0, 0.5]);
        assert_eq!(cache.get(&key(1)), None);
        assert!([0, 2, 3].iter().all(|id| cache.get(&key(*id)).is_some()));
        cache.put(key(3), &[3.0, 0.5]);
        assert_eq!(cache.bytes(), 3 * (ENTRY_BYTES + 8), "replacing an entry takes no more bytes");
        cache.put(key(4), &[0.0; 1000]);
        assert_eq!((cache.bytes(), cache.get(&key(4))), (0, None), "too large for the cache");
    }

    #[test]
    fn keys_differ_by_model_and_tokens() {
        assert_ne!(CacheKey::of_ids("a", &[1, 2]), CacheKey::of_ids("b", &[1, 2]));
        assert_ne!(CacheKey::of_ids("a", &[1, 2]), CacheKey::of_ids("a", &[2, 1]));
        assert_eq!(CacheKey::of_ids("a", &[1, 2]), CacheKey::of_ids("a", &[1, 2]));
    }
}
