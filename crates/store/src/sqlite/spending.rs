//! The ledger of keys with budgets.

use rusqlite::{Connection, params};
use weir_policy::KeyId;

use super::error::OrDamaged as _;
use super::statements::Statements as _;
use crate::{Result, Spent};

/// Adds changes of what was spent, and forgets days before `since`. A sum is never below none.
pub(crate) fn add(connection: &Connection, spent: &[Spent], since: i32) -> Result<()> {
    for Spent { key, model, day, nanos } in spent {
        connection.run(
            "INSERT INTO spending (key_id, model, day, nanos) VALUES (?1, ?2, ?3, max(?4, 0))
             ON CONFLICT (key_id, model, day) DO UPDATE SET nanos = max(0, min(nanos, 9223372036854775807 - max(?4, 0)) + ?4)",
            params![key.0, model, day, nanos],
        )?;
    }
    connection.run("DELETE FROM spending WHERE day < ?1", params![since])?;
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
