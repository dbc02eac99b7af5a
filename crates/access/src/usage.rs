//! What a key uses, against its limits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_policy::limits::{Bucket, Exceeded, KeyLimits};

/// The limits of a key, and what is left of them. One for all requests with the key.
#[derive(Debug)]
pub struct Usage {
    limits: KeyLimits,
    buckets: Mutex<Buckets>,
    running: Option<Arc<Semaphore>>,
}

#[derive(Debug)]
struct Buckets {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Requests per minute.
    Requests,
    /// Tokens per minute.
    Tokens,
    /// Requests at one time.
    Concurrency,
}

/// A limit of a key is reached; nothing was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limited {
    /// The limit.
    pub unit: Unit,
    /// Its value.
    pub limit: u64,
    /// When a retry can succeed; `None` for a request of more tokens than a minute has.
    pub retry_after: Option<Duration>,
}

/// The state of a limit per minute, for the headers of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Requests or tokens.
    pub unit: Unit,
    /// The limit.
    pub limit: u64,
    /// What can be used now.
    pub remaining: u64,
    /// Until all of it can be.
    pub reset_after: Duration,
}

/// How long a request waits that came while too many were running: nothing tells when one ends.
const RETRY_AFTER_CONCURRENCY: Duration = Duration::from_secs(1);

impl Usage {
    pub(crate) fn new(limits: KeyLimits, now: Instant) -> Usage {
        let bucket = |limit: Option<u64>| limit.map(|limit| Bucket::new(limit, now));
        let permits = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Usage {
            limits,
            buckets: Mutex::new(Buckets {
                requests: bucket(limits.requests_per_minute),
                tokens: bucket(limits.tokens_per_minute),
            }),
            running: limits.concurrent_requests.map(|limit| Arc::new(Semaphore::new(permits(limit)))),
        }
    }

    pub(crate) fn limits(&self) -> KeyLimits {
        self.limits
    }

    /// Counts a request, which runs until the permit is dropped.
    ///
    /// # Errors
    /// [`Limited`].
    pub fn admit(&self, now: Instant) -> Result<Option<OwnedSemaphorePermit>, Limited> {
        let permit = self.running.as_ref().map(|running| running.clone().try_acquire_owned());
        let permit = permit.transpose().map_err(|_| Limited {
            unit: Unit::Concurrency,
            limit: self.limits.concurrent_requests.unwrap_or_default(),
            retry_after: Some(RETRY_AFTER_CONCURRENCY),
        })?;
        take(&mut self.lock().requests, Unit::Requests, now, 1)?;
        Ok(permit)
    }

    /// Counts tokens before they are computed.
    ///
    /// # Errors
    /// [`Limited`].
    pub fn take_tokens(&self, now: Instant, tokens: u64) -> Result<(), Limited> {
        take(&mut self.lock().tokens, Unit::Tokens, now, tokens)
    }

    /// Takes tokens that a request may use at most, until it is known how many it used.
    ///
    /// # Errors
    /// [`Limited`].
    pub fn reserve_tokens(self: &Arc<Usage>, now: Instant, tokens: u64) -> Result<TokenReservation, Limited> {
        self.take_tokens(now, tokens)?;
        Ok(TokenReservation { usage: self.clone(), tokens })
    }

    /// What is left of the limits per minute.
    pub fn left(&self, now: Instant) -> Vec<Left> {
        let mut buckets = self.lock();
        let Buckets { requests, tokens } = &mut *buckets;
        let left = |unit, bucket: &mut Option<Bucket>| {
            bucket.as_mut().map(|bucket| Left {
                unit,
                limit: bucket.limit(),
                remaining: bucket.remaining(now),
                reset_after: bucket.reset_after(now),
            })
        };
        left(Unit::Requests, requests).into_iter().chain(left(Unit::Tokens, tokens)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Buckets> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Tokens that were taken for a request. Dropping it without [`TokenReservation::settle`] gives all of them back.
#[derive(Debug)]
pub struct TokenReservation {
    usage: Arc<Usage>,
    tokens: u64,
}

impl TokenReservation {
    /// Counts the tokens that were used: the others are given back, and those beyond the reservation are charged.
    pub fn settle(mut self, now: Instant, used: u64) {
        let reserved = std::mem::take(&mut self.tokens);
        if let Some(bucket) = &mut self.usage.lock().tokens {
            match used.checked_sub(reserved) {
                Some(more) => bucket.charge(now, more),
                None => bucket.give_back(now, reserved - used),
            }
        }
    }
}

impl Drop for TokenReservation {
    fn drop(&mut self) {
        if self.tokens > 0
            && let Some(bucket) = &mut self.usage.lock().tokens
        {
            bucket.give_back(Instant::now(), self.tokens);
        }
    }
}

fn take(bucket: &mut Option<Bucket>, unit: Unit, now: Instant, units: u64) -> Result<(), Limited> {
    let Some(bucket) = bucket else { return Ok(()) };
    let limit = bucket.limit();
    bucket.take(now, units).map_err(|Exceeded { retry_after }| Limited { unit, limit, retry_after })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_limit_refuses_on_its_own_and_says_when_to_come_again() {
        let now = Instant::now();
        let limits = KeyLimits {
            requests_per_minute: Some(3),
            tokens_per_minute: Some(100),
            concurrent_requests: Some(2),
        };
        let usage = Usage::new(limits, now);
        let (first, second) = (usage.admit(now).unwrap(), usage.admit(now).unwrap());
        let refused = usage.admit(now).unwrap_err();
        assert_eq!((refused.unit, refused.limit), (Unit::Concurrency, 2));
        drop((first, second));
        assert!(usage.admit(now).is_ok(), "what was refused was not counted");
        let refused = usage.admit(now).unwrap_err();
        assert_eq!((refused.unit, refused.retry_after), (Unit::Requests, Some(Duration::from_secs(20))));
        assert_eq!(usage.take_tokens(now, 90), Ok(()));
        let refused = usage.take_tokens(now, 20).unwrap_err();
        assert_eq!((refused.unit, refused.retry_after), (Unit::Tokens, Some(Duration::from_secs(6))));
        assert_eq!(usage.take_tokens(now, 101).unwrap_err().retry_after, None);
        let left: Vec<(Unit, u64)> = usage.left(now).iter().map(|left| (left.unit, left.remaining)).collect();
        assert_eq!(left, [(Unit::Requests, 0), (Unit::Tokens, 10)]);
        let unlimited = Usage::new(KeyLimits::default(), now);
        assert!(unlimited.admit(now).unwrap().is_none() && unlimited.left(now).is_empty());
    }

    #[test]
    fn many_threads_together_get_no_more_than_the_limit() {
        let now = Instant::now();
        let limits = KeyLimits { requests_per_minute: Some(1_000), ..KeyLimits::default() };
        let usage = Usage::new(limits, now);
        let admitted: usize = std::thread::scope(|scope| {
            let count = || (0..500).filter(|_| usage.admit(now).is_ok()).count();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(admitted, 1_000);
    }
}
