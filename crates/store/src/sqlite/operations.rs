//! Operations: writing them and reading them back in order.

use rusqlite::{Connection, Row, params};

use super::failure::{Naming, damaged};
use crate::checksum::Checksum;
use crate::{CollectionId, Operation, OperationKind, Result};

/// In the order that [`read`] expects; for [`super::verify`].
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
    let checksum = checksum_of(collection, number, kind.as_str(), document_id, job);
    connection
        .prepare_cached(
            "INSERT INTO operations (collection_id, number, kind, document_id, job_id, checksum)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![collection.0, number, kind.as_str(), document_id, job, checksum])?;
    Ok(())
}

pub(crate) fn after(
    connection: &Connection,
    collection: CollectionId,
    after: u64,
    limit: usize,
) -> Result<Vec<Operation>> {
    let mut statement = connection.prepare_cached(ALL)?;
    let mut rows = statement.query(params![collection.0, after, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut found = Vec::new();
    for expected in after + 1.. {
        let Some(row) = rows.next()? else { break };
        found.push(read(collection, expected, row)?);
    }
    Ok(found)
}

/// Reads a row that must be the operation `expected`.
pub(super) fn read(collection: CollectionId, expected: u64, row: &Row<'_>) -> Result<Operation> {
    let name = || format!("{expected} of collection {collection}");
    let (number, kind, document_id, job, checksum) = decode(row).naming("operation", name)?;
    let is_sound = checksum_of(collection, number, &kind, &document_id, job.as_deref()) == checksum;
    match OperationKind::parse(&kind) {
        Some(kind) if is_sound && number == expected => Ok(Operation { number, kind, document_id }),
        _ => Err(damaged("operation", name())),
    }
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
