//! The original files of documents: which document has which file. The bytes are outside of the database.

use rusqlite::{Connection, params};

use super::documents;
use super::error::OrDamaged as _;
use super::statements::Statements as _;
use crate::access::Access;
use crate::{CollectionId, NewOriginal, Original, Result};

/// Records the file of a document that was stored, or that is stored unchanged.
pub(super) fn set(connection: &Connection, collection: CollectionId, file: &NewOriginal) -> Result<()> {
    let stored = documents::key_and_version(connection, collection, &file.document_id)?;
    let Some((key, _)) = stored else { return Ok(()) };
    let Some(Original { sha256, media_type, name, bytes }) = &file.kept else {
        let other = "DELETE FROM originals WHERE document = ?1 AND sha256 <> ?2";
        connection.run(other, params![key, file.sha256])?;
        return Ok(());
    };
    connection.run(
        "INSERT INTO originals (document, sha256, media_type, name, bytes) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (document) DO UPDATE SET sha256 = excluded.sha256, media_type = excluded.media_type,
             name = excluded.name, bytes = excluded.bytes",
        params![key, sha256, media_type, name, bytes],
    )?;
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

/// Whether a document was made from the file with this SHA-256.
pub(crate) fn is_used(connection: &Connection, sha256: &str) -> Result<bool> {
    let found =
        connection.first("SELECT 1 FROM originals WHERE sha256 = ?1 LIMIT 1", [sha256], |_| Ok(()))?;
    Ok(found.is_some())
}
