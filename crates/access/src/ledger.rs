//! What keys with budgets have spent: counted in memory, added to the store a few times a second.
//!
//! A request counts with all that is reserved for it until it ends, so that a crash in between charges no less than it cost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::tz::TimeZone;
use weir_policy::KeyId;
use weir_policy::budget::{Period, Spending};
use weir_store::{Spent, Store, Timestamp};

use crate::Result;

/// Days of the ledger that are kept.
const DAYS_KEPT: i32 = 400;

/// Whose budget it is: a key's, or a key's for a model (the pattern of its limit; empty for the whole key).
pub(crate) type Account = (KeyId, Arc<str>);

/// Changes that are not in the store yet.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pending: Mutex<HashMap<(Account, i32), i64>>,
}

impl Ledger {
    /// Counts what was spent or is reserved.
    pub(crate) fn add(&self, account: Account, day: i32, nanos: u64) {
        self.change(account, day, signed(nanos));
    }

    /// Takes back what was reserved and counted on this day.
    pub(crate) fn give_back(&self, account: Account, day: i32, nanos: u64) {
        self.change(account, day, -signed(nanos));
    }

    fn change(&self, account: Account, day: i32, nanos: i64) {
        if nanos != 0 {
            let mut pending = self.lock();
            let sum = pending.entry((account, day)).or_default();
            *sum = sum.saturating_add(nanos);
        }
    }

    /// Adds what was counted to the store. What can't be stored now is tried again by the next call.
    pub(crate) async fn flush(&self, store: &Store, now: Timestamp) -> Result<()> {
        let mut taken = std::mem::take(&mut *self.lock());
        taken.retain(|_, nanos| *nanos != 0);
        if taken.is_empty() {
            return Ok(());
        }
        let spent = taken.iter().map(|(((key, model), day), &nanos)| Spent {
            key: *key,
            model: model.to_string(),
            day: *day,
            nanos,
        });
        let spent = spent.collect();
        let written = store.add_spending(spent, period_of(now).day - DAYS_KEPT).await;
        if written.is_err() {
            taken.into_iter().for_each(|((account, day), nanos)| self.change(account, day, nanos));
        }
        Ok(written?)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Account, i32), i64>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What each account has spent in the current day and month.
pub(crate) async fn read(store: &Store, now: Timestamp) -> Result<HashMap<Account, Spending>> {
    let period = period_of(now);
    let mut sums: HashMap<Account, (u64, u64)> = HashMap::new();
    for Spent { key, model, day, nanos } in store.spending(first_day_of_month(now)).await? {
        let (of_day, of_month) = sums.entry((key, model.into())).or_default();
        let nanos = u64::try_from(nanos).unwrap_or(0);
        *of_month = of_month.saturating_add(nanos);
        if day >= period.day {
            *of_day = of_day.saturating_add(nanos);
        }
    }
    Ok(sums.into_iter().map(|(account, (day, month))| (account, Spending::new(period, day, month))).collect())
}

fn signed(nanos: u64) -> i64 {
    i64::try_from(nanos).unwrap_or(i64::MAX)
}

/// The day since 1970 and the month, in UTC.
pub(crate) fn period_of(now: Timestamp) -> Period {
    let time = jiff::Timestamp::from_second(now as i64).unwrap_or(jiff::Timestamp::UNIX_EPOCH);
    let date = time.to_zoned(TimeZone::UTC).date();
    let day = i32::try_from(time.as_second().div_euclid(86_400)).unwrap_or(i32::MAX);
    Period { day, month: i32::from(date.year()) * 12 + i32::from(date.month()) }
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
        ledger.add(key.clone(), day - 28, 1_000); // January
        ledger.add(key.clone(), day - 1, 5);
        ledger.add(key.clone(), day, 2);
        ledger.add(key.clone(), day, 1);
        ledger.flush(&store, NOON).await.unwrap();
        ledger.add(key.clone(), day, 4);
        ledger.add((KeyId(7), "m*".into()), day, 3);
        ledger.flush(&store, NOON).await.unwrap();
        ledger.flush(&store, NOON).await.unwrap();
        let expected = |now: Timestamp, day, month| Some(Spending::new(period_of(now), day, month));
        assert_eq!(read(&store, NOON).await.unwrap().get(&key).copied(), expected(NOON, 7, 12));
        let of_model = read(&store, NOON).await.unwrap()[&(KeyId(7), "m*".into())];
        assert_eq!(of_model, Spending::new(period_of(NOON), 3, 3));
        ledger.give_back(key.clone(), day, 3);
        ledger.give_back(key.clone(), day - 1, 9);
        ledger.flush(&store, NOON).await.unwrap();
        assert_eq!(
            read(&store, NOON).await.unwrap().get(&key).copied(),
            expected(NOON, 4, 4),
            "never below none"
        );
        let tomorrow = NOON + 86_400.0; // March
        assert_eq!(read(&store, tomorrow).await.unwrap().get(&key), None);
    }
}
