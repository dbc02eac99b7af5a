//! Replies that are kept and given again: to requests with the same body, or whose last question means the same.
//!
//! A reply is kept as the provider sent it, before guardrails put back what placeholders stand for and before citations are checked, so that both
//! are done for each request. It is never given across mandatory filters, and across keys only where a route says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderMap;
use lru::LruCache;
use serde_json::{Map, Value, json};
use weir_config::RouteCache;
use weir_filter::Filter;
use weir_policy::{Allowlist, Caller};
use weir_translate::TokenUsage;

use crate::Api;
use crate::similarity::{Question, same_meaning};

/// Most bytes of all replies and questions.
pub(crate) const BYTES_MAX: usize = 256 << 20;
/// Largest reply that is kept.
pub(crate) const REPLY_BYTES_MAX: usize = 1 << 20;
/// Most questions of a conversation that are compared.
const QUESTIONS_MAX: usize = 500;
/// Estimated overhead of a reply, of a question, and of a header.
const REPLY_OVERHEAD_BYTES: usize = 512;
const QUESTION_OVERHEAD_BYTES: usize = 128;
const HEADER_OVERHEAD_BYTES: usize = 64;
/// Version of the encoding of what keys are the hashes of.
const KEY_VERSION: u8 = 1;
/// Fields that change nothing about the reply.
const IGNORED: [&str; 6] =
    ["metadata", "user", "safety_identifier", "prompt_cache_key", "service_tier", "store"];

/// Identifies a request.
pub(crate) type Key = [u8; 32];

/// A reply as its provider sent it, in the API of the caller.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) body: Bytes,
    pub(crate) headers: HeaderMap,
    pub(crate) usage: TokenUsage,
    /// What it cost, in billionths.
    pub(crate) cost_nanos: u64,
}

/// The replies of a gateway. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct ReplyCache(Arc<Mutex<Inner>>);

struct Inner {
    replies: LruCache<Key, Entry>,
    /// The questions of each conversation, by the hash of the messages before them. Each is that of a reply in `replies`.
    conversations: HashMap<Key, Vec<(Question, Key)>>,
    /// Of both.
    bytes: usize,
}

struct Entry {
    kept: Kept,
    until: Instant,
    /// The conversation that has its question.
    conversation: Option<Key>,
}

impl Default for Inner {
    fn default() -> Inner {
        Inner { replies: LruCache::unbounded(), conversations: HashMap::new(), bytes: 0 }
    }
}

impl Kept {
    fn bytes(&self) -> usize {
        let header = |(name, value): (&http::HeaderName, &http::HeaderValue)| {
            name.as_str().len() + value.len() + HEADER_OVERHEAD_BYTES
        };
        self.body.len() + self.headers.iter().map(header).sum::<usize>() + REPLY_OVERHEAD_BYTES
    }
}

fn question_bytes(question: &Question) -> usize {
    question.bytes() + QUESTION_OVERHEAD_BYTES
}

/// How a request is found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Keys {
    /// Of the whole request.
    pub(crate) exact: Key,
    /// Of all but the last question, which is `question`; `None` where only equal requests get the same reply: with tools, and without text.
    pub(crate) conversation: Option<(Key, String)>,
}

impl Keys {
    /// The keys of a request. `body` is what is sent, with sources and placeholders.
    pub(crate) fn new(
        api: Api,
        caller: &Caller,
        settings: &RouteCache,
        mut body: Map<String, Value>,
    ) -> Keys {
        for field in IGNORED {
            body.remove(field);
        }
        let owner = caller.key.filter(|_| !settings.shared).map(|key| key.0);
        let hash = |kind: &str, body: &Map<String, Value>| {
            let collections = match &caller.collections {
                Allowlist::All => None,
                Allowlist::Only(names) => Some(names),
            };
            let scope = json!([kind, api.path(), owner, collections]).to_string();
            let filter = caller.filter().map(Filter::canonical).unwrap_or_default();
            let body = Value::Object(body.clone()).to_string();
            let mut hasher = blake3::Hasher::new();
            hasher.update(&[KEY_VERSION]);
            for part in [scope.as_bytes(), &filter, body.as_bytes()] {
                hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
            }
            *hasher.finalize().as_bytes()
        };
        let exact = hash("exact", &body);
        let has_tools = body.contains_key("tools") || body.contains_key("functions");
        let question = (!has_tools).then(|| take_question(&mut body)).flatten();
        Keys { exact, conversation: question.map(|question| (hash("conversation", &body), question)) }
    }
}

/// Takes the text of the last message out of a request, if it is the user's and nothing but text.
fn take_question(body: &mut Map<String, Value>) -> Option<String> {
    let last = body.get_mut("messages")?.as_array_mut()?.last_mut()?;
    if last["role"] != "user" {
        return None;
    }
    match last.get_mut("content")?.take() {
        Value::String(text) => Some(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

impl ReplyCache {
    /// The reply of an equal request.
    pub(crate) fn get(&self, key: &Key, now: Instant) -> Option<Kept> {
        let mut inner = self.lock();
        let entry = inner.replies.get(key)?;
        if now < entry.until {
            return Some(entry.kept.clone());
        }
        inner.remove(key);
        None
    }

    /// The reply to the question of the same conversation that is most likely to mean the same, if that is at least `probability`.
    pub(crate) fn find(
        &self,
        conversation: &Key,
        question: &Question,
        probability: f32,
        now: Instant,
    ) -> Option<Kept> {
        let nearest = {
            let inner = self.lock();
            let questions = inner.conversations.get(conversation)?;
            let likely = questions.iter().map(|(other, key)| (same_meaning(question, other), *key));
            let best = likely.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
            if best.0 < probability {
                return None;
            }
            best.1
        };
        self.get(&nearest, now)
    }

    /// Keeps a reply for `lifetime`.
    pub(crate) fn put(&self, key: Key, kept: Kept, lifetime: Duration, now: Instant) {
        if kept.body.len() > REPLY_BYTES_MAX {
            return;
        }
        let mut inner = self.lock();
        inner.remove(&key);
        inner.bytes += kept.bytes();
        inner.replies.put(key, Entry { kept, until: now + lifetime, conversation: None });
        inner.shrink();
    }

    /// Makes a reply that is kept found for questions that mean the same.
    pub(crate) fn add_question(&self, conversation: Key, question: Question, key: Key) {
        let mut inner = self.lock();
        let oldest =
            inner.conversations.get(&conversation).filter(|questions| questions.len() >= QUESTIONS_MAX);
        let oldest = oldest.and_then(|questions| questions.first()).map(|(_, key)| *key);
        for other in oldest.into_iter().chain([key]) {
            inner.remove_question(&other);
        }
        // a reply that was too large, or is gone already
        let Some(entry) = inner.replies.peek_mut(&key) else { return };
        entry.conversation = Some(conversation);
        inner.bytes += question_bytes(&question);
        inner.conversations.entry(conversation).or_default().push((question, key));
        inner.shrink();
    }

    /// Bytes of all replies and questions.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    /// Removes a reply and its question.
    fn remove(&mut self, key: &Key) {
        self.remove_question(key);
        if let Some(entry) = self.replies.pop(key) {
            self.bytes -= entry.kept.bytes();
        }
    }

    /// Removes the question of a reply.
    fn remove_question(&mut self, key: &Key) {
        let Some(conversation) = self.replies.peek_mut(key).and_then(|entry| entry.conversation.take())
        else {
            return;
        };
        let Some(questions) = self.conversations.get_mut(&conversation) else { return };
        if let Some(at) = questions.iter().position(|(_, other)| other == key) {
            self.bytes -= question_bytes(&questions.remove(at).0);
        }
        if questions.is_empty() {
            self.conversations.remove(&conversation);
        }
    }

    /// Removes the replies that were used longest ago beyond the limit.
    fn shrink(&mut self) {
        while self.bytes > BYTES_MAX {
            let Some((oldest, _)) = self.replies.peek_lru() else { break };
            let oldest = *oldest;
            self.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_config::CacheMode;
    use weir_policy::KeyId;

    use super::*;

    fn settings(shared: bool) -> RouteCache {
        RouteCache { mode: CacheMode::Semantic, seconds: 60, shared, similarity: 0.88 }
    }

    fn caller(key: i64, filter: Option<Value>) -> Caller {
        let filter = filter.map(|filter| Arc::new(Filter::from_value(&filter).unwrap()));
        Caller { key: Some(KeyId(key)), filter, ..Caller::system() }
    }

    fn keys(caller: &Caller, shared: bool, body: Value) -> Keys {
        Keys::new(Api::ChatCompletions, caller, &settings(shared), body.as_object().unwrap().clone())
    }

    fn ask(question: &str) -> Value {
        json!({"model": "m", "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": question}]})
    }

    fn kept(bytes: usize) -> Kept {
        Kept {
            body: Bytes::from(vec![b'x'; bytes]),
            headers: HeaderMap::new(),
            usage: TokenUsage::default(),
            cost_nanos: 0,
        }
    }

    #[test]
    fn a_reply_is_for_one_key_and_never_for_another_filter() {
        let one = keys(&caller(1, None), false, ask("q"));
        let mut other = ask("q");
        other["user"] = "u".into();
        assert_eq!(one, keys(&caller(1, None), false, other), "fields that change nothing");
        assert_ne!(one.exact, keys(&caller(2, None), false, ask("q")).exact);
        let shared = |key, filter| keys(&caller(key, filter), true, ask("q")).exact;
        assert_eq!(shared(1, None), shared(2, None));
        assert_eq!(shared(1, Some(json!({"t": 7}))), shared(2, Some(json!({"t": 7}))));
        assert_ne!(shared(1, Some(json!({"t": 7}))), shared(1, Some(json!({"t": 8}))));
        assert_ne!(shared(1, Some(json!({"t": 7}))), shared(1, None));
    }

    #[test]
    fn questions_are_compared_within_one_conversation() {
        let conversation = |body: Value| keys(&caller(1, None), false, body).conversation;
        let (first, question) = conversation(ask("q")).unwrap();
        assert_eq!(question, "q");
        assert_eq!(conversation(ask("r")).unwrap().0, first);
        let mut other = ask("q");
        other["temperature"] = 1.into();
        assert_ne!(conversation(other).unwrap().0, first);
        let mut tools = ask("q");
        tools["tools"] = json!([]);
        assert!(conversation(tools).is_none());
    }

    #[test]
    fn replies_expire_and_the_oldest_go_first() {
        let (cache, now) = (ReplyCache::default(), Instant::now());
        let minute = Duration::from_secs(60);
        cache.put([1; 32], kept(10), minute, now);
        assert!(cache.get(&[1; 32], now + minute / 2).is_some());
        assert!(cache.get(&[1; 32], now + minute).is_none() && cache.bytes() == 0);
        cache.put([2; 32], kept(REPLY_BYTES_MAX + 1), minute, now);
        assert!(cache.get(&[2; 32], now).is_none(), "too large");
        for n in 0..=(BYTES_MAX / REPLY_BYTES_MAX) as u16 {
            cache.put(numbered(n), kept(REPLY_BYTES_MAX), minute, now);
        }
        let fit = BYTES_MAX / (REPLY_BYTES_MAX + REPLY_OVERHEAD_BYTES);
        assert_eq!(cache.bytes(), fit * (REPLY_BYTES_MAX + REPLY_OVERHEAD_BYTES));
        assert!(cache.get(&numbered(0), now).is_none());
    }

    fn numbered(n: u16) -> Key {
        let mut key = [0; 32];
        key[..2].copy_from_slice(&n.to_le_bytes());
        key
    }

    #[test]
    fn questions_count_and_go_with_their_replies() {
        let (cache, now) = (ReplyCache::default(), Instant::now());
        let put = |n: u16, conversation: u8, size: usize| {
            let mut kept = kept(10);
            kept.headers.insert("x-a", "b".parse().unwrap());
            cache.put(numbered(n), kept, Duration::from_secs(60), now);
            let question = Question::new("what is the capital of France", vec![0.5; size]);
            cache.add_question([conversation; 32], question, numbered(n));
        };
        put(0, 1, 100);
        let one = cache.bytes();
        assert!(one > 10 + 400 + REPLY_OVERHEAD_BYTES + QUESTION_OVERHEAD_BYTES, "{one}");
        put(0, 2, 100);
        assert_eq!(cache.bytes(), one, "replaced together with its question");
        for n in 1..=QUESTIONS_MAX as u16 {
            put(n, 2, 100);
        }
        let of_conversation = || cache.lock().conversations.get(&[2; 32]).map_or(0, Vec::len);
        assert_eq!(of_conversation(), QUESTIONS_MAX);
        // each has 4 MB: the whole would be 500 MB
        for n in 1..=125 {
            put(n, 2, 1 << 20);
        }
        assert!(cache.bytes() <= BYTES_MAX);
        assert!(of_conversation() < 100, "{}", of_conversation());
        assert!(cache.get(&numbered(125), now).is_some());
        for n in 0..=QUESTIONS_MAX as u16 {
            cache.lock().remove(&numbered(n));
        }
        assert_eq!((cache.bytes(), cache.lock().conversations.len()), (0, 0));
    }

    /// A change of what is hashed needs another [`KEY_VERSION`].
    #[test]
    fn the_key_of_a_request_does_not_change() {
        let key = keys(&caller(1, Some(json!({"t": 7}))), false, ask("q")).exact;
        let hex: String = key[..8].iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "74bc85f09f997cf1");
    }

    #[test]
    fn a_question_that_means_the_same_gets_the_reply() {
        let (cache, now) = (ReplyCache::default(), Instant::now());
        let question = |text: &str, x: f32| Question::new(text, vec![x, (1.0 - x * x).sqrt()]);
        cache.put([1; 32], kept(10), Duration::from_secs(60), now);
        cache.add_question([9; 32], question("how", 1.0), [1; 32]);
        let find = |text: &str, x: f32| cache.find(&[9; 32], &question(text, x), 0.88, now).is_some();
        assert!(find("how", 0.99) && !find("how", 0.5) && !find("not", 1.0));
        assert!(cache.find(&[8; 32], &question("how", 1.0), 0.88, now).is_none(), "another conversation");
    }
}
