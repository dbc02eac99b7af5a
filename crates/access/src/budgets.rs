//! Budgets of several gateways over one store: each leases amounts from the ledger in the store, and most requests need no query.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::OwnedMutexGuard;
use weir_policy::budget::{Budgets, Overspent, Period, Spending};
use weir_policy::budget_lease::{BudgetLease, LeaseNeed, NotLeased};
use weir_store::{HeldBudget, LeaseAsk, LedgerWrite, Spent, Store, Timestamp};

use crate::chain::{Chain, Need, NotReserved, Reservation};
use crate::ledger::{month_of, period_of};
use crate::limits::{Amounts, CostRange, Limited, Limits};
use crate::usage::{AccountState, KeyUsage};

/// How long a lease holds in the store after the last write of its gateway, by the database's clock.
const LEASE_SECONDS: f64 = 15.0;
/// How long a gateway uses a lease after it has asked for it: shorter, so that what it has reserved is stored before the lease ends.
const LEASE_TIME: Duration = Duration::from_secs(10);
/// How often a gateway prolongs its leases.
const RENEW_INTERVAL: Duration = Duration::from_secs(5);
/// How often it is read what all gateways have spent.
const READ_INTERVAL: Duration = Duration::from_millis(400);
/// Longest time in which a request waits for the store.
const ASK_TIMEOUT: Duration = Duration::from_secs(5);
/// Most attempts of a request: one for each budget of its accounts, and some more where others were faster.
const ASKS_MAX: usize = 24;

/// The rest of the budgets of an account.
#[derive(Debug)]
pub(crate) enum Budget {
    /// For this process alone.
    Local(Spending),
    /// For all gateways over the store.
    Leased(Box<Leased>),
}

/// The lease of this gateway from the budgets of an account.
#[derive(Debug)]
pub(crate) struct Leased {
    lease: BudgetLease,
    /// The ledger at the last read, with the reservations of all gateways.
    known: Spending,
    /// Changes that are not in the ledger yet, by day.
    changes: Vec<(i32, i64)>,
    /// The lease as the store has it; `None` if unknown.
    written: Option<(u64, u64)>,
    /// Whether the account is on the list of those that the next write looks at.
    is_listed: bool,
}

/// A budget has not enough.
pub(crate) enum Short {
    /// Of what this gateway has leased.
    Ask,
    /// At all.
    Overspent(Overspent),
}

impl Budget {
    pub(crate) fn new(spending: Spending, is_leased: bool, now: Instant) -> Budget {
        match is_leased {
            false => Budget::Local(spending),
            true => Budget::Leased(Box::new(Leased {
                lease: BudgetLease::new(now),
                known: spending,
                changes: Vec::new(),
                written: Some((0, 0)),
                is_listed: false,
            })),
        }
    }

    /// Reserves what a request costs: the most, or what is left if the estimate is no more than that.
    pub(crate) fn reserve(
        &mut self,
        (now, period): (Instant, Period),
        budgets: Budgets,
        cost: CostRange,
    ) -> Result<u64, Short> {
        match self {
            Budget::Local(spending) => {
                let reserved = match spending.reserve(period, budgets, cost.max) {
                    Ok(()) => Ok(cost.max),
                    Err(overspent) if overspent.left().unspent >= cost.max => Err(overspent),
                    Err(_) => spending.reserve_rest(period, budgets, cost.estimate),
                };
                reserved.map_err(Short::Overspent)
            }
            Budget::Leased(_) if budgets == Budgets::default() || cost.max == 0 => Ok(cost.max),
            Budget::Leased(leased) => {
                leased.lease.reserve(now, cost.max, cost.estimate).map_err(|not_leased| match not_leased {
                    NotLeased::Ask => Short::Ask,
                    NotLeased::Overspent(overspent) => Short::Overspent(overspent),
                })
            }
        }
    }

    /// Ends a reservation: `used` was spent in the period. `is_counted`: whether there was a budget when it was made.
    pub(crate) fn settle(&mut self, at: (Instant, Period), reserved: u64, used: u64, is_counted: bool) {
        match self {
            Budget::Local(spending) => spending.settle(at.1, reserved, used),
            Budget::Leased(leased) if is_counted => leased.lease.settle(at.0, reserved, used),
            Budget::Leased(_) => {}
        }
    }

    /// Takes back a reservation of a request that was not sent.
    pub(crate) fn withdraw(&mut self, at: (Instant, Period), reserved: u64, is_counted: bool) {
        match self {
            Budget::Local(spending) => spending.settle(at.1, reserved, 0),
            Budget::Leased(leased) if is_counted => leased.lease.withdraw(at.0, reserved),
            Budget::Leased(_) => {}
        }
    }

    pub(crate) fn is_leased(&self) -> bool {
        matches!(self, Budget::Leased(_))
    }

    /// The spending. With other gateways, as of the last read, and with reservations.
    pub(crate) fn spending(&self) -> &Spending {
        match self {
            Budget::Local(spending) => spending,
            Budget::Leased(leased) => &leased.known,
        }
    }

    /// Sets what was spent to what the ledger has.
    pub(crate) fn set_spent(&mut self, stored: Spending) {
        match self {
            Budget::Local(spending) => spending.set_spent(stored),
            Budget::Leased(leased) => leased.known = stored,
        }
    }

    /// Adds days that the ledger has.
    pub(crate) fn add_stored(&mut self, stored: &Spending, now: Period) {
        match self {
            Budget::Local(spending) => spending.merge(stored, now),
            Budget::Leased(leased) => leased.known.replace(stored),
        }
    }

    /// Gives back what is leased and not reserved.
    pub(crate) fn close(&mut self) {
        if let Budget::Leased(leased) = self {
            leased.lease.close();
        }
    }
}

/// The ledger of several gateways, in the store that they share.
pub(crate) struct SharedLedger {
    store: Store,
    /// The name of this gateway, until it ends.
    gateway: String,
    /// Accounts that have something to write, or a lease.
    listed: Mutex<Vec<Arc<KeyUsage>>>,
    /// One write at a time.
    writing: tokio::sync::Mutex<Writing>,
    asked: AtomicU64,
    /// When what all gateways have spent was read.
    read_at: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Writing {
    /// Of the last changes.
    number: u64,
    /// Changes that are not known to be stored.
    changes: Vec<(u64, Vec<Spent>)>,
    /// When the leases of this gateway were prolonged last, if it has any.
    renewed_at: Option<Instant>,
}

/// A lease that is asked for.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    usage: Arc<KeyUsage>,
    cost: CostRange,
    time: Timestamp,
}

impl fmt::Debug for SharedLedger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLedger").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

impl SharedLedger {
    pub(crate) fn new(store: Store) -> SharedLedger {
        let gateway: u64 = rand::random();
        SharedLedger {
            store,
            gateway: format!("{gateway:016x}"),
            listed: Mutex::default(),
            writing: tokio::sync::Mutex::default(),
            asked: AtomicU64::new(0),
            read_at: Mutex::default(),
        }
    }

    /// Whether it is time to read what all gateways have spent; the next time is 0.4 s later then.
    pub(crate) fn is_read_due(&self) -> bool {
        let mut read_at = self.read_at.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = read_at.is_none_or(|at| at.elapsed() >= READ_INTERVAL);
        if is_due {
            *read_at = Some(Instant::now());
        }
        is_due
    }

    /// Questions for leases.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    fn listed(&self) -> MutexGuard<'_, Vec<Arc<KeyUsage>>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn list(&self, usage: &Arc<KeyUsage>, leased: &mut Leased) {
        if !std::mem::replace(&mut leased.is_listed, true) {
            self.listed().push(usage.clone());
        }
    }

    /// Notes a change of what was spent; 0: of the lease alone.
    pub(crate) fn note(&self, usage: &Arc<KeyUsage>, state: &mut AccountState, day: i32, nanos: i64) {
        let Budget::Leased(leased) = &mut state.budget else { return };
        match leased.changes.iter_mut().find(|(of, _)| *of == day) {
            Some((_, sum)) => *sum = sum.saturating_add(nanos),
            None if nanos != 0 => leased.changes.push((day, nanos)),
            None => {}
        }
        self.list(usage, leased);
    }

    /// Gives back all that is leased and not reserved, with the next write.
    pub(crate) fn close_leases(&self) {
        let listed = self.listed().clone();
        listed.iter().for_each(|usage| usage.lock().budget.close());
    }

    /// Writes what has changed, and asks for a lease; whether there was anything to write. `is_failing`: it is also tried whether the store takes
    /// anything.
    pub(crate) async fn write(&self, ask: Option<&Ask>, is_failing: bool) -> weir_store::Result<bool> {
        let mut writing = self.writing.lock().await;
        let asked = Instant::now();
        let Collected { usages, spent, held, free } = self.collect(ask, asked);
        let need = ask.map(|ask| ask.need(free));
        self.asked.fetch_add(u64::from(need.is_some()), Ordering::Relaxed);
        if !spent.is_empty() {
            writing.number += 1;
            let number = writing.number;
            writing.changes.push((number, spent));
        }
        let renews = writing.renewed_at.is_some_and(|at| at.elapsed() >= RENEW_INTERVAL);
        if writing.changes.is_empty() && held.is_empty() && need.is_none() && !renews {
            if is_failing {
                self.store.check_writable().await?;
            }
            return Ok(is_failing);
        }
        let write = LedgerWrite {
            gateway: self.gateway.clone(),
            changes: writing.changes.clone(),
            held,
            ask: need.clone(),
            lease_seconds: LEASE_SECONDS,
            renews,
        };
        let written = match self.store.write_ledger(write).await {
            Ok(written) => written,
            Err(error) => {
                // it may have been stored all the same
                usages.iter().for_each(|usage| self.note_unknown(usage));
                return Err(error);
            }
        };
        writing.changes.clear();
        if renews {
            writing.renewed_at = written.has_leases.then_some(asked);
        }
        if let (Some(ask), Some(need), Some(answer)) = (ask, need, written.lease) {
            let mut state = ask.usage.lock();
            let Budget::Leased(leased) = &mut state.budget else { return Ok(true) };
            match answer {
                Ok(grant) => {
                    let held = need.need.free.saturating_add(grant.nanos);
                    leased.written = leased.written.map(|(_, reserved)| (held, reserved));
                    leased.lease.grant(asked, LEASE_TIME, grant);
                    self.list(&ask.usage, leased);
                    writing.renewed_at.get_or_insert(asked);
                }
                Err(overspent) => {
                    leased.lease.refuse(asked, (ask.cost.max, ask.cost.estimate), overspent);
                }
            }
        }
        Ok(true)
    }

    /// The changes since the last write.
    fn collect(&self, ask: Option<&Ask>, now: Instant) -> Collected {
        let usages = std::mem::take(&mut *self.listed());
        let mut collected = Collected::default();
        for usage in &usages {
            if let Budget::Leased(leased) = &mut usage.lock().budget {
                leased.is_listed = false;
                self.collect_one(usage, leased, now, &mut collected);
            }
        }
        collected.usages = usages;
        if let Some(Ask { usage, .. }) = ask
            && let Budget::Leased(leased) = &mut usage.lock().budget
        {
            self.collect_one(usage, leased, now, &mut collected);
            collected.free = leased.lease.free();
            collected.usages.push(usage.clone());
        }
        collected
    }

    fn collect_one(
        &self,
        usage: &Arc<KeyUsage>,
        leased: &mut Leased,
        now: Instant,
        collected: &mut Collected,
    ) {
        let (key, model) = (usage.account.0, usage.account.1.to_string());
        leased.lease.expire(now);
        for (day, nanos) in leased.changes.drain(..).filter(|(_, nanos)| *nanos != 0) {
            collected.spent.push(Spent { key, model: model.clone(), day, nanos });
        }
        let (free, reserved) = (leased.lease.free(), leased.lease.reserved());
        if leased.written.replace((free, reserved)) != Some((free, reserved)) {
            collected.held.push(HeldBudget { key, model, leased: free, reserved });
        }
        if free > 0 {
            // looked at again, so that an unused lease is given back
            self.list(usage, leased);
        }
    }

    fn note_unknown(&self, usage: &Arc<KeyUsage>) {
        if let Budget::Leased(leased) = &mut usage.lock().budget {
            leased.written = None;
            self.list(usage, leased);
        }
    }
}

/// The changes that a write stores.
#[derive(Default)]
struct Collected {
    usages: Vec<Arc<KeyUsage>>,
    spent: Vec<Spent>,
    held: Vec<HeldBudget>,
    /// The amount that the asking account has leased.
    free: u64,
}

impl Ask {
    fn need(&self, free: u64) -> LeaseAsk {
        let (key, model) = (self.usage.account.0, self.usage.account.1.to_string());
        let CostRange { max, estimate } = self.cost;
        let need = LeaseNeed { budgets: self.usage.lock().limits.budgets, max, estimate, free };
        LeaseAsk { key, model, day: period_of(self.time).day, month: month_of(self.time), need }
    }
}

impl Limits {
    /// Reserves what this gateway has not leased, after asking for it.
    pub(crate) async fn reserve_asking(
        &self,
        chain: &Chain,
        amounts: Amounts,
        (mut now, time): (Instant, Timestamp),
        mut need: Need,
    ) -> Result<Reservation, Limited> {
        let mut has_asked_store = false;
        for _ in 0..ASKS_MAX {
            let reserved = match self {
                _ if need.cost.is_some() => {
                    has_asked_store = true;
                    let reserved = self.reserve_leased(chain, amounts, time, need).await;
                    // the wait for Redis begins now
                    now = Instant::now();
                    reserved
                }
                Limits::Redis(shared) => shared.reserve(chain, amounts, (now, time), need).await,
                Limits::Local => return Err(need.limited()),
            };
            match reserved {
                Ok(reservation) if has_asked_store => return recorded(chain, reservation).await,
                Ok(reservation) => return Ok(reservation),
                Err(NotReserved::Limited(limited)) => return Err(limited),
                Err(NotReserved::Ask(next)) => need = next,
            }
        }
        Err(need.limited())
    }

    /// Reserves after asking the store for a lease. One request of an account asks at a time, and the others find what it got.
    async fn reserve_leased(
        &self,
        chain: &Chain,
        amounts: Amounts,
        time: Timestamp,
        need: Need,
    ) -> Result<Reservation, NotReserved> {
        let usage = need.usage.clone();
        let turn = tokio::time::timeout(ASK_TIMEOUT, usage.budget_turn.clone().lock_owned()).await;
        let Ok(turn) = turn else { return Err(usage.ledger_limited(need.units).into()) };
        let need = match chain.try_reserve(amounts, (Instant::now(), time), self.counting()) {
            Err(NotReserved::Ask(need)) if need.cost.is_some() && Arc::ptr_eq(&need.usage, &usage) => need,
            reserved => return reserved,
        };
        let Some(cost) = need.cost else { return Err(NotReserved::Ask(need)) };
        let ask = Ask { usage: usage.clone(), cost, time };
        let Some(_turn) = ask.send(turn).await else {
            return Err(usage.ledger_limited(need.units).into());
        };
        chain.try_reserve(amounts, (Instant::now(), time), self.counting())
    }
}

impl Ask {
    /// Asks the store. `None` if it could not be asked; else the turn, so that nobody takes what was granted before the one who asked.
    async fn send(self, turn: OwnedMutexGuard<()>) -> Option<OwnedMutexGuard<()>> {
        let ledger = self.usage.counted.ledger.clone();
        if ledger.is_failing() {
            return None;
        }
        // runs to its end, also when the request has ended: what it takes from memory must come to the store or back
        let task = tokio::spawn(async move { ledger.write_shared(Some(&self)).await.map(|()| turn) });
        tokio::time::timeout(ASK_TIMEOUT, task).await.ok()?.ok()?.ok()
    }
}

/// Waits until what was reserved after asking is in the store: near the end of a budget nothing is sent of which a kill leaves no trace.
async fn recorded(chain: &Chain, reservation: Reservation) -> Result<Reservation, Limited> {
    let Some(usage) = chain.first() else { return Ok(reservation) };
    let ledger = usage.counted.ledger.clone();
    let task = tokio::spawn(async move { ledger.write_shared(None).await });
    match tokio::time::timeout(ASK_TIMEOUT, task).await {
        Ok(Ok(Ok(()))) => Ok(reservation),
        _ => Err(usage.ledger_limited(0)),
    }
}
