//! The bytes of original files, in parts: where several gateways use the store, each finds the files that another one has received.
//!
//! A file counts from the moment at which it begins to be kept, so that all files together never pass their limit. It stays while a document has it, and
//! for a time after it was last needed: its document is stored when the bytes are.

use crate::tx::{AsValue as _, Lock, Tx, values};
use crate::{Keeping, Result};

/// See [`Store::keep_file`](crate::Store::keep_file).
pub(crate) async fn begin(tx: &mut Tx<'_>, sha256: &str, bytes: u64, bytes_max: u64) -> Result<Keeping> {
    tx.lock(Lock::KeptFiles).await?;
    let now = tx.clock().await?;
    let again = "UPDATE kept_files SET kept_at = $2 WHERE sha256 = $1 RETURNING is_complete";
    let known: Option<bool> = tx.first(again, &values![sha256, now], |row| Ok(row.get(0)?)).await?;
    match known {
        Some(true) => return Ok(Keeping::Complete),
        Some(false) => return Ok(Keeping::Begun),
        None => {}
    }
    if sum(tx).await?.1.saturating_add(bytes) > bytes_max {
        return Ok(Keeping::NoRoom);
    }
    tx.run(
        "INSERT INTO kept_files (sha256, bytes, is_complete, kept_at) VALUES ($1, $2, 0, $3)",
        &values![sha256, bytes, now],
    )
    .await?;
    Ok(Keeping::Begun)
}

/// See [`Store::keep_part`](crate::Store::keep_part).
pub(crate) async fn add_part(tx: &mut Tx<'_>, sha256: &str, number: u64, part: &[u8]) -> Result<()> {
    // another gateway may keep the same file at the same time
    tx.run(
        "INSERT INTO kept_parts (sha256, number, bytes) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        &values![sha256, number, part],
    )
    .await?;
    Ok(())
}

/// See [`Store::finish_file`](crate::Store::finish_file).
pub(crate) async fn finish(tx: &mut Tx<'_>, sha256: &str) -> Result<bool> {
    let now = tx.clock().await?;
    let finish = "UPDATE kept_files SET is_complete = 1, kept_at = $2 WHERE sha256 = $1";
    let is_there = tx.run(finish, &values![sha256, now]).await? > 0;
    if !is_there {
        delete_parts(tx, sha256).await?;
    }
    Ok(is_there)
}

/// See [`Store::file_part`](crate::Store::file_part).
pub(crate) async fn part(tx: &mut Tx<'_>, sha256: &str, number: u64) -> Result<Option<Vec<u8>>> {
    let part = "SELECT p.bytes FROM kept_parts p JOIN kept_files f ON f.sha256 = p.sha256
         WHERE p.sha256 = $1 AND p.number = $2 AND f.is_complete = 1";
    tx.first(part, &values![sha256, number], |row| Ok(row.get(0)?)).await
}

/// The number of all files, and their bytes.
pub(crate) async fn sum(tx: &mut Tx<'_>) -> Result<(u64, u64)> {
    let sum = "SELECT count(*), CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM kept_files";
    Ok(tx.first(sum, &[], |row| Ok((row.get(0)?, row.get(1)?))).await?.unwrap_or_default())
}

/// See [`Store::remove_unused_files`](crate::Store::remove_unused_files).
pub(crate) async fn remove_unused(tx: &mut Tx<'_>, unused_seconds: f64) -> Result<u64> {
    let until = tx.clock().await? - unused_seconds;
    let remove = "DELETE FROM kept_files WHERE kept_at < $1
         AND NOT EXISTS (SELECT 1 FROM originals WHERE originals.sha256 = kept_files.sha256) RETURNING sha256";
    let removed: Vec<String> = tx.all(remove, &values![until], |row| Ok(row.get(0)?)).await?;
    for sha256 in &removed {
        delete_parts(tx, sha256).await?;
    }
    Ok(removed.len() as u64)
}

async fn delete_parts(tx: &mut Tx<'_>, sha256: &str) -> Result<()> {
    tx.run("DELETE FROM kept_parts WHERE sha256 = $1", &values![sha256]).await?;
    Ok(())
}
