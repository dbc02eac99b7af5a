//! Idempotency keys: inserted with what their request stored, in the same transaction.

use rusqlite::{Connection, params};
use weir_policy::KeyId;

use super::error::damaged;
use super::statements::Statements as _;
use crate::{Acceptance, Error, IdempotencyKey, Job, Result, Timestamp};

/// Upper bound of the keys that one transaction deletes because of their age.
const PRUNE_BATCH: usize = 1_000;

/// What the request with this key stored before. `None` if there was none, or it is too long ago.
///
/// # Errors
/// `IdempotencyMismatch` if that request asked for something else.
pub(crate) fn find(
    connection: &Connection,
    key: &IdempotencyKey,
    now: Timestamp,
) -> Result<Option<Acceptance>> {
    let stored = "SELECT fingerprint, job, version, created_at FROM idempotency_keys
         WHERE scope = ?1 AND created_at >= ?2";
    connection.first(stored, params![key.scope, key.kept_since(now)], |row| {
        let (fingerprint, job, version): ([u8; 32], String, _) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if fingerprint != key.fingerprint {
            return Err(Error::IdempotencyMismatch);
        }
        let damaged = |_| damaged("idempotency key", "of a stored request");
        let job: Job = serde_json::from_str(&job).map_err(damaged)?;
        // JSON may round times
        let at: Timestamp = row.get(3)?;
        let job = Job {
            created_at: at,
            started_at: job.started_at.map(|_| at),
            finished_at: job.finished_at.map(|_| at),
            ..job
        };
        Ok(Acceptance { job, version, is_repeated: true })
    })
}

/// Keeps what a request stored, in place of an older request with this key, and deletes the caller's oldest keys beyond the maximum.
pub(super) fn insert(
    connection: &Connection,
    key: &IdempotencyKey,
    caller: Option<KeyId>,
    accepted: &Acceptance,
) -> Result<()> {
    let caller = caller.map_or(0, |key| key.0);
    let last = "SELECT coalesce(max(number), 0) FROM idempotency_keys WHERE caller = ?1";
    let last: Option<u64> = connection.first(last, [caller], |row| Ok(row.get(0)?))?;
    let number = last.unwrap_or(0) + 1;
    let encoding = |source| Error::Sqlite { source: std::sync::Arc::new(source) };
    let job = serde_json::to_string(&accepted.job).map_err(encoding)?;
    connection.run(
        "INSERT INTO idempotency_keys (scope, caller, number, fingerprint, job, version, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
         ON CONFLICT (scope) DO UPDATE SET number = excluded.number, fingerprint = excluded.fingerprint,
             job = excluded.job, version = excluded.version, created_at = excluded.created_at",
        params![key.scope, caller, number, key.fingerprint, job, accepted.version, accepted.job.created_at],
    )?;
    connection.run(
        "DELETE FROM idempotency_keys WHERE caller = ?1 AND number <= ?2",
        params![caller, number.saturating_sub(key.kept_max)],
    )?;
    Ok(())
}

/// Deletes one batch of the keys from before `since`; `false` when there are more.
pub(super) fn prune(connection: &Connection, since: Timestamp) -> Result<bool> {
    let removed = connection.run(
        "DELETE FROM idempotency_keys WHERE scope IN (
             SELECT scope FROM idempotency_keys WHERE created_at < ?1 ORDER BY created_at LIMIT ?2)",
        params![since, PRUNE_BATCH as i64],
    )?;
    Ok(removed < PRUNE_BATCH)
}
