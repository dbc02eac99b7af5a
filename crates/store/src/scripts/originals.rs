//! The original files of documents: which document has which file.

use super::documents;
use crate::access::Access;
use crate::tx::{AsValue as _, OrDamaged as _, Tx, Undecodable, values};
use crate::{CollectionId, NewOriginal, Original, Result};

/// Records the files of documents that were stored, or that are stored unchanged.
pub(super) async fn set(tx: &mut Tx<'_>, collection: CollectionId, files: &[&NewOriginal]) -> Result<()> {
    let ids: Vec<&str> = files.iter().map(|file| file.document_id.as_str()).collect();
    let stored = documents::keys_and_versions(tx, collection, &ids).await?;
    let (mut kept, mut others) = (Vec::new(), Vec::new());
    for (file, stored) in files.iter().zip(&stored) {
        let Some((key, _)) = stored else { continue };
        match &file.kept {
            Some(Original { sha256, media_type, name, bytes }) => {
                kept.push(values![key, sha256, media_type, name, bytes]);
            }
            None => others.push(values![key, file.sha256]),
        }
    }
    tx.run_each("DELETE FROM originals WHERE document = $1 AND sha256 <> $2", &others).await?;
    // one after the other: a submission can have a document twice
    for kept in &kept {
        tx.run(
            "INSERT INTO originals (document, sha256, media_type, name, bytes) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (document) DO UPDATE SET sha256 = excluded.sha256, media_type = excluded.media_type,
                 name = excluded.name, bytes = excluded.bytes",
            kept,
        )
        .await?;
    }
    Ok(())
}

/// The file that a document was made from. `None` if it was not kept, or the document does not exist or is hidden.
pub(crate) async fn of_document(tx: &mut Tx<'_>, access: &Access, id: &str) -> Result<Option<Original>> {
    if documents::is_hidden(tx, access, id).await? {
        return Ok(None);
    }
    tx.first(
        "SELECT o.sha256, o.media_type, o.name, o.bytes FROM originals o JOIN documents d ON d.key = o.document
         WHERE d.collection_id = $1 AND d.id = $2",
        &values![access.collection.0, id],
        |row| {
            let read = || -> Result<Original, Undecodable> {
                Ok(Original {
                    sha256: row.get(0)?,
                    media_type: row.get(1)?,
                    name: row.get(2)?,
                    bytes: row.get(3)?,
                })
            };
            read().or_damaged("original", || format!("of {id:?}"))
        },
    ).await
}

/// Every file: its SHA-256, its bytes, and the id of a document that was made from it.
pub(crate) async fn all(tx: &mut Tx<'_>) -> Result<Vec<(String, u64, String)>> {
    tx.all(
        "SELECT o.sha256, max(o.bytes), min(d.id) FROM originals o JOIN documents d ON d.key = o.document GROUP BY o.sha256",
        &values![],
        |row| {
            let read = || -> Result<_, Undecodable> { Ok((row.get(0)?, row.get(1)?, row.get(2)?)) };
            read().or_damaged("original", String::new)
        },
    )
    .await
}

/// Whether a document was made from the file with this SHA-256.
pub(crate) async fn is_used(tx: &mut Tx<'_>, sha256: &str) -> Result<bool> {
    let found =
        tx.first("SELECT 1 FROM originals WHERE sha256 = $1 LIMIT 1", &values![sha256], |_| Ok(())).await?;
    Ok(found.is_some())
}
