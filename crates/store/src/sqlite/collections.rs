//! Collections: the row, and changes of a whole collection.

use rusqlite::{Connection, Row, params};

use super::error::{OrDamaged, damaged};
use super::statements::Statements as _;
use super::{generations, idempotency, jobs, operations};
use crate::access::Access;
use crate::checksum::Checksum;
use crate::damage::Damage;
use crate::{Collection, CollectionId, Error, Result, Retention, Timestamp};

/// A collection's row, with the counter of its operations.
pub(super) struct CollectionRow {
    pub(super) id: CollectionId,
    pub(super) name: String,
    settings: String,
    pub(super) next_operation: u64,
    created_at: Timestamp,
    /// Not in the checksum: a damaged value makes an operation appear damaged or an index be rebuilt, and hides nothing.
    pub(super) pruned_to: u64,
}

impl CollectionRow {
    const BY_ID: &str = "SELECT id, name, settings, next_operation, created_at, checksum, pruned_to FROM collections WHERE id = ?1";
    const BY_NAME: &str = "SELECT id, name, settings, next_operation, created_at, checksum, pruned_to FROM collections WHERE name = ?1";
    const ALL: &str = "SELECT id, name, settings, next_operation, created_at, checksum, pruned_to FROM collections ORDER BY name";

    pub(super) fn by_id(connection: &Connection, id: CollectionId) -> Result<Option<CollectionRow>> {
        connection.first(CollectionRow::BY_ID, [id.0], CollectionRow::read)
    }

    fn by_name(connection: &Connection, name: &str) -> Result<Option<CollectionRow>> {
        connection.first(CollectionRow::BY_NAME, [name], CollectionRow::read)
    }

    /// Every row, each with its own error.
    pub(super) fn all(connection: &Connection) -> Result<Vec<Result<CollectionRow>>> {
        connection.all(CollectionRow::ALL, [], |row| Ok(CollectionRow::read(row)))
    }

    fn read(row: &Row<'_>) -> Result<CollectionRow> {
        let id = CollectionId(row.get(0)?);
        let name = || format!("{id}");
        let (found, checksum) = CollectionRow::decode(id, row).or_damaged("collection", name)?;
        if found.checksum() != checksum {
            return Err(damaged("collection", name()));
        }
        Ok(found)
    }

    fn decode(id: CollectionId, row: &Row<'_>) -> rusqlite::Result<(CollectionRow, u32)> {
        let found = CollectionRow {
            id,
            name: row.get(1)?,
            settings: row.get(2)?,
            next_operation: row.get(3)?,
            created_at: row.get(4)?,
            pruned_to: row.get(6)?,
        };
        Ok((found, row.get(5)?))
    }

    fn checksum(&self) -> u32 {
        Checksum::of("collections")
            .bytes(&self.name)
            .bytes(&self.settings)
            .number(self.next_operation)
            .time(self.created_at)
            .finish()
    }

    /// Writes the column that changes with every operation: their counter.
    pub(super) fn save(&self, connection: &Connection) -> Result<()> {
        connection.run(
            "UPDATE collections SET next_operation = ?2, checksum = ?3 WHERE id = ?1",
            params![self.id.0, self.next_operation, self.checksum()],
        )?;
        Ok(())
    }

    pub(super) fn with_generation(self, connection: &Connection) -> Result<Collection> {
        let generation = generations::current(connection, self.id)?
            .ok_or_else(|| damaged("collection", format!("{} (it has no current generation)", self.id)))?;
        Ok(Collection {
            id: self.id,
            name: self.name,
            settings: self.settings,
            created_at: self.created_at,
            generation,
            last_operation: self.next_operation - 1,
            pruned_to: self.pruned_to,
        })
    }
}

pub(crate) fn list(connection: &Connection, damage: &Damage) -> Result<Vec<Collection>> {
    let rows = CollectionRow::all(connection)?.into_iter();
    let read = rows.map(|row| damage.skip(row.and_then(|row| row.with_generation(connection))));
    Ok(read.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

pub(crate) fn last_id(connection: &Connection) -> Result<CollectionId> {
    // SQLite's table of the last ids may be damaged like any other
    let last = "SELECT max(coalesce((SELECT CAST(seq AS INTEGER) FROM sqlite_sequence WHERE name = 'collections'), 0),
                           coalesce((SELECT max(id) FROM collections), 0))";
    Ok(CollectionId(connection.first(last, [], |row| Ok(row.get(0)?))?.unwrap_or(0)))
}

pub(crate) fn by_name(connection: &Connection, name: &str) -> Result<Option<Collection>> {
    CollectionRow::by_name(connection, name)?.map(|row| row.with_generation(connection)).transpose()
}

pub(super) fn by_id(connection: &Connection, id: CollectionId) -> Result<Option<Collection>> {
    CollectionRow::by_id(connection, id)?.map(|row| row.with_generation(connection)).transpose()
}

pub(crate) fn create(
    connection: &Connection,
    name: &str,
    settings: &str,
    fingerprint: &str,
    now: Timestamp,
) -> Result<(Collection, bool)> {
    if let Some(existing) = by_name(connection, name)? {
        return Ok((existing, false));
    }
    let mut row = CollectionRow {
        id: CollectionId(0),
        name: name.to_owned(),
        settings: settings.to_owned(),
        next_operation: 1,
        created_at: now,
        pruned_to: 0,
    };
    connection.run(
        "INSERT INTO collections (name, settings, next_operation, created_at, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5)",
        params![row.name, row.settings, row.next_operation, row.created_at, row.checksum()],
    )?;
    row.id = CollectionId(connection.last_insert_rowid());
    generations::insert_current(connection, row.id, fingerprint, now)?;
    Ok((row.with_generation(connection)?, true))
}

/// Nothing happens to a collection that is deleted.
pub(crate) fn change_settings(connection: &Connection, access: &Access, settings: String) -> Result<()> {
    if access.is_filtered() {
        let change = "change settings of a collection, which hold for documents that are hidden from it; use a key without filter";
        return Err(Error::NotAllowed(change));
    }
    let Some(row) = CollectionRow::by_id(connection, access.collection)? else { return Ok(()) };
    let row = CollectionRow { settings, ..row };
    connection.run(
        "UPDATE collections SET settings = ?2, checksum = ?3 WHERE id = ?1",
        params![row.id.0, row.settings, row.checksum()],
    )?;
    Ok(())
}

pub(crate) fn delete(connection: &Connection, access: &Access, now: Timestamp) -> Result<bool> {
    if access.is_filtered() {
        return Err(Error::NotAllowed("delete a collection; delete documents instead"));
    }
    let id = access.collection;
    jobs::cancel(connection, id, now)?;
    generations::delete_all(connection, id)?;
    connection.run("DELETE FROM documents WHERE collection_id = ?1", [id.0])?;
    connection.run("DELETE FROM operations WHERE collection_id = ?1", [id.0])?;
    connection.run("DELETE FROM unsearchable WHERE collection_id = ?1", [id.0])?;
    connection.run("DELETE FROM feedback WHERE collection_id = ?1", [id.0])?;
    connection.run("DELETE FROM queries WHERE collection_id = ?1", [id.0])?;
    Ok(connection.run("DELETE FROM collections WHERE id = ?1", [id.0])? == 1)
}

/// Deletes one batch of the jobs, operations and idempotency keys beyond `retention`; `false` when there are more.
pub(crate) fn prune(connection: &Connection, id: CollectionId, retention: Retention) -> Result<bool> {
    let jobs = jobs::prune(connection, retention.jobs_max)?;
    let operations = operations::prune(connection, id, retention.operations_max)?;
    let keys = idempotency::prune(connection, retention.idempotency_since)?;
    Ok(jobs && operations && keys)
}

/// Takes the next operation number for a change other than a submission; `None` when the collection is deleted.
pub(super) fn take_operation_number(connection: &Connection, id: CollectionId) -> Result<Option<u64>> {
    let Some(mut row) = CollectionRow::by_id(connection, id)? else {
        return Ok(None);
    };
    let number = row.next_operation;
    row.next_operation += 1;
    row.save(connection)?;
    Ok(Some(number))
}
