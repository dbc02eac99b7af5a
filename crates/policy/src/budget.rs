//! Budgets of a key: what it may spend in a day and in a month, in billionths of the currency of the price table.

/// The budgets of a key.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Budgets {
    /// Of a day.
    pub per_day: Option<u64>,
    /// Of a month.
    pub per_month: Option<u64>,
}

/// The day and the month, in UTC, counted from any start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period {
    /// The day.
    pub day: i32,
    /// The month.
    pub month: i32,
}

/// A budget that has not enough left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overspent {
    /// The budget of the day.
    Day(BudgetLeft),
    /// The budget of the month.
    Month(BudgetLeft),
}

impl Overspent {
    /// The rest of it.
    pub fn left(self) -> BudgetLeft {
        match self {
            Overspent::Day(left) | Overspent::Month(left) => left,
        }
    }
}

/// The rest of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLeft {
    /// Beside what is spent and reserved.
    pub unreserved: u64,
    /// Beside what is spent: requests on their way give back what they do not use.
    pub unspent: u64,
}

/// Spending of a key by day, and reservations for requests on their way.
///
/// Money counts on the day on which it was spent, whatever day it is now: a clock that was ahead or behind for a while leaves the budgets of
/// other days as they are. A month is the sum of its days, also of those that are still to come by a clock that was set back: the
/// money was spent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spending {
    /// Each day once, those without spending left out.
    days: Vec<(Period, u64)>,
    reserved: u64,
}

/// Days that are kept, those nearest to the current one: more than the current month and its neighbours have.
const DAYS_MAX: usize = 96;

impl Spending {
    /// Starts with earlier spending.
    pub fn new(days: impl IntoIterator<Item = (Period, u64)>) -> Spending {
        let mut spending = Spending::default();
        days.into_iter().for_each(|(period, nanos)| spending.add(period, nanos));
        spending
    }

    /// Counts what was spent.
    pub fn add(&mut self, period: Period, nanos: u64) {
        if nanos == 0 {
            return;
        }
        match self.day_mut(period) {
            Some(spent) => *spent = spent.saturating_add(nanos),
            None => self.days.push((period, nanos)),
        }
        if self.days.len() > DAYS_MAX {
            let distance = |(_, (of, _)): &(usize, &(Period, u64))| of.day.abs_diff(period.day);
            if let Some((farthest, _)) = self.days.iter().enumerate().max_by_key(distance) {
                self.days.swap_remove(farthest);
            }
        }
    }

    /// Reserves what a request costs at most. One that costs nothing is within every budget.
    ///
    /// # Errors
    /// The budget that has not enough left; nothing is reserved then.
    pub fn reserve(&mut self, now: Period, budgets: Budgets, most: u64) -> Result<(), Overspent> {
        if most == 0 {
            return Ok(());
        }
        let (day, month) = self.spent(now);
        // what is left of a budget that has not enough
        let short = |spent: u64, budget: Option<u64>| {
            let unspent = budget?.saturating_sub(spent);
            let unreserved = unspent.saturating_sub(self.reserved);
            (most > unreserved).then_some(BudgetLeft { unreserved, unspent })
        };
        if let Some(left) = short(day, budgets.per_day) {
            return Err(Overspent::Day(left));
        }
        if let Some(left) = short(month, budgets.per_month) {
            return Err(Overspent::Month(left));
        }
        self.reserved = self.reserved.saturating_add(most);
        Ok(())
    }

    /// Reserves for a request whose upper bound does not fit beside what is spent: all that is left, so that no other request runs at the same
    /// time. `estimate`: what it costs most likely.
    ///
    /// # Errors
    /// The budget that has less left than the estimate, or of which requests on their way have reserved a part; nothing is reserved then.
    pub fn reserve_rest(&mut self, now: Period, budgets: Budgets, estimate: u64) -> Result<u64, Overspent> {
        let (day, month) = self.spent(now);
        let left = |spent: u64, budget: Option<u64>| {
            let unspent = budget.map(|budget| budget.saturating_sub(spent))?;
            Some(BudgetLeft { unreserved: unspent.saturating_sub(self.reserved), unspent })
        };
        let lefts = [
            left(day, budgets.per_day).map(Overspent::Day),
            left(month, budgets.per_month).map(Overspent::Month),
        ];
        let tightest = lefts.into_iter().flatten().min_by_key(|short| short.left().unspent);
        let Some(tightest) = tightest else { return Ok(0) };
        let rest = tightest.left().unspent;
        if self.reserved > 0 || estimate > rest {
            return Err(tightest);
        }
        self.reserved = rest;
        Ok(rest)
    }

    /// Ends a reservation: `used` was spent, in the period in which the request ended.
    pub fn settle(&mut self, now: Period, reserved: u64, used: u64) {
        self.reserved = self.reserved.saturating_sub(reserved);
        self.add(now, used);
    }

    /// Spending in the day and in the month.
    pub fn spent(&self, now: Period) -> (u64, u64) {
        let sum = |is_in: &dyn Fn(&Period) -> bool| {
            let days = self.days.iter().filter(|(period, _)| is_in(period));
            days.fold(0_u64, |sum, (_, nanos)| sum.saturating_add(*nanos))
        };
        (sum(&|period| period.day == now.day), sum(&|period| period.month == now.month))
    }

    /// Sets what was spent to that of `other`. What is reserved stays so.
    pub fn set_spent(&mut self, other: Spending) {
        self.days = other.days;
    }

    /// Adds days that were stored. Of a day that is known, the greater amount counts. What is stored of the current day has the reservations
    /// of requests on their way as well.
    pub fn merge(&mut self, stored: &Spending, now: Period) {
        for &(period, nanos) in &stored.days {
            let reserved = if period.day == now.day { self.reserved } else { 0 };
            let nanos = nanos.saturating_sub(reserved);
            match self.day_mut(period) {
                Some(spent) => *spent = nanos.max(*spent),
                None => self.add(period, nanos),
            }
        }
    }

    /// Sets the days that were stored to what they have there.
    pub fn replace(&mut self, stored: &Spending) {
        for &(period, nanos) in &stored.days {
            match self.day_mut(period) {
                Some(spent) => *spent = nanos,
                None => self.add(period, nanos),
            }
        }
    }

    fn day_mut(&mut self, period: Period) -> Option<&mut u64> {
        self.days.iter_mut().find(|(of, _)| of.day == period.day).map(|(_, nanos)| nanos)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BUDGETS: Budgets = Budgets { per_day: Some(10), per_month: Some(25) };

    fn left(unreserved: u64, unspent: u64) -> BudgetLeft {
        BudgetLeft { unreserved, unspent }
    }

    fn at(day: i32) -> Period {
        Period { day, month: day / 30 }
    }

    #[test]
    fn the_rest_of_a_budget_is_for_one_request_at_a_time() {
        let mut spending = Spending::new([(at(0), 4)]);
        assert_eq!(spending.reserve(at(0), BUDGETS, 3), Ok(()));
        assert_eq!(spending.reserve_rest(at(0), BUDGETS, 2), Err(Overspent::Day(left(3, 6))), "one runs");
        spending.settle(at(0), 3, 0);
        assert_eq!(
            spending.reserve_rest(at(0), BUDGETS, 7),
            Err(Overspent::Day(left(6, 6))),
            "it does not fit"
        );
        assert_eq!(spending.reserve_rest(at(0), BUDGETS, 6), Ok(6));
        assert!(
            spending.reserve(at(0), BUDGETS, 1).is_err() && spending.reserve_rest(at(0), BUDGETS, 1).is_err()
        );
        spending.settle(at(0), 6, 5);
        assert_eq!(spending.reserve_rest(at(0), BUDGETS, 1), Ok(1));
        assert_eq!(Spending::default().reserve_rest(at(0), Budgets::default(), 9), Ok(0));
        let mut month = Spending::new([(at(0), 24)]);
        assert_eq!(month.reserve_rest(at(1), BUDGETS, 1), Ok(1), "the tighter of both budgets");
    }

    #[test]
    fn a_budget_is_never_passed_and_begins_anew() {
        let mut spending = Spending::new([(at(0), 4)]);
        assert_eq!(spending.reserve(at(0), BUDGETS, 7), Err(Overspent::Day(left(6, 6))));
        assert_eq!(spending.reserve(at(0), BUDGETS, 6), Ok(()));
        assert_eq!(spending.reserve(at(0), BUDGETS, 1), Err(Overspent::Day(left(0, 6))));
        spending.settle(at(0), 6, 2);
        assert_eq!(spending.reserve(at(0), BUDGETS, 4), Ok(()));
        assert_eq!(
            (spending.spent(at(0)), spending.spent(at(1))),
            ((6, 6), (0, 6)),
            "without what is reserved"
        );
        spending.settle(at(1), 4, 4); // it ended on the next day
        assert_eq!((spending.spent(at(1)), spending.reserved), ((4, 10), 0));
        spending.settle(at(2), 0, 10);
        assert_eq!(spending.reserve(at(3), BUDGETS, 6), Err(Overspent::Month(left(5, 5))));
        assert_eq!(spending.reserve(at(30), BUDGETS, 6), Ok(()));
    }

    #[test]
    fn a_clock_that_was_wrong_leaves_the_budgets_of_other_days_as_they_are() {
        let mut spending = Spending::new([(at(3), 9)]);
        spending.settle(at(300), 0, 10);
        assert_eq!(spending.reserve(at(300), BUDGETS, 1), Err(Overspent::Day(left(0, 0))));
        assert_eq!(spending.spent(at(3)), (9, 9), "the clock was set back");
        assert_eq!(spending.reserve(at(3), BUDGETS, 2), Err(Overspent::Day(left(1, 1))), "and gives nothing");
        assert_eq!(spending.reserve(at(3), BUDGETS, 1), Ok(()));
        spending.settle(at(4), 1, 8);
        assert_eq!((spending.spent(at(3)), spending.spent(at(4))), ((9, 17), (8, 17)));
        spending.settle(at(5), 0, 8);
        let month = Err(Overspent::Month(left(0, 0)));
        assert_eq!(spending.reserve(at(6), BUDGETS, 1), month);
        assert_eq!(
            spending.reserve(at(2), BUDGETS, 1),
            month,
            "the month's money was spent, whatever its day"
        );
    }

    #[test]
    fn the_days_that_are_kept_are_those_around_the_current_one() {
        let mut spending = Spending::default();
        for day in (0..10_000).rev().chain(500..530) {
            spending.add(at(day), 1);
        }
        assert!(spending.days.len() <= DAYS_MAX);
        assert_eq!(spending.spent(at(529)), (1, 20));
    }

    #[test]
    fn days_that_were_stored_are_added_once() {
        let mut spending = Spending::new([(at(1), 2)]);
        assert_eq!(spending.reserve(at(1), BUDGETS, 3), Ok(()));
        // with what is reserved, and a day before
        spending.merge(&Spending::new([(at(0), 7), (at(1), 5)]), at(1));
        assert_eq!((spending.spent(at(0)), spending.spent(at(1))), ((7, 9), (2, 9)));
        spending.merge(&Spending::new([(at(1), 4)]), at(1));
        assert_eq!(spending.spent(at(1)), (2, 9));
    }

    #[test]
    fn what_costs_nothing_is_within_an_overspent_budget() {
        let mut overspent = Spending::new([(at(0), 12)]);
        assert_eq!(overspent.reserve(at(0), BUDGETS, 1), Err(Overspent::Day(left(0, 0))));
        assert_eq!(overspent.reserve(at(0), BUDGETS, 0), Ok(()));
    }

    proptest! {
        /// Against a model that keeps every request: no day and no month costs more than its budget when no request costs more than it reserved.
        #[test]
        fn no_period_costs_more_than_its_budget(steps in prop::collection::vec((0..3i32, 0..8u64, 0..8u64, any::<bool>()), 1..200)) {
            let (mut spending, mut day) = (Spending::default(), 0);
            let (mut open, mut spent) = (Vec::new(), Vec::<(Period, u64)>::new());
            for (later, most, used, ends) in steps {
                // no request is on its way at midnight: one that is counts in the day in which it ends
                if open.is_empty() {
                    day += later;
                }
                if ends && let Some((most, used)) = open.pop() {
                    spending.settle(at(day), most, used);
                    spent.push((at(day), used));
                } else if spending.reserve(at(day), BUDGETS, most).is_ok() {
                    open.push((most, used.min(most)));
                }
                let sum = |is_in: &dyn Fn(&Period) -> bool| -> u64 {
                    spent.iter().filter(|(period, _)| is_in(period)).map(|(_, used)| used).sum()
                };
                prop_assert!(sum(&|period| period.day == day) <= 10);
                prop_assert!(sum(&|period| period.month == at(day).month) <= 25);
            }
        }
    }
}
