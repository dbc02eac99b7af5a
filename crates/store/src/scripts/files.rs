//! The files that documents were read from: a file that is sent again is recognised without reading it.

use super::{documents, unsearchable};
use crate::access::Access;
use crate::tx::{AsValue as _, Tx, values};
use crate::{CollectionId, FileSource, KnownFile, Result};

/// The column `source`.
pub(super) fn to_json(source: &FileSource) -> String {
    serde_json::to_string(source).unwrap_or_default()
}

/// The file of each id and hash that is stored already, with all of its documents; else `None`.
pub(crate) async fn known(
    tx: &mut Tx<'_>,
    access: &Access,
    files: &[(String, [u8; 32])],
) -> Result<Vec<Option<KnownFile>>> {
    let mut known = Vec::with_capacity(files.len());
    for (id, hash) in files {
        known.push(known_file(tx, access, id, hash).await?);
    }
    Ok(known)
}

async fn known_file(
    tx: &mut Tx<'_>,
    access: &Access,
    id: &str,
    hash: &[u8; 32],
) -> Result<Option<KnownFile>> {
    let Some((version, source)) = source_of(tx, access, id).await?.filter(|found| found.1.hash == *hash)
    else {
        return Ok(None);
    };
    for attachment in &source.attachments {
        if source_of(tx, access, attachment).await?.is_none_or(|found| found.1.hash != *hash) {
            return Ok(None);
        }
    }
    let mut ids = vec![id.to_owned()];
    ids.extend(source.attachments);
    Ok(Some(KnownFile { ids, version }))
}

async fn source_of(tx: &mut Tx<'_>, access: &Access, id: &str) -> Result<Option<(u64, FileSource)>> {
    let found = documents::version_and_source(tx, access, id).await?;
    let Some((version, source)) = found else { return Ok(None) };
    // sending the file again is another attempt to make it searchable
    if unsearchable::contains(tx, access.collection, &[version]).await? == [true] {
        return Ok(None);
    }
    // a source that cannot be read is none
    Ok(serde_json::from_str(&source).ok().map(|source| (version, source)))
}

/// Records the files of documents whose content stays as it is.
pub(super) async fn record(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    sources: &[(&str, &FileSource)],
) -> Result<()> {
    let texts: Vec<String> = sources.iter().map(|(_, source)| to_json(source)).collect();
    let rows: Vec<_> =
        sources.iter().zip(&texts).map(|((id, _), text)| values![collection.0, id, text]).collect();
    tx.run_each("UPDATE documents SET source = $3 WHERE collection_id = $1 AND id = $2", &rows).await?;
    Ok(())
}
