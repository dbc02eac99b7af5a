//! The original files of documents: which document has which file. The bytes are outside of the database.

use rusqlite::{Connection, params};

use super::documents;
use super::error::OrDamaged as _;
use super::statements::Statements as _;
use crate::access::Access;
use crate::{Original, Result};

/// Records the files of documents, or removes the records. See [`StoreView::set_originals`](crate::StoreView::set_originals).
pub(crate) fn set(
    connection: &Connection,
    access: &Access,
    files: &[(String, Option<Original>)],
    until: u64,
) -> Result<()> {
    for (id, original) in files {
        let stored = documents::key_and_version(connection, access.collection, id)?;
        let Some((key, version)) = stored else { continue };
        if version > until || documents::is_hidden(connection, access, id)? {
            continue;
        }
        let Some(Original { sha256, media_type, name, bytes }) = original else {
            connection.run("DELETE FROM originals WHERE document = ?1", [key])?;
            continue;
        };
        connection.run(
            "INSERT INTO originals (document, sha256, media_type, name, bytes) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (document) DO UPDATE SET sha256 = excluded.sha256, media_type = excluded.media_type,
                 name = excluded.name, bytes = excluded.bytes",
            params![key, sha256, media_type, name, bytes],
        )?;
    }
    Ok(())
}

/// The file that a document was made from. `None` if it was not kept, or the document does not exist or is hidden.
pub(crate) fn of_document(connection: &Connection, access: &Access, id: &str) -> Result<Option<Original>> {
    if documents::is_hidden(connection, access, id)? {
        return Ok(None);
    }
    connection.first(
        "SELECT o.sha256, o.media_type, o.name, o.bytes FROM originals o JOIN documents d ON d.key = o.document
         WHERE d.collection_id = ?1 AND d.id = ?2",
        params![access.collection.0, id],
        |row| {
            let read = || -> rusqlite::Result<Original> {
                Ok(Original {
                    sha256: row.get(0)?,
                    media_type: row.get(1)?,
                    name: row.get(2)?,
                    bytes: row.get(3)?,
                })
            };
            read().or_damaged("original", || format!("of {id:?}"))
        },
    )
}

/// Calls `each` for each file: its SHA-256, its bytes, and the id of a document that was made from it.
pub(crate) fn each(connection: &Connection, mut each: impl FnMut(&str, u64, &str)) -> Result<()> {
    let mut statement = connection.prepare(
        "SELECT o.sha256, max(o.bytes), min(d.id) FROM originals o JOIN documents d ON d.key = o.document GROUP BY o.sha256",
    )?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let (sha256, id): (String, String) = (row.get(0)?, row.get(2)?);
        each(&sha256, row.get(1)?, &id);
    }
    Ok(())
}

/// Whether a document was made from the file with this SHA-256.
pub(crate) fn is_used(connection: &Connection, sha256: &str) -> Result<bool> {
    let found =
        connection.first("SELECT 1 FROM originals WHERE sha256 = ?1 LIMIT 1", [sha256], |_| Ok(()))?;
    Ok(found.is_some())
}
