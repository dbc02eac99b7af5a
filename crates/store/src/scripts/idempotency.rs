//! Idempotency keys: inserted with what their request stored, in the same transaction.

use weir_policy::KeyId;

use crate::tx::{AsValue as _, Tx, damaged, values};
use crate::{Acceptance, Error, IdempotencyKey, Job, Result, Timestamp};

/// Upper bound of the keys that one transaction deletes because of their age.
const PRUNE_BATCH: u64 = 1_000;

/// The result that the request with this key stored before. `None` if there was none, or it is too long ago.
///
/// # Errors
/// `IdempotencyMismatch` if that request asked for something else.
pub(crate) async fn find(
    tx: &mut Tx<'_>,
    key: &IdempotencyKey,
    now: Timestamp,
) -> Result<Option<Acceptance>> {
    let stored = "SELECT fingerprint, job, version, created_at FROM idempotency_keys
         WHERE scope = $1 AND created_at >= $2";
    tx.first(stored, &values![key.scope, key.kept_since(now)], |row| {
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
    .await
}

/// Keeps what a request stored, in place of an older request with this key, and deletes the caller's oldest keys beyond the maximum. The
/// caller is locked.
pub(super) async fn insert(
    tx: &mut Tx<'_>,
    key: &IdempotencyKey,
    caller: Option<KeyId>,
    accepted: &Acceptance,
) -> Result<()> {
    let caller = caller.map_or(0, |key| key.0);
    let last = "SELECT coalesce(max(number), 0) FROM idempotency_keys WHERE caller = $1";
    let last: Option<u64> = tx.first(last, &values![caller], |row| Ok(row.get(0)?)).await?;
    let number = last.unwrap_or(0) + 1;
    let encoding = |source| Error::Failed { source: std::sync::Arc::new(source) };
    let job = serde_json::to_string(&accepted.job).map_err(encoding)?;
    tx.run(
        "INSERT INTO idempotency_keys (scope, caller, number, fingerprint, job, version, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (scope) DO UPDATE SET number = excluded.number, fingerprint = excluded.fingerprint,
             job = excluded.job, version = excluded.version, created_at = excluded.created_at",
        &values![key.scope, caller, number, key.fingerprint, job, accepted.version, accepted.job.created_at],
    )
    .await?;
    tx.run(
        "DELETE FROM idempotency_keys WHERE caller = $1 AND number <= $2",
        &values![caller, number.saturating_sub(key.kept_max)],
    )
    .await?;
    Ok(())
}

/// Deletes one batch of the keys from before `since`; `false` when there are more.
pub(super) async fn prune(tx: &mut Tx<'_>, since: Timestamp) -> Result<bool> {
    let removed = tx
        .run(
            "DELETE FROM idempotency_keys WHERE scope IN (
                 SELECT scope FROM idempotency_keys WHERE created_at < $1 ORDER BY created_at LIMIT $2)",
            &values![since, PRUNE_BATCH],
        )
        .await?;
    Ok(removed < PRUNE_BATCH)
}
