//! Operations: written with each change, read in order, pruned.

use rusqlite::{Connection, Row, params};

use super::error::{OrDamaged, damaged};
use super::statements::Statements as _;
use super::{generations, unsearchable};
use crate::access::Access;
use crate::checksum::Checksum;
use crate::damage::Damage;
use crate::{CollectionId, Operation, OperationKind, Result};

/// Operations after a number, in the column order of [`read`]; also for [`super::verify`].
pub(super) const ALL: &str = "SELECT number, kind, document_id, job_id, checksum FROM operations
     WHERE collection_id = ?1 AND number > ?2 ORDER BY number LIMIT ?3";

pub(super) fn insert(
    connection: &Connection,
    collection: CollectionId,
    number: u64,
    kind: OperationKind,
    document_id: &str,
    job: Option<&str>,
) -> Result<()> {
    let kind: &str = kind.into();
    let checksum = checksum_of(collection, number, kind, document_id, job);
    connection.run(
        "INSERT INTO operations (collection_id, number, kind, document_id, job_id, checksum, identity)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, random())",
        params![collection.0, number, kind, document_id, job, checksum],
    )?;
    Ok(())
}

/// The random number of an operation, by which an index of another history of the store is recognised. `None` if there is no such
/// operation, or an earlier format stored it. Not in the checksum: a damaged one makes an index be rebuilt, and hides nothing.
pub(crate) fn identity_of(connection: &Connection, access: &Access, number: u64) -> Result<Option<i64>> {
    let identity = "SELECT identity FROM operations WHERE collection_id = ?1 AND number = ?2";
    let found: Option<Option<i64>> =
        connection.first(identity, params![access.collection.0, number], |row| Ok(row.get(0)?))?;
    Ok(found.flatten())
}

/// The last operation, with its [`identity_of`].
pub(crate) fn last(connection: &Connection, access: &Access) -> Result<Option<(u64, i64)>> {
    let last =
        "SELECT number, identity FROM operations WHERE collection_id = ?1 ORDER BY number DESC LIMIT 1";
    let found = connection.first(last, [access.collection.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(found.and_then(|(number, identity): (u64, Option<i64>)| Some((number, identity?))))
}

pub(crate) fn after(
    connection: &Connection,
    access: &Access,
    after: u64,
    limit: usize,
) -> Result<Vec<Operation>> {
    if access.is_filtered() {
        return Ok(Vec::new());
    }
    let collection = access.collection;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let pruned_to = pruned_to(connection, collection)?;
    let mut before = after;
    connection.all(ALL, params![collection.0, after, limit], |row| {
        let operation = read(collection, before + 1, pruned_to, row)?;
        before = operation.number;
        Ok(operation)
    })
}

/// See [`StoreView::operations_to_index`](crate::StoreView::operations_to_index).
pub(crate) fn to_index(
    connection: &Connection,
    access: &Access,
    after: u64,
    limit: usize,
    skip_to: u64,
    damage: &Damage,
) -> Result<Vec<Operation>> {
    if access.is_filtered() {
        return Ok(Vec::new());
    }
    let (mut found, mut skipped, mut after) = (Vec::new(), None, after);
    for _ in 0..READS_MAX {
        let read = read_to_index(connection, access.collection, after, limit, skip_to, damage)?;
        let is_end = read.len() < limit;
        for operation in read {
            after = operation.number;
            if after >= skip_to || is_current(connection, access.collection, &operation)? {
                found.push(operation);
                skipped = None;
            } else {
                skipped = Some(operation);
            }
            if found.len() == limit {
                return Ok(found);
            }
        }
        if is_end || after >= skip_to {
            break;
        }
    }
    // the worker goes on after the last one
    found.extend(skipped);
    Ok(found)
}

/// Reads of `limit` operations each in which one call looks for those that an empty index needs.
const READS_MAX: usize = 64;

/// Whether an operation is the last one of a document that exists. A lower version than the operation's is that of a damaged row, which the worker
/// reports.
fn is_current(connection: &Connection, collection: CollectionId, operation: &Operation) -> Result<bool> {
    let version = "SELECT version FROM documents WHERE collection_id = ?1 AND id = ?2";
    let version: Option<u64> =
        connection.first(version, params![collection.0, operation.document_id], |row| Ok(row.get(0)?))?;
    Ok(version.is_some_and(|version| version <= operation.number))
}

fn read_to_index(
    connection: &Connection,
    collection: CollectionId,
    after: u64,
    limit: usize,
    skip_to: u64,
    damage: &Damage,
) -> Result<Vec<Operation>> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let pruned_to = pruned_to(connection, collection)?;
    let mut before = after;
    connection.all(ALL, params![collection.0, after, limit], |row| {
        let number: u64 = row.get(0)?;
        let expected = if number - 1 <= skip_to { number } else { before + 1 };
        before = number;
        let operation = read(collection, expected, pruned_to, row);
        if let Ok(operation) = operation {
            return Ok(operation);
        }
        let stored = "SELECT id FROM documents WHERE collection_id = ?1 AND version = ?2";
        let stored = connection.first(stored, params![collection.0, number], |row| Ok(row.get(0).ok()))?;
        match stored.flatten() {
            Some(document_id) if expected == number => {
                damage.skip(operation)?;
                Ok(Operation { number, kind: OperationKind::Put, document_id })
            }
            None if number <= skip_to => {
                damage.skip(operation)?;
                Ok(Operation { number, kind: OperationKind::Delete, document_id: String::new() })
            }
            Some(_) | None => operation,
        }
    })
}

/// Reads a row that must be the operation `expected`, or the first one after a gap that pruning left.
pub(super) fn read(
    collection: CollectionId,
    expected: u64,
    pruned_to: u64,
    row: &Row<'_>,
) -> Result<Operation> {
    let name = || format!("{expected} of collection {collection}");
    let (number, kind, document_id, job, checksum) = decode(row).or_damaged("operation", name)?;
    let is_sound = checksum_of(collection, number, &kind, &document_id, job.as_deref()) == checksum;
    let is_next = number == expected || (expected..=pruned_to.saturating_add(1)).contains(&number);
    match kind.parse() {
        Ok(kind) if is_sound && is_next => Ok(Operation { number, kind, document_id }),
        _ => Err(damaged("operation", name())),
    }
}

fn pruned_to(connection: &Connection, collection: CollectionId) -> Result<u64> {
    let pruned_to = "SELECT pruned_to FROM collections WHERE id = ?1";
    Ok(connection.first(pruned_to, [collection.0], |row| Ok(row.get(0)?))?.unwrap_or(0))
}

/// Upper bound of the operations that one transaction examines for pruning.
const PRUNE_BATCH: u64 = 10_000;

/// Deletes applied operations, except the newest `operations_max` and those that are the version of a stored document; `false` when there
/// are more to examine.
pub(super) fn prune(connection: &Connection, collection: CollectionId, operations_max: u64) -> Result<bool> {
    let Some(generation) = generations::current(connection, collection)? else { return Ok(true) };
    let pruned_to = pruned_to(connection, collection)?;
    let end = generation.applied_seq.saturating_sub(operations_max.max(1));
    if end <= pruned_to {
        return Ok(true);
    }
    let to = end.min(pruned_to + PRUNE_BATCH);
    connection.run(
        "DELETE FROM operations WHERE collection_id = ?1 AND number > ?2 AND number <= ?3 AND NOT EXISTS (
             SELECT 1 FROM documents d WHERE d.collection_id = ?1 AND d.id = operations.document_id
                 AND d.version = operations.number)",
        params![collection.0, pruned_to, to],
    )?;
    unsearchable::prune(connection, collection, pruned_to, to)?;
    connection.run("UPDATE collections SET pruned_to = ?2 WHERE id = ?1", params![collection.0, to])?;
    Ok(to == end)
}

/// Deletes the operation of a document's version that is being replaced or deleted, if pruning has passed it.
pub(super) fn prune_superseded(connection: &Connection, collection: CollectionId, number: u64) -> Result<()> {
    let removed = connection.run(
        "DELETE FROM operations WHERE collection_id = ?1 AND number = ?2
             AND number <= (SELECT pruned_to FROM collections WHERE id = ?1)",
        params![collection.0, number],
    )?;
    if removed > 0 {
        unsearchable::remove(connection, collection, number)?;
    }
    Ok(())
}

type Columns = (u64, String, String, Option<String>, u32);

fn decode(row: &Row<'_>) -> rusqlite::Result<Columns> {
    Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?))
}

fn checksum_of(
    collection: CollectionId,
    number: u64,
    kind: &str,
    document_id: &str,
    job: Option<&str>,
) -> u32 {
    Checksum::of("operations")
        .number(collection.0.cast_unsigned())
        .number(number)
        .bytes(kind)
        .bytes(document_id)
        .optional(job)
        .finish()
}
