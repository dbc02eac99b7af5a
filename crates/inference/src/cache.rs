//! Embeddings that were made before, by what they were made of.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

/// Bytes that an entry takes beside its floats, about.
const ENTRY_BYTES: usize = 128;

/// What an embedding is made of: a hash over the model's fingerprint and the token ids, or the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn of_ids(fingerprint: &str, ids: &[u32]) -> Key {
        let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
        Key::of_bytes(fingerprint, &bytes)
    }

    pub(super) fn of_text(fingerprint: &str, text: &str) -> Key {
        Key::of_bytes(fingerprint, text.as_bytes())
    }

    fn of_bytes(fingerprint: &str, bytes: &[u8]) -> Key {
        let mut hasher = blake3::Hasher::new();
        Key(*hasher.update(fingerprint.as_bytes()).update(bytes).finalize().as_bytes())
    }
}

/// The embeddings that were used last, up to a number of bytes. Cloning gives another handle to the same ones.
#[derive(Clone)]
pub(super) struct Cache {
    entries: Arc<Mutex<Entries>>,
    bytes_max: usize,
}

struct Entries {
    by_key: LruCache<Key, Box<[f32]>>,
    bytes: usize,
}

impl Cache {
    pub(super) fn new(bytes_max: usize) -> Cache {
        let entries = Entries { by_key: LruCache::unbounded(), bytes: 0 };
        Cache { entries: Arc::new(Mutex::new(entries)), bytes_max }
    }

    /// Whether it may hold anything at all.
    pub(super) fn is_on(&self) -> bool {
        self.bytes_max > 0
    }

    pub(super) fn get(&self, key: &Key) -> Option<Vec<f32>> {
        self.lock().by_key.get(key).map(|embedding| embedding.to_vec())
    }

    /// Whether it holds an embedding; looking doesn't count as use.
    pub(super) fn has(&self, key: &Key) -> bool {
        self.lock().by_key.contains(key)
    }

    /// Keeps an embedding, and lets go of those that were not used for longest.
    pub(super) fn put(&self, key: Key, embedding: &[f32]) {
        let mut entries = self.lock();
        entries.bytes += bytes_of(embedding);
        if let Some((_, before)) = entries.by_key.push(key, embedding.into()) {
            entries.bytes -= bytes_of(&before);
        }
        while entries.bytes > self.bytes_max {
            let Some((_, oldest)) = entries.by_key.pop_lru() else { return };
            entries.bytes -= bytes_of(&oldest);
        }
    }

    /// Bytes that its embeddings take.
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

    fn key(id: u32) -> Key {
        Key::of_ids("model", &[id])
    }

    #[test]
    fn the_least_recently_used_go_when_the_bytes_are_used_up() {
        let cache = Cache::new(3 * (ENTRY_BYTES + 8));
        for id in 0..3 {
            cache.put(key(id), &[id as f32, 0.5]);
        }
        assert_eq!(cache.get(&key(0)), Some(vec![0.0, 0.5]));
        cache.put(key(3), &[3.0, 0.5]);
        assert_eq!(cache.get(&key(1)), None);
        assert!([0, 2, 3].iter().all(|id| cache.get(&key(*id)).is_some()));
        cache.put(key(3), &[3.0, 0.5]);
        assert_eq!(cache.bytes(), 3 * (ENTRY_BYTES + 8), "the same again takes no more");
        cache.put(key(4), &[0.0; 1000]);
        assert_eq!((cache.bytes(), cache.get(&key(4))), (0, None), "too large for the cache");
    }

    #[test]
    fn another_model_or_other_tokens_are_another_key() {
        assert_ne!(Key::of_ids("a", &[1, 2]), Key::of_ids("b", &[1, 2]));
        assert_ne!(Key::of_ids("a", &[1, 2]), Key::of_ids("a", &[2, 1]));
        assert_eq!(Key::of_ids("a", &[1, 2]), Key::of_ids("a", &[1, 2]));
    }
}
