//! Collections: the row, and changes of a whole collection.

use super::{generations, idempotency, jobs, operations};
use crate::access::Access;
use crate::checksum::Checksum;
use crate::damage::Damage;
use crate::tx::{AsValue as _, Lock, OrDamaged as _, Row, Tx, Undecodable, damaged, values};
use crate::{Collection, CollectionId, Error, GenerationId, Result, Retention, Timestamp};

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
    const BY_ID: &str = "SELECT id, name, settings, next_operation, created_at, checksum, pruned_to FROM collections WHERE id = $1";
    const BY_NAME: &str = "SELECT id, name, settings, next_operation, created_at, checksum, pruned_to FROM collections WHERE name = $1";
    const ALL: &str = "SELECT id, name, settings, next_operation, created_at, checksum, pruned_to FROM collections ORDER BY name";

    pub(super) async fn by_id(tx: &mut Tx<'_>, id: CollectionId) -> Result<Option<CollectionRow>> {
        tx.first(CollectionRow::BY_ID, &values![id.0], CollectionRow::read).await
    }

    async fn by_name(tx: &mut Tx<'_>, name: &str) -> Result<Option<CollectionRow>> {
        tx.first(CollectionRow::BY_NAME, &values![name], CollectionRow::read).await
    }

    /// Every row, each with its own error.
    pub(super) async fn all(tx: &mut Tx<'_>) -> Result<Vec<Result<CollectionRow>>> {
        tx.all(CollectionRow::ALL, &[], |row| Ok(CollectionRow::read(row))).await
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

    fn decode(id: CollectionId, row: &Row<'_>) -> Result<(CollectionRow, u32), Undecodable> {
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
    pub(super) async fn save(&self, tx: &mut Tx<'_>) -> Result<()> {
        tx.run(
            "UPDATE collections SET next_operation = $2, checksum = $3 WHERE id = $1",
            &values![self.id.0, self.next_operation, self.checksum()],
        )
        .await?;
        Ok(())
    }

    async fn with_generation(self, tx: &mut Tx<'_>) -> Result<Collection> {
        let generation = generations::current(tx, self.id)
            .await?
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

/// A row that was read, with its current generation.
pub(super) async fn with_generation(tx: &mut Tx<'_>, row: Result<CollectionRow>) -> Result<Collection> {
    row?.with_generation(tx).await
}

pub(crate) async fn list(tx: &mut Tx<'_>, damage: &Damage) -> Result<Vec<Collection>> {
    let mut found = Vec::new();
    for row in CollectionRow::all(tx).await? {
        found.extend(damage.skip(with_generation(tx, row).await)?);
    }
    Ok(found)
}

pub(crate) async fn last_id(tx: &mut Tx<'_>) -> Result<CollectionId> {
    tx.last_collection_id().await
}

pub(crate) async fn exists(tx: &mut Tx<'_>, id: CollectionId) -> Result<bool> {
    let exists = "SELECT 1 FROM collections WHERE id = $1";
    Ok(tx.first(exists, &values![id.0], |_| Ok(())).await?.is_some())
}

pub(crate) async fn by_name(tx: &mut Tx<'_>, name: &str) -> Result<Option<Collection>> {
    match CollectionRow::by_name(tx, name).await? {
        Some(row) => row.with_generation(tx).await.map(Some),
        None => Ok(None),
    }
}

pub(super) async fn by_id(tx: &mut Tx<'_>, id: CollectionId) -> Result<Option<Collection>> {
    match CollectionRow::by_id(tx, id).await? {
        Some(row) => row.with_generation(tx).await.map(Some),
        None => Ok(None),
    }
}

pub(crate) async fn create(
    tx: &mut Tx<'_>,
    name: &str,
    settings: &str,
    fingerprint: &str,
    now: Timestamp,
) -> Result<(Collection, bool)> {
    if let Some(existing) = by_name(tx, name).await? {
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
    let insert = "INSERT INTO collections (name, settings, next_operation, created_at, checksum)
         VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING id";
    let checksum = row.checksum();
    let columns = values![row.name, row.settings, row.next_operation, row.created_at, checksum];
    let Some(id) = tx.first(insert, &columns, |row| Ok(CollectionId(row.get(0)?))).await? else {
        // another transaction has created it meanwhile
        return Ok((by_name(tx, name).await?.ok_or(Error::Conflict)?, false));
    };
    row.id = id;
    tx.lock(Lock::Collection(id)).await?;
    generations::insert_current(tx, row.id, fingerprint, now).await?;
    Ok((row.with_generation(tx).await?, true))
}

/// Nothing happens to a collection that is deleted.
pub(crate) async fn change_settings(
    tx: &mut Tx<'_>,
    access: &Access,
    settings: String,
    generation: GenerationId,
) -> Result<()> {
    if access.is_filtered() {
        let change = "change settings of a collection, which hold for documents that are hidden from it; use a key without filter";
        return Err(Error::NotAllowed(change));
    }
    tx.lock(Lock::Collection(access.collection)).await?;
    // another gateway may have moved the collection, or had it split again
    let current = generations::current(tx, access.collection).await?;
    if current.is_some_and(|current| current.id != generation) {
        return Err(Error::Conflict);
    }
    replace_settings(tx, access.collection, settings).await
}

/// Replaces the settings. The caller holds the lock of the collection.
pub(super) async fn replace_settings(tx: &mut Tx<'_>, id: CollectionId, settings: String) -> Result<()> {
    let Some(row) = CollectionRow::by_id(tx, id).await? else { return Ok(()) };
    let row = CollectionRow { settings, ..row };
    tx.run(
        "UPDATE collections SET settings = $2, checksum = $3 WHERE id = $1",
        &values![row.id.0, row.settings, row.checksum()],
    )
    .await?;
    Ok(())
}

pub(crate) async fn delete(tx: &mut Tx<'_>, access: &Access, now: Timestamp) -> Result<bool> {
    if access.is_filtered() {
        return Err(Error::NotAllowed("delete a collection; delete documents instead"));
    }
    let id = access.collection;
    tx.lock(Lock::Collection(id)).await?;
    jobs::cancel(tx, id, now).await?;
    generations::delete_all(tx, id).await?;
    tx.run("DELETE FROM documents WHERE collection_id = $1", &values![id.0]).await?;
    tx.run("DELETE FROM operations WHERE collection_id = $1", &values![id.0]).await?;
    tx.run("DELETE FROM unsearchable WHERE collection_id = $1", &values![id.0]).await?;
    tx.run("DELETE FROM feedback WHERE collection_id = $1", &values![id.0]).await?;
    tx.run("DELETE FROM queries WHERE collection_id = $1", &values![id.0]).await?;
    tx.run("DELETE FROM leases WHERE collection_id = $1", &values![id.0]).await?;
    tx.run("DELETE FROM cancellations WHERE collection_id = $1", &values![id.0]).await?;
    tx.run("DELETE FROM upkeep WHERE collection_id = $1", &values![id.0]).await?;
    Ok(tx.run("DELETE FROM collections WHERE id = $1", &values![id.0]).await? == 1)
}

/// Deletes one batch of the jobs, operations and idempotency keys beyond `retention`; `false` when there are more.
pub(crate) async fn prune(tx: &mut Tx<'_>, id: CollectionId, retention: Retention) -> Result<bool> {
    tx.lock(Lock::Collection(id)).await?;
    let jobs = jobs::prune(tx, retention.jobs_max).await?;
    let operations = operations::prune(tx, id, retention.operations_max).await?;
    let keys = idempotency::prune(tx, retention.idempotency_since).await?;
    Ok(jobs && operations && keys)
}

/// Takes the next operation number for a change other than a submission, which has locked the collection; `None` when the collection is deleted.
pub(super) async fn take_operation_number(tx: &mut Tx<'_>, access: &Access) -> Result<Option<u64>> {
    let Some(mut row) = CollectionRow::by_id(tx, access.collection).await? else {
        return Ok(None);
    };
    access.check_known(row.next_operation - 1)?;
    let number = row.next_operation;
    row.next_operation += 1;
    row.save(tx).await?;
    Ok(Some(number))
}
