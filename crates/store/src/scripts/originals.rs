//! The original files of documents: which document has which file. The bytes are outside of the database.

use super::documents;
use crate::access::Access;
use crate::tx::{AsValue as _, Lock, OrDamaged as _, Tx, Undecodable, values};
use crate::{Original, Result};

/// Records the files of documents, or removes the records. See [`StoreView::set_originals`](crate::StoreView::set_originals).
pub(crate) async fn set(
    tx: &mut Tx<'_>,
    access: &Access,
    files: &[(String, Option<Original>)],
    until: u64,
) -> Result<()> {
    tx.lock(Lock::Collection(access.collection)).await?;
    for (id, original) in files {
        let stored = documents::key_and_version(tx, access.collection, id).await?;
        let Some((key, version)) = stored else { continue };
        if version > until || documents::is_hidden(tx, access, id).await? {
            continue;
        }
        let Some(Original { sha256, media_type, name, bytes }) = original else {
            tx.run("DELETE FROM originals WHERE document = $1", &values![key]).await?;
            continue;
        };
        tx.run(
            "INSERT INTO originals (document, sha256, media_type, name, bytes) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT (document) DO UPDATE SET sha256 = excluded.sha256, media_type = excluded.media_type,
                 name = excluded.name, bytes = excluded.bytes",
            &values![key, sha256, media_type, name, bytes],
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

/// Whether a document was made from the file with this SHA-256.
pub(crate) async fn is_used(tx: &mut Tx<'_>, sha256: &str) -> Result<bool> {
    let found =
        tx.first("SELECT 1 FROM originals WHERE sha256 = $1 LIMIT 1", &values![sha256], |_| Ok(())).await?;
    Ok(found.is_some())
}
