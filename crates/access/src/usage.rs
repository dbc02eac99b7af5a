//! What a key uses, against its limits.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_policy::KeyId;
use weir_policy::budget::{Budgets, Overspent, Period, Spending};
use weir_policy::limits::{Bucket, Exceeded, KeyLimits};
use weir_store::Timestamp;

use crate::ledger::{Ledger, period_of};

/// The limits of a key, and what is left of them. One for all requests with the key.
#[derive(Debug)]
pub struct Usage {
    key: KeyId,
    limits: KeyLimits,
    buckets: Mutex<Buckets>,
    ledger: Arc<Ledger>,
    running: Option<Arc<Semaphore>>,
}

#[derive(Debug)]
struct Buckets {
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    spending: Spending,
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
    /// Billionths of the currency in a day.
    DayBudget,
    /// Billionths of the currency in a month.
    MonthBudget,
}

/// A limit of a key is reached; nothing was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limited {
    /// The limit.
    pub unit: Unit,
    /// Its value.
    pub limit: u64,
    /// When a retry can succeed; `None` for a request of more tokens than a minute has, and for budgets.
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
    pub(crate) fn new(
        key: KeyId,
        limits: KeyLimits,
        spending: Spending,
        ledger: Arc<Ledger>,
        now: Instant,
    ) -> Usage {
        let bucket = |limit: Option<u64>| limit.map(|limit| Bucket::new(limit, now));
        let permits = |limit: u64| usize::try_from(limit).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS);
        Usage {
            key,
            limits,
            ledger,
            buckets: Mutex::new(Buckets {
                requests: bucket(limits.requests_per_minute),
                tokens: bucket(limits.tokens_per_minute),
                spending,
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

    /// Takes what a request may use at most, until it is known how much it used: tokens, and billionths of the currency.
    ///
    /// # Errors
    /// [`Limited`]; nothing is taken then.
    pub fn reserve(
        self: &Arc<Usage>,
        at: (Instant, Timestamp),
        tokens: u64,
        nanos: u64,
    ) -> Result<Reservation, Limited> {
        let (now, time) = at;
        let (budgets, period) = (self.limits.budgets, period_of(time));
        let mut buckets = self.lock();
        buckets.spending.reserve(period, budgets, nanos).map_err(|overspent| {
            let (unit, limit) = match overspent {
                Overspent::Day => (Unit::DayBudget, budgets.per_day),
                Overspent::Month => (Unit::MonthBudget, budgets.per_month),
            };
            Limited { unit, limit: limit.unwrap_or_default(), retry_after: None }
        })?;
        if let Err(limited) = take(&mut buckets.tokens, Unit::Tokens, now, tokens) {
            buckets.spending.settle(period, nanos, 0);
            return Err(limited);
        }
        drop(buckets);
        Ok(Reservation { usage: self.clone(), reserved: Some((tokens, nanos)) })
    }

    /// What is left of the limits per minute.
    pub fn left(&self, now: Instant) -> Vec<Left> {
        let mut buckets = self.lock();
        let Buckets { requests, tokens, .. } = &mut *buckets;
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

/// What was taken for a request. Dropping it without [`Reservation::settle`] gives all of it back.
#[derive(Debug)]
pub struct Reservation {
    usage: Arc<Usage>,
    /// Tokens and billionths; `None` once it is settled.
    reserved: Option<(u64, u64)>,
}

impl Reservation {
    /// Counts what was used: the rest is given back, and what is beyond the reservation is charged.
    pub fn settle(mut self, at: (Instant, Timestamp), tokens: u64, nanos: u64) {
        self.settle_once(at.0, period_of(at.1), tokens, nanos);
    }

    fn settle_once(&mut self, now: Instant, period: Period, tokens: u64, nanos: u64) {
        let Some((reserved_tokens, reserved_nanos)) = self.reserved.take() else { return };
        let mut buckets = self.usage.lock();
        buckets.spending.settle(period, reserved_nanos, nanos);
        if let Some(bucket) = &mut buckets.tokens {
            match tokens.checked_sub(reserved_tokens) {
                Some(more) => bucket.charge(now, more),
                None => bucket.give_back(now, reserved_tokens - tokens),
            }
        }
        drop(buckets);
        if self.usage.limits.budgets != Budgets::default() {
            self.usage.ledger.add(self.usage.key, period.day, nanos);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // a period of the past changes nothing but what is reserved
        self.settle_once(Instant::now(), Period::default(), 0, 0);
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

    fn usage_with(limits: KeyLimits, now: Instant) -> Usage {
        Usage::new(KeyId(1), limits, Spending::default(), Arc::default(), now)
    }

    #[test]
    fn a_reservation_is_settled_or_given_back() {
        let now = (Instant::now(), 0.0);
        let budgets = Budgets { per_day: Some(100), per_month: None };
        let limits = KeyLimits { tokens_per_minute: Some(1_000), budgets, ..KeyLimits::default() };
        let usage = Arc::new(usage_with(limits, now.0));
        let first = usage.reserve(now, 100, 60).unwrap();
        assert_eq!(usage.reserve(now, 100, 50).unwrap_err().unit, Unit::DayBudget);
        assert_eq!(usage.reserve(now, 901, 1).unwrap_err().unit, Unit::Tokens);
        let left = |usage: &Usage| usage.left(now.0)[0].remaining;
        assert_eq!(left(&usage), 900, "what was refused took nothing");
        drop(first);
        assert_eq!(left(&usage), 1_000);
        usage.reserve(now, 100, 60).unwrap().settle(now, 30, 20);
        assert_eq!(left(&usage), 970);
        assert!(usage.reserve(now, 0, 81).is_err() && usage.reserve(now, 0, 80).is_ok());
        usage.reserve(now, 10, 0).unwrap().settle(now, 1_000, 500);
        assert_eq!(left(&usage), 0);
        assert!(usage.reserve(now, 0, 1).is_err(), "what was used beyond the reservation is charged");
    }

    #[test]
    fn each_limit_refuses_on_its_own_and_says_when_to_come_again() {
        let now = Instant::now();
        let limits = KeyLimits {
            requests_per_minute: Some(3),
            tokens_per_minute: Some(100),
            concurrent_requests: Some(2),
            budgets: Budgets::default(),
        };
        let usage = usage_with(limits, now);
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
        let unlimited = usage_with(KeyLimits::default(), now);
        assert!(unlimited.admit(now).unwrap().is_none() && unlimited.left(now).is_empty());
    }

    #[test]
    fn many_threads_together_get_no_more_than_the_limit() {
        let now = Instant::now();
        let limits = KeyLimits { requests_per_minute: Some(1_000), ..KeyLimits::default() };
        let usage = usage_with(limits, now);
        let admitted: usize = std::thread::scope(|scope| {
            let count = || (0..500).filter(|_| usage.admit(now).is_ok()).count();
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(admitted, 1_000);
    }
}
