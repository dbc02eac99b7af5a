//! Operations: written with each change, read in order, pruned.

use super::{generations, unsearchable};
use crate::access::Access;
use crate::checksum::Checksum;
use crate::damage::Damage;
use crate::tx::{AsValue as _, OrDamaged as _, Row, Tx, Undecodable, damaged, values};
use crate::{CollectionId, Operation, OperationKind, Result};

/// Operations after a number, in the column order of [`read`]; also for [`super::verify`].
pub(super) const ALL: &str = "SELECT number, kind, document_id, job_id, checksum FROM operations
     WHERE collection_id = $1 AND number > $2 ORDER BY number LIMIT $3";

/// An operation that is to be stored.
pub(super) struct NewOperation<'a> {
    pub(super) number: u64,
    pub(super) kind: OperationKind,
    pub(super) document_id: &'a str,
    pub(super) job: Option<&'a str>,
}

pub(super) async fn insert(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    operations: &[NewOperation<'_>],
) -> Result<()> {
    let computed = operations.iter().map(|NewOperation { number, kind, document_id, job }| {
        let kind: &str = kind.into();
        (kind, checksum_of(collection, *number, kind, document_id, *job), rand::random::<i64>())
    });
    let computed: Vec<(&str, u32, i64)> = computed.collect();
    let rows = operations.iter().zip(&computed).map(|(operation, (kind, checksum, identity))| {
        let NewOperation { number, document_id, job, .. } = operation;
        values![collection.0, number, kind, document_id, job, checksum, identity]
    });
    tx.run_each(
        "INSERT INTO operations (collection_id, number, kind, document_id, job_id, checksum, identity)
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
        &rows.collect::<Vec<_>>(),
    )
    .await?;
    Ok(())
}

/// The random number of an operation, by which an index of another history of the store is recognised. `None` if there is no such
/// operation, or an earlier format stored it. Not in the checksum: a damaged one makes an index be rebuilt, and hides nothing.
pub(crate) async fn identity_of(tx: &mut Tx<'_>, access: &Access, number: u64) -> Result<Option<i64>> {
    let identity = "SELECT identity FROM operations WHERE collection_id = $1 AND number = $2";
    let found: Option<Option<i64>> =
        tx.first(identity, &values![access.collection.0, number], |row| Ok(row.get(0)?)).await?;
    Ok(found.flatten())
}

/// The last operation, with its [`identity_of`].
pub(crate) async fn last(tx: &mut Tx<'_>, access: &Access) -> Result<Option<(u64, i64)>> {
    let last =
        "SELECT number, identity FROM operations WHERE collection_id = $1 ORDER BY number DESC LIMIT 1";
    let found = tx.first(last, &values![access.collection.0], |row| Ok((row.get(0)?, row.get(1)?))).await?;
    Ok(found.and_then(|(number, identity): (u64, Option<i64>)| Some((number, identity?))))
}

pub(crate) async fn after(
    tx: &mut Tx<'_>,
    access: &Access,
    after: u64,
    limit: usize,
) -> Result<Vec<Operation>> {
    if access.is_filtered() {
        return Ok(Vec::new());
    }
    let collection = access.collection;
    let pruned_to = pruned_to(tx, collection).await?;
    let mut before = after;
    tx.all(ALL, &values![collection.0, after, limit], |row| {
        let operation = read(collection, before + 1, pruned_to, row)?;
        before = operation.number;
        Ok(operation)
    })
    .await
}

/// See [`StoreView::operations_to_index`](crate::StoreView::operations_to_index).
pub(crate) async fn to_index(
    tx: &mut Tx<'_>,
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
        let read = read_to_index(tx, access.collection, after, limit, skip_to, damage).await?;
        let is_end = read.len() < limit;
        // from the first read on that is beyond
        let are_needed = match after >= skip_to {
            true => vec![true; read.len()],
            false => are_current(tx, access.collection, &read).await?,
        };
        for (operation, is_needed) in read.into_iter().zip(are_needed) {
            after = operation.number;
            if after >= skip_to || is_needed {
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

/// Whether each operation is the last one of a document that exists. A lower version than the operation's is that of a damaged row, which the worker
/// reports.
async fn are_current(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    operations: &[Operation],
) -> Result<Vec<bool>> {
    let version = "SELECT version FROM documents WHERE collection_id = $1 AND id = $2";
    let rows: Vec<_> =
        operations.iter().map(|operation| values![collection.0, operation.document_id]).collect();
    let versions = tx.first_each(version, &rows, |_, row| Ok(row.get::<u64>(0)?)).await?;
    let is_current = |(version, operation): (Option<u64>, &Operation)| {
        version.is_some_and(|version| version <= operation.number)
    };
    Ok(versions.into_iter().zip(operations).map(is_current).collect())
}

async fn read_to_index(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    after: u64,
    limit: usize,
    skip_to: u64,
    damage: &Damage,
) -> Result<Vec<Operation>> {
    let pruned_to = pruned_to(tx, collection).await?;
    let mut before = after;
    let rows = tx
        .all(ALL, &values![collection.0, after, limit], |row| {
            let number: u64 = row.get(0)?;
            let expected = if number - 1 <= skip_to { number } else { before + 1 };
            before = number;
            Ok((number, expected, read(collection, expected, pruned_to, row)))
        })
        .await?;
    let mut operations = Vec::with_capacity(rows.len());
    for (number, expected, read) in rows {
        operations.push(match read {
            Ok(operation) => operation,
            damaged => replacement(tx, collection, (number, expected), skip_to, damaged, damage).await?,
        });
    }
    Ok(operations)
}

/// The operation in place of one whose row is damaged.
async fn replacement(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    (number, expected): (u64, u64),
    skip_to: u64,
    damaged: Result<Operation>,
    damage: &Damage,
) -> Result<Operation> {
    let stored = "SELECT id FROM documents WHERE collection_id = $1 AND version = $2";
    let stored = tx.first(stored, &values![collection.0, number], |row| Ok(row.get(0).ok())).await?;
    match stored.flatten() {
        Some(document_id) if expected == number => {
            damage.skip(damaged)?;
            Ok(Operation { number, kind: OperationKind::Put, document_id })
        }
        None if number <= skip_to => {
            damage.skip(damaged)?;
            Ok(Operation { number, kind: OperationKind::Delete, document_id: String::new() })
        }
        Some(_) | None => damaged,
    }
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

async fn pruned_to(tx: &mut Tx<'_>, collection: CollectionId) -> Result<u64> {
    let pruned_to = "SELECT pruned_to FROM collections WHERE id = $1";
    Ok(tx.first(pruned_to, &values![collection.0], |row| Ok(row.get(0)?)).await?.unwrap_or(0))
}

/// Upper bound of the operations that one transaction examines for pruning.
const PRUNE_BATCH: u64 = 10_000;

/// Deletes applied operations, except the newest `operations_max` and those that are the version of a stored document; `false` when there
/// are more to examine.
pub(super) async fn prune(tx: &mut Tx<'_>, collection: CollectionId, operations_max: u64) -> Result<bool> {
    let Some(generation) = generations::current(tx, collection).await? else { return Ok(true) };
    let pruned_to = pruned_to(tx, collection).await?;
    let end = generation.applied_seq.saturating_sub(operations_max.max(1));
    if end <= pruned_to {
        return Ok(true);
    }
    let to = end.min(pruned_to + PRUNE_BATCH);
    tx.run(
        "DELETE FROM operations WHERE collection_id = $1 AND number > $2 AND number <= $3 AND NOT EXISTS (
             SELECT 1 FROM documents d WHERE d.collection_id = $1 AND d.id = operations.document_id
                 AND d.version = operations.number)",
        &values![collection.0, pruned_to, to],
    )
    .await?;
    unsearchable::prune(tx, collection, pruned_to, to).await?;
    tx.run("UPDATE collections SET pruned_to = $2 WHERE id = $1", &values![collection.0, to]).await?;
    Ok(to == end)
}

/// Deletes the operations of documents' versions that are being replaced or deleted, if pruning has passed them.
pub(super) async fn prune_superseded(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    numbers: &[u64],
) -> Result<()> {
    let rows: Vec<_> = numbers.iter().map(|number| values![collection.0, number]).collect();
    let removed = tx
        .all_each(
            "DELETE FROM operations WHERE collection_id = $1 AND number = $2
                 AND number <= (SELECT pruned_to FROM collections WHERE id = $1) RETURNING number",
            &rows,
            |place, _| Ok(numbers[place]),
        )
        .await?;
    unsearchable::remove(tx, collection, &removed).await
}

type Columns = (u64, String, String, Option<String>, u32);

fn decode(row: &Row<'_>) -> Result<Columns, Undecodable> {
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
