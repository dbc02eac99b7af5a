//! What a key uses, against its limits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use weir_policy::budget::{Budgets, Overspent, Period, Spending};
use weir_policy::limits::{Bucket, Exceeded, KeyLimits};
use weir_policy::matches_pattern;
use weir_store::Timestamp;

use crate::ledger::{Account, Ledger, period_of};

/// The limits of a key, or of a key for a model, and what is left of them. One for all requests that they hold for.
#[derive(Debug)]
pub struct Usage {
    account: Account,
    state: Mutex<State>,
    ledger: Arc<Ledger>,
    /// The limits for models: the pattern of their names, the longest first.
    models: ArcSwap<Vec<Arc<Usage>>>,
}

#[derive(Debug)]
struct State {
    limits: KeyLimits,
    requests: Option<Bucket>,
    tokens: Option<Bucket>,
    spending: Spending,
    running: u64,
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
    /// No limit is reached: what a key with a budget spends can't be stored.
    Ledger,
}

/// A limit of a key is reached; nothing was counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limited {
    /// The model pattern of a limit for a model; empty: of the whole key.
    pub model: Arc<str>,
    /// The limit.
    pub unit: Unit,
    /// Its value.
    pub limit: u64,
    /// What the request needs of it, in the unit.
    pub needed: u64,
    /// What is left of a budget.
    pub left: Option<u64>,
    /// When a retry can succeed; `None` for a request of more tokens than a minute has, and for a budget that is spent.
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

/// How long a request waits for the ledger, which is tried twice a second.
const RETRY_AFTER_LEDGER: Duration = Duration::from_secs(5);
/// How long a request waits for running ones: nothing tells when one ends.
const RETRY_AFTER_RUNNING: Duration = Duration::from_secs(1);

impl Usage {
    pub(crate) fn new(
        account: Account,
        limits: KeyLimits,
        spending: Spending,
        ledger: Arc<Ledger>,
        now: Instant,
    ) -> Usage {
        let bucket = |limit: Option<u64>| limit.map(|limit| Bucket::new(limit, now));
        let state = State {
            limits,
            requests: bucket(limits.requests_per_minute),
            tokens: bucket(limits.tokens_per_minute),
            spending,
            running: 0,
        };
        Usage { account, state: Mutex::new(state), ledger, models: ArcSwap::default() }
    }

    /// Sets the limits for models.
    pub(crate) fn set_models(&self, mut models: Vec<Arc<Usage>>) {
        models.sort_by_key(|usage| std::cmp::Reverse(usage.account.1.len()));
        self.models.store(Arc::new(models));
    }

    /// The limits for the models of exactly this pattern.
    pub(crate) fn of_pattern(&self, pattern: &str) -> Option<Arc<Usage>> {
        self.models.load().iter().find(|usage| &*usage.account.1 == pattern).cloned()
    }

    /// Changes the limits of the whole key. What was used of limits that stay goes on to count. `spending` is what the ledger has, for the
    /// first budget: without one, nothing is in the ledger.
    pub(crate) fn set_limits(&self, limits: KeyLimits, spending: Spending, now: Instant) {
        let mut state = self.lock();
        if state.limits.budgets == Budgets::default() {
            state.spending.set_spent(spending);
        }
        let bucket = |bucket: &mut Option<Bucket>, limit: Option<u64>| {
            if bucket.as_ref().map(Bucket::limit) != limit {
                *bucket = limit.map(|limit| Bucket::new(limit, now));
            }
        };
        bucket(&mut state.requests, limits.requests_per_minute);
        bucket(&mut state.tokens, limits.tokens_per_minute);
        state.limits = limits;
    }

    /// The limits for a model, by the name that the caller sends.
    pub fn of_model(&self, model: &str) -> Option<Arc<Usage>> {
        self.models.load().iter().find(|usage| matches_pattern(&usage.account.1, model)).cloned()
    }

    /// Counts a request, which runs until the guard is dropped.
    ///
    /// # Errors
    /// [`Limited`].
    pub fn admit(self: &Arc<Usage>, now: Instant) -> Result<Running, Limited> {
        let mut state = self.lock();
        if let Some(limit) = state.limits.concurrent_requests.filter(|limit| state.running >= *limit) {
            return Err(self.limited((Unit::Concurrency, limit, 1), None, Some(RETRY_AFTER_RUNNING)));
        }
        self.take(&mut state.requests, Unit::Requests, now, 1)?;
        state.running += 1;
        Ok(Running(self.clone()))
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
        let period = period_of(time);
        let mut state = self.lock();
        let budgets = state.limits.budgets;
        if budgets != Budgets::default() && nanos > 0 && self.ledger.is_failing() {
            return Err(self.limited((Unit::Ledger, 0, nanos), None, Some(RETRY_AFTER_LEDGER)));
        }
        state.spending.reserve(period, budgets, nanos).map_err(|overspent| {
            let (unit, limit, left) = match overspent {
                Overspent::Day(left) => (Unit::DayBudget, budgets.per_day, left),
                Overspent::Month(left) => (Unit::MonthBudget, budgets.per_month, left),
            };
            let retry_after = (nanos <= left.unspent).then_some(RETRY_AFTER_RUNNING);
            self.limited((unit, limit.unwrap_or_default(), nanos), Some(left.unreserved), retry_after)
        })?;
        if let Err(limited) = self.take(&mut state.tokens, Unit::Tokens, now, tokens) {
            state.spending.settle(period, nanos, 0);
            return Err(limited);
        }
        let counted_on = (budgets != Budgets::default()).then_some(period.day);
        drop(state);
        if let Some(day) = counted_on {
            self.ledger.add(self.account.clone(), day, nanos);
        }
        let reserved = Some(Reserved { tokens, nanos, counted_on });
        Ok(Reservation { usage: self.clone(), reserved, of_model: None })
    }

    /// [`Usage::reserve`] of the key and, if it has limits for `model`, of these, where the request is counted as well.
    ///
    /// # Errors
    /// [`Limited`]; nothing but a request of the model is taken then.
    pub fn reserve_for(
        self: &Arc<Usage>,
        model: &str,
        at: (Instant, Timestamp),
        tokens: u64,
        nanos: u64,
    ) -> Result<Reservation, Limited> {
        let of_model = self.of_model(model).map(|usage| {
            let running = usage.admit(at.0)?;
            Ok((Box::new(usage.reserve(at, tokens, nanos)?), running))
        });
        let of_model = of_model.transpose()?;
        let mut reservation = self.reserve(at, tokens, nanos)?;
        reservation.of_model = of_model;
        Ok(reservation)
    }

    /// Charges what a request of `model` uses and costs where that is known before. If the key has limits for the model, the request counts
    /// there as well, and runs there until the guard is dropped.
    ///
    /// # Errors
    /// [`Limited`]; nothing but a request of the model is taken then.
    pub fn charge_for(
        self: &Arc<Usage>,
        model: &str,
        at: (Instant, Timestamp),
        tokens: u64,
        nanos: u64,
    ) -> Result<Option<Running>, Limited> {
        let mut reservation = self.reserve_for(model, at, tokens, nanos)?;
        let running = reservation.of_model.take().map(|(of_model, running)| {
            of_model.settle(at, tokens, nanos);
            running
        });
        reservation.settle(at, tokens, nanos);
        Ok(running)
    }

    /// What was spent, in billionths of the currency in the day and in the month, if there is a budget.
    pub(crate) fn spent(&self, now: Timestamp) -> Option<(u64, u64)> {
        let state = self.lock();
        (state.limits.budgets != Budgets::default()).then(|| state.spending.spent(period_of(now)))
    }

    /// Adds what the ledger has of the current month, which another one was before by the clock.
    pub(crate) fn add_stored(&self, stored: &HashMap<Account, Spending>, now: Timestamp) {
        if let Some(stored) = stored.get(&self.account) {
            let mut state = self.lock();
            if state.limits.budgets != Budgets::default() {
                state.spending.merge(stored, period_of(now));
            }
        }
        self.models.load().iter().for_each(|of_model| of_model.add_stored(stored, now));
    }

    /// [`Usage::spent`] of the models that have a budget.
    pub(crate) fn spent_by_model(&self, now: Timestamp) -> Vec<(Arc<str>, (u64, u64))> {
        let models = self.models.load();
        models.iter().filter_map(|usage| Some((usage.account.1.clone(), usage.spent(now)?))).collect()
    }

    /// What is left of the limits per minute.
    pub fn left(&self, now: Instant) -> Vec<Left> {
        let mut state = self.lock();
        let State { requests, tokens, .. } = &mut *state;
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

    fn take(&self, bucket: &mut Option<Bucket>, unit: Unit, now: Instant, units: u64) -> Result<(), Limited> {
        let Some(bucket) = bucket else { return Ok(()) };
        let limit = bucket.limit();
        let taken = bucket.take(now, units);
        taken.map_err(|Exceeded { retry_after }| self.limited((unit, limit, units), None, retry_after))
    }

    fn limited(
        &self,
        (unit, limit, needed): (Unit, u64, u64),
        left: Option<u64>,
        retry_after: Option<Duration>,
    ) -> Limited {
        Limited { model: self.account.1.clone(), unit, limit, needed, left, retry_after }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running request. It ends when this is dropped.
#[derive(Debug)]
pub struct Running(Arc<Usage>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
    }
}

/// What was taken for a request. Dropping it without [`Reservation::settle`] gives all of it back.
#[derive(Debug)]
pub struct Reservation {
    usage: Arc<Usage>,
    /// `None` once it is settled.
    reserved: Option<Reserved>,
    /// What was taken of the limits for the model.
    of_model: Option<(Box<Reservation>, Running)>,
}

#[derive(Debug)]
struct Reserved {
    tokens: u64,
    /// Billionths of the currency.
    nanos: u64,
    /// The day on which the ledger counts the billionths, if there was a budget.
    counted_on: Option<i32>,
}

impl Reservation {
    /// Counts what was used: the rest is given back, and what is beyond the reservation is charged.
    pub fn settle(mut self, at: (Instant, Timestamp), tokens: u64, nanos: u64) {
        if let Some((of_model, _running)) = self.of_model.take() {
            of_model.settle(at, tokens, nanos);
        }
        self.settle_once(at.0, period_of(at.1), tokens, nanos);
    }

    fn settle_once(&mut self, now: Instant, period: Period, tokens: u64, nanos: u64) {
        let Some(reserved) = self.reserved.take() else { return };
        let Usage { account, ledger, .. } = &*self.usage;
        let mut state = self.usage.lock();
        state.spending.settle(period, reserved.nanos, nanos);
        if let Some(bucket) = &mut state.tokens {
            match tokens.checked_sub(reserved.tokens) {
                Some(more) => bucket.charge(now, more),
                None => bucket.give_back(now, reserved.tokens - tokens),
            }
        }
        if state.limits.budgets != Budgets::default() {
            ledger.add(account.clone(), period.day, nanos);
        }
        if let Some(day) = reserved.counted_on {
            ledger.give_back(account.clone(), day, reserved.nanos);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        // a period of the past changes nothing but what is reserved
        self.settle_once(Instant::now(), Period::default(), 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use weir_policy::KeyId;

    use super::*;

    fn usage_with(limits: KeyLimits, now: Instant) -> Arc<Usage> {
        Arc::new(usage_for("", limits, now))
    }

    fn usage_for(model: &str, limits: KeyLimits, now: Instant) -> Usage {
        Usage::new((KeyId(1), model.into()), limits, Spending::default(), Arc::default(), now)
    }

    #[test]
    fn limits_for_a_model_hold_beside_those_of_the_key() {
        let now = (Instant::now(), 0.0);
        let tokens = |limit| KeyLimits { tokens_per_minute: Some(limit), ..KeyLimits::default() };
        let one = KeyLimits { concurrent_requests: Some(1), ..tokens(50) };
        let models =
            vec![Arc::new(usage_for("gpt-*", one, now.0)), Arc::new(usage_for("gpt-4o", tokens(70), now.0))];
        let usage = usage_with(tokens(100), now.0);
        usage.set_models(models);
        let running = usage.reserve_for("gpt-3", now, 50, 0).unwrap();
        let refused = usage.reserve_for("gpt-5", now, 1, 0).unwrap_err();
        assert_eq!((&*refused.model, refused.unit), ("gpt-*", Unit::Concurrency));
        running.settle(now, 10, 0);
        assert_eq!(usage.reserve_for("gpt-5", now, 41, 0).unwrap_err().unit, Unit::Tokens);
        let refused = usage.reserve_for("gpt-4o", now, 71, 0).unwrap_err();
        assert_eq!((&*refused.model, refused.limit), ("gpt-4o", 70), "the longest name that fits");
        usage.reserve_for("other", now, 60, 0).unwrap().settle(now, 60, 0);
        assert_eq!(&*usage.reserve_for("gpt-4o", now, 40, 0).unwrap_err().model, "", "the limit of the key");
        assert_eq!(
            usage.of_model("gpt-4o").unwrap().left(now.0)[0].remaining,
            70,
            "what was refused took nothing"
        );
    }

    #[test]
    fn what_is_known_before_is_charged_at_once_and_runs_until_its_end() {
        let now = (Instant::now(), 0.0);
        let budgets = Budgets { per_day: Some(100), per_month: None };
        let usage = Arc::new(usage_for("", KeyLimits { budgets, ..KeyLimits::default() }, now.0));
        let of_model = KeyLimits { concurrent_requests: Some(1), ..KeyLimits::default() };
        usage.set_models(vec![Arc::new(usage_for("m", of_model, now.0))]);
        let running = usage.charge_for("m", now, 5, 60).unwrap();
        assert_eq!(usage.spent(now.1), Some((60, 60)));
        assert_eq!(usage.charge_for("m", now, 5, 0).unwrap_err().unit, Unit::Concurrency);
        drop(running);
        assert_eq!(usage.charge_for("m", now, 5, 41).unwrap_err().unit, Unit::DayBudget);
        assert!(usage.charge_for("m", now, 5, 40).is_ok());
    }

    #[test]
    fn changed_limits_keep_what_was_used_of_the_others() {
        let now = Instant::now();
        let limits = |tokens, requests| KeyLimits {
            tokens_per_minute: Some(tokens),
            requests_per_minute: Some(requests),
            ..KeyLimits::default()
        };
        let usage = usage_with(limits(100, 10), now);
        usage.charge_for("m", (now, 0.0), 60, 0).unwrap();
        let _running = usage.admit(now).unwrap();
        usage.set_limits(
            KeyLimits { concurrent_requests: Some(1), ..limits(100, 20) },
            Spending::default(),
            now,
        );
        let left: Vec<u64> = usage.left(now).iter().map(|left| left.remaining).collect();
        assert_eq!(left, [20, 40]);
        assert_eq!(usage.admit(now).unwrap_err().unit, Unit::Concurrency);
    }

    #[test]
    fn a_reservation_is_settled_or_given_back() {
        let now = (Instant::now(), 0.0);
        let budgets = Budgets { per_day: Some(100), per_month: None };
        let limits = KeyLimits { tokens_per_minute: Some(1_000), budgets, ..KeyLimits::default() };
        let usage = usage_with(limits, now.0);
        let first = usage.reserve(now, 100, 60).unwrap();
        let refused = usage.reserve(now, 100, 50).unwrap_err();
        assert_eq!((refused.unit, refused.left), (Unit::DayBudget, Some(40)));
        assert_eq!(refused.retry_after, Some(RETRY_AFTER_RUNNING), "the first may use less");
        assert_eq!(usage.reserve(now, 100, 101).unwrap_err().retry_after, None);
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
        let charge = |tokens| usage.charge_for("m", (now, 0.0), tokens, 0);
        assert!(charge(90).unwrap().is_none());
        let refused = charge(20).unwrap_err();
        assert_eq!((refused.unit, refused.retry_after), (Unit::Tokens, Some(Duration::from_secs(6))));
        assert_eq!(charge(101).unwrap_err().retry_after, None);
        let left: Vec<(Unit, u64)> = usage.left(now).iter().map(|left| (left.unit, left.remaining)).collect();
        assert_eq!(left, [(Unit::Requests, 0), (Unit::Tokens, 10)]);
        let unlimited = usage_with(KeyLimits::default(), now);
        assert!(unlimited.admit(now).is_ok() && unlimited.left(now).is_empty());
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
