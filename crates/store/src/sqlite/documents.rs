//! Documents: reads, writes and deletes.

use rusqlite::{Connection, Row, params};

use super::chunks;
use super::collections;
use super::error::{OrDamaged, damaged};
use super::files;
use super::generations;
use super::operations;
use super::statements::Statements as _;
use super::unsearchable;
use crate::access::Access;
use crate::checksum::Checksum;
use crate::damage::Damage;
use crate::{
    ChunkSpan, CollectionId, DeletedDocument, DocumentState, Error, GenerationId, NewDocument, OperationKind,
    Result, StoredDocument,
};

/// The columns in the order of [`DocumentRow::read`].
macro_rules! columns {
    () => {
        "key, collection_id, id, version, title, text, metadata, content_hash, checksum, pages, embedded_title, vector"
    };
}

/// A document's row whose checksum was verified.
pub(super) struct DocumentRow {
    /// The key of the row, which chunks refer to.
    pub(super) key: i64,
    pub(super) collection: CollectionId,
    pub(super) version: u64,
    content: NewDocument,
}

impl DocumentRow {
    const BY_ID: &str =
        concat!("SELECT ", columns!(), " FROM documents WHERE collection_id = ?1 AND id = ?2");
    /// Every document, for [`super::verify`].
    pub(super) const ALL: &str = concat!("SELECT ", columns!(), " FROM documents ORDER BY key");
    /// The documents after an id.
    const AFTER: &str =
        concat!("SELECT ", columns!(), " FROM documents WHERE collection_id = ?1 AND id > ?2 ORDER BY id");

    pub(super) fn read(row: &Row<'_>) -> Result<DocumentRow> {
        let name = || name(row);
        let (found, content_hash, checksum) = DocumentRow::decode(row).or_damaged("document", name)?;
        let expected = checksum_of(found.collection, &found.content, found.version, &content_hash);
        if expected != checksum {
            return Err(damaged("document", name()));
        }
        Ok(found)
    }

    fn with_chunks(self, connection: &Connection, generation: GenerationId) -> Result<StoredDocument> {
        let chunks = chunks::of_document(connection, generation, self.key, self.version)?;
        Ok(self.with(chunks))
    }

    fn with(self, chunks: Vec<ChunkSpan>) -> StoredDocument {
        let DocumentRow { version, content, .. } = self;
        let NewDocument { id, title, text, metadata, pages, embedded_title, vector, .. } = content;
        StoredDocument { id, title, text, metadata, pages, embedded_title, vector, version, chunks }
    }

    fn decode(row: &Row<'_>) -> rusqlite::Result<(DocumentRow, [u8; 32], u32)> {
        let found = DocumentRow {
            key: row.get(0)?,
            collection: CollectionId(row.get(1)?),
            version: row.get(3)?,
            content: NewDocument {
                id: row.get(2)?,
                title: row.get(4)?,
                text: row.get(5)?,
                metadata: row.get(6)?,
                pages: row.get(9)?,
                embedded_title: row.get(10)?,
                vector: row.get(11)?,
                source: None,
            },
        };
        Ok((found, row.get(7)?, row.get(8)?))
    }
}

/// Identifies a document's row in messages, even if its id cannot be read.
fn name(row: &Row<'_>) -> String {
    let key: i64 = row.get(0).unwrap_or_default();
    match (row.get::<_, i64>(1), row.get::<_, String>(2)) {
        (Ok(collection), Ok(id)) => format!("{id:?} of collection {collection} (row {key})"),
        _ => format!("in row {key}"),
    }
}

fn checksum_of(
    collection: CollectionId,
    content: &NewDocument,
    version: u64,
    content_hash: &[u8; 32],
) -> u32 {
    let checksum = Checksum::of("documents")
        .number(collection.0.cast_unsigned())
        .bytes(&content.id)
        .number(version)
        .optional(content.title.as_deref())
        .bytes(&content.text)
        .bytes(&content.metadata)
        .bytes(content_hash);
    // a row without these columns has the checksum of earlier formats
    let checksum = match &content.pages {
        Some(pages) => checksum.bytes(pages),
        None => checksum,
    };
    let checksum = match &content.embedded_title {
        Some(title) => checksum.bytes("embedded title").bytes(title),
        None => checksum,
    };
    match &content.vector {
        Some(vector) => checksum.bytes("vector").bytes(vector).finish(),
        None => checksum.finish(),
    }
}

pub(crate) fn read_all(
    connection: &Connection,
    access: &Access,
    ids: &[String],
) -> Result<Vec<Option<StoredDocument>>> {
    match generations::current_id(connection, access.collection)? {
        Some((generation, _)) => {
            ids.iter().map(|id| read_with_chunks(connection, access, generation, id)).collect()
        }
        None => Ok(vec![None; ids.len()]),
    }
}

/// The documents for the index: a damaged one does not fail the others, and damaged chunks count as not prepared.
pub(crate) fn states(
    connection: &Connection,
    access: &Access,
    ids: &[String],
    damage: &Damage,
) -> Result<Vec<DocumentState>> {
    let Some((generation, _)) = generations::current_id(connection, access.collection)? else {
        return Ok(vec![DocumentState::Absent; ids.len()]);
    };
    let state = |id: &String| {
        let document = || Some((access.collection, id.clone()));
        let read = connection.first(DocumentRow::BY_ID, params![access.collection.0, id], DocumentRow::read);
        let Some(read) = damage.skip_document(read, document)? else { return Ok(DocumentState::Damaged) };
        let Some(row) = read else { return Ok(DocumentState::Absent) };
        if unsearchable::is_cancelled(connection, access.collection, row.version)? {
            return Ok(DocumentState::Absent);
        }
        let chunks = chunks::of_document(connection, generation, row.key, row.version);
        // they are prepared and stored again
        let chunks = if let Err(Error::Damaged { .. }) = chunks { Vec::new() } else { chunks? };
        Ok(DocumentState::Present(row.with(chunks)))
    };
    ids.iter().map(state).collect()
}

/// The documents whose ids are greater than `after` in byte order, and whether there are more. The page ends after `limit` documents, or
/// once their texts and metadata have `bytes_max` bytes.
pub(crate) fn after(
    connection: &Connection,
    access: &Access,
    after: &str,
    limit: usize,
    bytes_max: usize,
    damage: &Damage,
) -> Result<(Vec<StoredDocument>, bool)> {
    let Some((generation, _)) = generations::current_id(connection, access.collection)? else {
        return Ok((Vec::new(), false));
    };
    let mut statement = connection.prepare_cached(DocumentRow::AFTER)?;
    let mut rows = statement.query(params![access.collection.0, after])?;
    let (mut page, mut bytes) = (Vec::new(), 0);
    while let Some(row) = rows.next()? {
        let document = || row.get(2).ok().map(|id| (access.collection, id));
        if damage.skip_document(is_visible_row(access, row), document)? != Some(true) {
            continue;
        }
        if page.len() >= limit || bytes >= bytes_max {
            return Ok((page, true));
        }
        let read = DocumentRow::read(row).and_then(|row| row.with_chunks(connection, generation));
        let Some(document) = damage.skip_document(read, document)? else { continue };
        bytes += document.text.len() + document.metadata.len();
        page.push(document);
    }
    Ok((page, false))
}

fn read_with_chunks(
    connection: &Connection,
    access: &Access,
    generation: GenerationId,
    id: &str,
) -> Result<Option<StoredDocument>> {
    let read = |row: &Row<'_>| match is_visible_row(access, row)? {
        true => DocumentRow::read(row)?.with_chunks(connection, generation).map(Some),
        false => Ok(None),
    };
    Ok(connection.first(DocumentRow::BY_ID, params![access.collection.0, id], read)?.flatten())
}

/// Whether the document of a row in the column order of [`DocumentRow::read`] is visible. Does not verify the checksum.
fn is_visible_row(access: &Access, row: &Row<'_>) -> Result<bool> {
    if !access.is_filtered() {
        return Ok(true);
    }
    let metadata: String = row.get(6).or_damaged("document", || name(row))?;
    Ok(access.is_visible(&metadata))
}

/// Whether the document with this id is hidden from a caller with a filter, or does not exist. `false` without a filter.
pub(super) fn is_hidden(connection: &Connection, access: &Access, id: &str) -> Result<bool> {
    if !access.is_filtered() {
        return Ok(false);
    }
    let metadata = metadata(connection, access.collection, id)?;
    Ok(metadata.is_none_or(|metadata| !access.is_visible(&metadata)))
}

/// The metadata of the document with this id.
pub(super) fn metadata(
    connection: &Connection,
    collection: CollectionId,
    id: &str,
) -> Result<Option<String>> {
    let metadata = "SELECT metadata FROM documents WHERE collection_id = ?1 AND id = ?2";
    by_id(connection, metadata, collection, id, |row| row.get(0))
}

/// Version of the document with this id, and whether its content has this hash. A damaged document has no content.
pub(super) fn version_and_equality(
    connection: &Connection,
    collection: CollectionId,
    id: &str,
    content_hash: &[u8; 32],
) -> Result<Option<(u64, bool)>> {
    let columns = "SELECT content_hash, version FROM documents WHERE collection_id = ?1 AND id = ?2";
    let found = by_id(connection, columns, collection, id, |row| {
        Ok((row.get::<_, [u8; 32]>(0).ok(), row.get::<_, u64>(1).unwrap_or(0)))
    })?;
    let Some((stored, version)) = found else { return Ok(None) };
    if stored.as_ref() != Some(content_hash) {
        return Ok(Some((version, false)));
    }
    // only now is the text read: submitting a damaged document again replaces it
    match connection.first(DocumentRow::BY_ID, params![collection.0, id], DocumentRow::read) {
        Err(Error::Damaged { .. }) => Ok(Some((version, false))),
        found => Ok(found?.map(|_| (version, true))),
    }
}

/// The version of the document with this id as the caller sees it; `None` if it does not exist or is hidden.
pub(super) fn visible_version(connection: &Connection, access: &Access, id: &str) -> Result<Option<u64>> {
    let Some((_, version)) = key_and_version(connection, access.collection, id)? else { return Ok(None) };
    Ok((!is_hidden(connection, access, id)?).then_some(version))
}

/// The version of a document that a file stored and that is sound, and the file; `None` if it does not exist, is hidden, or no file is recorded.
pub(super) fn version_and_source(
    connection: &Connection,
    access: &Access,
    id: &str,
) -> Result<Option<(u64, String)>> {
    let source = "SELECT source FROM documents WHERE collection_id = ?1 AND id = ?2 AND source IS NOT NULL";
    let Some(source) = by_id(connection, source, access.collection, id, |row| row.get(0))? else {
        return Ok(None);
    };
    if is_hidden(connection, access, id)? {
        return Ok(None);
    }
    // a damaged document is replaced by sending its file again
    match connection.first(DocumentRow::BY_ID, params![access.collection.0, id], DocumentRow::read) {
        Err(Error::Damaged { .. }) => Ok(None),
        found => Ok(found?.map(|found| (found.version, source))),
    }
}

/// Row key and version of the document with this id.
pub(super) fn key_and_version(
    connection: &Connection,
    collection: CollectionId,
    id: &str,
) -> Result<Option<(i64, u64)>> {
    let columns = "SELECT key, version FROM documents WHERE collection_id = ?1 AND id = ?2";
    by_id(connection, columns, collection, id, |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Columns of the document with this id.
fn by_id<T>(
    connection: &Connection,
    sql: &str,
    collection: CollectionId,
    id: &str,
    decode: impl FnOnce(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Option<T>> {
    let name = || format!("{id:?} of collection {collection}");
    connection.first(sql, params![collection.0, id], |row| decode(row).or_damaged("document", name))
}

/// Inserts a document or replaces it by a new version. The chunks of the old version stay until the new one is prepared.
pub(super) fn put(
    connection: &Connection,
    collection: CollectionId,
    content: &NewDocument,
    content_hash: &[u8; 32],
    version: u64,
) -> Result<()> {
    let checksum = checksum_of(collection, content, version, content_hash);
    let NewDocument { id, title, text, metadata, pages, embedded_title, vector, source } = content;
    let source = source.as_ref().map(files::to_json);
    connection.run(
        "INSERT INTO documents (collection_id, id, version, title, text, metadata, content_hash, checksum, pages,
             embedded_title, vector, source)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
         ON CONFLICT (collection_id, id) DO UPDATE SET
             version = excluded.version, title = excluded.title, text = excluded.text,
             metadata = excluded.metadata, content_hash = excluded.content_hash,
             checksum = excluded.checksum, pages = excluded.pages,
             embedded_title = excluded.embedded_title, vector = excluded.vector, source = excluded.source",
        params![
            collection.0, id, version, title, text, metadata, content_hash, checksum, pages, embedded_title,
            vector, source
        ],
    )?;
    Ok(())
}

pub(crate) fn delete(
    connection: &Connection,
    access: &Access,
    id: &str,
    damage: &Damage,
) -> Result<Option<DeletedDocument>> {
    match key_and_version(connection, access.collection, id)? {
        Some(stored) => delete_stored(connection, access, id, stored, damage),
        None => Ok(None),
    }
}

/// The same, if the document is in this version.
pub(crate) fn delete_version(
    connection: &Connection,
    access: &Access,
    id: &str,
    version: u64,
    damage: &Damage,
) -> Result<Option<DeletedDocument>> {
    match key_and_version(connection, access.collection, id)? {
        Some(stored) if stored.1 == version => delete_stored(connection, access, id, stored, damage),
        Some(_) | None => Ok(None),
    }
}

fn delete_stored(
    connection: &Connection,
    access: &Access,
    id: &str,
    (key, version): (i64, u64),
    damage: &Damage,
) -> Result<Option<DeletedDocument>> {
    let collection = access.collection;
    if is_hidden(connection, access, id)? {
        return Ok(None);
    }
    let Some((generation, fingerprint_id)) = generations::current_id(connection, collection)? else {
        return Ok(None);
    };
    let Some(operation) = collections::take_operation_number(connection, collection)? else {
        return Ok(None);
    };
    operations::prune_superseded(connection, collection, version)?;
    operations::insert(connection, collection, operation, OperationKind::Delete, id, None)?;
    let chunks = chunks::delete_of_document(connection, generation, fingerprint_id, key)?;
    connection.run("DELETE FROM documents WHERE key = ?1", [key])?;
    damage.forget(collection, id);
    Ok(Some(DeletedDocument { operation, chunks }))
}

/// Clears the content hash of a version, so that submitting the same content again counts as a change.
pub(super) fn clear_content_hash(
    connection: &Connection,
    collection: CollectionId,
    id: &str,
    version: u64,
) -> Result<()> {
    let found = match connection.first(DocumentRow::BY_ID, params![collection.0, id], DocumentRow::read) {
        // submitting it again replaces it
        Err(Error::Damaged { .. }) => return Ok(()),
        found => found?,
    };
    if let Some(found) = found.filter(|found| found.version == version) {
        let checksum = checksum_of(collection, &found.content, version, &NO_CONTENT);
        connection.run(
            "UPDATE documents SET content_hash = ?2, checksum = ?3, source = NULL WHERE key = ?1",
            params![found.key, NO_CONTENT, checksum],
        )?;
    }
    Ok(())
}

/// Stores the content of a document again, as a new version. `false` if the row is damaged or missing.
pub(super) fn renew(
    connection: &Connection,
    collection: CollectionId,
    id: &str,
    version: u64,
) -> Result<bool> {
    let found = match connection.first(DocumentRow::BY_ID, params![collection.0, id], DocumentRow::read) {
        Err(Error::Damaged { .. }) => None,
        found => found?,
    };
    let Some(DocumentRow { content, .. }) = found else { return Ok(false) };
    put(connection, collection, &content, &content.content_hash(), version)?;
    Ok(true)
}

/// A content hash that no document has.
const NO_CONTENT: [u8; 32] = [0; 32];
