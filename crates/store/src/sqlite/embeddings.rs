//! Embeddings: stored once per text and model, and deleted with the last chunk that refers to them.

use std::collections::HashSet;

use rusqlite::{Connection, Row, params};

use super::error::{OrDamaged, damaged};
use super::statements::Statements as _;
use crate::checksum::Checksum;
use crate::{Error, GenerationId, Result, TextHash};

/// Every embedding, in the column order of [`read_row`]; for [`super::verify`].
pub(super) const ALL: &str = "SELECT vector, checksum, fingerprint_id, text_hash FROM embeddings ORDER BY id";

pub(crate) fn read(
    connection: &Connection,
    fingerprint: &str,
    hashes: &[TextHash],
) -> Result<Vec<Option<Vec<f32>>>> {
    let fingerprint_id = "SELECT id FROM fingerprints WHERE fingerprint = ?1";
    let Some(fingerprint_id) = connection.first(fingerprint_id, [fingerprint], |row| Ok(row.get(0)?))? else {
        return Ok(vec![None; hashes.len()]);
    };
    let embedding = "SELECT vector, checksum FROM embeddings WHERE fingerprint_id = ?1 AND text_hash = ?2";
    let read = |hash: &TextHash| {
        let read_row = |row: &Row<'_>| match read_row(fingerprint_id, hash, row) {
            // it is computed and stored again
            Err(Error::Damaged { .. }) => Ok(None),
            read => read.map(Some),
        };
        Ok(connection.first(embedding, params![fingerprint_id, hash], read_row)?.flatten())
    };
    hashes.iter().map(read).collect()
}

/// Reads and checks the columns `vector` and `checksum` of the embedding of `hash`.
pub(super) fn read_row(fingerprint_id: i64, hash: &TextHash, row: &Row<'_>) -> Result<Vec<f32>> {
    let name = || format!("of text hash {} for model {fingerprint_id}", blake3::Hash::from_bytes(*hash));
    let (vector, checksum) = decode(row).or_damaged("embedding", name)?;
    let (floats, rest) = vector.as_chunks();
    if !rest.is_empty() || checksum_of(fingerprint_id, hash, &vector) != checksum {
        return Err(damaged("embedding", name()));
    }
    Ok(floats.iter().copied().map(f32::from_le_bytes).collect())
}

fn decode(row: &Row<'_>) -> rusqlite::Result<(Vec<u8>, u32)> {
    Ok((row.get(0)?, row.get(1)?))
}

fn checksum_of(fingerprint_id: i64, hash: &TextHash, vector: &[u8]) -> u32 {
    Checksum::of("embeddings").number(fingerprint_id.cast_unsigned()).bytes(hash).bytes(vector).finish()
}

/// Inserts embeddings, replacing stored ones.
pub(super) fn save(connection: &Connection, fingerprint_id: i64, new: &[(TextHash, Vec<f32>)]) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO embeddings (fingerprint_id, text_hash, vector, checksum) VALUES (?1, ?2, ?3, ?4)
         ON CONFLICT (fingerprint_id, text_hash) DO UPDATE SET
             vector = excluded.vector, checksum = excluded.checksum",
    )?;
    for (hash, embedding) in new {
        let vector: Vec<u8> = embedding.iter().flat_map(|float| float.to_le_bytes()).collect();
        statement.execute(params![
            fingerprint_id,
            hash,
            vector,
            checksum_of(fingerprint_id, hash, &vector)
        ])?;
    }
    Ok(())
}

/// Deletes the embeddings of `hashes` that no chunk in any generation of the same model refers to.
pub(super) fn delete_unreferenced(
    connection: &Connection,
    fingerprint_id: i64,
    hashes: &HashSet<TextHash>,
) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "DELETE FROM embeddings WHERE fingerprint_id = ?1 AND text_hash = ?2 AND NOT EXISTS (
             SELECT 1 FROM chunks c JOIN generations g ON g.id = c.generation_id
             WHERE c.text_hash = ?2 AND g.fingerprint_id = ?1)",
    )?;
    for hash in hashes {
        statement.execute(params![fingerprint_id, hash])?;
    }
    Ok(())
}

/// Deletes the embeddings that only chunks of `generation` refer to. The caller deletes these chunks next.
pub(super) fn delete_of_generation(
    connection: &Connection,
    generation: GenerationId,
    fingerprint_id: i64,
) -> Result<()> {
    connection.run(
        "DELETE FROM embeddings WHERE id IN (
             SELECT e.id FROM chunks c
             JOIN embeddings e ON e.fingerprint_id = ?2 AND e.text_hash = c.text_hash
             WHERE c.generation_id = ?1 AND NOT EXISTS (
                 SELECT 1 FROM chunks o JOIN generations g ON g.id = o.generation_id
                 WHERE o.text_hash = c.text_hash AND o.generation_id <> ?1 AND g.fingerprint_id = ?2))",
        [generation.0, fingerprint_id],
    )?;
    Ok(())
}
