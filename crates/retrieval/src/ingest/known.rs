//! Files that are stored already: the same bytes with the same settings are neither read nor embedded again.

use weir_api::{FileOptions, Limits, Metadata};
use weir_config::table::Extract;
use weir_store::{FileSource, KnownFile, NewDocument};

use super::upload::UploadedFile;
use crate::{CollectionView, Result};

/// The identity of a file.
pub(super) struct Identity<'a> {
    /// Of its bytes, in hexadecimal.
    pub(super) sha256: &'a str,
    pub(super) name: &'a str,
    pub(super) options: &'a FileOptions,
    /// Whether the file itself is stored too.
    pub(super) keeps: bool,
}

/// Identifies what a file is stored as: a hash of its bytes, its name, its settings, the limits on its text and the version of the reader.
pub(super) fn hash_of(file: &Identity<'_>, limits: &Limits, extract: &Extract) -> [u8; 32] {
    let Identity { options, keeps, .. } = file;
    let metadata = options.metadata.as_ref().map(Metadata::as_json);
    let determining = serde_json::json!([
        weir_documents::READER_VERSION,
        file.sha256,
        file.name,
        options.id,
        options.title,
        metadata,
        keeps,
        limits.document_text_bytes_max,
        extract.pages_max,
        extract.archives,
        extract.hidden_text,
        extract.comments,
    ]);
    weir_text::text_hash(&determining.to_string())
}

/// For each file its stored documents, if they are what the file would be stored as.
pub(super) async fn known_files(
    view: &CollectionView,
    files: &[UploadedFile],
    hashes: &[[u8; 32]],
    keeps: &[bool],
) -> Result<Vec<Option<KnownFile>>> {
    let ids = files.iter().map(UploadedFile::document_id);
    let mut known = view.store().known_files(ids.zip(hashes.iter().copied()).collect()).await?;
    for ((known, file), _) in known.iter_mut().zip(files).zip(keeps).filter(|(_, keeps)| **keeps) {
        // a file is recorded behind its document: after a crash between the two, it is received again
        if known.is_some() {
            let original = view.store().original(&file.document_id()).await?;
            known.take_if(|_| original.is_none_or(|original| original.sha256 != file.sha256));
        }
    }
    Ok(known)
}

/// Marks the documents of a file, the one of the file itself first, so that the file is recognised when it is sent again. The files of an archive
/// have no document that stands for all of them, and are read again.
pub(super) fn mark(documents: &mut [NewDocument], id: &str, hash: [u8; 32]) {
    let attachments: Vec<String> = documents.iter().skip(1).map(|document| document.id.clone()).collect();
    if documents.first().is_none_or(|first| first.id != id) {
        return;
    }
    for document in documents.iter_mut() {
        document.source = Some(FileSource { hash, attachments: Vec::new() });
    }
    if let Some(source) = documents.first_mut().and_then(|document| document.source.as_mut()) {
        source.attachments = attachments;
    }
}
