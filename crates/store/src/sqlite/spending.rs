//! The ledger of keys with budgets.

use rusqlite::{Connection, params};
use weir_policy::KeyId;

use super::error::OrDamaged as _;
use super::statements::Statements as _;
use crate::{Result, Spent};

const ADD: &str = "INSERT INTO spending (key_id, model, day, nanos) VALUES (?1, ?2, ?3, max(?4, 0))
     ON CONFLICT (key_id, model, day) DO UPDATE SET nanos = max(0, min(nanos, 9223372036854775807 - max(?4, 0)) + ?4)";

/// Adds changes of what was spent. A sum is never below none.
pub(crate) fn add(connection: &Connection, spent: &[Spent]) -> Result<()> {
    for Spent { key, model, day, nanos } in spent {
        connection.run(ADD, params![key.0, model, day, nanos])?;
    }
    Ok(())
}

/// Forgets all days but the last ones that have a row.
pub(crate) fn prune(connection: &Connection, days_max: u32) -> Result<()> {
    connection.run(
        "DELETE FROM spending WHERE day < (SELECT min(day) FROM (SELECT DISTINCT day FROM spending ORDER BY day DESC LIMIT ?1))",
        [days_max],
    )?;
    Ok(())
}

/// Adds a row that no key has and removes it: the page that had it is written.
pub(crate) fn rewrite(connection: &Connection) -> Result<()> {
    connection.run(ADD, params![i64::MIN, "", 0, 0])?;
    connection.run("DELETE FROM spending WHERE key_id = ?1", [i64::MIN])?;
    Ok(())
}

/// What every key has spent on each day from `since` on.
pub(crate) fn list(connection: &Connection, since: i32) -> Result<Vec<Spent>> {
    connection.all("SELECT key_id, model, day, nanos FROM spending WHERE day >= ?1", [since], |row| {
        let read = || {
            Ok(Spent { key: KeyId(row.get(0)?), model: row.get(1)?, day: row.get(2)?, nanos: row.get(3)? })
        };
        read().or_damaged("spending", || "of a key".to_owned())
    })
}
