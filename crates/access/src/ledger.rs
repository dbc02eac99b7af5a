//! Spending of keys with budgets: counted in memory, added to the store a few times a second.
//!
//! A request counts with all that is reserved for it until it ends, so that a crash in between charges no less than it cost.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use jiff::tz::TimeZone;
use tokio::sync::Notify;
use weir_policy::KeyId;
use weir_policy::budget::{Period, Spending};
use weir_store::{Spent, Store, Timestamp};

use crate::budgets::{Ask, SharedLedger};
use crate::keys::KeysInner;
use crate::usage::{AccountState, KeyUsage};
use crate::{Keys, Result, unix_now};

/// Days on which something was spent that are kept. They are counted, not dated: a clock that is ahead for a while makes no day old.
const DAYS_KEPT: u32 = 400;

/// Whose budget it is: a key's, or a key's for a model (the pattern of its limit; empty for the whole key).
pub(crate) type Account = (KeyId, Arc<str>);

/// Changes that are not in the store yet.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pending: Mutex<HashMap<(Account, i32), i64>>,
    /// Told about each change.
    changed: Notify,
    /// Why the last write failed: until one succeeds, a process that ends would forget what is spent.
    failure: ArcSwapOption<String>,
    /// The day on which old days were last forgotten.
    pruned_on: AtomicI32,
    /// With other gateways over one store.
    shared: Option<SharedLedger>,
}

impl Ledger {
    /// The ledger of a store.
    pub(crate) fn of(store: &Store) -> Ledger {
        let shared = store.is_shared().then(|| SharedLedger::new(store.clone()));
        Ledger { shared, ..Ledger::default() }
    }

    /// With other gateways over one store.
    pub(crate) fn shared(&self) -> Option<&SharedLedger> {
        self.shared.as_ref()
    }

    /// Counts what an account has spent or reserved, or given back.
    pub(crate) fn note(&self, usage: &Arc<KeyUsage>, state: &mut AccountState, day: i32, nanos: i64) {
        match &self.shared {
            None => self.change(usage.account.clone(), day, nanos),
            Some(shared) => {
                shared.note(usage, state, day, nanos);
                self.changed.notify_one();
            }
        }
    }

    fn change(&self, account: Account, day: i32, nanos: i64) {
        if nanos != 0 {
            let mut pending = self.lock();
            let sum = pending.entry((account, day)).or_default();
            *sum = sum.saturating_add(nanos);
            drop(pending);
            self.changed.notify_one();
        }
    }

    /// Waits for a change that was made after the last wait.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Why the store does not take what is spent; `None` if the last write succeeded.
    pub(crate) fn failure(&self) -> Option<Arc<String>> {
        self.failure.load_full()
    }

    /// Whether the last write failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.failure.load().is_some()
    }

    /// Adds what was counted to the store; whether something was written. What can't be stored now is tried again by the next call, which
    /// after a failure also writes when nothing was counted.
    pub(crate) async fn flush(&self, store: &Store, now: Timestamp) -> Result<bool> {
        let written = match &self.shared {
            Some(shared) => shared.write(None, self.is_failing()).await,
            None => self.write_own(store).await,
        };
        self.note_result(written.as_ref().err());
        let is_written = written?;
        let today = period_of(now).day;
        if is_written && self.pruned_on.swap(today, Ordering::Relaxed) != today {
            let pruned = store.prune_spending(DAYS_KEPT).await;
            if let Err(error) = pruned {
                tracing::warn!(%error, "old days of what keys spent were not deleted; it is tried again tomorrow");
            }
        }
        Ok(is_written)
    }

    async fn write_own(&self, store: &Store) -> weir_store::Result<bool> {
        let mut taken = std::mem::take(&mut *self.lock());
        taken.retain(|_, nanos| *nanos != 0);
        if taken.is_empty() && !self.is_failing() {
            return Ok(false);
        }
        let written = match taken.is_empty() {
            true => store.check_writable().await,
            false => store.add_spending(taken.iter().map(spent).collect()).await,
        };
        if written.is_err() {
            taken.into_iter().for_each(|((account, day), nanos)| self.change(account, day, nanos));
        }
        written.map(|()| true)
    }

    /// Writes what was counted with other gateways, and asks for a lease.
    pub(crate) async fn write_shared(&self, ask: Option<&Ask>) -> weir_store::Result<()> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let written = shared.write(ask, self.is_failing()).await;
        self.note_result(written.as_ref().err());
        written.map(|_| ())
    }

    fn note_result(&self, error: Option<&weir_store::Error>) {
        let failure = error.map(|error| Arc::new(error.to_string()));
        match (self.failure.swap(failure), error) {
            (Some(_), None) => tracing::info!("what keys spend is stored again"),
            (None, Some(error)) => {
                tracing::error!(%error, "what keys spend can't be stored: requests of keys with a budget are refused until it can");
            }
            (Some(_), Some(_)) | (None, None) => {}
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Account, i32), i64>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The ledger is written at once when nothing was written for this long, and otherwise as often: a crash loses no more than that.
const WRITE_INTERVAL: Duration = Duration::from_millis(100);

/// How often a write that failed is tried again, and what the clock changes is noticed.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);

impl Keys {
    /// Writes what keys with budgets have spent, and revocations that could not be stored, until the process ends. `failed` is called after each write
    /// that failed.
    pub async fn keep_ledger(&self, failed: impl Fn()) {
        loop {
            let _ = tokio::time::timeout(CHECK_INTERVAL, self.ledger_changed()).await;
            // it stays in force, and the log has the reason
            let _ = self.store_revocations().await;
            match self.flush_ledger(unix_now()).await {
                Ok(false) => {}
                Ok(true) => tokio::time::sleep(WRITE_INTERVAL).await,
                Err(_) => {
                    failed();
                    tokio::time::sleep(CHECK_INTERVAL).await;
                }
            }
        }
    }

    /// Waits until something is spent or reserved that is not stored.
    pub async fn ledger_changed(&self) {
        self.0.ledger.changed().await;
    }

    /// Adds to the store what keys with budgets have spent since the last call; whether something was written. A crash loses what was spent
    /// after the last call. While it fails, requests of keys with a budget are refused.
    ///
    /// # Errors
    /// Those of the store; the next call tries again.
    pub async fn flush_ledger(&self, now: Timestamp) -> Result<bool> {
        let keys = self.clone();
        // runs to its end: what it has taken from memory must come to the store or back
        let flush = async move { keys.0.ledger.flush(&keys.0.store, now).await };
        let written = tokio::spawn(flush).await.unwrap_or(Err(weir_store::Error::Closed.into()))?;
        self.read_month(now).await?;
        Ok(written)
    }

    /// Reads what was spent in the current month, if it is another one than before: a clock that was wrong is right again, or wrong. Where other
    /// gateways use the store, also twice a second what all of them have spent today, with what they have reserved, for those who ask.
    async fn read_month(&self, now: Timestamp) -> Result<()> {
        let KeysInner { store, active, month, .. } = &*self.0;
        let (current, before) = (period_of(now), month.load(Ordering::Relaxed));
        let since = if current.month != before {
            first_day_of_month(now)
        } else if self.0.ledger.shared().is_some_and(SharedLedger::is_read_due)
            && !active.load().usage.is_empty()
        {
            current.day
        } else {
            return Ok(());
        };
        let stored = read_since(store, now, since).await?;
        active.load().usage.values().for_each(|usage| usage.add_stored(&stored, now));
        month.store(current.month, Ordering::Relaxed);
        Ok(())
    }
}

fn spent((((key, model), day), &nanos): (&(Account, i32), &i64)) -> Spent {
    Spent { key: *key, model: model.to_string(), day: *day, nanos }
}

/// Spending of each account on the days of the current month.
pub(crate) async fn read(store: &Store, now: Timestamp) -> Result<HashMap<Account, Spending>> {
    read_since(store, now, first_day_of_month(now)).await
}

async fn read_since(store: &Store, now: Timestamp, since: i32) -> Result<HashMap<Account, Spending>> {
    let month = period_of(now).month;
    let mut sums: HashMap<Account, Spending> = HashMap::new();
    for Spent { key, model, day, nanos } in store.spending(since).await? {
        let period = period_of(f64::from(day) * 86_400.0);
        if period.month == month {
            let nanos = u64::try_from(nanos).unwrap_or(0);
            sums.entry((key, model.into())).or_default().add(period, nanos);
        }
    }
    Ok(sums)
}

pub(crate) fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

/// The day since 1970 and the month, in UTC.
pub(crate) fn period_of(now: Timestamp) -> Period {
    let time = jiff::Timestamp::from_second(now as i64).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let date = time.to_zoned(TimeZone::UTC).date();
    let day = i32::try_from(time.as_second().div_euclid(86_400)).unwrap_or(i32::MAX);
    Period { day, month: i32::from(date.year()) * 12 + i32::from(date.month()) }
}

/// The days of the current month.
pub(crate) fn month_of(now: Timestamp) -> Range<i32> {
    let time = jiff::Timestamp::from_second(now as i64).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let first = first_day_of_month(now);
    first..first + i32::from(time.to_zoned(TimeZone::UTC).date().days_in_month())
}

fn first_day_of_month(now: Timestamp) -> i32 {
    let time = jiff::Timestamp::from_second(now as i64).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    period_of(now).day - i32::from(time.to_zoned(TimeZone::UTC).date().day()) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-02-28 12:00:00 UTC.
    const NOON: Timestamp = 1_772_280_000.0;

    #[tokio::test]
    async fn the_ledger_survives_a_restart_and_counts_the_day_and_the_month() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(folder.path()).unwrap();
        let ledger = Ledger::default();
        let (key, day): (Account, i32) = ((KeyId(7), "".into()), period_of(NOON).day);
        assert_eq!(first_day_of_month(NOON), day - 27);
        ledger.change(key.clone(), day - 28, 1_000); // January
        ledger.change(key.clone(), day - 1, 5);
        ledger.change(key.clone(), day, 2);
        ledger.change(key.clone(), day, 1);
        ledger.flush(&store, NOON).await.unwrap();
        ledger.change(key.clone(), day, 4);
        ledger.change((KeyId(7), "m*".into()), day, 3);
        ledger.flush(&store, NOON).await.unwrap();
        ledger.flush(&store, NOON).await.unwrap();
        let read_at = async |now: Timestamp, account: &Account| {
            let all = read(&store, now).await.unwrap();
            all.get(account).map(|spending| spending.spent(period_of(now)))
        };
        assert_eq!(read_at(NOON, &key).await, Some((7, 12)));
        assert_eq!(read_at(NOON, &(KeyId(7), "m*".into())).await, Some((3, 3)));
        ledger.change(key.clone(), day, -3);
        ledger.change(key.clone(), day - 1, -9);
        ledger.flush(&store, NOON).await.unwrap();
        assert_eq!(read_at(NOON, &key).await, Some((4, 4)), "never below none");
        let tomorrow = NOON + 86_400.0; // March
        assert_eq!(read_at(tomorrow, &key).await, None);
        ledger.change(key.clone(), day + 1, 9);
        ledger.flush(&store, tomorrow).await.unwrap();
        assert_eq!(read_at(NOON, &key).await, Some((4, 4)), "the clock was set back");
    }

    #[tokio::test]
    async fn a_clock_that_was_ahead_makes_no_day_old() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_sqlite(folder.path()).unwrap();
        let (key, day): (Account, i32) = ((KeyId(7), "".into()), period_of(NOON).day);
        let spend = async |ledger: &Ledger, day: i32| {
            ledger.change(key.clone(), day, 1);
            ledger.flush(&store, f64::from(day) * 86_400.0).await.unwrap();
        };
        let ledger = Ledger::default();
        spend(&ledger, day).await;
        spend(&ledger, day + 5_000).await;
        let days =
            async || store.spending(0).await.unwrap().iter().map(|spent| spent.day).collect::<Vec<i32>>();
        assert_eq!(days().await, [day, day + 5_000]);
        for later in 1..DAYS_KEPT as i32 {
            ledger.change(key.clone(), day + later, 1);
        }
        spend(&ledger, day + DAYS_KEPT as i32).await;
        let kept = days().await;
        assert_eq!(
            (kept.len(), kept.first(), kept.last()),
            (DAYS_KEPT as usize, Some(&(day + 2)), Some(&(day + 5_000)))
        );
    }
}
