//! The files that documents were read from: a file that is sent again is recognised without reading it.

use rusqlite::{Connection, params};

use super::statements::Statements as _;
use super::{documents, unsearchable};
use crate::access::Access;
use crate::{CollectionId, FileSource, KnownFile, Result};

/// The column `source`.
pub(super) fn to_json(source: &FileSource) -> String {
    serde_json::to_string(source).unwrap_or_default()
}

/// The file of each id and hash that is stored already, with all of its documents; else `None`.
pub(crate) fn known(
    connection: &Connection,
    access: &Access,
    files: &[(String, [u8; 32])],
) -> Result<Vec<Option<KnownFile>>> {
    files.iter().map(|(id, hash)| known_file(connection, access, id, hash)).collect()
}

fn known_file(
    connection: &Connection,
    access: &Access,
    id: &str,
    hash: &[u8; 32],
) -> Result<Option<KnownFile>> {
    let Some((version, source)) = source_of(connection, access, id)?.filter(|found| found.1.hash == *hash)
    else {
        return Ok(None);
    };
    for attachment in &source.attachments {
        if source_of(connection, access, attachment)?.is_none_or(|found| found.1.hash != *hash) {
            return Ok(None);
        }
    }
    let mut ids = vec![id.to_owned()];
    ids.extend(source.attachments);
    Ok(Some(KnownFile { ids, version }))
}

fn source_of(connection: &Connection, access: &Access, id: &str) -> Result<Option<(u64, FileSource)>> {
    let found = documents::version_and_source(connection, access, id)?;
    let Some((version, source)) = found else { return Ok(None) };
    // sending the file again is another attempt to make it searchable
    if unsearchable::contains(connection, access.collection, version)? {
        return Ok(None);
    }
    // a source that cannot be read is none
    Ok(serde_json::from_str(&source).ok().map(|source| (version, source)))
}

/// Records the file of a document whose content stays as it is.
pub(super) fn record(
    connection: &Connection,
    collection: CollectionId,
    id: &str,
    source: &FileSource,
) -> Result<()> {
    connection.run(
        "UPDATE documents SET source = ?3 WHERE collection_id = ?1 AND id = ?2",
        params![collection.0, id, to_json(source)],
    )?;
    Ok(())
}
