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

/// What is left of a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BudgetLeft {
    /// Beside what is spent and reserved.
    pub unreserved: u64,
    /// Beside what is spent: requests on their way give back what they do not use.
    pub unspent: u64,
}

/// What a key has spent in the current day and month, and what is reserved for requests on their way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spending {
    period: Period,
    day: u64,
    month: u64,
    reserved: u64,
}

impl Spending {
    /// What was spent before, in the day and the month of `period`.
    pub fn new(period: Period, day: u64, month: u64) -> Spending {
        Spending { period, day, month, reserved: 0 }
    }

    /// Reserves what a request costs at most. One that costs nothing is within every budget.
    ///
    /// # Errors
    /// The budget that has not enough left; nothing is reserved then.
    pub fn reserve(&mut self, now: Period, budgets: Budgets, most: u64) -> Result<(), Overspent> {
        self.turn(now);
        if most == 0 {
            return Ok(());
        }
        // what is left of a budget that has not enough
        let short = |spent: u64, budget: Option<u64>| {
            let unspent = budget?.saturating_sub(spent);
            let unreserved = unspent.saturating_sub(self.reserved);
            (most > unreserved).then_some(BudgetLeft { unreserved, unspent })
        };
        if let Some(left) = short(self.day, budgets.per_day) {
            return Err(Overspent::Day(left));
        }
        if let Some(left) = short(self.month, budgets.per_month) {
            return Err(Overspent::Month(left));
        }
        self.reserved = self.reserved.saturating_add(most);
        Ok(())
    }

    /// Ends a reservation: `used` was spent, in the period in which the request ended.
    pub fn settle(&mut self, now: Period, reserved: u64, used: u64) {
        self.turn(now);
        self.reserved = self.reserved.saturating_sub(reserved);
        self.day = self.day.saturating_add(used);
        self.month = self.month.saturating_add(used);
    }

    /// What was spent in the day and in the month.
    pub fn spent(&mut self, now: Period) -> (u64, u64) {
        self.turn(now);
        (self.day, self.month)
    }

    /// Sets what was spent to that of `other`. What is reserved stays so.
    pub fn set_spent(&mut self, other: Spending) {
        *self = Spending { reserved: self.reserved, ..other };
    }

    /// Begins a new day and month. A clock that goes back changes nothing.
    fn turn(&mut self, now: Period) {
        if now.month > self.period.month {
            (self.month, self.period.month) = (0, now.month);
        }
        if now.day > self.period.day {
            (self.day, self.period.day) = (0, now.day);
        }
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
    fn a_budget_is_never_passed_and_begins_anew() {
        let mut spending = Spending::new(at(0), 4, 4);
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
        assert_eq!(spending, Spending { period: at(1), day: 4, month: 10, reserved: 0 });
        spending.settle(at(2), 0, 10);
        assert_eq!(spending.reserve(at(3), BUDGETS, 6), Err(Overspent::Month(left(5, 5))));
        assert_eq!(spending.reserve(at(30), BUDGETS, 6), Ok(()));
        assert_eq!(
            spending.reserve(at(29), BUDGETS, 5),
            Err(Overspent::Day(left(4, 10))),
            "a clock that goes back gives nothing"
        );
    }

    #[test]
    fn what_costs_nothing_is_within_an_overspent_budget() {
        let mut overspent = Spending::new(at(0), 12, 12);
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
