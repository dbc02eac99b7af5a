//! Chunks: the pieces of a document's version that the ingest worker prepared.

use std::collections::HashSet;

use rusqlite::{Connection, Row, params};

use super::error::{OrDamaged, damaged};
use super::statements::Statements as _;
use super::{documents, embeddings, generations};
use crate::checksum::Checksum;
use crate::{ChunkSpan, GenerationId, PreparedDocument, Result, TextHash};

/// Identifies the chunks of a document in a generation: the primary key without the ordinal.
#[derive(Clone, Copy)]
pub(super) struct ChunksKey {
    pub(super) generation: GenerationId,
    /// The key of the document's row.
    pub(super) document: i64,
}

/// The chunks of a document at `version`; empty when the stored chunks are of another version.
pub(super) fn of_document(
    connection: &Connection,
    generation: GenerationId,
    document: i64,
    version: u64,
) -> Result<Vec<ChunkSpan>> {
    let key = ChunksKey { generation, document };
    let mut next = 0;
    connection.all(
        "SELECT ordinal, version, start, end, text_hash, checksum FROM chunks
         WHERE generation_id = ?1 AND document = ?2 AND version = ?3 ORDER BY ordinal",
        params![generation.0, document, version],
        |row| {
            let expected = next;
            next += 1;
            let (ordinal, span) = read(key, row)?;
            if ordinal == expected { Ok(span) } else { Err(damaged("chunk", name(key, expected))) }
        },
    )
}

/// Reads and checks the columns `ordinal`, `version`, `start`, `end`, `text_hash`, `checksum`.
pub(super) fn read(key: ChunksKey, row: &Row<'_>) -> Result<(u64, ChunkSpan)> {
    let name = || name(key, row.get(0).unwrap_or_default());
    let (ordinal, version, span, checksum) = decode(row).or_damaged("chunk", name)?;
    if checksum_of(key, ordinal, version, &span) != checksum {
        return Err(damaged("chunk", name()));
    }
    Ok((ordinal, span))
}

fn name(key: ChunksKey, ordinal: u64) -> String {
    format!("{ordinal} of document row {} in generation {}", key.document, key.generation)
}

fn decode(row: &Row<'_>) -> rusqlite::Result<(u64, u64, ChunkSpan, u32)> {
    let span = ChunkSpan { start: row.get(2)?, end: row.get(3)?, text_hash: row.get(4)? };
    Ok((row.get(0)?, row.get(1)?, span, row.get(5)?))
}

fn checksum_of(key: ChunksKey, ordinal: u64, version: u64, span: &ChunkSpan) -> u32 {
    Checksum::of("chunks")
        .number(key.generation.0.cast_unsigned())
        .number(key.document.cast_unsigned())
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
    prepared: &[PreparedDocument],
    new_embeddings: &[(TextHash, Vec<f32>)],
) -> Result<()> {
    let Some(current) = generations::by_id_if_current(connection, generation)? else {
        return Ok(());
    };
    let (mut candidates, mut referenced) = (HashSet::new(), HashSet::new());
    for document in prepared {
        let stored = documents::key_and_version(connection, current.collection, &document.document_id)?;
        if let Some((key, version)) = stored
            && version == document.version
        {
            let key = ChunksKey { generation, document: key };
            candidates.extend(delete(connection, key)?);
            insert(connection, key, version, &document.chunks)?;
            referenced.extend(document.chunks.iter().map(|span| span.text_hash));
        }
    }
    embeddings::save(connection, current.fingerprint_id, new_embeddings)?;
    candidates.extend(new_embeddings.iter().map(|(hash, _)| *hash));
    candidates.retain(|hash| !referenced.contains(hash));
    embeddings::delete_unreferenced(connection, current.fingerprint_id, &candidates)
}

fn insert(connection: &Connection, key: ChunksKey, version: u64, spans: &[ChunkSpan]) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO chunks (generation_id, document, ordinal, version, start, end, text_hash, checksum)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?;
    for (ordinal, span) in (0_u64..).zip(spans) {
        statement.execute(params![
            key.generation.0,
            key.document,
            ordinal,
            version,
            span.start,
            span.end,
            span.text_hash,
            checksum_of(key, ordinal, version, span)
        ])?;
    }
    Ok(())
}

/// Deletes a document's chunks of any version, and the embeddings that only they refer to; returns the number of chunks.
pub(super) fn delete_of_document(
    connection: &Connection,
    generation: GenerationId,
    fingerprint_id: i64,
    document: i64,
) -> Result<u64> {
    let candidates = delete(connection, ChunksKey { generation, document })?;
    embeddings::delete_unreferenced(connection, fingerprint_id, &candidates.iter().copied().collect())?;
    Ok(candidates.len() as u64)
}

/// Deletes a document's chunks; returns their text hashes.
fn delete(connection: &Connection, key: ChunksKey) -> Result<Vec<TextHash>> {
    let hashes = connection.all(
        "DELETE FROM chunks WHERE generation_id = ?1 AND document = ?2 RETURNING text_hash",
        [key.generation.0, key.document],
        // a damaged one refers to no embedding
        |row| Ok(row.get::<_, TextHash>(0).ok()),
    )?;
    Ok(hashes.into_iter().flatten().collect())
}
