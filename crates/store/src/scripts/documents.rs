//! Documents: reads, writes and deletes.

use std::ops::ControlFlow;

use super::operations::NewOperation;
use super::{chunks, collections, files, generations, operations, unsearchable};
use crate::access::Access;
use crate::checksum::Checksum;
use crate::damage::Damage;
use crate::tx::{AsValue as _, Lock, OrDamaged as _, Row, Tx, Undecodable, damaged, values};
use crate::{
    ChunkSpan, CollectionId, DeletedDocument, DocumentState, Error, NewDocument, OperationKind, Result,
    StoredDocument,
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
        concat!("SELECT ", columns!(), " FROM documents WHERE collection_id = $1 AND id = $2");
    /// Every document, for [`super::verify`].
    pub(super) const ALL: &str = concat!("SELECT ", columns!(), " FROM documents ORDER BY key");
    /// The documents after an id.
    const AFTER: &str =
        concat!("SELECT ", columns!(), " FROM documents WHERE collection_id = $1 AND id > $2 ORDER BY id");

    pub(super) fn read(row: &Row<'_>) -> Result<DocumentRow> {
        let name = || name(row);
        let (found, content_hash, checksum) = DocumentRow::decode(row).or_damaged("document", name)?;
        let expected = checksum_of(found.collection, &found.content, found.version, &content_hash);
        if expected != checksum {
            return Err(damaged("document", name()));
        }
        Ok(found)
    }

    fn with(self, chunks: Vec<ChunkSpan>) -> StoredDocument {
        let DocumentRow { version, content, .. } = self;
        let NewDocument { id, title, text, metadata, pages, embedded_title, vector, .. } = content;
        StoredDocument { id, title, text, metadata, pages, embedded_title, vector, version, chunks }
    }

    /// Bytes of text and metadata.
    fn bytes(&self) -> usize {
        self.content.text.len() + self.content.metadata.len()
    }

    fn decode(row: &Row<'_>) -> Result<(DocumentRow, [u8; 32], u32), Undecodable> {
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
    match (row.get::<i64>(1), row.get::<String>(2)) {
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

/// The documents with these ids that the caller sees, with their chunks.
pub(crate) async fn read_all(
    tx: &mut Tx<'_>,
    access: &Access,
    ids: &[String],
) -> Result<Vec<Option<StoredDocument>>> {
    let Some((generation, _)) = generations::current_id(tx, access.collection).await? else {
        return Ok(vec![None; ids.len()]);
    };
    let rows: Vec<_> = ids.iter().map(|id| values![access.collection.0, id]).collect();
    let read = |_, row: &Row<'_>| match is_visible_row(access, row)? {
        true => DocumentRow::read(row).map(Some),
        false => Ok(None),
    };
    let found = tx.first_each(DocumentRow::BY_ID, &rows, read).await?;
    let found: Vec<Option<DocumentRow>> = found.into_iter().map(Option::flatten).collect();
    let keys: Vec<_> = found.iter().flatten().map(|row| (row.key, row.version)).collect();
    let mut chunks = chunks::of_documents(tx, generation, &keys).await?.into_iter();
    let mut with_chunks =
        |row: DocumentRow| chunks.next().unwrap_or(Ok(Vec::new())).map(|chunks| row.with(chunks));
    found.into_iter().map(|row| row.map(&mut with_chunks).transpose()).collect()
}

/// The documents for the index: a damaged one does not fail the others, and damaged chunks count as not prepared.
pub(crate) async fn states(
    tx: &mut Tx<'_>,
    access: &Access,
    ids: &[String],
    damage: &Damage,
) -> Result<Vec<DocumentState>> {
    let collection = access.collection;
    let Some((generation, _)) = generations::current_id(tx, collection).await? else {
        return Ok(vec![DocumentState::Absent; ids.len()]);
    };
    let rows: Vec<_> = ids.iter().map(|id| values![collection.0, id]).collect();
    let read = |place: usize, row: &Row<'_>| {
        damage.skip_document(DocumentRow::read(row), || Some((collection, ids[place].clone())))
    };
    let found = tx.first_each(DocumentRow::BY_ID, &rows, read).await?;
    let present = || found.iter().flatten().flatten();
    let versions: Vec<u64> = present().map(|row| row.version).collect();
    let cancelled = unsearchable::are_cancelled(tx, collection, &versions).await?;
    let keys: Vec<_> = present().map(|row| (row.key, row.version)).collect();
    let chunks = chunks::of_documents(tx, generation, &keys).await?;
    let mut details = cancelled.into_iter().zip(chunks);
    let state = |read: Option<Option<DocumentRow>>| {
        let Some(read) = read else { return Ok(DocumentState::Absent) };
        let Some(row) = read else { return Ok(DocumentState::Damaged) };
        match details.next() {
            Some((true, _)) => Ok(DocumentState::Absent),
            // they are prepared and stored again
            Some((false, Err(Error::Damaged { .. }))) | None => {
                Ok(DocumentState::Present(row.with(Vec::new())))
            }
            Some((false, chunks)) => Ok(DocumentState::Present(row.with(chunks?))),
        }
    };
    found.into_iter().map(state).collect()
}

/// The documents whose ids are greater than `after` in byte order, and whether there are more. The page ends after `limit` documents, or
/// once their texts and metadata have `bytes_max` bytes.
pub(crate) async fn after(
    tx: &mut Tx<'_>,
    access: &Access,
    after: &str,
    limit: usize,
    bytes_max: usize,
    damage: &Damage,
) -> Result<(Vec<StoredDocument>, bool)> {
    let collection = access.collection;
    let Some((generation, _)) = generations::current_id(tx, collection).await? else {
        return Ok((Vec::new(), false));
    };
    let (mut page, mut bytes, mut after) = (Vec::new(), 0, after.to_owned());
    loop {
        let (mut rows, mut is_more): (Vec<DocumentRow>, bool) = (Vec::new(), false);
        let visit = |row: &Row<'_>| -> Result<ControlFlow<()>> {
            let document = || row.get(2).ok().map(|id| (collection, id));
            if damage.skip_document(is_visible_row(access, row), document)? != Some(true) {
                return Ok(ControlFlow::Continue(()));
            }
            if page.len() + rows.len() >= limit || bytes >= bytes_max {
                is_more = true;
                return Ok(ControlFlow::Break(()));
            }
            if let Some(row) = damage.skip_document(DocumentRow::read(row), document)? {
                bytes += row.bytes();
                rows.push(row);
            }
            Ok(ControlFlow::Continue(()))
        };
        tx.scan(DocumentRow::AFTER, &values![collection.0, after], visit).await?;
        let keys: Vec<_> = rows.iter().map(|row| (row.key, row.version)).collect();
        let chunks = chunks::of_documents(tx, generation, &keys).await?;
        for (row, chunks) in rows.into_iter().zip(chunks) {
            after.clone_from(&row.content.id);
            match damage.skip_document(chunks, || Some((collection, row.content.id.clone())))? {
                Some(chunks) => page.push(row.with(chunks)),
                None => bytes -= row.bytes(),
            }
        }
        // otherwise documents with damaged chunks were left out
        if !is_more || page.len() >= limit || bytes >= bytes_max {
            return Ok((page, is_more));
        }
    }
}

/// Whether the document of a row in the column order of [`DocumentRow::read`] is visible. Does not verify the checksum.
fn is_visible_row(access: &Access, row: &Row<'_>) -> Result<bool> {
    if !access.is_filtered() {
        return Ok(true);
    }
    let metadata: String = row.get(6).or_damaged("document", || name(row))?;
    Ok(access.is_visible_document(Some(&metadata)))
}

/// Whether the document with this id is hidden from a caller with a filter, or does not exist. `false` without a filter.
pub(super) async fn is_hidden(tx: &mut Tx<'_>, access: &Access, id: &str) -> Result<bool> {
    Ok(are_hidden(tx, access, &[id]).await? == [true])
}

/// The same for each of the documents.
pub(super) async fn are_hidden(tx: &mut Tx<'_>, access: &Access, ids: &[&str]) -> Result<Vec<bool>> {
    if !access.is_filtered() {
        return Ok(vec![false; ids.len()]);
    }
    let found = metadata(tx, access.collection, ids).await?;
    Ok(found.iter().map(|metadata| access.hides_document(metadata.as_deref())).collect())
}

/// The metadata of each of the documents.
pub(super) async fn metadata(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    ids: &[&str],
) -> Result<Vec<Option<String>>> {
    let metadata = "SELECT metadata FROM documents WHERE collection_id = $1 AND id = $2";
    by_ids(tx, metadata, collection, ids, |_, row| row.get(0)).await
}

/// Version of each of the documents, and whether its content has this hash. A damaged document has no content.
pub(super) async fn versions_and_equality(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    documents: &[(&str, &[u8; 32])],
) -> Result<Vec<Option<(u64, bool)>>> {
    let columns = "SELECT content_hash, version FROM documents WHERE collection_id = $1 AND id = $2";
    let ids: Vec<&str> = documents.iter().map(|(id, _)| *id).collect();
    let mut stored = by_ids(tx, columns, collection, &ids, |place, row| {
        let is_equal = row.get::<[u8; 32]>(0).is_ok_and(|stored| stored == *documents[place].1);
        Ok((row.get::<u64>(1).unwrap_or(0), is_equal))
    })
    .await?;
    let equal: Vec<usize> =
        (0..stored.len()).filter(|&place| stored[place].is_some_and(|(_, is_equal)| is_equal)).collect();
    // only now are the texts read: submitting a damaged document again replaces it
    let rows: Vec<_> = equal.iter().map(|&place| values![collection.0, ids[place]]).collect();
    let is_sound = |_, row: &Row<'_>| match DocumentRow::read(row) {
        Err(Error::Damaged { .. }) => Ok(false),
        read => read.map(|_| true),
    };
    let sound = tx.first_each(DocumentRow::BY_ID, &rows, is_sound).await?;
    for (place, is_sound) in equal.into_iter().zip(sound) {
        if let Some((_, is_equal)) = &mut stored[place] {
            *is_equal = is_sound == Some(true);
        }
    }
    Ok(stored)
}

/// The version of the document with this id as the caller sees it; `None` if it does not exist or is hidden.
pub(super) async fn visible_version(tx: &mut Tx<'_>, access: &Access, id: &str) -> Result<Option<u64>> {
    let Some((_, version)) = key_and_version(tx, access.collection, id).await? else { return Ok(None) };
    Ok((!is_hidden(tx, access, id).await?).then_some(version))
}

/// The files of the documents that a file stored and that are visible, as they are recorded.
pub(super) async fn visible_sources(
    tx: &mut Tx<'_>,
    access: &Access,
    ids: &[&str],
) -> Result<Vec<Option<String>>> {
    let source = "SELECT source FROM documents WHERE collection_id = $1 AND id = $2 AND source IS NOT NULL";
    let found = by_ids(tx, source, access.collection, ids, |_, row| row.get(0)).await?;
    let hidden = are_hidden(tx, access, ids).await?;
    Ok(found.into_iter().zip(hidden).map(|(source, is_hidden)| source.filter(|_| !is_hidden)).collect())
}

/// The version of each of the documents that is sound: a damaged document is replaced by sending its file again.
pub(super) async fn sound_versions(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    ids: &[&str],
) -> Result<Vec<Option<u64>>> {
    let rows: Vec<_> = ids.iter().map(|id| values![collection.0, id]).collect();
    let version = |_, row: &Row<'_>| match DocumentRow::read(row) {
        Err(Error::Damaged { .. }) => Ok(None),
        read => read.map(|read| Some(read.version)),
    };
    let found = tx.first_each(DocumentRow::BY_ID, &rows, version).await?;
    Ok(found.into_iter().map(Option::flatten).collect())
}

/// Row key and version of the document with this id.
pub(super) async fn key_and_version(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    id: &str,
) -> Result<Option<(i64, u64)>> {
    Ok(keys_and_versions(tx, collection, &[id]).await?.pop().flatten())
}

/// Row key and version of each of the documents.
pub(super) async fn keys_and_versions(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    ids: &[&str],
) -> Result<Vec<Option<(i64, u64)>>> {
    let columns = "SELECT key, version FROM documents WHERE collection_id = $1 AND id = $2";
    by_ids(tx, columns, collection, ids, |_, row| Ok((row.get(0)?, row.get(1)?))).await
}

/// Columns of each of the documents, which `decode` reads with its place in `ids`.
async fn by_ids<T: Send>(
    tx: &mut Tx<'_>,
    sql: &'static str,
    collection: CollectionId,
    ids: &[&str],
    decode: impl Fn(usize, &Row<'_>) -> Result<T, Undecodable> + Send + Sync,
) -> Result<Vec<Option<T>>> {
    let rows: Vec<_> = ids.iter().map(|id| values![collection.0, id]).collect();
    let read = |place: usize, row: &Row<'_>| {
        let name = || format!("{:?} of collection {collection}", ids[place]);
        decode(place, row).or_damaged("document", name)
    };
    tx.first_each(sql, &rows, read).await
}

/// A version of a document that is to be stored.
pub(super) struct Put<'a> {
    pub(super) content: &'a NewDocument,
    pub(super) content_hash: &'a [u8; 32],
    pub(super) version: u64,
}

/// Inserts documents or replaces them by new versions. The chunks of the old versions stay until the new ones are prepared.
pub(super) async fn put(tx: &mut Tx<'_>, collection: CollectionId, puts: &[Put<'_>]) -> Result<()> {
    let computed: Vec<(u32, Option<String>)> = puts
        .iter()
        .map(|Put { content, content_hash, version }| {
            let checksum = checksum_of(collection, content, *version, content_hash);
            (checksum, content.source.as_ref().map(files::to_json))
        })
        .collect();
    let rows = puts.iter().zip(&computed).map(|(put, (checksum, source))| {
        let NewDocument { id, title, text, metadata, pages, embedded_title, vector, .. } = put.content;
        values![
            collection.0,
            id,
            put.version,
            title,
            text,
            metadata,
            put.content_hash,
            checksum,
            pages,
            embedded_title,
            vector,
            source
        ]
    });
    tx.run_each(PUT, &rows.collect::<Vec<_>>()).await?;
    Ok(())
}

const PUT: &str =
    "INSERT INTO documents (collection_id, id, version, title, text, metadata, content_hash, checksum, pages,
         embedded_title, vector, source)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
     ON CONFLICT (collection_id, id) DO UPDATE SET
         version = excluded.version, title = excluded.title, text = excluded.text,
         metadata = excluded.metadata, content_hash = excluded.content_hash,
         checksum = excluded.checksum, pages = excluded.pages,
         embedded_title = excluded.embedded_title, vector = excluded.vector, source = excluded.source";

pub(crate) async fn delete(
    tx: &mut Tx<'_>,
    access: &Access,
    id: &str,
    damage: &Damage,
) -> Result<Option<DeletedDocument>> {
    tx.lock(Lock::Collection(access.collection)).await?;
    match key_and_version(tx, access.collection, id).await? {
        Some(stored) => delete_stored(tx, access, id, stored, damage).await,
        None => Ok(None),
    }
}

/// The same for each of the documents that is in this version.
pub(crate) async fn delete_versions(
    tx: &mut Tx<'_>,
    access: &Access,
    versions: &[(String, u64)],
    damage: &Damage,
) -> Result<Vec<Option<DeletedDocument>>> {
    tx.lock(Lock::Collection(access.collection)).await?;
    let mut deleted = Vec::with_capacity(versions.len());
    for (id, version) in versions {
        deleted.push(match key_and_version(tx, access.collection, id).await? {
            Some(stored) if stored.1 == *version => delete_stored(tx, access, id, stored, damage).await?,
            Some(_) | None => None,
        });
    }
    Ok(deleted)
}

async fn delete_stored(
    tx: &mut Tx<'_>,
    access: &Access,
    id: &str,
    (key, version): (i64, u64),
    damage: &Damage,
) -> Result<Option<DeletedDocument>> {
    let collection = access.collection;
    if is_hidden(tx, access, id).await? {
        return Ok(None);
    }
    let Some((generation, fingerprint_id)) = generations::current_id(tx, collection).await? else {
        return Ok(None);
    };
    let Some(operation) = collections::take_operation_number(tx, access).await? else {
        return Ok(None);
    };
    operations::prune_superseded(tx, collection, &[version]).await?;
    let operation_of =
        NewOperation { number: operation, kind: OperationKind::Delete, document_id: id, job: None };
    operations::insert(tx, collection, &[operation_of]).await?;
    let chunks = chunks::delete_of_document(tx, generation, fingerprint_id, key).await?;
    tx.run("DELETE FROM documents WHERE key = $1", &values![key]).await?;
    damage.forget(collection, id);
    Ok(Some(DeletedDocument { operation, chunks }))
}

/// Clears the content hash of a version, so that submitting the same content again counts as a change.
pub(super) async fn clear_content_hash(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    id: &str,
    version: u64,
) -> Result<()> {
    let found = match tx.first(DocumentRow::BY_ID, &values![collection.0, id], DocumentRow::read).await {
        // submitting it again replaces it
        Err(Error::Damaged { .. }) => return Ok(()),
        found => found?,
    };
    if let Some(found) = found.filter(|found| found.version == version) {
        let checksum = checksum_of(collection, &found.content, version, &NO_CONTENT);
        tx.run(
            "UPDATE documents SET content_hash = $2, checksum = $3, source = NULL WHERE key = $1",
            &values![found.key, NO_CONTENT, checksum],
        )
        .await?;
    }
    Ok(())
}

/// Stores the content of a document again, as a new version. `false` if the row is damaged or missing.
pub(super) async fn renew(tx: &mut Tx<'_>, collection: CollectionId, id: &str, version: u64) -> Result<bool> {
    let found = match tx.first(DocumentRow::BY_ID, &values![collection.0, id], DocumentRow::read).await {
        Err(Error::Damaged { .. }) => None,
        found => found?,
    };
    let Some(DocumentRow { content, .. }) = found else { return Ok(false) };
    let put_again = Put { content: &content, content_hash: &content.content_hash(), version };
    put(tx, collection, &[put_again]).await?;
    Ok(true)
}

/// A content hash that no document has.
const NO_CONTENT: [u8; 32] = [0; 32];
