//! Generations: which model a collection is prepared with, and the applied sequence of its index.

use rusqlite::{Connection, Row, params};

use super::error::{OrDamaged, damaged};
use super::statements::Statements as _;
use super::{collections, embeddings, jobs};
use crate::checksum::Checksum;
use crate::{Collection, CollectionId, Generation, GenerationId, Job, Result, Timestamp};

/// The columns of a current generation that work on its chunks needs.
pub(super) struct Current {
    pub(super) collection: CollectionId,
    pub(super) fingerprint_id: i64,
    /// See [`Generation::complete_from`].
    complete_from: u64,
}

pub(super) fn current(connection: &Connection, collection: CollectionId) -> Result<Option<Generation>> {
    connection.first(
        "SELECT g.id, f.fingerprint, g.indexed, g.created_at, g.complete_from, g.checksum
         FROM generations g JOIN fingerprints f ON f.id = g.fingerprint_id
         WHERE g.collection_id = ?1 AND g.current = 1",
        [collection.0],
        |row| read(collection, row),
    )
}

fn read(collection: CollectionId, row: &Row<'_>) -> Result<Generation> {
    let name = || format!("of collection {collection}");
    let (found, checksum) = decode(row).or_damaged("generation", name)?;
    if checksum_of(collection, &found.fingerprint, found.created_at) != checksum {
        return Err(damaged("generation", name()));
    }
    Ok(found)
}

fn decode(row: &Row<'_>) -> rusqlite::Result<(Generation, u32)> {
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

pub(super) fn by_id_if_current(connection: &Connection, id: GenerationId) -> Result<Option<Current>> {
    let current =
        "SELECT collection_id, fingerprint_id, complete_from FROM generations WHERE id = ?1 AND current = 1";
    connection.first(current, [id.0], |row| {
        let (collection, fingerprint_id) = (CollectionId(row.get(0)?), row.get(1)?);
        Ok(Current { collection, fingerprint_id, complete_from: row.get(2)? })
    })
}

/// The id of a collection's current generation, and the id of its fingerprint.
pub(super) fn current_id(
    connection: &Connection,
    collection: CollectionId,
) -> Result<Option<(GenerationId, i64)>> {
    connection.first(
        "SELECT id, fingerprint_id FROM generations WHERE collection_id = ?1 AND current = 1",
        [collection.0],
        |row| Ok((GenerationId(row.get(0)?), row.get(1)?)),
    )
}

pub(super) fn insert_current(
    connection: &Connection,
    collection: CollectionId,
    fingerprint: &str,
    now: Timestamp,
) -> Result<()> {
    let fingerprints = "INSERT INTO fingerprints (fingerprint) VALUES (?1) ON CONFLICT DO NOTHING";
    connection.run(fingerprints, [fingerprint])?;
    connection.run(
        "INSERT INTO generations
             (collection_id, fingerprint_id, indexed, current, complete_from, created_at, checksum)
         SELECT ?1, id, 0, 1, (SELECT next_operation - 1 FROM collections WHERE id = ?1), ?3, ?4
         FROM fingerprints WHERE fingerprint = ?2",
        params![collection.0, fingerprint, now, checksum_of(collection, fingerprint, now)],
    )?;
    Ok(())
}

/// Starts a generation. The previous generation's chunks and embeddings are kept until the new one is complete, so that switching back
/// to its model before then, for example after a start with a wrong configuration, needs no embedding.
pub(crate) fn replace_current(
    connection: &Connection,
    collection: CollectionId,
    fingerprint: &str,
    now: Timestamp,
) -> Result<Option<Collection>> {
    if let Some((old, _)) = current_id(connection, collection)? {
        delete_superseded(connection, collection, Some(fingerprint))?;
        connection.run("UPDATE generations SET current = 0 WHERE id = ?1", [old.0])?;
        insert_current(connection, collection, fingerprint, now)?;
    }
    collections::by_id(connection, collection)
}

/// Deletes every generation of a collection, with chunks and embeddings.
pub(super) fn delete_all(connection: &Connection, collection: CollectionId) -> Result<()> {
    delete_superseded(connection, collection, None)?;
    if let Some((current, fingerprint_id)) = current_id(connection, collection)? {
        delete_chunks(connection, current, fingerprint_id)?;
    }
    connection.run("DELETE FROM generations WHERE collection_id = ?1", [collection.0])?;
    Ok(())
}

/// Deletes the generations that are no longer current, except those of the model `kept`.
fn delete_superseded(connection: &Connection, collection: CollectionId, kept: Option<&str>) -> Result<()> {
    let superseded = connection.all(
        "SELECT g.id, g.fingerprint_id FROM generations g JOIN fingerprints f ON f.id = g.fingerprint_id
         WHERE g.collection_id = ?1 AND g.current = 0 AND (?2 IS NULL OR f.fingerprint <> ?2)",
        params![collection.0, kept],
        |row| Ok((GenerationId(row.get(0)?), row.get(1)?)),
    )?;
    for (id, fingerprint_id) in superseded {
        delete_chunks(connection, id, fingerprint_id)?;
        connection.run("DELETE FROM generations WHERE id = ?1", [id.0])?;
    }
    Ok(())
}

fn delete_chunks(connection: &Connection, generation: GenerationId, fingerprint_id: i64) -> Result<()> {
    embeddings::delete_of_generation(connection, generation, fingerprint_id)?;
    connection.run("DELETE FROM chunks WHERE generation_id = ?1", [generation.0])?;
    Ok(())
}

pub(crate) fn record_applied(
    connection: &Connection,
    id: GenerationId,
    applied_seq: u64,
    now: Timestamp,
) -> Result<Vec<Job>> {
    let indexed = "UPDATE generations SET indexed = max(indexed, ?2) WHERE id = ?1";
    connection.run(indexed, params![id.0, applied_seq])?;
    let Some(current) = by_id_if_current(connection, id)? else { return Ok(Vec::new()) };
    if applied_seq >= current.complete_from {
        delete_superseded(connection, current.collection, None)?;
    }
    jobs::advance(connection, current.collection, id, applied_seq, now)
}
