//! The replies of one gateway, in memory: found by the key of their request, or by that of their last question.
//!
//! A lookup is one look into a hash table: equal questions have equal keys, so that none is searched.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lru::LruCache;
use weir_translate::TokenUsage;

use crate::{Kept, Key, Question, REPLY_BYTES_MAX, encoding};

/// Most bytes of all replies and questions, as they are in memory.
pub const BYTES_MAX: usize = 256 << 20;

/// Bytes of a slot in a hash table beside its content: a control byte, and the free slots of a table that is two thirds full.
const fn slot_bytes(content: usize) -> usize {
    (content + 1) * 3 / 2
}
/// Bytes of a reply beside its texts: its node in the list of replies with both links, and a slot with a pointer to each.
const REPLY_OVERHEAD_BYTES: usize = allocated(size_of::<Key>() + size_of::<Entry>() + 2 * size_of::<usize>())
    + slot_bytes(2 * size_of::<usize>())
    // what `Bytes` allocates to count its owners
    + allocated(3 * size_of::<usize>());
/// Bytes of a question beside its text: a slot with both keys.
const QUESTION_OVERHEAD_BYTES: usize = slot_bytes(2 * size_of::<Key>());

/// The replies of a gateway. Clones share them.
#[derive(Clone, Default)]
pub struct ReplyCache(Arc<Mutex<MemoryInner>>);

struct MemoryInner {
    replies: LruCache<Key, Entry>,
    /// The reply to a question, by the key of the question. Each is in `replies`.
    questions: HashMap<Key, Key>,
    /// Of both.
    bytes: usize,
}

/// A reply in memory: its headers as lines and its body, in one piece. A `HeaderMap` and a body as they were read would keep the whole
/// buffer of the connection.
struct Entry {
    text: Bytes,
    head_bytes: usize,
    usage: TokenUsage,
    cost_nanos: u64,
    until: Instant,
    question: Option<Box<Question>>,
}

impl Default for MemoryInner {
    fn default() -> MemoryInner {
        MemoryInner { replies: LruCache::unbounded(), questions: HashMap::new(), bytes: 0 }
    }
}

impl Entry {
    fn new(kept: &Kept, question: Option<Question>, until: Instant) -> Entry {
        let lines = encoding::lines(&kept.headers);
        let head_bytes = lines.len();
        let text = [&lines[..], &kept.body].concat();
        let question = question.map(|Question { key, text }| {
            Box::new(Question { key, text: text.into_boxed_str().into_string() }) // no more than its length
        });
        Entry {
            text: text.into(),
            head_bytes,
            usage: kept.usage,
            cost_nanos: kept.cost_nanos,
            until,
            question,
        }
    }

    fn kept(&self) -> Kept {
        let headers = encoding::headers(&self.text[..self.head_bytes]);
        let body = self.text.slice(self.head_bytes..);
        Kept { body, headers, usage: self.usage, cost_nanos: self.cost_nanos }
    }

    fn bytes(&self) -> usize {
        allocated(self.text.len()) + REPLY_OVERHEAD_BYTES + self.question.as_deref().map_or(0, question_bytes)
    }
}

fn question_bytes(question: &Question) -> usize {
    allocated(size_of::<Question>()) + allocated(question.text.len()) + QUESTION_OVERHEAD_BYTES
}

/// Bytes that the allocator takes for `bytes`: jemalloc has four sizes between two powers of two, and whole pages above 14 KiB, with one more
/// in which it shifts the first byte.
const fn allocated(bytes: usize) -> usize {
    const PAGE_BYTES: usize = 4_096;
    match bytes {
        0 => 0,
        1..=128 => bytes.next_multiple_of(16),
        129..=14_336 => bytes.next_multiple_of(bytes.next_power_of_two() / 8),
        14_337.. => bytes.next_multiple_of(PAGE_BYTES) + PAGE_BYTES / 2,
    }
}

impl ReplyCache {
    /// The reply of an equal request.
    pub fn get(&self, key: &Key, now: Instant) -> Option<Kept> {
        self.lock().get(key, now).map(Entry::kept)
    }

    /// The text of the question with this key, and the reply to it.
    pub fn answered(&self, question: &Key, now: Instant) -> Option<(String, Kept)> {
        let mut inner = self.lock();
        let key = *inner.questions.get(question)?;
        let entry = inner.get(&key, now)?;
        Some((entry.question.as_ref()?.text.clone(), entry.kept()))
    }

    /// Keeps a reply for `lifetime`, and has it found for `question`.
    pub fn put(&self, key: Key, kept: &Kept, question: Option<Question>, lifetime: Duration, now: Instant) {
        if kept.body.len() > REPLY_BYTES_MAX {
            return;
        }
        let entry = Entry::new(kept, question, now + lifetime);
        let removed = self.lock().put(key, entry);
        // their memory is given back without the lock
        drop(removed);
    }

    /// Bytes of all replies and questions.
    pub fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, MemoryInner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl MemoryInner {
    fn get(&mut self, key: &Key, now: Instant) -> Option<&Entry> {
        if self.replies.peek(key).is_some_and(|entry| entry.until <= now) {
            self.remove(key);
        }
        self.replies.get(key)
    }

    /// Adds a reply. Returns those that it replaces, and those that were used longest ago beyond the limit.
    fn put(&mut self, key: Key, entry: Entry) -> Vec<Entry> {
        let mut removed: Vec<Entry> = self.remove(&key).into_iter().collect();
        let question = entry.question.as_ref().map(|question| question.key);
        self.bytes += entry.bytes();
        self.replies.put(key, entry);
        if let Some(question) = question
            && let Some(before) = self.questions.insert(question, key)
            && let Some(other) = self.replies.peek_mut(&before)
        {
            // the other reply is still that of its request
            self.bytes -= other.question.take().as_deref().map_or(0, question_bytes);
        }
        while self.bytes > BYTES_MAX {
            let Some((oldest, _)) = self.replies.peek_lru() else { break };
            let oldest = *oldest;
            removed.extend(self.remove(&oldest));
        }
        removed
    }

    /// Removes a reply and its question.
    fn remove(&mut self, key: &Key) -> Option<Entry> {
        let entry = self.replies.pop(key)?;
        self.bytes -= entry.bytes();
        if let Some(question) = &entry.question {
            self.questions.remove(&question.key);
        }
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn kept(bytes: usize) -> Kept {
        let headers = HeaderMap::from_iter([
            (HeaderName::from_static("content-type"), HeaderValue::from_static("a/b; c: d")),
            (HeaderName::from_static("x-a"), HeaderValue::from_bytes(b"\xe9").unwrap()),
        ]);
        Kept { body: Bytes::from(vec![b'x'; bytes]), headers, usage: TokenUsage::default(), cost_nanos: 7 }
    }

    fn numbered(n: u16) -> Key {
        let mut key = [0; 32];
        key[..2].copy_from_slice(&n.to_le_bytes());
        key
    }

    fn question(n: u16, text: &str) -> Option<Question> {
        Some(Question { key: numbered(n), text: text.to_owned() })
    }

    #[test]
    fn a_reply_is_given_as_it_was_kept() {
        let (cache, now) = (ReplyCache::default(), Instant::now());
        let before = kept(10);
        cache.put([1; 32], &before, None, MINUTE, now);
        let after = cache.get(&[1; 32], now).unwrap();
        assert_eq!((after.body, after.headers, after.cost_nanos), (before.body, before.headers, 7));
    }

    #[test]
    fn replies_expire_and_the_oldest_go_first() {
        let (cache, now) = (ReplyCache::default(), Instant::now());
        cache.put([1; 32], &kept(10), None, MINUTE, now);
        assert!(cache.get(&[1; 32], now + MINUTE / 2).is_some());
        assert!(cache.get(&[1; 32], now + MINUTE).is_none() && cache.bytes() == 0);
        cache.put([2; 32], &kept(REPLY_BYTES_MAX + 1), None, MINUTE, now);
        assert!(cache.get(&[2; 32], now).is_none(), "too large");
        for n in 0..=(BYTES_MAX / REPLY_BYTES_MAX) as u16 {
            cache.put(numbered(n), &kept(REPLY_BYTES_MAX), None, MINUTE, now);
        }
        let bytes = cache.bytes();
        assert!(bytes <= BYTES_MAX && bytes > BYTES_MAX - 2 * REPLY_BYTES_MAX, "{bytes}");
        assert!(cache.get(&numbered(0), now).is_none());
    }

    #[test]
    fn questions_lead_to_the_last_reply_and_go_with_it() {
        let (cache, now) = (ReplyCache::default(), Instant::now());
        let answered = |n: u16| cache.answered(&numbered(n), now).map(|(text, kept)| (text, kept.body.len()));
        cache.put(numbered(1), &kept(10), question(9, "how do i"), MINUTE, now);
        let one = cache.bytes();
        assert_eq!(answered(9), Some(("how do i".to_owned(), 10)));
        cache.put(numbered(1), &kept(10), question(9, "how do i"), MINUTE, now);
        assert_eq!(cache.bytes(), one, "replaced together with its question");
        cache.put(numbered(2), &kept(20), question(9, "how can i"), MINUTE, now);
        assert_eq!(answered(9), Some(("how can i".to_owned(), 20)));
        assert!(cache.get(&numbered(1), now).is_some(), "still the reply of an equal request");
        cache.lock().remove(&numbered(1));
        assert_eq!(answered(9), Some(("how can i".to_owned(), 20)), "its question led to another reply");
        assert!(cache.answered(&numbered(9), now + MINUTE).is_none());
        let inner = cache.lock();
        assert_eq!((inner.bytes, inner.questions.len(), inner.replies.len()), (0, 0, 0));
    }

    #[test]
    fn sizes_are_those_of_the_allocator() {
        for (bytes, expected) in [(1, 16), (129, 160), (161, 192), (1_025, 1_280), (14_336, 14_336)] {
            assert_eq!(allocated(bytes), expected, "{bytes}");
        }
        assert_eq!(allocated(20_000), 20_480 + 2_048);
    }
}
