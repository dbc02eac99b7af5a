//! The files that documents were read from: a file that is sent again is recognised without reading it.

use super::{documents, unsearchable};
use crate::access::Access;
use crate::tx::{AsValue as _, Tx, values};
use crate::{CollectionId, FileSource, KnownFile, Result};

/// The column `source`.
pub(super) fn to_json(source: &FileSource) -> String {
    serde_json::to_string(source).unwrap_or_default()
}

/// The file of each id and hash that is stored already, with all of its documents; else `None`. All documents are read together.
pub(crate) async fn known(
    tx: &mut Tx<'_>,
    access: &Access,
    files: &[(String, [u8; 32])],
) -> Result<Vec<Option<KnownFile>>> {
    let ids: Vec<&str> = files.iter().map(|(id, _)| id.as_str()).collect();
    let found = sources(tx, access, &ids).await?.into_iter().zip(files);
    // the documents that each file stored, and would store again
    let stored: Vec<Option<Vec<String>>> = found
        .map(|(source, (id, hash))| {
            let source = source.filter(|source| source.hash == *hash)?;
            Some(std::iter::once(id.clone()).chain(source.attachments).collect())
        })
        .collect();
    let attachments = stored.iter().zip(files).flat_map(|(ids, (_, hash))| {
        ids.iter().flat_map(|ids| ids.iter().skip(1)).map(move |id| (id.as_str(), hash))
    });
    let (ids, hashes): (Vec<&str>, Vec<&[u8; 32]>) = attachments.unzip();
    let are_of_file = sources(tx, access, &ids).await?.into_iter().zip(hashes);
    let mut are_of_file = are_of_file.map(|(source, hash)| source.is_some_and(|source| source.hash == *hash));
    let ids: Vec<&str> = stored.iter().flatten().flatten().map(String::as_str).collect();
    let mut versions = searchable_versions(tx, access.collection, &ids).await?.into_iter();
    let known = stored.into_iter().map(|ids| {
        let ids = ids?;
        let versions: Vec<Option<u64>> = versions.by_ref().take(ids.len()).collect();
        let are_of_file: Vec<bool> = are_of_file.by_ref().take(ids.len() - 1).collect();
        let versions: Vec<u64> = versions.into_iter().collect::<Option<_>>()?;
        let version = *versions.first()?;
        are_of_file.iter().all(|is_of_file| *is_of_file).then_some(KnownFile { ids, version })
    });
    Ok(known.collect())
}

/// The files of documents that are visible. One that cannot be read is none.
async fn sources(tx: &mut Tx<'_>, access: &Access, ids: &[&str]) -> Result<Vec<Option<FileSource>>> {
    let texts = documents::visible_sources(tx, access, ids).await?;
    Ok(texts.into_iter().map(|text| serde_json::from_str(&text?).ok()).collect())
}

/// The versions of documents that are sound and are not kept out of the index: sending the file of another one again is another attempt to
/// make it searchable.
async fn searchable_versions(
    tx: &mut Tx<'_>,
    collection: CollectionId,
    ids: &[&str],
) -> Result<Vec<Option<u64>>> {
    let versions = documents::sound_versions(tx, collection, ids).await?;
    let found: Vec<u64> = versions.iter().flatten().copied().collect();
    let mut unsearchable = unsearchable::contains(tx, collection, &found).await?.into_iter();
    let mut is_searchable = |_: &u64| unsearchable.next() == Some(false);
    Ok(versions.into_iter().map(|version| version.filter(&mut is_searchable)).collect())
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
