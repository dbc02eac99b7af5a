//! API keys and the audit log.

use rusqlite::{Connection, Row, params};
use weir_policy::KeyId;
use weir_policy::key::KeyHash;

use super::error::{OrDamaged, damaged};
use super::statements::Statements as _;
use crate::checksum::Checksum;
use crate::{AuditEntry, NewAuditEntry, NewKey, Result, StoredKey, Timestamp};

/// Entries of the audit log that are kept; the oldest are deleted.
const AUDIT_ENTRIES_MAX: u64 = 1_000_000;

const COLUMNS: &str = "SELECT id, name, prefix, hash, grants, expires_at, created_at, revoked_at, previous_hash, previous_until, checksum
     FROM api_keys";

/// Stores a key with its audit entry, whose subject becomes the key's number.
pub(crate) fn add(
    connection: &Connection,
    key: NewKey,
    entry: &NewAuditEntry,
    now: Timestamp,
) -> Result<StoredKey> {
    let id: i64 = connection
        .prepare_cached("SELECT coalesce(max(id), 0) + 1 FROM api_keys")?
        .query_row([], |row| row.get(0))?;
    let stored = StoredKey { id: KeyId(id), key, created_at: now, revoked_at: None, previous: None };
    save(connection, &stored)?;
    audit(connection, &NewAuditEntry { subject: id.to_string(), ..entry.clone() }, now)?;
    Ok(stored)
}

/// Every key, revoked ones included, in the order of their creation.
pub(crate) fn list(connection: &Connection) -> Result<Vec<StoredKey>> {
    connection.all(&format!("{COLUMNS} ORDER BY id"), [], read)
}

/// Changes a key that is not revoked, with an audit entry; `None` if there is no such key.
pub(crate) fn change(
    connection: &Connection,
    id: KeyId,
    change: impl FnOnce(&mut StoredKey),
    entry: &NewAuditEntry,
    now: Timestamp,
) -> Result<Option<StoredKey>> {
    let found = connection.first(&format!("{COLUMNS} WHERE id = ?1 AND revoked_at IS NULL"), [id.0], read)?;
    let Some(mut stored) = found else { return Ok(None) };
    change(&mut stored);
    save(connection, &stored)?;
    audit(connection, entry, now)?;
    Ok(Some(stored))
}

/// Adds an entry to the audit log, and deletes the oldest ones beyond the maximum.
pub(crate) fn audit(connection: &Connection, entry: &NewAuditEntry, now: Timestamp) -> Result<()> {
    let NewAuditEntry { by, action, subject, changes } = entry;
    connection.run(
        "INSERT INTO audit (number, at, by_key, action, subject, changes)
         VALUES ((SELECT coalesce(max(number), 0) + 1 FROM audit), ?1, ?2, ?3, ?4, ?5)",
        params![now, by.map(|key| key.0), action, subject, changes],
    )?;
    connection.run(
        "DELETE FROM audit WHERE number <= (SELECT max(number) FROM audit) - ?1",
        params![AUDIT_ENTRIES_MAX],
    )?;
    Ok(())
}

/// The newest entries of the audit log with numbers below `before`, newest first.
pub(crate) fn audit_entries(
    connection: &Connection,
    before: Option<u64>,
    limit: usize,
) -> Result<Vec<AuditEntry>> {
    let before = before.and_then(|number| i64::try_from(number).ok()).unwrap_or(i64::MAX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    connection.all(
        "SELECT number, at, by_key, action, subject, changes FROM audit WHERE number < ?1 ORDER BY number DESC LIMIT ?2",
        [before, limit],
        |row| decode_entry(row).or_damaged("audit entry", || "of the audit log".to_owned()),
    )
}

fn decode_entry(row: &Row<'_>) -> rusqlite::Result<AuditEntry> {
    let by: Option<i64> = row.get(2)?;
    let entry =
        NewAuditEntry { by: by.map(KeyId), action: row.get(3)?, subject: row.get(4)?, changes: row.get(5)? };
    Ok(AuditEntry { number: row.get(0)?, at: row.get(1)?, entry })
}

fn save(connection: &Connection, stored: &StoredKey) -> Result<()> {
    let StoredKey { id, key, created_at, revoked_at, previous } = stored;
    connection.run(
        "INSERT INTO api_keys
             (id, name, prefix, hash, grants, expires_at, created_at, revoked_at, previous_hash, previous_until, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
         ON CONFLICT (id) DO UPDATE SET name = ?2, prefix = ?3, hash = ?4, grants = ?5, expires_at = ?6, revoked_at = ?8, previous_hash = ?9,
             previous_until = ?10, checksum = ?11",
        params![
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
    )?;
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

fn decode(id: KeyId, row: &Row<'_>) -> rusqlite::Result<(StoredKey, u32)> {
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
