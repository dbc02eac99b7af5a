//! A cache of recently read points.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use uuid::Uuid;

/// Estimated overhead of an entry.
const ENTRY_BYTES: usize = 128;

/// A point in a version of its document: what belongs to it never changes.
pub type PointVersion = (Uuid, u64);

/// A cache of values of points, the most recently used up to a number of bytes. Clones share it.
#[derive(Debug, Clone)]
pub struct PointCache<T> {
    entries: Arc<Mutex<Entries<T>>>,
    bytes_max: usize,
}

#[derive(Debug)]
struct Entries<T> {
    by_point: LruCache<PointVersion, (T, usize)>,
    bytes: usize,
}

impl<T: Clone> PointCache<T> {
    /// A cache of at most `bytes_max` bytes; 0 keeps nothing.
    pub fn new(bytes_max: usize) -> PointCache<T> {
        let entries = Entries { by_point: LruCache::unbounded(), bytes: 0 };
        PointCache { entries: Arc::new(Mutex::new(entries)), bytes_max }
    }

    /// The cached value of each of these points, in their order.
    pub fn get(&self, points: &[PointVersion]) -> Vec<Option<T>> {
        let mut entries = self.lock();
        points.iter().map(|point| entries.by_point.get(point).map(|(value, _)| value.clone())).collect()
    }

    /// Keeps what was read, each with its size in bytes, and forgets what was not used for the longest time.
    pub fn put(&self, read: impl IntoIterator<Item = (PointVersion, T, usize)>) {
        let mut entries = self.lock();
        for (point, value, bytes) in read {
            let bytes = bytes + ENTRY_BYTES;
            entries.bytes += bytes;
            if let Some((_, (_, replaced))) = entries.by_point.push(point, (value, bytes)) {
                entries.bytes -= replaced;
            }
        }
        while entries.bytes > self.bytes_max {
            let Some((_, (_, oldest))) = entries.by_point.pop_lru() else { return };
            entries.bytes -= oldest;
        }
    }

    /// Bytes of entries at most.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Bytes of all entries.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Entries<T>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_the_longest_time_is_forgotten() {
        let point = |id: u128, version| (Uuid::from_u128(id), version);
        let cache = PointCache::new(3 * (ENTRY_BYTES + 8));
        cache.put((0..3).map(|id| (point(id, 1), id, 8)));
        assert_eq!(cache.get(&[point(0, 1), point(0, 2)]), [Some(0), None], "of one version");
        cache.put([(point(3, 1), 3, 8)]);
        assert_eq!(cache.get(&[point(1, 1), point(0, 1), point(2, 1)]), [None, Some(0), Some(2)]);
        cache.put([(point(3, 1), 4, 8)]);
        assert_eq!(cache.bytes(), 3 * (ENTRY_BYTES + 8), "what is replaced takes no more bytes");
        cache.put([(point(4, 1), 5, 1_000)]);
        assert_eq!((cache.bytes(), cache.get(&[point(4, 1)])), (0, vec![None]), "larger than the cache");
    }
}
