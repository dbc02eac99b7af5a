//! What a key uses, against its limits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::Notify;
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
    /// Tells requests that wait for a budget that a reservation has ended.
    settled: Notify,
}

/// What a request costs, in billionths of the currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CostRange {
    /// The most that it can cost.
    pub max: u64,
    /// What it costs most likely; at most `max`.
    pub estimate: u64,
}

impl CostRange {
    /// A cost that is known.
    pub fn exactly(nanos: u64) -> CostRange {
        CostRange { max: nanos, estimate: nanos }
    }
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

impl Limited {
    /// Whether a budget has enough left once requests on their way have ended.
    fn is_in_use(&self) -> bool {
        matches!(self.unit, Unit::DayBudget | Unit::MonthBudget) && self.retry_after.is_some()
    }
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
/// How long a request waits near the end of a budget until those before it have ended.
const BUDGET_WAIT_MAX: Duration = Duration::from_secs(30);

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
        Usage {
            account,
            state: Mutex::new(state),
            ledger,
            models: ArcSwap::default(),
            settled: Notify::new(),
        }
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

    /// Takes what a request may use, until it is known how much it used: tokens, and the most that it can cost. Where a budget has less left
    /// than that and as much as the estimate, it takes all that is left, if no other request runs.
    ///
    /// # Errors
    /// [`Limited`]; nothing is taken then.
    pub fn reserve(
        self: &Arc<Usage>,
        at: (Instant, Timestamp),
        tokens: u64,
        cost: CostRange,
    ) -> Result<Reservation, Limited> {
        let (now, time) = at;
        let period = period_of(time);
        let mut state = self.lock();
        let budgets = state.limits.budgets;
        if budgets != Budgets::default() && cost.max > 0 && self.ledger.is_failing() {
            return Err(self.limited((Unit::Ledger, 0, cost.max), None, Some(RETRY_AFTER_LEDGER)));
        }
        let reserved = match state.spending.reserve(period, budgets, cost.max) {
            Ok(()) => Ok(cost.max),
            Err(overspent) if overspent.left().unspent >= cost.max => Err(overspent),
            Err(_) => state.spending.reserve_rest(period, budgets, cost.estimate),
        };
        let nanos = reserved.map_err(|overspent| {
            let (unit, limit, left) = match overspent {
                Overspent::Day(left) => (Unit::DayBudget, budgets.per_day, left),
                Overspent::Month(left) => (Unit::MonthBudget, budgets.per_month, left),
            };
            let retry_after = (cost.estimate <= left.unspent).then_some(RETRY_AFTER_RUNNING);
            self.limited((unit, limit.unwrap_or_default(), cost.estimate), Some(left.unreserved), retry_after)
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
        cost: CostRange,
    ) -> Result<Reservation, Limited> {
        let mut running = self.admit_for(model, at.0)?;
        self.reserve_admitted(&mut running, at, tokens, cost)
    }

    /// [`Usage::reserve_for`], which waits where requests on their way have reserved what a budget has left: near the end of a budget its
    /// requests run one at a time. `at` tells the time.
    ///
    /// # Errors
    /// [`Limited`]; nothing but a request of the model is taken then.
    pub async fn reserve_in_turn(
        self: &Arc<Usage>,
        model: &str,
        at: impl Fn() -> (Instant, Timestamp),
        tokens: u64,
        cost: CostRange,
    ) -> Result<Reservation, Limited> {
        let mut running = self.admit_for(model, at().0)?;
        let until = tokio::time::Instant::now() + BUDGET_WAIT_MAX;
        loop {
            let of_model = running.as_ref().map(|running| running.0.clone());
            // listened to before the attempt, so that no end is missed
            let of_key = self.settled.notified();
            let of_model = of_model.as_ref().map(|usage| usage.settled.notified());
            let limited = match self.reserve_admitted(&mut running, at(), tokens, cost) {
                Err(limited) if limited.is_in_use() => limited,
                reserved => return reserved,
            };
            let settled = async {
                match of_model {
                    Some(of_model) => tokio::select! { () = of_key => {}, () = of_model => {} },
                    None => of_key.await,
                }
            };
            if tokio::time::timeout_at(until, settled).await.is_err() {
                return Err(limited);
            }
        }
    }

    /// Counts a request of a model that has limits.
    fn admit_for(&self, model: &str, now: Instant) -> Result<Option<Running>, Limited> {
        self.of_model(model).map(|usage| usage.admit(now)).transpose()
    }

    /// Reserves for a request that was admitted. What it runs by goes to the reservation.
    fn reserve_admitted(
        self: &Arc<Usage>,
        running: &mut Option<Running>,
        at: (Instant, Timestamp),
        tokens: u64,
        cost: CostRange,
    ) -> Result<Reservation, Limited> {
        let of_model = running.as_ref().map(|running| running.0.reserve(at, tokens, cost)).transpose()?;
        let mut reservation = match self.reserve(at, tokens, cost) {
            Ok(reservation) => reservation,
            Err(limited) => {
                if let Some(of_model) = of_model {
                    of_model.withdraw();
                }
                return Err(limited);
            }
        };
        reservation.of_model = of_model.map(Box::new).zip(running.take());
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
        let mut reservation = self.reserve_for(model, at, tokens, CostRange::exactly(nanos))?;
        let running = reservation.of_model.take().map(|(of_model, running)| {
            of_model.settle(at, tokens, nanos);
            running
        });
        reservation.settle(at, tokens, nanos);
        Ok(running)
    }

    /// Whether requests of `model` have a budget.
    pub fn has_budget(&self, model: &str) -> bool {
        let is_set = |usage: &Usage| usage.lock().limits.budgets != Budgets::default();
        is_set(self) || self.of_model(model).is_some_and(|usage| is_set(&usage))
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

    /// Reserves more, for what is charged beside what was reserved.
    ///
    /// # Errors
    /// [`Limited`]; nothing is taken then.
    pub fn extend(&mut self, at: (Instant, Timestamp), nanos: u64) -> Result<(), Limited> {
        if let Some((of_model, _)) = &mut self.of_model {
            of_model.extend(at, nanos)?;
        }
        let more = self.usage.reserve(at, 0, CostRange::exactly(nanos))?;
        if let (Some(reserved), Some(more)) = (&mut self.reserved, more.into_reserved()) {
            reserved.nanos = reserved.nanos.saturating_add(more.nanos);
        }
        Ok(())
    }

    /// What is reserved, which the caller settles.
    fn into_reserved(mut self) -> Option<Reserved> {
        self.reserved.take()
    }

    /// Gives everything back. Waiting requests are not woken: they can reserve no more than before.
    fn withdraw(mut self) {
        self.give_back(Instant::now(), Period::default(), 0, 0);
    }

    fn settle_once(&mut self, now: Instant, period: Period, tokens: u64, nanos: u64) {
        if self.reserved.is_some() {
            self.give_back(now, period, tokens, nanos);
            self.usage.settled.notify_waiters();
        }
    }

    fn give_back(&mut self, now: Instant, period: Period, tokens: u64, nanos: u64) {
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
mod tests;
