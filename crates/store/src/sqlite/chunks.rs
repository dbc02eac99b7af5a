//! Chunks: what the worker prepared from each version of a document.

use std::collections::HashSet;

use rusqlite::{Connection, Row, params};

use super::failure::{Naming, damaged};
use super::{documents, embeddings, generations};
use crate::checksum::Checksum;
use crate::{ChunkSpan, GenerationId, Prepared, Result, TextHash};

/// Which document's chunks: the primary key without the ordinal.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    pub(super) generation: GenerationId,
    /// The document's row key.
    pub(super) document: i64,
}

/// The chunks of one version of a document; those of an older version are not seen.
pub(super) fn of_document(
    connection: &Connection,
    generation: GenerationId,
    document: i64,
    version: u64,
) -> Result<Vec<ChunkSpan>> {
    let mut statement = connection.prepare_cached(
        "SELECT ordinal, version, start, end, text_hash, checksum FROM chunks
         WHERE generation_id = ?1 AND document = ?2 AND version = ?3 ORDER BY ordinal",
    )?;
    let mut rows = statement.query(params![generation.0, document, version])?;
    let owner = Owner { generation, document };
    let mut found = Vec::new();
    for expected in 0.. {
        let Some(row) = rows.next()? else { break };
        let (ordinal, span) = read(owner, row)?;
        if ordinal != expected {
            return Err(damaged("chunk", name(owner, expected)));
        }
        found.push(span);
    }
    Ok(found)
}

/// Reads the columns ordinal, version, start, end, text hash, checksum.
pub(super) fn read(owner: Owner, row: &Row<'_>) -> Result<(u64, ChunkSpan)> {
    let name = || name(owner, row.get(0).unwrap_or_default());
    let (ordinal, version, span, checksum) = decode(row).naming("chunk", name)?;
    if checksum_of(owner, ordinal, version, &span) != checksum {
        return Err(damaged("chunk", name()));
    }
    Ok((ordinal, span))
}

fn name(owner: Owner, ordinal: u64) -> String {
    format!("{ordinal} of document row {} in generation {}", owner.document, owner.generation)
}

fn decode(row: &Row<'_>) -> rusqlite::Result<(u64, u64, ChunkSpan, u32)> {
    let span = ChunkSpan { start: row.get(2)?, end: row.get(3)?, text_hash: row.get(4)? };
    Ok((row.get(0)?, row.get(1)?, span, row.get(5)?))
}

fn checksum_of(owner: Owner, ordinal: u64, version: u64, span: &ChunkSpan) -> u32 {
    Checksum::of("chunks")
        .number(owner.generation.0.cast_unsigned())
        .number(owner.document.cast_unsigned())
        .number(ordinal)
        .number(version)
        .number(span.start)
        .number(span.end)
        .bytes(span.text_hash)
        .finish()
}

pub(crate) fn save_prepared(
    connection: &Connection,
    generation: GenerationId,
    prepared: &[Prepared],
    new_embeddings: &[(TextHash, Vec<f32>)],
) -> Result<()> {
    let Some(current) = generations::by_id_if_current(connection, generation)? else {
        return Ok(());
    };
    let (mut released, mut kept) = (HashSet::new(), HashSet::new());
    for document in prepared {
        let stored = documents::key_and_version(connection, current.collection, &document.document_id)?;
        if let Some((key, version)) = stored
            && version == document.version
        {
            let owner = Owner { generation, document: key };
            released.extend(delete(connection, owner)?);
            insert(connection, owner, version, &document.chunks)?;
            kept.extend(document.chunks.iter().map(|span| span.text_hash));
        }
    }
    embeddings::save(connection, current.fingerprint_id, new_embeddings)?;
    released.extend(new_embeddings.iter().map(|(hash, _)| *hash));
    released.retain(|hash| !kept.contains(hash));
    embeddings::release(connection, current.fingerprint_id, &released)
}

fn insert(connection: &Connection, owner: Owner, version: u64, spans: &[ChunkSpan]) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO chunks (generation_id, document, ordinal, version, start, end, text_hash, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for (ordinal, span) in (0_u64..).zip(spans) {
        statement.execute(params![
            owner.generation.0,
            owner.document,
            ordinal,
            version,
            span.start,
            span.end,
            span.text_hash,
            checksum_of(owner, ordinal, version, span)
        ])?;
    }
    Ok(())
}

/// Deletes a document's chunks, of whatever version, and the embeddings that go with them; returns how many chunks.
pub(super) fn delete_of_document(
    connection: &Connection,
    generation: GenerationId,
    fingerprint_id: i64,
    document: i64,
) -> Result<u64> {
    let released = delete(connection, Owner { generation, document })?;
    embeddings::release(connection, fingerprint_id, &released.iter().copied().collect())?;
    Ok(released.len() as u64)
}

/// Deletes a document's chunks; returns the text hash of each.
fn delete(connection: &Connection, owner: Owner) -> Result<Vec<TextHash>> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM chunks WHERE generation_id = ?1 AND document = ?2 RETURNING text_hash",
    )?;
    let released = statement.query_map([owner.generation.0, owner.document], |row| row.get(0))?;
    released.collect::<rusqlite::Result<_>>().naming("a chunk", || {
        format!("of document row {} in generation {}", owner.document, owner.generation)
    })
}
