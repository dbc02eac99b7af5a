//! Limits that are shared with other gateways, by Redis: leases for most requests, and the own share of each limit without it.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, OwnedMutexGuard};
use weir_policy::lease::{Counting, LEASE_TIME, LeaseRequest};
use weir_redis::{Address, Messages, Redis, RedisError, ScriptCall};
use weir_store::Timestamp;

use crate::chain::{Chain, Need, NotReserved, Reservation};
use crate::events::name_of;
use crate::ledger::Account;
use crate::limits::{Amounts, Unit};
use crate::meter::Meter;
use crate::scripts::{BEAT, BUCKET, SCRIPTS, SLOTS};
use crate::usage::{AccountState, KeyUsage};

/// Longest time in which a request waits for Redis.
const WAIT_MAX: Duration = Duration::from_millis(50);
/// Most questions for one request: one for each limit of each account, and some more where others were faster.
const ASKS_MAX: usize = 24;
/// Slots that another gateway does not use are there after this time, in one of as many attempts.
const SLOT_WAIT: Duration = Duration::from_millis(10);
const SLOT_ATTEMPTS: usize = 4;
/// How long it holds that there are no slots.
const SLOTS_REFUSED: Duration = Duration::from_millis(20);
/// The part of a limit of requests at one time that all gateways together may hold without using it.
const SPARE_PART: u64 = 16;
/// How often what was used is settled with the other gateways.
const SETTLE_INTERVAL: Duration = Duration::from_millis(100);
/// How often a gateway announces itself and the slots that it holds: those of one that does not count no longer after ten seconds.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);
const SLOTS_INTERVAL: Duration = Duration::from_secs(3);
/// Calls in one message.
const CALLS_MAX: usize = 256;

/// Limits that are counted with other gateways.
pub struct SharedLimits {
    redis: Redis,
    prefix: String,
    /// The name of this gateway, until it ends.
    gateway: String,
    /// As many gateways as were last seen.
    gateways: AtomicU64,
    gateways_min: u64,
    /// Accounts that have something to settle.
    listed: Mutex<Vec<Arc<KeyUsage>>>,
    /// Told when something is to be settled at once.
    changed: Notify,
    asked: AtomicU64,
    failed: AtomicU64,
}

/// The shared limits of an account.
#[derive(Debug)]
pub(crate) struct Sharing {
    /// The same on all gateways, and of no other key.
    pub(crate) name: String,
    /// Held while the others are asked.
    asking: Arc<tokio::sync::Mutex<()>>,
}

/// How limits are counted now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitsStatus {
    /// Whether they are counted with other gateways; otherwise this one has its share.
    pub is_shared: bool,
    /// As many gateways as were last seen.
    pub gateways: u64,
    /// Questions for leases.
    pub asked: u64,
    /// Calls that failed.
    pub failed: u64,
}

impl fmt::Debug for SharedLimits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedLimits").field("gateway", &self.gateway).finish_non_exhaustive()
    }
}

impl Sharing {
    /// `created_at`: of the key, so that gateways with other keys do not take theirs for it.
    pub(crate) fn new((key, model): &Account, created_at: Timestamp) -> Sharing {
        let mut name = name_of(*key, created_at);
        if !model.is_empty() {
            name = format!("{name}:{model}");
        }
        Sharing { name, asking: Arc::default() }
    }
}

impl SharedLimits {
    /// Limits that are counted in the server of that address, under names that begin with `prefix`. `gateways_min`: the least number of gateways
    /// among which limits are divided while it can't be reached.
    pub fn new(address: Address, timeout: Duration, prefix: &str, gateways_min: u64) -> SharedLimits {
        let gateway: u64 = rand::random();
        SharedLimits {
            redis: Redis::new(address, timeout.min(WAIT_MAX), SCRIPTS),
            prefix: prefix.to_owned(),
            gateway: format!("{gateway:016x}"),
            gateways: AtomicU64::new(1),
            gateways_min,
            listed: Mutex::default(),
            changed: Notify::new(),
            asked: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// The same with a connection for values, such as [`SharedLimits::redis`] stores.
    #[must_use]
    pub fn with_values(self) -> SharedLimits {
        SharedLimits { redis: self.redis.with_values(), ..self }
    }

    /// The server, with the connection that limits are counted by: without it, nothing else waits for the server either.
    pub fn redis(&self) -> Redis {
        self.redis.clone()
    }

    /// Connects for the first time.
    ///
    /// # Errors
    /// [`RedisError`]. Without a connection, limits are divided among the gateways.
    pub async fn connect(&self) -> Result<(), RedisError> {
        self.redis.connect().await?;
        self.beat().await;
        Ok(())
    }

    /// How limits are counted now.
    pub fn status(&self) -> LimitsStatus {
        LimitsStatus {
            is_shared: self.redis.is_connected(),
            gateways: self.gateways(),
            asked: self.asked.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn counting(&self) -> Counting {
        if self.redis.is_connected() { Counting::Shared } else { self.alone() }
    }

    fn alone(&self) -> Counting {
        Counting::Alone { gateways: self.gateways() }
    }

    fn gateways(&self) -> u64 {
        self.gateways.load(Ordering::Relaxed).max(self.gateways_min).max(1)
    }

    fn listed(&self) -> MutexGuard<'_, Vec<Arc<KeyUsage>>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn name(&self, kind: &str, name: &str) -> String {
        format!("{}:{kind}:{name}", self.prefix)
    }

    /// [`Chain::try_reserve`], after asking for what is missing, but for budgets. Where the answer is late, this gateway's share counts.
    pub(crate) async fn reserve(
        &self,
        chain: &Chain,
        amounts: Amounts,
        (started, time): (Instant, Timestamp),
        mut need: Need,
    ) -> Result<Reservation, NotReserved> {
        let until = tokio::time::Instant::from(started + WAIT_MAX);
        let mut turn: Option<(Arc<KeyUsage>, OwnedMutexGuard<()>)> = None;
        for _ in 0..ASKS_MAX {
            let Some(sharing) = &need.usage.sharing else { break };
            let has_turn = turn.as_ref().is_some_and(|(usage, _)| Arc::ptr_eq(usage, &need.usage));
            let waited = if has_turn {
                tokio::time::timeout_at(until, self.ask(&need, sharing)).await
            } else {
                // one request of an account asks, and the others find what it got
                drop(turn.take());
                let locked = tokio::time::timeout_at(until, sharing.asking.clone().lock_owned()).await;
                locked.map(|guard| turn = Some((need.usage.clone(), guard)))
            };
            let counting = if waited.is_ok() { self.counting() } else { self.alone() };
            match chain.try_reserve(amounts, (Instant::now(), time), counting) {
                Err(NotReserved::Ask(next)) if next.cost.is_none() => need = next,
                reserved => return reserved,
            }
        }
        chain.try_reserve(amounts, (Instant::now(), time), self.alone())
    }

    /// Asks for what is missing. A failure ends the connection, and with it the counting with others.
    async fn ask(&self, need: &Need, sharing: &Sharing) {
        self.asked.fetch_add(1, Ordering::Relaxed);
        match need.unit {
            Unit::Requests => self.ask_bucket(need, sharing, |state| state.requests.as_mut()).await,
            Unit::Tokens => self.ask_bucket(need, sharing, |state| state.tokens.as_mut()).await,
            Unit::Concurrency => self.ask_slots(need, sharing).await,
            // these are never asked for
            Unit::DayBudget | Unit::MonthBudget | Unit::Ledger => {}
        }
    }

    async fn ask_bucket(
        &self,
        need: &Need,
        sharing: &Sharing,
        meter: impl Fn(&mut AccountState) -> Option<&mut Meter>,
    ) {
        let request = {
            let mut state = need.usage.lock();
            let Some(lease) = meter(&mut state).and_then(Meter::lease) else { return };
            lease.request(need.units, self.gateways())
        };
        let asked = Instant::now();
        let call = self.bucket_call(need.unit, sharing, request);
        let Some([granted, level]) = self.call(call).await else { return };
        if let Some(lease) = meter(&mut need.usage.lock()).and_then(Meter::lease) {
            lease.grant(asked, granted.unsigned_abs(), level);
        }
        need.usage.note_change();
    }

    fn bucket_call(&self, unit: Unit, sharing: &Sharing, request: LeaseRequest) -> ScriptCall {
        let LeaseRequest { limit, needed, wanted, charged } = request;
        let kind = if unit == Unit::Tokens { "tokens" } else { "requests" };
        let arguments = vec![limit.to_string(), needed.to_string(), wanted.to_string(), charged.to_string()];
        ScriptCall { script: BUCKET, key: self.name(kind, &format!("{}:{limit}", sharing.name)), arguments }
    }

    async fn ask_slots(&self, need: &Need, sharing: &Sharing) {
        let Some(limit) = need.usage.lock().limits.concurrent_requests else { return };
        for attempt in 0..SLOT_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(SLOT_WAIT).await;
            }
            let call = self.slots_call(sharing, limit, (need.units, need.units + self.spare(limit)), false);
            let Some([held, is_enough]) = self.call(call).await else { return };
            let mut state = need.usage.lock();
            (state.slots.held, state.slots.told_at) = (held.unsigned_abs(), Some(Instant::now()));
            drop(state);
            if is_enough == 1 {
                return need.usage.note_change();
            }
        }
        need.usage.lock().slots.refuse(Instant::now() + SLOTS_REFUSED);
    }

    fn slots_call(
        &self,
        sharing: &Sharing,
        limit: u64,
        (needed, wanted): (u64, u64),
        is_set: bool,
    ) -> ScriptCall {
        let arguments = vec![
            limit.to_string(),
            self.gateway.clone(),
            needed.to_string(),
            wanted.to_string(),
            u8::from(is_set).to_string(),
            self.channel(),
            sharing.name.clone(),
        ];
        ScriptCall { script: SLOTS, key: self.name("slots", &sharing.name), arguments }
    }

    /// Slots that this gateway may hold without using them.
    fn spare(&self, limit: u64) -> u64 {
        limit / (SPARE_PART * self.gateways())
    }

    async fn call<const N: usize>(&self, call: ScriptCall) -> Option<[i64; N]> {
        let replies = self.run(&[call]).await?;
        <[i64; N]>::try_from(replies.into_iter().next()?).ok()
    }

    async fn run(&self, calls: &[ScriptCall]) -> Option<Vec<Vec<i64>>> {
        let replies = self.redis.run(calls).await;
        if let Err(error) = &replies {
            self.failed.fetch_add(1, Ordering::Relaxed);
            tracing::debug!(%error, "Redis did not answer");
        }
        replies.ok()
    }

    /// Puts an account on the list of those to settle.
    fn list(&self, usage: &Arc<KeyUsage>, state: &mut AccountState) {
        if !std::mem::replace(&mut state.is_listed, true) {
            self.listed().push(usage.clone());
        }
    }

    /// Keeps the connection, and settles what was used, until the process ends.
    pub(crate) async fn work(&self) {
        let report = |connected: Result<(), &RedisError>| match connected {
            Ok(()) => tracing::info!("limits are counted with other gateways in Redis"),
            Err(error) => {
                let gateways = self.gateways();
                tracing::error!(%error, gateways, "each gateway counts its share of the limits: there is no Redis");
            }
        };
        tokio::join!(self.redis.keep_connected(report), self.settle_often());
    }

    async fn settle_often(&self) {
        let mut told = Instant::now();
        loop {
            let _ = tokio::time::timeout(SETTLE_INTERVAL, self.changed.notified()).await;
            self.settle(false).await;
            if told.elapsed() >= BEAT_INTERVAL {
                told = Instant::now();
                self.beat().await;
            }
        }
    }

    async fn beat(&self) {
        let key = format!("{}:gateways", self.prefix);
        let call = ScriptCall { script: BEAT, key, arguments: vec![self.gateway.clone()] };
        if self.redis.is_connected()
            && let Some([gateways]) = self.call(call).await
        {
            self.gateways.store(gateways.unsigned_abs(), Ordering::Relaxed);
        }
    }

    /// Settles what was used with the other gateways. `is_last`: everything that this one holds is given back.
    pub(crate) async fn settle(&self, is_last: bool) {
        if !self.redis.is_connected() {
            return;
        }
        let listed = std::mem::take(&mut *self.listed());
        let (mut calls, mut turns) = (Vec::new(), Vec::new());
        for usage in listed {
            let mut state = usage.lock();
            state.is_listed = false;
            let is_settled = self.settle_account(&usage, &mut state, is_last, &mut calls, &mut turns);
            if !is_settled {
                self.list(&usage, &mut state);
            }
        }
        for calls in calls.chunks(CALLS_MAX) {
            self.run(calls).await;
        }
        // only now others may ask for slots of these accounts
        drop(turns);
    }

    /// Whether nothing is left to settle later.
    fn settle_account(
        &self,
        usage: &KeyUsage,
        state: &mut AccountState,
        is_last: bool,
        calls: &mut Vec<ScriptCall>,
        turns: &mut Vec<OwnedMutexGuard<()>>,
    ) -> bool {
        let Some(sharing) = &usage.sharing else { return true };
        let (now, mut is_settled) = (Instant::now(), true);
        let AccountState { requests, tokens, slots, limits, running, .. } = state;
        for (unit, meter) in [(Unit::Requests, requests), (Unit::Tokens, tokens)] {
            let Some(lease) = meter.as_mut().and_then(Meter::lease) else { continue };
            let charged = if is_last { lease.close() } else { lease.settle(now) };
            if charged != 0 {
                let request = LeaseRequest { limit: lease.limit(), needed: 0, wanted: 0, charged };
                calls.push(self.bucket_call(unit, sharing, request));
            }
            is_settled &= lease.is_settled();
        }
        let limit = limits.concurrent_requests.unwrap_or_default();
        let is_idle =
            *running == 0 && slots.used_at.is_none_or(|used| now.duration_since(used) >= LEASE_TIME);
        let spare = if is_idle || slots.is_wanted || is_last { 0 } else { self.spare(limit) };
        let held = slots.held.min(*running + spare);
        let is_due = slots.told_at.is_none_or(|told| now.duration_since(told) >= SLOTS_INTERVAL);
        if slots.held > 0 && (held < slots.held || is_due) {
            match sharing.asking.clone().try_lock_owned() {
                Ok(turn) => {
                    (slots.held, slots.told_at, slots.is_wanted) = (held, Some(now), false);
                    calls.push(self.slots_call(sharing, limit, (held, held), true));
                    turns.push(turn);
                }
                // it is asked for more at this moment
                Err(_) => is_settled = false,
            }
        }
        is_settled && slots.held == 0
    }

    fn channel(&self) -> String {
        format!("{}:events", self.prefix)
    }

    /// Tells the other gateways; one that is not connected now reads the keys when it is.
    pub(crate) async fn publish(&self, event: &str) {
        let message = format!("{} {event}", self.gateway);
        if let Err(error) = self.redis.publish(&self.channel(), &message).await {
            tracing::warn!(%error, event, "other gateways were not told");
        }
    }

    /// The messages of other gateways, from now on.
    pub(crate) async fn subscribe(&self) -> Result<Messages, RedisError> {
        self.redis.subscribe(&self.channel()).await
    }

    /// The event of a message, if another gateway has sent it.
    pub(crate) fn event<'a>(&self, message: &'a str) -> Option<&'a str> {
        let (gateway, event) = message.split_once(' ')?;
        (gateway != self.gateway).then_some(event)
    }
}

impl KeyUsage {
    /// Notes that something was used or given back, or a request has ended, that other gateways have to know.
    pub(crate) fn note_change(self: &Arc<KeyUsage>) {
        let Some(shared) = self.counted.limits.shared() else { return };
        let mut state = self.lock();
        shared.list(self, &mut state);
        let limit = state.limits.concurrent_requests.unwrap_or_default();
        if state.slots.held > state.running + 2 * shared.spare(limit) {
            shared.changed.notify_one();
        }
    }

    /// Gives back slots that are not in use, because another gateway needs them.
    pub(crate) fn give_back_slots(self: &Arc<KeyUsage>) {
        let Some(shared) = self.counted.limits.shared() else { return };
        let mut state = self.lock();
        state.slots.is_wanted = true;
        shared.list(self, &mut state);
        shared.changed.notify_one();
    }
}
