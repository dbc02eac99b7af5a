//! Usage of a key, against its limits.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tokio::sync::Notify;
use weir_policy::budget::{Budgets, Overspent, Period, Spending};
use weir_policy::lease::{Counting, Short};
use weir_policy::limits::KeyLimits;
use weir_policy::matches_pattern;
use weir_store::Timestamp;

use crate::budgets::{Budget, Short as ShortOfBudget};
use crate::chain::{Need, NotReserved};
use crate::ledger::{Account, Ledger, period_of, signed};
use crate::limits::{Amounts, CostRange, Left, Limited, Limits, Unit};
use crate::meter::{Meter, Slots};
use crate::shared::Sharing;

/// The limits of a key, or of a key for a model, and what is left of them. One for all requests that they hold for.
#[derive(Debug)]
pub struct KeyUsage {
    pub(crate) account: Account,
    state: Mutex<AccountState>,
    pub(crate) counted: Counted,
    /// The limits for models: the pattern of their names, the longest first.
    models: ArcSwap<Vec<Arc<KeyUsage>>>,
    /// Tells requests that wait for a budget that a reservation has ended.
    pub(crate) settled: Notify,
    /// With other gateways.
    pub(crate) sharing: Option<Sharing>,
    /// Held while the store is asked for a lease of a budget.
    pub(crate) budget_turn: Arc<tokio::sync::Mutex<()>>,
}

/// Where it is counted what is used.
#[derive(Debug, Clone)]
pub(crate) struct Counted {
    pub(crate) limits: Limits,
    pub(crate) ledger: Arc<Ledger>,
}

#[derive(Debug)]
pub(crate) struct AccountState {
    pub(crate) limits: KeyLimits,
    pub(crate) requests: Option<Meter>,
    pub(crate) tokens: Option<Meter>,
    pub(crate) budget: Budget,
    pub(crate) running: u64,
    /// With other gateways.
    pub(crate) slots: Slots,
    /// Whether the account is on the list of those that are settled with other gateways.
    pub(crate) is_listed: bool,
}

impl AccountState {
    fn give_back_request(&mut self, now: Instant) {
        self.running -= 1;
        if let Some(meter) = &mut self.requests {
            meter.give_back(now, 1);
        }
    }
}

/// How long a request waits for the ledger, which is tried twice a second.
const RETRY_AFTER_LEDGER: Duration = Duration::from_secs(5);
/// How long a request waits for running ones: their end is not notified.
pub(crate) const RETRY_AFTER_RUNNING: Duration = Duration::from_secs(1);

impl KeyUsage {
    /// `created_at`: of the key.
    pub(crate) fn new(
        account: Account,
        created_at: Timestamp,
        limits: KeyLimits,
        spending: Spending,
        counted: Counted,
        now: Instant,
    ) -> KeyUsage {
        let meter = |limit: Option<u64>| limit.map(|limit| Meter::new(&counted.limits, limit, now));
        let state = AccountState {
            limits,
            requests: meter(limits.requests_per_minute),
            tokens: meter(limits.tokens_per_minute),
            budget: Budget::new(spending, counted.ledger.shared().is_some(), now),
            running: 0,
            slots: Slots::default(),
            is_listed: false,
        };
        let sharing = counted.limits.shared().map(|_| Sharing::new(&account, created_at));
        KeyUsage {
            account,
            state: Mutex::new(state),
            counted,
            models: ArcSwap::default(),
            settled: Notify::new(),
            sharing,
            budget_turn: Arc::default(),
        }
    }

    /// Sets the limits for models.
    pub(crate) fn set_models(&self, mut models: Vec<Arc<KeyUsage>>) {
        models.sort_by_key(|usage| std::cmp::Reverse(usage.account.1.len()));
        self.models.store(Arc::new(models));
    }

    /// The limits for the models of exactly this pattern.
    pub(crate) fn of_pattern(&self, pattern: &str) -> Option<Arc<KeyUsage>> {
        self.models.load().iter().find(|usage| &*usage.account.1 == pattern).cloned()
    }

    /// Changes the limits of the whole key. What was used of limits that stay goes on to count. `spending` is what the ledger has, for the
    /// first budget: without one, nothing is in the ledger.
    pub(crate) fn set_limits(self: &Arc<KeyUsage>, limits: KeyLimits, spending: Spending, now: Instant) {
        let mut state = self.lock();
        if state.limits.budgets == Budgets::default() {
            state.budget.set_spent(spending);
        }
        if state.limits.budgets != limits.budgets {
            // what is leased was part of the budgets before
            state.budget.close();
            self.counted.ledger.note(self, &mut state, 0, 0);
        }
        let meter = |meter: &mut Option<Meter>, limit: Option<u64>| {
            if meter.as_ref().map(Meter::limit) != limit {
                *meter = limit.map(|limit| Meter::new(&self.counted.limits, limit, now));
            }
        };
        meter(&mut state.requests, limits.requests_per_minute);
        meter(&mut state.tokens, limits.tokens_per_minute);
        state.limits = limits;
    }

    /// The limits for a model, by the name that the caller sends.
    pub fn of_model(&self, model: &str) -> Option<Arc<KeyUsage>> {
        self.models.load().iter().find(|usage| matches_pattern(&usage.account.1, model)).cloned()
    }

    /// Takes `amounts` for a request. Where a budget has less left than it can cost and as much as the estimate, all that is left is taken, if no
    /// other request runs. `counts`: whether the request itself is counted, which runs until the part is dropped.
    ///
    /// # Errors
    /// [`NotReserved`]; nothing is taken then.
    pub(crate) fn take(
        self: &Arc<KeyUsage>,
        at: (Instant, Timestamp),
        amounts: Amounts,
        counts: bool,
        counting: Counting,
    ) -> Result<Part, NotReserved> {
        let mut state = self.lock();
        if counts {
            self.take_request(&mut state, at.0, counting)?;
        }
        let reserved = match amounts {
            Amounts::Request => None,
            Amounts::Use { tokens, cost } => match self.take_use(&mut state, at, (tokens, cost), counting) {
                Ok(reserved) => Some(reserved),
                Err(not_reserved) => {
                    if counts {
                        state.give_back_request(at.0);
                    }
                    return Err(not_reserved);
                }
            },
        };
        if let Some(Reserved { counted_on: Some(day), nanos, .. }) = &reserved {
            self.counted.ledger.note(self, &mut state, *day, signed(*nanos));
        }
        drop(state);
        let running = counts.then(|| Running(self.clone()));
        Ok(Part { usage: self.clone(), reserved, running })
    }

    fn take_request(
        self: &Arc<KeyUsage>,
        state: &mut AccountState,
        now: Instant,
        counting: Counting,
    ) -> Result<(), NotReserved> {
        if let Some(limit) = state.limits.concurrent_requests {
            let is_reached = match counting {
                Counting::Alone { gateways } => state.running >= limit.div_ceil(gateways.max(1)),
                Counting::Shared if self.sharing.is_none() || state.running >= limit => {
                    state.running >= limit
                }
                Counting::Shared if state.running < state.slots.held => false,
                Counting::Shared if state.slots.is_refused(now) => true,
                Counting::Shared => return Err(self.need(Unit::Concurrency, state.running + 1)),
            };
            if is_reached {
                let limited = self.limited((Unit::Concurrency, limit, 1), None, Some(RETRY_AFTER_RUNNING));
                return Err(limited.into());
            }
        }
        self.take_units(&mut state.requests, Unit::Requests, now, 1, counting)?;
        state.running += 1;
        if self.sharing.is_some() {
            state.slots.used_at = Some(now);
        }
        Ok(())
    }

    fn take_use(
        self: &Arc<KeyUsage>,
        state: &mut AccountState,
        (now, time): (Instant, Timestamp),
        (tokens, cost): (u64, CostRange),
        counting: Counting,
    ) -> Result<Reserved, NotReserved> {
        let (period, budgets) = (period_of(time), state.limits.budgets);
        let has_budget = budgets != Budgets::default();
        if has_budget
            && cost.max > 0
            && matches!(state.budget, Budget::Local(_))
            && self.counted.ledger.is_failing()
        {
            return Err(self.ledger_limited(cost.max).into());
        }
        let reserved = state.budget.reserve((now, period), budgets, cost);
        let nanos = reserved.map_err(|short| match short {
            ShortOfBudget::Ask => NotReserved::Ask(Need {
                usage: self.clone(),
                unit: Unit::DayBudget,
                units: cost.max,
                cost: Some(cost),
            }),
            ShortOfBudget::Overspent(overspent) => self.overspent(overspent, budgets, cost).into(),
        })?;
        if let Err(short) = self.take_units(&mut state.tokens, Unit::Tokens, now, tokens, counting) {
            state.budget.withdraw((now, period), nanos, has_budget);
            return Err(short);
        }
        let counted_on = has_budget.then_some(period.day);
        Ok(Reserved { tokens, nanos, counted_on, later: Vec::new() })
    }

    fn overspent(&self, overspent: Overspent, budgets: Budgets, cost: CostRange) -> Limited {
        let (unit, limit, left) = match overspent {
            Overspent::Day(left) => (Unit::DayBudget, budgets.per_day, left),
            Overspent::Month(left) => (Unit::MonthBudget, budgets.per_month, left),
        };
        let retry_after = (cost.estimate <= left.unspent).then_some(RETRY_AFTER_RUNNING);
        self.limited((unit, limit.unwrap_or_default(), cost.estimate), Some(left.unreserved), retry_after)
    }

    /// The error while the ledger can't be written.
    pub(crate) fn ledger_limited(&self, nanos: u64) -> Limited {
        self.limited((Unit::Ledger, 0, nanos), None, Some(RETRY_AFTER_LEDGER))
    }

    /// Whether requests of `model` have a budget.
    pub fn has_budget(&self, model: &str) -> bool {
        let is_set = |usage: &KeyUsage| usage.lock().limits.budgets != Budgets::default();
        is_set(self) || self.of_model(model).is_some_and(|usage| is_set(&usage))
    }

    /// Spending of the day and of the month, in billionths of the currency, if there is a budget.
    pub(crate) fn spent(&self, now: Timestamp) -> Option<(u64, u64)> {
        let state = self.lock();
        (state.limits.budgets != Budgets::default()).then(|| state.budget.spending().spent(period_of(now)))
    }

    /// Adds what the ledger has of the current month, which another one was before by the clock.
    pub(crate) fn add_stored(&self, stored: &HashMap<Account, Spending>, now: Timestamp) {
        if let Some(stored) = stored.get(&self.account) {
            let mut state = self.lock();
            if state.limits.budgets != Budgets::default() {
                state.budget.add_stored(stored, period_of(now));
            }
        }
        self.models.load().iter().for_each(|of_model| of_model.add_stored(stored, now));
    }

    /// [`KeyUsage::spent`] of the models that have a budget.
    pub(crate) fn spent_by_model(&self, now: Timestamp) -> Vec<(Arc<str>, (u64, u64))> {
        let models = self.models.load();
        models.iter().filter_map(|usage| Some((usage.account.1.clone(), usage.spent(now)?))).collect()
    }

    /// The rest of the limits per minute.
    pub fn left(&self, now: Instant) -> Vec<Left> {
        let mut state = self.lock();
        let AccountState { requests, tokens, .. } = &mut *state;
        let left = |unit, meter: &mut Option<Meter>| {
            meter.as_mut().map(|meter| Left {
                unit,
                limit: meter.limit(),
                remaining: meter.remaining(now),
                reset_after: meter.reset_after(now),
            })
        };
        left(Unit::Requests, requests).into_iter().chain(left(Unit::Tokens, tokens)).collect()
    }

    fn take_units(
        self: &Arc<KeyUsage>,
        meter: &mut Option<Meter>,
        unit: Unit,
        now: Instant,
        units: u64,
        counting: Counting,
    ) -> Result<(), NotReserved> {
        let Some(meter) = meter else { return Ok(()) };
        meter.take(now, units, counting).map_err(|short| match short {
            Short::Ask => self.need(unit, units),
            Short::Exceeded(exceeded) => {
                self.limited((unit, meter.limit(), units), None, exceeded.retry_after).into()
            }
        })
    }

    fn need(self: &Arc<KeyUsage>, unit: Unit, units: u64) -> NotReserved {
        NotReserved::Ask(Need { usage: self.clone(), unit, units, cost: None })
    }

    fn limited(
        &self,
        (unit, limit, needed): (Unit, u64, u64),
        left: Option<u64>,
        retry_after: Option<Duration>,
    ) -> Limited {
        Limited { model: self.account.1.clone(), unit, limit, needed, left, retry_after }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, AccountState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running request of an account. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Running(Arc<KeyUsage>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.note_change();
    }
}

/// The amounts taken from one account.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) usage: Arc<KeyUsage>,
    /// `None` once it is settled.
    reserved: Option<Reserved>,
    /// Where the request is counted.
    pub(crate) running: Option<Running>,
}

#[derive(Debug)]
struct Reserved {
    tokens: u64,
    /// Billionths of the currency.
    nanos: u64,
    /// The day on which the ledger counts the billionths, if there was a budget.
    counted_on: Option<i32>,
    /// Those of the billionths that it counts on other days, because they were reserved later.
    later: Vec<(i32, u64)>,
}

impl Part {
    /// Reserves as much more as `more` has.
    pub(crate) fn add(&mut self, mut more: Part) {
        if let (Some(reserved), Some(more)) = (&mut self.reserved, more.reserved.take()) {
            reserved.nanos = reserved.nanos.saturating_add(more.nanos);
            let other_day = more.counted_on.filter(|_| more.counted_on != reserved.counted_on);
            reserved.later.extend(other_day.map(|day| (day, more.nanos)));
        }
    }

    /// Gives everything back, the request included. Waiting requests are not woken: they can reserve no more than before.
    pub(crate) fn withdraw(mut self, now: Instant) {
        self.give_back(now, Period::default(), 0, End::Withdrawn);
        if let (Some(_), Some(meter)) = (&self.running, &mut self.usage.lock().requests) {
            meter.give_back(now, 1);
        }
    }

    /// Counts what was used, once: the rest is given back, and what is beyond the reservation is charged.
    pub(crate) fn settle(&mut self, now: Instant, time: Timestamp, tokens: u64, nanos: u64) {
        if self.reserved.is_some() {
            self.give_back(now, period_of(time), tokens, End::Used { nanos });
            self.usage.settled.notify_waiters();
        }
    }

    fn give_back(&mut self, now: Instant, period: Period, tokens: u64, end: End) {
        let Some(reserved) = self.reserved.take() else { return };
        let ledger = &self.usage.counted.ledger;
        let mut state = self.usage.lock();
        let (at, is_counted) = ((now, period), reserved.counted_on.is_some());
        match end {
            End::Withdrawn => state.budget.withdraw(at, reserved.nanos, is_counted),
            End::Used { nanos } => {
                state.budget.settle(at, reserved.nanos, nanos, is_counted);
                if state.limits.budgets != Budgets::default() {
                    // of a lease, the sums of a later day have nothing of the reservation
                    let day = reserved.counted_on.filter(|_| state.budget.is_leased());
                    ledger.note(&self.usage, &mut state, day.unwrap_or(period.day), signed(nanos));
                }
            }
        }
        let mut on_first_day = reserved.nanos;
        for (day, nanos) in reserved.later {
            ledger.note(&self.usage, &mut state, day, -signed(nanos));
            on_first_day = on_first_day.saturating_sub(nanos);
        }
        if let Some(day) = reserved.counted_on {
            ledger.note(&self.usage, &mut state, day, -signed(on_first_day));
        }
        if let Some(meter) = &mut state.tokens {
            match tokens.checked_sub(reserved.tokens) {
                Some(more) => meter.charge(now, more),
                None => meter.give_back(now, reserved.tokens - tokens),
            }
        }
        drop(state);
        self.usage.note_change();
    }
}

/// How a reservation ends.
enum End {
    /// Nothing was sent.
    Withdrawn,
    Used {
        /// Billionths of the currency.
        nanos: u64,
    },
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.reserved.is_some() {
            // a period of the past changes nothing but what is reserved
            self.give_back(Instant::now(), Period::default(), 0, End::Used { nanos: 0 });
            self.usage.settled.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests;
