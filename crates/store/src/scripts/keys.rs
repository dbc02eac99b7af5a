//! API keys and the audit log.

use weir_policy::KeyId;
use weir_policy::key::KeyHash;

use crate::checksum::Checksum;
use crate::tx::{AsValue as _, Lock, OrDamaged as _, Row, Tx, Undecodable, damaged, values};
use crate::{AuditEntry, NewAuditEntry, NewKey, Result, StoredKey, Timestamp};

/// Entries of the audit log that are kept; the oldest are deleted.
const AUDIT_ENTRIES_MAX: u64 = 1_000_000;

/// The rows of keys, in the column order of [`read`].
macro_rules! rows {
    ($rest:literal) => {
        concat!(
            "SELECT id, name, prefix, hash, grants, expires_at, created_at, revoked_at, previous_hash, previous_until, checksum
             FROM api_keys ",
            $rest
        )
    };
}

/// Stores a key with its audit entry, whose subject becomes the key's number.
pub(crate) async fn add(
    tx: &mut Tx<'_>,
    key: NewKey,
    entry: &NewAuditEntry,
    now: Timestamp,
) -> Result<StoredKey> {
    tx.lock(Lock::Keys).await?;
    let last: Option<i64> =
        tx.first("SELECT coalesce(max(id), 0) FROM api_keys", &[], |row| Ok(row.get(0)?)).await?;
    let id = last.unwrap_or(0) + 1;
    let stored = StoredKey { id: KeyId(id), key, created_at: now, revoked_at: None, previous: None };
    save(tx, &stored).await?;
    audit(tx, &NewAuditEntry { subject: id.to_string(), ..entry.clone() }, now).await?;
    Ok(stored)
}

/// Every key, revoked ones included, in the order of their creation.
pub(crate) async fn list(tx: &mut Tx<'_>) -> Result<Vec<StoredKey>> {
    tx.all(rows!("ORDER BY id"), &[], read).await
}

/// Changes a key that is not revoked, with an audit entry; `None` if there is no such key.
pub(crate) async fn change(
    tx: &mut Tx<'_>,
    id: KeyId,
    change: impl FnOnce(&mut StoredKey) + Send,
    entry: &NewAuditEntry,
    now: Timestamp,
) -> Result<Option<StoredKey>> {
    tx.lock(Lock::Keys).await?;
    let found = tx.first(rows!("WHERE id = $1 AND revoked_at IS NULL"), &values![id.0], read).await?;
    let Some(mut stored) = found else { return Ok(None) };
    change(&mut stored);
    save(tx, &stored).await?;
    audit(tx, entry, now).await?;
    Ok(Some(stored))
}

/// Adds an entry to the audit log, and deletes the oldest ones beyond the maximum.
pub(crate) async fn audit(tx: &mut Tx<'_>, entry: &NewAuditEntry, now: Timestamp) -> Result<()> {
    let NewAuditEntry { by, action, subject, changes } = entry;
    tx.lock(Lock::Audit).await?;
    tx.run(
        "INSERT INTO audit (number, at, by_key, action, subject, changes)
         VALUES ((SELECT coalesce(max(number), 0) + 1 FROM audit), $1, $2, $3, $4, $5)",
        &values![now, by.map(|key| key.0), action, subject, changes],
    )
    .await?;
    tx.run(
        "DELETE FROM audit WHERE number <= (SELECT max(number) FROM audit) - $1",
        &values![AUDIT_ENTRIES_MAX],
    )
    .await?;
    Ok(())
}

/// The number of the newest entry of the audit log: every change of keys adds one.
pub(crate) async fn version(tx: &mut Tx<'_>) -> Result<u64> {
    let last = "SELECT coalesce(max(number), 0) FROM audit";
    Ok(tx.first(last, &[], |row| Ok(row.get(0)?)).await?.unwrap_or(0))
}

/// The newest entries of the audit log with numbers below `before`, newest first.
pub(crate) async fn audit_entries(
    tx: &mut Tx<'_>,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<AuditEntry>> {
    tx.all(
        "SELECT number, at, by_key, action, subject, changes FROM audit WHERE number < $1 ORDER BY number DESC LIMIT $2",
        &values![before.unwrap_or(u64::MAX), limit],
        |row| decode_entry(row).or_damaged("audit entry", || "of the audit log".to_owned()),
    ).await
}

fn decode_entry(row: &Row<'_>) -> Result<AuditEntry, Undecodable> {
    let by: Option<i64> = row.get(2)?;
    let entry =
        NewAuditEntry { by: by.map(KeyId), action: row.get(3)?, subject: row.get(4)?, changes: row.get(5)? };
    Ok(AuditEntry { number: row.get(0)?, at: row.get(1)?, entry })
}

async fn save(tx: &mut Tx<'_>, stored: &StoredKey) -> Result<()> {
    let StoredKey { id, key, created_at, revoked_at, previous } = stored;
    tx.run(
        "INSERT INTO api_keys
             (id, name, prefix, hash, grants, expires_at, created_at, revoked_at, previous_hash, previous_until, checksum)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
         ON CONFLICT (id) DO UPDATE SET name = $2, prefix = $3, hash = $4, grants = $5, expires_at = $6, revoked_at = $8, previous_hash = $9,
             previous_until = $10, checksum = $11",
        &values![
            id.0,
            key.name,
            key.prefix,
            key.hash.0,
            key.grants,
            key.expires_at,
            created_at,
            revoked_at,
            previous.map(|(hash, _)| hash.0),
            previous.map(|(_, until)| until),
            checksum(stored)
        ],
    ).await?;
    Ok(())
}

/// A row whose checksum does not match could allow more than it should: it is refused.
fn read(row: &Row<'_>) -> Result<StoredKey> {
    let id: i64 = row.get(0)?;
    let (stored, found) = decode(KeyId(id), row).or_damaged("API key", || id.to_string())?;
    if checksum(&stored) != found {
        return Err(damaged("API key", id.to_string()));
    }
    Ok(stored)
}

fn decode(id: KeyId, row: &Row<'_>) -> Result<(StoredKey, u32), Undecodable> {
    let previous_hash: Option<[u8; 32]> = row.get(8)?;
    let previous_until: Option<f64> = row.get(9)?;
    let key = NewKey {
        name: row.get(1)?,
        prefix: row.get(2)?,
        hash: KeyHash(row.get(3)?),
        grants: row.get(4)?,
        expires_at: row.get(5)?,
    };
    let previous = previous_hash.zip(previous_until).map(|(hash, until)| (KeyHash(hash), until));
    Ok((StoredKey { id, key, created_at: row.get(6)?, revoked_at: row.get(7)?, previous }, row.get(10)?))
}

fn checksum(stored: &StoredKey) -> u32 {
    let StoredKey { id, key, created_at, revoked_at, previous } = stored;
    let optional = |checksum: Checksum, time: Option<f64>| match time {
        Some(time) => checksum.number(1).time(time),
        None => checksum.number(0),
    };
    let row = Checksum::of("api_keys")
        .number(id.0.cast_unsigned())
        .bytes(&key.name)
        .bytes(&key.prefix)
        .bytes(key.hash.0)
        .bytes(&key.grants)
        .time(*created_at);
    let row = optional(optional(row, key.expires_at), *revoked_at);
    let row = optional(row, previous.map(|(_, until)| until));
    row.bytes(previous.map(|(hash, _)| hash.0).unwrap_or_default()).finish()
}
