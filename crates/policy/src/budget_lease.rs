//! Budgets that several gateways share: what the store has of them, and what one gateway has leased.
//!
//! A gateway leases an amount and reserves it for its requests without asking anybody. What is leased, reserved and spent by all gateways together is
//! never more than a budget. A reservation that ends gives what it has not used back to the lease, as far as that is of use, and otherwise to all.
//! Near the end of a budget nothing is leased beside what a request needs; where the most that a request can cost does not fit any more, it gets all
//! that is left as soon as no other request of any gateway has a part of it.

use std::time::{Duration, Instant};

use crate::budget::{BudgetLeft, Budgets, Overspent};

/// Time after which a lease that no request has used is given back.
pub const IDLE_TIME: Duration = Duration::from_secs(1);
/// The part of what is left of a budget that a gateway may have leased without using it.
const LEASED_PART: u64 = 64;
/// How long a refusal is taken to hold without asking again.
const REFUSAL_TIME: Duration = Duration::from_millis(40);

/// The need of a request and the free amount of its gateway, in billionths of the currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseNeed {
    /// The budgets.
    pub budgets: Budgets,
    /// The most that the request can cost.
    pub max: u64,
    /// Its likely cost; at most `max`.
    pub estimate: u64,
    /// The leased amount that the gateway has not reserved.
    pub free: u64,
}

/// Leases of all gateways from the budgets of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BudgetUse {
    /// Spent on the day, with what is reserved.
    pub day: u64,
    /// Spent in the month, with what is reserved.
    pub month: u64,
    /// Reserved for requests on their way.
    pub reserved: u64,
    /// Leased and not reserved.
    pub leased: u64,
}

/// The grant to a gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseGrant {
    /// Leased beside what it has.
    pub nanos: u64,
    /// The amount that it may keep when reservations give back.
    pub share: u64,
    /// It has all that is left then, for one request.
    pub is_rest: bool,
}

impl BudgetUse {
    /// The grant for a request: the need of the request and more, or the rest of the budget.
    ///
    /// # Errors
    /// The budget that has not enough left; nothing is leased then.
    pub fn grant(&self, need: LeaseNeed) -> Result<LeaseGrant, Overspent> {
        let left = |used: u64, budget: Option<u64>| {
            let unspent = budget?.saturating_sub(used.saturating_sub(self.reserved));
            let others = self.leased.saturating_sub(need.free);
            Some(BudgetLeft { unreserved: budget?.saturating_sub(used).saturating_sub(others), unspent })
        };
        let lefts = [
            left(self.day, need.budgets.per_day).map(Overspent::Day),
            left(self.month, need.budgets.per_month).map(Overspent::Month),
        ];
        let lefts = || lefts.into_iter().flatten();
        let Some(unreserved) = lefts().map(|left| left.left().unreserved).min() else {
            return Ok(LeaseGrant { nanos: need.max, share: 0, is_rest: false });
        };
        let free = unreserved.saturating_sub(need.free);
        if need.max <= unreserved {
            let share = free / LEASED_PART;
            // less than a request needs is of no use to this gateway
            let share = if share >= need.max { share } else { 0 };
            let nanos = need.max.saturating_sub(need.free).max(share).min(free);
            return Ok(LeaseGrant { nanos, share, is_rest: false });
        }
        let short = lefts().find(|left| need.max > left.left().unreserved);
        if let Some(short) = short.filter(|short| short.left().unspent >= need.max) {
            return Err(short);
        }
        let tightest = lefts().min_by_key(|left| left.left().unspent);
        let is_in_use = self.reserved > 0 || self.leased > need.free;
        match tightest.filter(|tightest| is_in_use || need.estimate > tightest.left().unspent) {
            Some(tightest) => Err(tightest),
            None => Ok(LeaseGrant { nanos: free, share: 0, is_rest: true }),
        }
    }
}

/// A reservation is not possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLeased {
    /// The lease has not enough: the store is to be asked.
    Ask,
    /// The budget has not enough left.
    Overspent(Overspent),
}

/// The lease of one gateway from the budgets of a key.
#[derive(Debug, Clone)]
pub struct BudgetLease {
    /// Leased and not reserved.
    free: u64,
    reserved: u64,
    share: u64,
    is_rest: bool,
    used_at: Instant,
    until: Instant,
    /// The last refusal by the store.
    refusal: Option<Refusal>,
}

#[derive(Debug, Clone)]
struct Refusal {
    overspent: Overspent,
    max: u64,
    estimate: u64,
    until: Instant,
}

impl BudgetLease {
    /// Nothing is leased yet.
    pub fn new(now: Instant) -> BudgetLease {
        BudgetLease {
            free: 0,
            reserved: 0,
            share: 0,
            is_rest: false,
            used_at: now,
            until: now,
            refusal: None,
        }
    }

    /// Leased and not reserved.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Reserved for requests on their way.
    pub fn reserved(&self) -> u64 {
        self.reserved
    }

    /// Reserves the most that a request can cost, or all that is left of the budget if that is leased. Returns what is reserved.
    ///
    /// # Errors
    /// [`NotLeased`]; nothing is reserved then.
    pub fn reserve(&mut self, now: Instant, max: u64, estimate: u64) -> Result<u64, NotLeased> {
        self.expire(now);
        let reserved = match max {
            _ if max <= self.free => max,
            _ if self.is_rest && estimate <= self.free => self.free,
            _ => return Err(self.refused(now, max, estimate).map_or(NotLeased::Ask, NotLeased::Overspent)),
        };
        self.free -= reserved;
        self.reserved = self.reserved.saturating_add(reserved);
        self.used_at = now;
        Ok(reserved)
    }

    fn refused(&self, now: Instant, max: u64, estimate: u64) -> Option<Overspent> {
        let refusal = self.refusal.as_ref().filter(|refusal| now < refusal.until)?;
        (max >= refusal.max && estimate >= refusal.estimate).then_some(refusal.overspent)
    }

    /// The store has granted something, after it was asked at `asked`; it holds for `time`.
    pub fn grant(&mut self, asked: Instant, time: Duration, grant: LeaseGrant) {
        // what was leased before is part of it, if its time was not over
        self.expire(asked);
        self.free = self.free.saturating_add(grant.nanos);
        (self.share, self.is_rest, self.refusal) = (grant.share, grant.is_rest, None);
        (self.used_at, self.until) = (asked, asked + time);
    }

    /// The store had not enough for this request when it was asked at `asked`.
    pub fn refuse(&mut self, asked: Instant, (max, estimate): (u64, u64), overspent: Overspent) {
        self.refusal = Some(Refusal { overspent, max, estimate, until: asked + REFUSAL_TIME });
    }

    /// Ends a reservation of which `used` was spent. A part of the rest stays leased.
    pub fn settle(&mut self, now: Instant, reserved: u64, used: u64) {
        self.expire(now);
        self.reserved = self.reserved.saturating_sub(reserved);
        if now < self.until && self.share > self.free {
            self.free += reserved.saturating_sub(used).min(self.share - self.free);
        }
        self.refusal = None;
    }

    /// Takes a reservation back: nothing was sent.
    pub fn withdraw(&mut self, now: Instant, reserved: u64) {
        self.reserved = self.reserved.saturating_sub(reserved);
        self.expire(now);
        if now < self.until {
            self.free = self.free.saturating_add(reserved);
        }
    }

    /// Gives back what no request has used for some time, and what is not leased any longer.
    pub fn expire(&mut self, now: Instant) {
        if now >= self.until || now.duration_since(self.used_at) >= IDLE_TIME {
            self.close();
        }
    }

    /// Gives back what is not reserved.
    pub fn close(&mut self) {
        (self.free, self.share, self.is_rest) = (0, 0, false);
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an `Instant` can only be made by the clock")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TIME: Duration = Duration::from_secs(10);

    fn budgets(per_day: u64) -> Budgets {
        Budgets { per_day: Some(per_day), per_month: Some(per_day * 2) }
    }

    fn need(max: u64, estimate: u64, free: u64) -> LeaseNeed {
        LeaseNeed { budgets: budgets(1_000), max, estimate, free }
    }

    fn left(unreserved: u64, unspent: u64) -> Overspent {
        Overspent::Day(BudgetLeft { unreserved, unspent })
    }

    #[test]
    fn a_gateway_gets_what_a_request_needs_and_a_small_part_of_what_is_left() {
        let grant = |used: BudgetUse, need| used.grant(need);
        let granted = |nanos, share, is_rest| Ok(LeaseGrant { nanos, share, is_rest });
        assert_eq!(grant(BudgetUse::default(), need(5, 5, 0)), granted(15, 15, false));
        assert_eq!(grant(BudgetUse::default(), need(500, 5, 0)), granted(500, 0, false));
        let used = BudgetUse { day: 900, month: 900, reserved: 100, leased: 40 };
        assert_eq!(grant(used, need(60, 5, 0)), granted(60, 0, false));
        assert_eq!(grant(used, need(61, 5, 0)), Err(left(60, 200)), "others can give back");
        assert_eq!(grant(used, need(61, 5, 40)), granted(21, 0, false), "the lease is its own");
        assert_eq!(grant(used, need(201, 5, 40)), Err(left(100, 200)), "requests run");
        let idle = BudgetUse { reserved: 0, ..used };
        assert_eq!(grant(idle, need(201, 5, 40)), granted(60, 0, true), "all that is left, with its own");
        assert_eq!(grant(idle, need(201, 5, 0)), Err(left(60, 100)), "another gateway has a lease");
        assert_eq!(grant(idle, need(201, 101, 40)), Err(left(100, 100)), "it is not enough");
        let month = BudgetUse { day: 0, month: 1_995, ..BudgetUse::default() };
        assert_eq!(
            grant(month, need(6, 6, 0)),
            Err(Overspent::Month(BudgetLeft { unreserved: 5, unspent: 5 }))
        );
        assert_eq!(grant(month, need(6, 5, 0)), granted(5, 0, true));
    }

    #[test]
    fn a_lease_is_used_and_given_back() {
        let now = Instant::now();
        let mut lease = BudgetLease::new(now);
        assert_eq!(lease.reserve(now, 5, 5), Err(NotLeased::Ask));
        lease.grant(now, TIME, LeaseGrant { nanos: 15, share: 15, is_rest: false });
        assert_eq!((lease.reserve(now, 10, 5), lease.reserve(now, 6, 5)), (Ok(10), Err(NotLeased::Ask)));
        lease.settle(now, 10, 2);
        assert_eq!((lease.free(), lease.reserved()), (13, 0));
        let idle = now + IDLE_TIME;
        assert_eq!(lease.reserve(idle, 13, 1), Err(NotLeased::Ask), "nobody has used it");
        lease.grant(idle, TIME, LeaseGrant { nanos: 9, share: 0, is_rest: true });
        assert_eq!(lease.reserve(idle, 99, 10), Err(NotLeased::Ask));
        assert_eq!(lease.reserve(idle, 99, 9), Ok(9));
        lease.withdraw(idle, 9);
        assert_eq!(lease.reserve(idle, 99, 9), Ok(9));
        lease.settle(idle, 9, 1);
        assert_eq!(lease.free(), 0, "the rest is for all");
        lease.grant(idle, TIME, LeaseGrant { nanos: 9, share: 9, is_rest: false });
        assert_eq!(lease.reserve(idle, 9, 9), Ok(9));
        lease.settle(idle + TIME, 9, 0);
        assert_eq!(lease.free(), 0, "its time is over");
    }

    #[test]
    fn a_refusal_holds_for_a_moment_and_for_what_needs_as_much() {
        let now = Instant::now();
        let mut lease = BudgetLease::new(now);
        lease.refuse(now, (61, 5), left(60, 200));
        let refused = Err(NotLeased::Overspent(left(60, 200)));
        assert_eq!((lease.reserve(now, 61, 5), lease.reserve(now, 70, 6)), (refused, refused));
        assert_eq!(lease.reserve(now, 60, 5), Err(NotLeased::Ask), "it needs less");
        assert_eq!(lease.reserve(now, 61, 4), Err(NotLeased::Ask), "the rest may do for it");
        assert_eq!(lease.reserve(now + REFUSAL_TIME, 61, 5), Err(NotLeased::Ask));
        lease.settle(now, 0, 0);
        assert_eq!(lease.reserve(now, 61, 5), Err(NotLeased::Ask), "a request has ended");
    }

    /// The store, as far as it counts a budget.
    struct Store {
        spent: u64,
        rows: Vec<(u64, u64)>,
    }

    impl Store {
        fn used(&self) -> BudgetUse {
            let sum = |part: fn(&(u64, u64)) -> u64| self.rows.iter().map(part).sum::<u64>();
            let reserved = sum(|row| row.1);
            let day = self.spent + reserved;
            BudgetUse { day, month: day, reserved, leased: sum(|row| row.0) }
        }
    }

    proptest! {
        /// Three gateways that write what they have into the store before they ask: together they never spend more than the budget, and what they
        /// leave is less than a request needs.
        #[test]
        fn gateways_never_pass_a_budget_together(
            steps in prop::collection::vec((0..3_usize, 1..60_u64, 0..100_u64, 0..400_u64, any::<bool>()), 1..400),
        ) {
            const BUDGET: u64 = 1_000;
            let mut now = Instant::now();
            let mut store = Store { spent: 0, rows: vec![(0, 0); 3] };
            let mut leases = vec![BudgetLease::new(now); 3];
            let mut running: Vec<(usize, u64, u64)> = Vec::new();
            for (gateway, max, used, pause, ends) in steps {
                now += Duration::from_millis(pause);
                if ends && let Some((of, reserved, used)) = running.pop() {
                    leases[of].settle(now, reserved, used);
                    store.spent += used;
                    store.rows[of] = (leases[of].free(), leases[of].reserved());
                } else {
                    let estimate = max.div_ceil(3);
                    let mut reserved = leases[gateway].reserve(now, max, estimate);
                    for (row, lease) in store.rows.iter_mut().zip(&mut leases) {
                        lease.expire(now);
                        *row = (lease.free(), lease.reserved());
                    }
                    let is_asked = reserved == Err(NotLeased::Ask);
                    if is_asked {
                        let free = leases[gateway].free();
                        match store.used().grant(LeaseNeed { budgets: budgets(BUDGET), max, estimate, free }) {
                            Ok(grant) => leases[gateway].grant(now, TIME, grant),
                            Err(overspent) => leases[gateway].refuse(now, (max, estimate), overspent),
                        }
                        reserved = leases[gateway].reserve(now, max, estimate);
                        store.rows[gateway] = (leases[gateway].free(), leases[gateway].reserved());
                    }
                    match reserved {
                        Ok(reserved) => running.push((gateway, reserved, (used * max / 100).min(reserved))),
                        Err(NotLeased::Overspent(overspent)) => {
                            prop_assert!(max > overspent.left().unreserved);
                            // others may have ended since a refusal that is taken to hold
                            prop_assert!(!is_asked || estimate > overspent.left().unspent || !running.is_empty()
                                || leases.iter().any(|lease| lease.free() > 0));
                        }
                        Err(NotLeased::Ask) => prop_assert!(false, "neither granted nor refused"),
                    }
                }
                let used = store.used();
                prop_assert!(used.day + used.leased <= BUDGET, "{used:?}");
            }
        }
    }
}
