//! Replies in Redis, which all gateways of one service give.
//!
//! A value is compressed, signed and encrypted by a key of the service: whoever reads Redis learns nothing, and whoever writes there plants no
//! answer. Nothing waits for a write, and a lookup waits no longer than a call of limits does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use weir_cursor::Seal;
use weir_redis::{NewValue, Redis, RedisError};
use weir_telemetry::Metrics;

use crate::encoding::{decode, encode};
use crate::{Kept, Key, REPLY_BYTES_MAX};

/// Largest value.
const VALUE_BYTES_MAX: usize = 256 << 10;
/// Lookups at one time: their values take 8 ms of a network of 10 Gbit/s at most. Further requests do not ask.
const LOOKUPS_MAX: usize = 32;
/// Replies that wait to be written, and their bytes.
const WRITES_MAX: usize = 1_024;
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Values in one message.
const BATCH_MAX: usize = 16;
/// How long nothing is written after the server has refused a value, as it does when its memory is full.
const REFUSED_PAUSE: Duration = Duration::from_secs(1);
/// Separate the keys that are made of the service's.
const VALUES: &str = "weir 2026-11 replies in Redis";
const NAMES: &str = "weir 2026-11 names of replies in Redis";

/// The replies of a service. Clones share them.
#[derive(Clone)]
pub struct SharedReplies {
    inner: Arc<SharedInner>,
    writes: mpsc::Sender<Write>,
}

struct SharedInner {
    redis: Redis,
    /// The prefix of all names.
    prefix: String,
    names: [u8; 32],
    seal: Seal,
    lookups: Semaphore,
    waiting_bytes: AtomicUsize,
    metrics: Metrics,
}

/// Where the reply of one request is.
pub struct SharedReply {
    replies: SharedReplies,
    hash: blake3::Hash,
}

struct Write {
    hash: blake3::Hash,
    kept: Kept,
    lifetime: Duration,
}

impl SharedReplies {
    /// The replies of the service with this id and key. Starts to write them, on the runtime that it is called on.
    pub fn start(
        redis: Redis,
        prefix: &str,
        (service, key): (&str, &[u8; 32]),
        metrics: Metrics,
    ) -> SharedReplies {
        let inner = Arc::new(SharedInner {
            redis,
            prefix: format!("{prefix}:reply:{service}:"),
            names: blake3::derive_key(NAMES, key),
            seal: Seal::new(blake3::derive_key(VALUES, key)),
            lookups: Semaphore::new(LOOKUPS_MAX),
            waiting_bytes: AtomicUsize::new(0),
            metrics,
        });
        let (writes, waiting) = mpsc::channel(WRITES_MAX);
        tokio::spawn(write_all(inner.clone(), waiting));
        SharedReplies { inner, writes }
    }

    /// Where the reply of a request is. `owner`: the name of the only API key that it is given to; empty for any.
    pub fn of(&self, key: &Key, owner: &str) -> SharedReply {
        let hash =
            blake3::Hasher::new_keyed(&self.inner.names).update(key).update(owner.as_bytes()).finalize();
        SharedReply { replies: self.clone(), hash }
    }
}

impl SharedInner {
    fn name(&self, hash: &blake3::Hash) -> String {
        format!("{}{}", self.prefix, hash.to_hex())
    }

    /// The value of a reply; `None` if it would be too large.
    fn value(&self, Write { hash, kept, lifetime }: &Write) -> Option<NewValue> {
        let bytes = self.seal.seal(hash.as_bytes(), &encode(kept)?);
        let value = NewValue { key: self.name(hash), bytes, lifetime: *lifetime };
        (value.bytes.len() <= VALUE_BYTES_MAX).then_some(value)
    }
}

impl SharedReply {
    /// The reply, and how long it is kept.
    pub async fn get(&self) -> Option<(Kept, Duration)> {
        let (result, found) = self.look_up().await;
        self.replies.inner.metrics.shared_reply_lookup(result);
        found
    }

    async fn look_up(&self) -> (&'static str, Option<(Kept, Duration)>) {
        let SharedInner { redis, seal, lookups, metrics, .. } = &*self.replies.inner;
        let Ok(_permit) = lookups.try_acquire() else { return ("failed", None) };
        // one byte more, so that a larger value is not read as one of this size
        let name = self.replies.inner.name(&self.hash);
        let (bytes, lifetime) = match redis.value(&name, VALUE_BYTES_MAX + 1).await {
            Ok(Some(found)) => found,
            Ok(None) => return ("miss", None),
            Err(error) => {
                tracing::debug!(%error, "no reply could be looked for in Redis");
                return ("failed", None);
            }
        };
        metrics.shared_reply_read(bytes.len());
        let content = Some(bytes).filter(|bytes| bytes.len() <= VALUE_BYTES_MAX);
        let content = content.and_then(|bytes| seal.open(self.hash.as_bytes(), bytes));
        match content.and_then(|content| decode(&content)) {
            Some(kept) => ("hit", Some((kept, lifetime))),
            None => ("unreadable", None),
        }
    }

    /// Keeps the reply for `lifetime`. Returns at once; where too much waits to be written, this one is not kept.
    pub fn put(self, kept: &Kept, lifetime: Duration) {
        let SharedReply { replies: SharedReplies { inner, writes }, hash } = self;
        let bytes = kept.body.len();
        if bytes > REPLY_BYTES_MAX {
            return;
        }
        let waiting = inner.waiting_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let write = Write { hash, kept: kept.clone(), lifetime };
        if waiting > WAITING_BYTES_MAX || writes.try_send(write).is_err() {
            inner.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
            inner.metrics.shared_reply_write("dropped", 1);
        }
    }
}

/// Writes replies until no [`SharedReplies`] is left.
async fn write_all(inner: Arc<SharedInner>, mut waiting: mpsc::Receiver<Write>) {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while waiting.recv_many(&mut batch, BATCH_MAX).await > 0 {
        let bytes = batch.iter().map(|write| write.kept.body.len()).sum();
        let refused = write(&inner, std::mem::take(&mut batch)).await;
        inner.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
        if refused.is_err() {
            tokio::time::sleep(REFUSED_PAUSE).await;
        }
    }
}

/// Writes some. An error: the server refuses them.
async fn write(inner: &Arc<SharedInner>, batch: Vec<Write>) -> Result<(), RedisError> {
    let (all, metrics) = (batch.len(), &inner.metrics);
    if !inner.redis.is_connected() {
        metrics.shared_reply_write("failed", all);
        return Ok(());
    }
    let encoding = inner.clone();
    let encoded = tokio::task::spawn_blocking(move || -> Vec<NewValue> {
        batch.iter().filter_map(|write| encoding.value(write)).collect()
    });
    let mut values = encoded.await.unwrap_or_default();
    metrics.shared_reply_write("dropped", all - values.len());
    while !values.is_empty() {
        // the values of one message have to arrive within the time limit of a call
        let mut bytes = 0;
        let fits = values.iter().take_while(|value| {
            bytes += value.bytes.len();
            bytes <= 2 * VALUE_BYTES_MAX
        });
        let message: Vec<NewValue> = values.drain(..fits.count()).collect();
        match inner.redis.store(&message).await {
            Ok(()) => {
                metrics.shared_reply_write("written", message.len());
                metrics.shared_reply_written(message.iter().map(|value| value.bytes.len()).sum());
            }
            Err(error) => {
                tracing::debug!(%error, "replies were not kept in Redis");
                metrics.shared_reply_write("failed", message.len() + values.len());
                return if matches!(error, RedisError::Refused(_)) { Err(error) } else { Ok(()) };
            }
        }
    }
    Ok(())
}
