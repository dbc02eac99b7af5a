//! The contract on budgets that several gateways share.

use std::time::Duration;

use weir_policy::KeyId;
use weir_policy::budget::{BudgetLeft, Budgets, Overspent};
use weir_policy::budget_lease::{LeaseGrant, LeaseNeed};
use weir_store::{HeldBudget, LeaseAsk, LedgerWrite, LedgerWritten, Spent};

use super::*;

/// Long enough for any test.
const LONG: f64 = 600.0;
const SHORT: f64 = 0.05;
const KEY: KeyId = KeyId(7);

fn write(gateway: &str) -> LedgerWrite {
    LedgerWrite {
        gateway: gateway.to_owned(),
        changes: Vec::new(),
        held: Vec::new(),
        ask: None,
        lease_seconds: LONG,
        renews: false,
    }
}

/// Asks for the day 40 of a month that begins with 31.
fn ask(gateway: &str, max: u64, free: u64) -> LedgerWrite {
    let budgets = Budgets { per_day: Some(100), per_month: Some(250) };
    let need = LeaseNeed { budgets, max, estimate: max.min(20), free };
    let ask = LeaseAsk { key: KEY, model: "m".to_owned(), day: 40, month: 31..62, need };
    LedgerWrite { ask: Some(ask), ..write(gateway) }
}

/// Holds `leased` and `reserved` after a change of what was spent on the day.
fn hold(gateway: &str, number: u64, nanos: i64, (leased, reserved): (u64, u64)) -> LedgerWrite {
    LedgerWrite {
        changes: vec![(number, vec![spent(40, nanos)])],
        held: vec![HeldBudget { key: KEY, model: "m".to_owned(), leased, reserved }],
        ..write(gateway)
    }
}

fn spent(day: i32, nanos: i64) -> Spent {
    Spent { key: KEY, model: "m".to_owned(), day, nanos }
}

fn granted(nanos: u64, is_rest: bool) -> LedgerWritten {
    let lease = Some(Ok(LeaseGrant { nanos, share: 0, is_rest }));
    LedgerWritten { lease, has_leases: false }
}

fn refused(unreserved: u64, unspent: u64) -> LedgerWritten {
    let lease = Some(Err(Overspent::Day(BudgetLeft { unreserved, unspent })));
    LedgerWritten { lease, has_leases: false }
}

pub async fn gateways_lease_no_more_than_a_budget(open: Open<'_>) {
    let store = open();
    let written = async |write: LedgerWrite| store.write_ledger(write).await.unwrap();
    // of other days and models; of the month, 45
    store.add_spending(vec![spent(30, 90), spent(31, 45), spent(62, 90)]).await.unwrap();
    store.add_spending(vec![Spent { model: String::new(), ..spent(40, 90) }]).await.unwrap();
    assert_eq!(written(ask("one", 60, 0)).await, granted(60, false));
    assert_eq!(written(ask("two", 41, 0)).await, refused(40, 100));
    assert_eq!(written(ask("two", 40, 0)).await, granted(40, false));
    // reserved, and settled for 10
    written(hold("one", 1, 60, (0, 60))).await;
    assert_eq!(written(ask("three", 1, 0)).await, refused(0, 100));
    written(hold("one", 2, -50, (0, 0))).await;
    assert_eq!(written(ask("three", 51, 0)).await, refused(50, 90));
    assert_eq!(written(ask("three", 91, 0)).await, refused(50, 90), "another gateway has a lease");
    written(hold("two", 1, 30, (0, 0))).await;
    assert_eq!(written(ask("three", 91, 0)).await, granted(60, true), "the rest");
    assert_eq!(written(ask("one", 91, 0)).await, refused(0, 60));
    // an answer that did not arrive is not counted twice
    let held = hold("three", 1, 0, (0, 0)).held;
    assert_eq!(written(LedgerWrite { held, ..ask("three", 91, 0) }).await, granted(60, true));
    written(hold("three", 1, 55, (0, 0))).await;
    assert_eq!(written(ask("one", 91, 0)).await, refused(5, 5), "less than the estimate");
    let day = store.spending(40).await.unwrap();
    assert!(day.contains(&spent(40, 95)), "{day:?}");
    close_sound(store).await;
}

pub async fn a_lease_that_has_ended_is_charged(open: Open<'_>) {
    let store = open();
    let written = async |write: LedgerWrite| store.write_ledger(write).await.unwrap();
    assert_eq!(written(ask("dead", 90, 0)).await, granted(90, false));
    let mut last = hold("dead", 1, 30, (20, 30));
    last.lease_seconds = SHORT;
    written(last.clone()).await;
    assert_eq!(written(ask("two", 60, 0)).await, refused(50, 100));
    tokio::time::sleep(Duration::from_secs_f64(SHORT * 4.0)).await;
    assert_eq!(written(ask("two", 60, 0)).await, granted(50, true), "what the dead one had stays spent");
    // a late write brings nothing back
    written(hold("dead", 2, 0, (20, 30))).await;
    written(hold("two", 1, 0, (0, 0))).await;
    assert_eq!(written(ask("two", 60, 0)).await, granted(50, true));
    // a gateway that lives prolongs its leases, and forgets those that are empty
    let renewed = LedgerWrite { renews: true, ..write("two") };
    assert!(written(renewed.clone()).await.has_leases);
    written(hold("two", 2, 0, (0, 0))).await;
    assert!(!written(renewed.clone()).await.has_leases);
    // whoever prolongs charges those of others that have ended, once
    let mut last = ask("dead", 10, 0);
    last.lease_seconds = SHORT;
    assert_eq!(written(last).await, granted(10, false));
    tokio::time::sleep(Duration::from_secs_f64(SHORT * 4.0)).await;
    written(renewed.clone()).await;
    written(renewed).await;
    let charged = store.spending(100).await.unwrap();
    assert_eq!(charged.iter().map(|spent| spent.nanos).sum::<i64>(), 10, "{charged:?}");
    close_sound(store).await;
}

pub async fn a_write_that_is_repeated_is_counted_once(open: Open<'_>) {
    let store = open();
    let first = hold("one", 1, 30, (0, 0));
    store.write_ledger(first.clone()).await.unwrap();
    let mut again = first;
    again.changes.push((2, vec![spent(40, -10), spent(41, 3), spent(41, 1), spent(42, 1), spent(43, 1)]));
    for _ in 0..2 {
        store.write_ledger(again.clone()).await.unwrap();
    }
    store.write_ledger(hold("two", 1, 5, (0, 0))).await.unwrap();
    let days = store.spending(0).await.unwrap();
    let days: Vec<_> = days.iter().map(|spent| (spent.day, spent.nanos)).collect();
    assert_eq!(days, [(40, 25), (41, 4), (42, 1), (43, 1)]);
    close_sound(store).await;
}

pub async fn concurrent_gateways_lease_no_more_than_a_budget(open: Open<'_>) {
    let store = open();
    let ask_at = |number: usize| {
        let (store, write) = (store.clone(), ask(&format!("gateway {number}"), 11, 0));
        tokio::spawn(async move { store.write_ledger(write).await.unwrap() })
    };
    let asks: Vec<_> = (0..20).map(ask_at).collect();
    let mut grants = 0;
    for ask in asks {
        grants += usize::from(matches!(ask.await.unwrap().lease, Some(Ok(_))));
    }
    assert_eq!(grants, 9);
    close_sound(store).await;
}
