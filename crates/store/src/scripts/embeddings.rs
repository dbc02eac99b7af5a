//! Embeddings: stored once per text and model, and deleted with the last chunk that refers to them.

use std::collections::HashSet;

use crate::checksum::Checksum;
use crate::tx::{AsValue as _, OrDamaged as _, Row, Tx, Undecodable, damaged, values};
use crate::{Error, GenerationId, Result, TextHash};

/// Every embedding, in the column order of [`read_row`]; for [`super::verify`].
pub(super) const ALL: &str = "SELECT vector, checksum, fingerprint_id, text_hash FROM embeddings ORDER BY id";

/// The embeddings of `hashes` by a model; `None` for those that are missing or damaged.
pub(crate) async fn read(
    tx: &mut Tx<'_>,
    fingerprint: &str,
    hashes: &[TextHash],
) -> Result<Vec<Option<Vec<f32>>>> {
    let fingerprint_id = "SELECT id FROM fingerprints WHERE fingerprint = $1";
    let fingerprint_id =
        tx.first(fingerprint_id, &values![fingerprint], |row| Ok(row.get::<i64>(0)?)).await?;
    let Some(fingerprint_id) = fingerprint_id else { return Ok(vec![None; hashes.len()]) };
    let rows: Vec<_> = hashes.iter().map(|hash| values![fingerprint_id, hash]).collect();
    let read = |place: usize, row: &Row<'_>| match read_row(fingerprint_id, &hashes[place], row) {
        // it is computed and stored again
        Err(Error::Damaged { .. }) => Ok(None),
        read => read.map(Some),
    };
    let embedding = "SELECT vector, checksum FROM embeddings WHERE fingerprint_id = $1 AND text_hash = $2";
    Ok(tx.first_each(embedding, &rows, read).await?.into_iter().map(Option::flatten).collect())
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

fn decode(row: &Row<'_>) -> Result<(Vec<u8>, u32), Undecodable> {
    Ok((row.get(0)?, row.get(1)?))
}

fn checksum_of(fingerprint_id: i64, hash: &TextHash, vector: &[u8]) -> u32 {
    Checksum::of("embeddings").number(fingerprint_id.cast_unsigned()).bytes(hash).bytes(vector).finish()
}

/// Inserts embeddings, replacing stored ones.
pub(super) async fn save(tx: &mut Tx<'_>, fingerprint_id: i64, new: &[(TextHash, Vec<f32>)]) -> Result<()> {
    // each row once in a statement
    let mut seen = HashSet::new();
    let new: Vec<&(TextHash, Vec<f32>)> = new.iter().filter(|(hash, _)| seen.insert(hash)).collect();
    let computed = new.iter().map(|(hash, embedding)| {
        let vector: Vec<u8> = embedding.iter().flat_map(|float| float.to_le_bytes()).collect();
        let checksum = checksum_of(fingerprint_id, hash, &vector);
        (vector, checksum)
    });
    let computed: Vec<(Vec<u8>, u32)> = computed.collect();
    let rows = new
        .iter()
        .zip(&computed)
        .map(|((hash, _), (vector, checksum))| values![fingerprint_id, hash, vector, checksum]);
    tx.run_each(
        "INSERT INTO embeddings (fingerprint_id, text_hash, vector, checksum) VALUES ($1, $2, $3, $4)
         ON CONFLICT (fingerprint_id, text_hash) DO UPDATE SET
             vector = excluded.vector, checksum = excluded.checksum",
        &rows.collect::<Vec<_>>(),
    )
    .await?;
    Ok(())
}

/// Deletes the embeddings of `hashes` that no chunk in any generation of the same model refers to.
pub(super) async fn delete_unreferenced(
    tx: &mut Tx<'_>,
    fingerprint_id: i64,
    hashes: &HashSet<TextHash>,
) -> Result<()> {
    let rows: Vec<_> = hashes.iter().map(|hash| values![fingerprint_id, hash]).collect();
    tx.run_each(
        "DELETE FROM embeddings WHERE fingerprint_id = $1 AND text_hash = $2 AND NOT EXISTS (
             SELECT 1 FROM chunks c JOIN generations g ON g.id = c.generation_id
             WHERE c.text_hash = $2 AND g.fingerprint_id = $1)",
        &rows,
    )
    .await?;
    Ok(())
}

/// Deletes the embeddings that only chunks of `generation` refer to. The caller deletes these chunks next.
pub(super) async fn delete_of_generation(
    tx: &mut Tx<'_>,
    generation: GenerationId,
    fingerprint_id: i64,
) -> Result<()> {
    tx.run(
        "DELETE FROM embeddings WHERE id IN (
             SELECT e.id FROM chunks c
             JOIN embeddings e ON e.fingerprint_id = $2 AND e.text_hash = c.text_hash
             WHERE c.generation_id = $1 AND NOT EXISTS (
                 SELECT 1 FROM chunks o JOIN generations g ON g.id = o.generation_id
                 WHERE o.text_hash = c.text_hash AND o.generation_id <> $1 AND g.fingerprint_id = $2))",
        &values![generation.0, fingerprint_id],
    )
    .await?;
    Ok(())
}
