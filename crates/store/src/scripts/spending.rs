//! The ledger of keys with budgets.

use weir_policy::KeyId;

use crate::tx::{AsValue as _, OrDamaged as _, Tx, values};
use crate::{Result, Spent};

/// `$4` is the change, `$5` what a new row has, `$6` the sum from which on the change would pass the highest number.
const ADD: &str = "INSERT INTO spending (key_id, model, day, nanos) VALUES ($1, $2, $3, CAST($5 AS BIGINT))
     ON CONFLICT (key_id, model, day) DO UPDATE SET nanos = CASE
         WHEN spending.nanos > CAST($6 AS BIGINT) THEN 9223372036854775807
         WHEN spending.nanos + CAST($4 AS BIGINT) < 0 THEN 0
         ELSE spending.nanos + CAST($4 AS BIGINT) END";

/// Adds changes of what was spent. A sum is never below none.
pub(crate) async fn add(tx: &mut Tx<'_>, spent: &[Spent]) -> Result<()> {
    // in the order of the rows, so that no two transactions wait for each other
    let mut spent: Vec<&Spent> = spent.iter().collect();
    spent.sort_by_key(|spent| (spent.key.0, &spent.model, spent.day));
    let bounds = spent.iter().map(|spent| spent.nanos.max(0)).map(|added| (added, i64::MAX - added));
    let bounds: Vec<(i64, i64)> = bounds.collect();
    let rows = spent.iter().zip(&bounds).map(|(Spent { key, model, day, nanos }, (added, sum_max))| {
        values![key.0, model, day, nanos, added, sum_max]
    });
    tx.run_each(ADD, &rows.collect::<Vec<_>>()).await?;
    Ok(())
}

/// Forgets all days but the last ones that have a row.
pub(crate) async fn prune(tx: &mut Tx<'_>, days_max: u32) -> Result<()> {
    tx.run(
        "DELETE FROM spending WHERE day < (SELECT min(day) FROM (SELECT DISTINCT day FROM spending ORDER BY day DESC LIMIT $1) AS kept)",
        &values![days_max],
    ).await?;
    Ok(())
}

/// Adds a row that no key has and removes it: the page that had it is written.
pub(crate) async fn rewrite(tx: &mut Tx<'_>) -> Result<()> {
    tx.run(ADD, &values![i64::MIN, "", 0_i64, 0_i64, 0_i64, i64::MAX]).await?;
    tx.run("DELETE FROM spending WHERE key_id = $1", &values![i64::MIN]).await?;
    Ok(())
}

/// Spending of every key on each day from `since` on.
pub(crate) async fn list(tx: &mut Tx<'_>, since: i32) -> Result<Vec<Spent>> {
    tx.all("SELECT key_id, model, day, nanos FROM spending WHERE day >= $1", &values![since], |row| {
        let read = || {
            Ok(Spent { key: KeyId(row.get(0)?), model: row.get(1)?, day: row.get(2)?, nanos: row.get(3)? })
        };
        read().or_damaged("spending", || "of a key".to_owned())
    })
    .await
}
