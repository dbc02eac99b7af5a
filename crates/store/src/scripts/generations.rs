//! Generations: which model a collection is prepared with, and the applied sequence of its index.

use super::{collections, embeddings, jobs, leases};
use crate::checksum::Checksum;
use crate::tx::{AsValue as _, Lock, OrDamaged as _, Row, Tx, Undecodable, damaged, values};
use crate::{Collection, CollectionId, Fence, Generation, GenerationId, Job, Result, Timestamp};

/// The columns of a current generation that work on its chunks needs.
pub(super) struct Current {
    pub(super) collection: CollectionId,
    pub(super) fingerprint_id: i64,
    /// See [`Generation::complete_from`].
    complete_from: u64,
}

pub(super) async fn current(tx: &mut Tx<'_>, collection: CollectionId) -> Result<Option<Generation>> {
    tx.first(
        "SELECT g.id, f.fingerprint, g.indexed, g.created_at, g.complete_from, g.checksum
         FROM generations g JOIN fingerprints f ON f.id = g.fingerprint_id
         WHERE g.collection_id = $1 AND g.current = 1",
        &values![collection.0],
        |row| read(collection, row),
    )
    .await
}

fn read(collection: CollectionId, row: &Row<'_>) -> Result<Generation> {
    let name = || format!("of collection {collection}");
    let (found, checksum) = decode(row).or_damaged("generation", name)?;
    if checksum_of(collection, &found.fingerprint, found.created_at) != checksum {
        return Err(damaged("generation", name()));
    }
    Ok(found)
}

fn decode(row: &Row<'_>) -> Result<(Generation, u32), Undecodable> {
    let found = Generation {
        id: GenerationId(row.get(0)?),
        fingerprint: row.get(1)?,
        applied_seq: row.get(2)?,
        created_at: row.get(3)?,
        complete_from: row.get(4)?,
    };
    Ok((found, row.get(5)?))
}

/// Over the columns that identify the generation, without its operation numbers, which are advisory.
fn checksum_of(collection: CollectionId, fingerprint: &str, created_at: Timestamp) -> u32 {
    Checksum::of("generations")
        .number(collection.0.cast_unsigned())
        .bytes(fingerprint)
        .time(created_at)
        .finish()
}

pub(super) async fn by_id_if_current(tx: &mut Tx<'_>, id: GenerationId) -> Result<Option<Current>> {
    let current =
        "SELECT collection_id, fingerprint_id, complete_from FROM generations WHERE id = $1 AND current = 1";
    tx.first(current, &values![id.0], |row| {
        let (collection, fingerprint_id) = (CollectionId(row.get(0)?), row.get(1)?);
        Ok(Current { collection, fingerprint_id, complete_from: row.get(2)? })
    })
    .await
}

/// The id of a collection's current generation, and the id of its fingerprint.
pub(super) async fn current_id(
    tx: &mut Tx<'_>,
    collection: CollectionId,
) -> Result<Option<(GenerationId, i64)>> {
    tx.first(
        "SELECT id, fingerprint_id FROM generations WHERE collection_id = $1 AND current = 1",
        &values![collection.0],
        |row| Ok((GenerationId(row.get(0)?), row.get(1)?)),
    )
    .await
}

pub(super) async fn insert_current(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    fingerprint: &str,
    now: Timestamp,
) -> Result<()> {
    let fingerprints = "INSERT INTO fingerprints (fingerprint) VALUES ($1) ON CONFLICT DO NOTHING";
    tx.run(fingerprints, &values![fingerprint]).await?;
    tx.run(
        "INSERT INTO generations
             (collection_id, fingerprint_id, indexed, current, complete_from, created_at, checksum)
         SELECT CAST($1 AS BIGINT), id, 0, 1, (SELECT next_operation - 1 FROM collections WHERE id = $1),
             CAST($3 AS DOUBLE PRECISION), CAST($4 AS BIGINT)
         FROM fingerprints WHERE fingerprint = $2",
        &values![collection.0, fingerprint, now, checksum_of(collection, fingerprint, now)],
    )
    .await?;
    Ok(())
}

/// Starts a generation, with `settings` if they change. The previous generation's chunks and embeddings are kept until the new one is complete, so
/// that switching back to its model before then, for example after a start with a wrong configuration, needs no embedding.
pub(crate) async fn replace_current(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    fingerprint: &str,
    settings: Option<String>,
    now: Timestamp,
) -> Result<Option<Collection>> {
    tx.lock(Lock::Collection(collection)).await?;
    if let Some((old, _)) = current_id(tx, collection).await? {
        delete_superseded(tx, collection, Some(fingerprint)).await?;
        tx.run("UPDATE generations SET current = 0 WHERE id = $1", &values![old.0]).await?;
        insert_current(tx, collection, fingerprint, now).await?;
        if let Some(settings) = settings {
            collections::replace_settings(tx, collection, settings).await?;
        }
    }
    collections::by_id(tx, collection).await
}

/// Deletes every generation of a collection, with chunks and embeddings.
pub(super) async fn delete_all(tx: &mut Tx<'_>, collection: CollectionId) -> Result<()> {
    lock_embeddings(tx, collection).await?;
    delete_superseded(tx, collection, None).await?;
    if let Some((current, fingerprint_id)) = current_id(tx, collection).await? {
        delete_chunks(tx, current, fingerprint_id).await?;
    }
    tx.run("DELETE FROM generations WHERE collection_id = $1", &values![collection.0]).await?;
    Ok(())
}

/// Deletes the generations that are no longer current, except those of the model `kept`.
async fn delete_superseded(tx: &mut Tx<'_>, collection: CollectionId, kept: Option<&str>) -> Result<()> {
    let superseded = tx
        .all(
            "SELECT g.id, g.fingerprint_id FROM generations g JOIN fingerprints f ON f.id = g.fingerprint_id
         WHERE g.collection_id = $1 AND g.current = 0 AND (CAST($2 AS TEXT) IS NULL OR f.fingerprint <> $2)",
            &values![collection.0, kept],
            |row| Ok((GenerationId(row.get(0)?), row.get(1)?)),
        )
        .await?;
    if !superseded.is_empty() {
        lock_embeddings(tx, collection).await?;
    }
    for (id, fingerprint_id) in superseded {
        delete_chunks(tx, id, fingerprint_id).await?;
        tx.run("DELETE FROM generations WHERE id = $1", &values![id.0]).await?;
    }
    Ok(())
}

/// Takes the locks of all models that a collection has embeddings of, in the order of their ids.
async fn lock_embeddings(tx: &mut Tx<'_>, collection: CollectionId) -> Result<()> {
    let models =
        "SELECT DISTINCT fingerprint_id FROM generations WHERE collection_id = $1 ORDER BY fingerprint_id";
    for fingerprint_id in tx.all(models, &values![collection.0], |row| Ok(row.get(0)?)).await? {
        tx.lock(Lock::Embeddings(fingerprint_id)).await?;
    }
    Ok(())
}

async fn delete_chunks(tx: &mut Tx<'_>, generation: GenerationId, fingerprint_id: i64) -> Result<()> {
    embeddings::delete_of_generation(tx, generation, fingerprint_id).await?;
    tx.run("DELETE FROM chunks WHERE generation_id = $1", &values![generation.0]).await?;
    Ok(())
}

pub(crate) async fn record_applied(
    tx: &mut Tx<'_>,
    fence: Option<Fence>,
    id: GenerationId,
    applied_seq: u64,
    now: Timestamp,
) -> Result<Vec<Job>> {
    tx.lock(Lock::CollectionOf(id)).await?;
    leases::check(tx, fence).await?;
    let indexed = "UPDATE generations SET indexed = $2 WHERE id = $1 AND indexed < $2";
    tx.run(indexed, &values![id.0, applied_seq]).await?;
    let Some(current) = by_id_if_current(tx, id).await? else { return Ok(Vec::new()) };
    if applied_seq >= current.complete_from {
        delete_superseded(tx, current.collection, None).await?;
    }
    jobs::advance(tx, current.collection, id, applied_seq, now).await
}
