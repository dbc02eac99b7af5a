//! Chunks: the pieces of a document's version that the ingest worker prepared.

use std::collections::HashSet;

use super::{documents, embeddings, generations, leases};
use crate::checksum::Checksum;
use crate::tx::{AsValue as _, Lock, OrDamaged as _, Row, Tx, Undecodable, damaged, values};
use crate::{ChunkSpan, Fence, GenerationId, PreparedDocument, Result, TextHash};

/// Identifies the chunks of a document in a generation: the primary key without the ordinal.
#[derive(Clone, Copy)]
pub(super) struct ChunksKey {
    pub(super) generation: GenerationId,
    /// The key of the document's row.
    pub(super) document: i64,
}

/// The chunks of each document, by the key of its row, at its version; empty when the stored chunks are of another version. Each document has
/// an error of its own.
pub(super) async fn of_documents(
    tx: &mut Tx<'_>,
    generation: GenerationId,
    documents: &[(i64, u64)],
) -> Result<Vec<Result<Vec<ChunkSpan>>>> {
    let rows: Vec<_> =
        documents.iter().map(|(document, version)| values![generation.0, document, version]).collect();
    let key = |place: usize| ChunksKey { generation, document: documents[place].0 };
    let mut found: Vec<Result<Vec<ChunkSpan>>> = documents.iter().map(|_| Ok(Vec::new())).collect();
    let of_document = "SELECT ordinal, version, \"start\", \"end\", text_hash, checksum FROM chunks
         WHERE generation_id = $1 AND document = $2 AND version = $3 ORDER BY ordinal";
    let read = |place: usize, row: &Row<'_>| {
        if let Ok(spans) = &mut found[place] {
            let expected = spans.len() as u64;
            match read(key(place), row) {
                Ok((ordinal, span)) if ordinal == expected => spans.push(span),
                Ok(_) => found[place] = Err(damaged("chunk", name(key(place), expected))),
                Err(error) => found[place] = Err(error),
            }
        }
        Ok(())
    };
    tx.all_each(of_document, &rows, read).await?;
    Ok(found)
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

fn decode(row: &Row<'_>) -> Result<(u64, u64, ChunkSpan, u32), Undecodable> {
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

/// See [`Store::save_prepared`](crate::Store::save_prepared).
pub(crate) async fn save_prepared(
    tx: &mut Tx<'_>,
    fence: Option<Fence>,
    generation: GenerationId,
    prepared: &[PreparedDocument],
    new_embeddings: &[(TextHash, Vec<f32>)],
) -> Result<()> {
    tx.lock(Lock::CollectionOf(generation)).await?;
    leases::check(tx, fence).await?;
    let Some(current) = generations::by_id_if_current(tx, generation).await? else {
        return Ok(());
    };
    tx.lock(Lock::Embeddings(current.fingerprint_id)).await?;
    let ids: Vec<&str> = prepared.iter().map(|document| document.document_id.as_str()).collect();
    let stored = documents::keys_and_versions(tx, current.collection, &ids).await?;
    let documents = prepared.iter().zip(stored).filter_map(|(document, stored)| {
        let (document_key, version) = stored?;
        let key = ChunksKey { generation, document: document_key };
        (version == document.version).then_some((key, document))
    });
    let documents: Vec<(ChunksKey, &PreparedDocument)> = documents.collect();
    let keys: Vec<ChunksKey> = documents.iter().map(|(key, _)| *key).collect();
    let deleted = delete(tx, &keys).await?;
    insert(tx, &documents).await?;
    embeddings::save(tx, current.fingerprint_id, new_embeddings).await?;
    let mut candidates: HashSet<TextHash> = deleted.into_iter().flatten().collect();
    candidates.extend(new_embeddings.iter().map(|(hash, _)| *hash));
    for (_, document) in &documents {
        for span in &document.chunks {
            candidates.remove(&span.text_hash);
        }
    }
    embeddings::delete_unreferenced(tx, current.fingerprint_id, &candidates).await
}

/// Inserts the chunks of documents.
async fn insert(tx: &mut Tx<'_>, documents: &[(ChunksKey, &PreparedDocument)]) -> Result<()> {
    let numbered = documents.iter().flat_map(|(key, document)| {
        (0_u64..).zip(&document.chunks).map(|(ordinal, span)| (*key, document.version, ordinal, span))
    });
    let checked = numbered.map(|(key, version, ordinal, span)| {
        (key, version, ordinal, span, checksum_of(key, ordinal, version, span))
    });
    let checked: Vec<_> = checked.collect();
    let rows = checked.iter().map(|(key, version, ordinal, span, checksum)| {
        values![
            key.generation.0,
            key.document,
            ordinal,
            version,
            span.start,
            span.end,
            span.text_hash,
            checksum
        ]
    });
    tx.run_each(
        "INSERT INTO chunks (generation_id, document, ordinal, version, \"start\", \"end\", text_hash, checksum)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
        &rows.collect::<Vec<_>>(),
    )
    .await?;
    Ok(())
}

/// Deletes a document's chunks of any version, and the embeddings that only they refer to; returns the number of chunks.
pub(super) async fn delete_of_document(
    tx: &mut Tx<'_>,
    generation: GenerationId,
    fingerprint_id: i64,
    document: i64,
) -> Result<u64> {
    tx.lock(Lock::Embeddings(fingerprint_id)).await?;
    let candidates = delete(tx, &[ChunksKey { generation, document }]).await?;
    let deleted = candidates.len() as u64;
    embeddings::delete_unreferenced(tx, fingerprint_id, &candidates.into_iter().flatten().collect()).await?;
    Ok(deleted)
}

/// Deletes the chunks of documents; returns their text hashes. A damaged one refers to no embedding.
async fn delete(tx: &mut Tx<'_>, documents: &[ChunksKey]) -> Result<Vec<Option<TextHash>>> {
    let rows: Vec<_> = documents.iter().map(|key| values![key.generation.0, key.document]).collect();
    tx.all_each(
        "DELETE FROM chunks WHERE generation_id = $1 AND document = $2 RETURNING text_hash",
        &rows,
        |_, row| Ok(row.get(0).ok()),
    )
    .await
}
