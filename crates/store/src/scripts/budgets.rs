//! Budgets that several gateways share: each leases amounts. Times are those of the database's clock.
//!
//! The sum of spending, reservations and leases of a budget never exceeds the budget. A lease that ends without being given back is spent.
//! Only leases add to it, which are given under the lock of their key.
//! A reservation and its end move an amount between a lease and `spending`, in one commit, and need no lock.

use std::collections::BTreeMap;

use weir_policy::KeyId;
use weir_policy::budget::Overspent;
use weir_policy::budget_lease::{BudgetUse, LeaseGrant};

use super::spending;
use crate::tx::{AsValue as _, Lock, OrDamaged as _, Tx, Value, values};
use crate::{HeldBudget, LeaseAsk, LedgerWrite, LedgerWritten, Result, Spent};

/// How long the number of the last write of a gateway is kept: longer than it repeats one.
const WRITES_KEPT_SECONDS: f64 = 30.0 * DAY_SECONDS;

const DAY_SECONDS: f64 = 86_400.0;

/// Writes what a gateway has spent and holds, and grants what it asks for.
pub(crate) async fn write(tx: &mut Tx<'_>, write: &LedgerWrite) -> Result<LedgerWritten> {
    if let Some(ask) = &write.ask {
        tx.lock(Lock::Budgets(ask.key)).await?;
    }
    let now = tx.clock().await?;
    let ends_at = now + write.lease_seconds;
    add_once(tx, write, now).await?;
    hold(tx, write, (now, ends_at)).await?;
    let has_leases = write.renews && renew(tx, &write.gateway, (now, ends_at)).await?;
    let lease = match &write.ask {
        Some(ask) => Some(lease(tx, &write.gateway, ask, (now, ends_at)).await?),
        None => None,
    };
    Ok(LedgerWritten { lease, has_leases })
}

/// Adds the changes that are not stored yet.
async fn add_once(tx: &mut Tx<'_>, write: &LedgerWrite, now: f64) -> Result<()> {
    let Some((newest, _)) = write.changes.last() else { return Ok(()) };
    let stored = "SELECT number FROM ledger_writes WHERE gateway = $1";
    let stored = tx.first(stored, &values![write.gateway], |row| Ok(row.get::<u64>(0)?)).await?.unwrap_or(0);
    let changes = write.changes.iter().filter(|(number, _)| *number > stored);
    let mut sums = BTreeMap::new();
    for Spent { key, model, day, nanos } in changes.flat_map(|(_, spent)| spent) {
        let sum: &mut i64 = sums.entry((*key, model, *day)).or_default();
        *sum = sum.saturating_add(*nanos);
    }
    let sum = |((key, model, day), nanos): ((KeyId, &String, i32), i64)| Spent {
        key,
        model: model.clone(),
        day,
        nanos,
    };
    spending::add(tx, &sums.into_iter().map(sum).collect::<Vec<_>>()).await?;
    tx.run(
        "INSERT INTO ledger_writes (gateway, number, written_at) VALUES ($1, $2, $3)
         ON CONFLICT (gateway) DO UPDATE SET number = $2, written_at = $3",
        &values![write.gateway, newest, now],
    )
    .await?;
    Ok(())
}

/// Stores what a gateway has of leases that have not ended.
async fn hold(tx: &mut Tx<'_>, write: &LedgerWrite, (now, ends_at): (f64, f64)) -> Result<()> {
    let rows = write.held.iter().map(|HeldBudget { key, model, leased, reserved }| {
        values![key.0, model, write.gateway, leased, reserved, ends_at, now]
    });
    tx.run_each(
        "UPDATE budget_leases SET nanos = $4, reserved = $5, ends_at = $6
         WHERE key_id = $1 AND model = $2 AND gateway = $3 AND ends_at > $7",
        &rows.collect::<Vec<_>>(),
    )
    .await?;
    Ok(())
}

/// Prolongs the leases of a gateway, and forgets those that are of no use any more. Whether it has any.
async fn renew(tx: &mut Tx<'_>, gateway: &str, (now, ends_at): (f64, f64)) -> Result<bool> {
    let ended = "DELETE FROM budget_leases WHERE ends_at <= $1 RETURNING key_id, model, nanos";
    charge_ended(tx, ended, &values![now], (now / DAY_SECONDS) as i32).await?;
    let unused = "DELETE FROM budget_leases WHERE gateway = $1 AND nanos = 0 AND reserved = 0";
    tx.run(unused, &values![gateway]).await?;
    tx.run("DELETE FROM ledger_writes WHERE written_at < $1", &values![now - WRITES_KEPT_SECONDS]).await?;
    let prolong = "UPDATE budget_leases SET ends_at = $2 WHERE gateway = $1 AND ends_at > $3";
    Ok(tx.run(prolong, &values![gateway, ends_at, now]).await? > 0)
}

/// Removes leases that have ended and were not given back, and charges them: what their gateway has reserved of them before it died, nobody knows.
async fn charge_ended(tx: &mut Tx<'_>, delete: &'static str, values: &[Value<'_>], day: i32) -> Result<()> {
    let ended = tx.all(delete, values, |row| {
        let read = || Ok(Spent { key: KeyId(row.get(0)?), model: row.get(1)?, day, nanos: row.get(2)? });
        read().or_damaged("budget_leases", || "of a key".to_owned())
    });
    let ended = ended.await?;
    spending::add(tx, &ended.into_iter().filter(|lease| lease.nanos > 0).collect::<Vec<_>>()).await
}

/// Grants a lease. The lock of the key is held, and what the gateway has is stored.
async fn lease(
    tx: &mut Tx<'_>,
    gateway: &str,
    ask: &LeaseAsk,
    (now, ends_at): (f64, f64),
) -> Result<Result<LeaseGrant, Overspent>> {
    let ended = "DELETE FROM budget_leases WHERE key_id = $1 AND model = $2 AND ends_at <= $3
         RETURNING key_id, model, nanos";
    charge_ended(tx, ended, &values![ask.key.0, ask.model, now], ask.day).await?;
    let grant = match used(tx, ask).await?.grant(ask.need) {
        Ok(grant) => grant,
        Err(overspent) => return Ok(Err(overspent)),
    };
    // all that the gateway has: what an earlier answer granted that did not arrive is not counted again
    let leased = ask.need.free.saturating_add(grant.nanos);
    tx.run(
        "INSERT INTO budget_leases (key_id, model, gateway, nanos, reserved, ends_at) VALUES ($1, $2, $3, $4, 0, $5)
         ON CONFLICT (key_id, model, gateway) DO UPDATE SET nanos = $4, ends_at = $5",
        &values![ask.key.0, ask.model, gateway, leased, ends_at],
    )
    .await?;
    Ok(Ok(grant))
}

/// The leases of all gateways from a budget, by one statement: others move amounts between the tables meanwhile.
async fn used(tx: &mut Tx<'_>, ask: &LeaseAsk) -> Result<BudgetUse> {
    let mut used = BudgetUse::default();
    let rows = tx
        .all(
            "SELECT CAST(1 AS BIGINT), day, nanos, CAST(0 AS BIGINT) FROM spending
             WHERE key_id = $1 AND model = $2 AND day >= $3 AND day < $4
             UNION ALL SELECT CAST(0 AS BIGINT), CAST(0 AS BIGINT), nanos, reserved FROM budget_leases WHERE key_id = $1 AND model = $2",
            &values![ask.key.0, ask.model, ask.month.start, ask.month.end],
            |row| {
                let is_spent = row.get::<i64>(0)? == 1;
                Ok((is_spent, row.get::<i64>(1)?, row.get::<u64>(2)?, row.get::<u64>(3)?))
            },
        )
        .await?;
    for (is_spent, day, nanos, reserved) in rows {
        if is_spent {
            used.month = used.month.saturating_add(nanos);
            used.day = used.day.saturating_add(if day == i64::from(ask.day) { nanos } else { 0 });
        } else {
            used.leased = used.leased.saturating_add(nanos);
            used.reserved = used.reserved.saturating_add(reserved);
        }
    }
    Ok(used)
}
