//! Makes documents of files.

use std::io::Cursor;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::future::Either;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};
use weir_api::{Document, ErrorCode, FileOptions, Invalid, Limits, Metadata};
use weir_documents::{Attachment, Extracted, Lost, Page};
use weir_policy::Caller;
use weir_store::{KnownFile, NewDocument, Original, UnreadFile};
use weir_text::PageMap;

use super::accept::{
    CheckedDocuments, FileOfDocument, IngestOutcome, IngestTerms, Rejected, all_rejected, new_document,
};
use super::known::{self, Identity};
use super::receive::Examined;
use super::unread::FileDetails;
use crate::jobs::code_of;
use crate::{Result, Retrieval};
use weir_extraction::{
    Content, FileText, Section, base_name, describe_losses, format_label, media_type_of, merged_metadata,
    title_of,
};

/// Files of one request whose text is extracted or awaited at one time.
pub(super) const FILES_AT_ONCE: usize = 8;

/// Files within files: messages in messages, archives in archives.
const ATTACHMENT_DEPTH_MAX: usize = 3;
/// Documents of one file.
const ATTACHMENTS_MAX: usize = 1_000;
/// Most bytes of the files within one file that wait to be read.
const WAITING_BYTES_MAX: usize = 256 << 20;

/// Most text of a file and its attachments, in texts of `limits.document_text_bytes_max`.
const FILE_TEXTS_MAX: usize = 4;

/// A file that was received.
#[derive(Debug)]
pub struct UploadedFile {
    /// Its bytes.
    pub content: Section,
    /// Their SHA-256, in hexadecimal.
    pub sha256: String,
    /// Its name, which can be a path.
    pub name: String,
    /// The id, title and metadata of its document.
    pub options: FileOptions,
}

impl UploadedFile {
    /// The id of its document.
    pub(super) fn document_id(&self) -> String {
        self.options.id.clone().unwrap_or_else(|| base_name(&self.name).to_owned())
    }
}

/// The outcome of a file.
pub(super) enum FileOutcome {
    /// Its documents are stored already.
    Known(KnownFile),
    /// It was read: its documents, and what could not be read.
    Read(Documents),
}

impl FileOutcome {
    /// A file that can't be read.
    pub(super) fn failed(file: &UnreadFile, reason: Invalid) -> FileOutcome {
        let mut documents = Documents::none(file.document_id.clone());
        documents.rejected.push((file.document_id.clone(), reason));
        FileOutcome::Read(documents)
    }

    /// Whether nothing of the file can be stored.
    pub(super) fn is_failed(&self) -> bool {
        match self {
            FileOutcome::Known(_) => false,
            FileOutcome::Read(read) => read.documents.is_empty() && !read.rejected.is_empty(),
        }
    }
}

/// Files that were read.
pub(super) struct Gathered {
    pub(super) checked: CheckedDocuments,
    /// The version of the last file that is stored already.
    version: Option<u64>,
    bytes: usize,
    bytes_max: usize,
}

/// A file whose text is to be extracted.
pub(super) struct Pending {
    content: Box<dyn Content>,
    name: String,
    options: FileOptions,
    /// The description of the file in its metadata.
    about: Map<String, Value>,
    /// The number of files around it.
    depth: usize,
    /// Its bytes, if they are in memory.
    waiting_bytes: usize,
    bytes: u64,
    /// In hexadecimal.
    sha256: String,
    /// Whether it was attached to a message: kinds that are not read are no errors then.
    is_attachment: bool,
}

/// The documents of a file and of those within it.
pub(super) struct Documents {
    /// The id of the file's own document.
    id: String,
    documents: Vec<NewDocument>,
    rejected: Rejected,
    files: Vec<FileOfDocument>,
    /// Whether no part of it was lost.
    is_whole: bool,
}

/// A file that was read.
struct ReadFile {
    /// Its document and its file; `None` of an archive.
    document: Option<(NewDocument, FileOfDocument)>,
    /// The files within it.
    inner: Vec<Pending>,
    /// The files within it that can't be read.
    rejected: Rejected,
    /// Whether no part of it was lost.
    is_whole: bool,
}

impl Retrieval {
    /// Extracts the text of a file and stores it as one document, if that meets the condition.
    ///
    /// # Errors
    /// `precondition_failed`; as [`Retrieval::upload`].
    pub async fn put_file(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        file: UploadedFile,
        terms: IngestTerms,
    ) -> Result<IngestOutcome> {
        terms.webhook(&self.config.webhooks)?;
        let precondition = terms.precondition(&file.document_id());
        let examined = self.examine(caller, collection, vec![file]).await?;
        let Gathered { checked, version, .. } = self.read_files(examined).await?;
        let view = self.view_for(caller, collection, precondition.as_ref()).await?;
        let outcome = self.submit(view, CheckedDocuments { precondition, terms, ..checked }).await?;
        Ok(outcome.with_version(version))
    }

    /// The documents of files that are not stored already.
    pub(super) async fn read_files(&self, examined: Vec<Examined>) -> Result<Gathered> {
        let limits = self.config.request_limits();
        let read: Vec<_> = examined
            .into_iter()
            .map(|Examined { file, keeps, hash, stored }| match stored {
                Some(stored) => {
                    self.known(&file.name, &stored);
                    Either::Left(std::future::ready(FileOutcome::Known(stored)))
                }
                None => Either::Right(self.documents_of_new(Pending::of(file), keeps, hash, &limits)),
            })
            .collect();
        let mut read = futures_util::stream::iter(read).buffered(FILES_AT_ONCE);
        let mut gathered = Gathered::new(self.config.limits.ingest_body_bytes_max);
        while let Some(outcome) = read.next().await {
            gathered.add(outcome);
        }
        if gathered.checked.documents.is_empty() && gathered.checked.unchanged == 0 {
            return Err(all_rejected(gathered.checked.rejected));
        }
        Ok(gathered)
    }

    /// The identity of a file that was received before, with the present settings.
    pub(super) fn hash_of_file(&self, file: &FileDetails, limits: &Limits) -> [u8; 32] {
        let FileDetails { name, options, sha256, keeps, .. } = file;
        known::hash_of(&Identity { sha256, name, options, keeps: *keeps }, limits, &self.config.extract)
    }

    /// The documents of a file that was read, or their absence.
    pub(super) async fn documents_of_new(
        &self,
        file: Pending,
        keeps: bool,
        hash: [u8; 32],
        limits: &Limits,
    ) -> FileOutcome {
        let mut read = self.documents_of(file, keeps, limits).await;
        // what could not be read is tried again, and named again
        if read.rejected.is_empty() && read.is_whole {
            known::mark(&mut read.documents, &read.id, hash);
        }
        FileOutcome::Read(read)
    }

    /// Counts a file whose documents are stored; returns their number.
    pub(super) fn known(&self, name: &str, stored: &KnownFile) -> u64 {
        self.metrics.file_unchanged(format_label(name));
        stored.ids.len() as u64
    }

    /// The document of a file and those of the files within it.
    async fn documents_of(&self, first: Pending, keeps: bool, limits: &Limits) -> Documents {
        let mut found = Documents::none(first.document_id());
        let mut pending = vec![first];
        let bytes_max = limits.document_text_bytes_max.saturating_mul(FILE_TEXTS_MAX);
        let mut bytes = 0;
        while let Some(next) = pending.pop() {
            let id = next.document_id();
            if bytes > bytes_max {
                let setting = "limits.document_text_bytes_max";
                found.rejected.push((id, too_much_text("the file and its attachments", bytes_max, setting)));
                break;
            }
            let is_attachment = next.is_attachment;
            match self.read_file(next, keeps, limits).await {
                Ok(ReadFile { document, inner, rejected: of_file, is_whole }) => {
                    found.is_whole &= is_whole;
                    found.rejected.extend(of_file);
                    let waiting = pending.iter().map(|file| file.waiting_bytes).sum();
                    let (taken, over) = within_limits(inner, found.documents.len() + pending.len(), waiting);
                    pending.extend(taken);
                    found.rejected.extend(over);
                    if let Some((document, file)) = document {
                        bytes += document.text.len();
                        found.documents.push(document);
                        found.files.push(file);
                    }
                }
                // pictures in a message are no errors of the message
                Err(invalid) if is_attachment && invalid.code == ErrorCode::UnsupportedFormat => {}
                Err(invalid) => found.rejected.push((id, invalid)),
            }
        }
        found
    }

    /// The document of a file, and the files within it.
    async fn read_file(&self, file: Pending, keeps: bool, limits: &Limits) -> Result<ReadFile, Invalid> {
        let id = file.document_id();
        let Pending { content, name, options, depth, is_attachment, bytes, sha256, mut about, .. } = file;
        // pictures in messages are mostly marks of their senders
        let read = self.extraction.extract(&name, content, !is_attachment).await?;
        let FileText { mut extracted, recognised_by, content } = read;
        let inner = std::mem::take(&mut extracted.attachments);
        if extracted.is_archive {
            self.metrics.archive_unpacked(inner.len() as u64, extracted.lost.len() as u64);
            return unpacked(inner, extracted.lost, &id, options.metadata.as_ref(), depth);
        }
        about.insert("sha256".to_owned(), sha256.clone().into());
        if let Some(server) = recognised_by {
            about.insert("recognised_by".to_owned(), server.into());
        }
        describe_losses(&mut about, &extracted);
        let is_whole = extracted.lost.is_empty();
        let inner = match depth < ATTACHMENT_DEPTH_MAX {
            true => inner
                .into_iter()
                .map(|one| within(one, &id, options.metadata.as_ref(), depth, true))
                .collect(),
            false => Vec::new(),
        };
        let mut file = FileOfDocument { id: id.clone(), sha256, kept: None };
        if keeps {
            let media_type = media_type_of(&name).to_owned();
            let original = Original { sha256: file.sha256.clone(), media_type, name: name.clone(), bytes };
            file.kept = Some(self.originals.keep(content, original).await?);
            about.insert("original".to_owned(), true.into());
        }
        let Extracted { text, title, metadata: facts, pages, .. } = extracted;
        let document = Document {
            id: Some(id).filter(|id| !id.is_empty()),
            title: options.title.or_else(|| title_of(title, &name, limits)),
            text,
            metadata: Some(merged_metadata(options.metadata.as_ref(), facts, about)?),
            ..Document::default()
        };
        document.check(limits)?;
        let pages = page_map(pages).and_then(|pages| serde_json::to_string(&pages).ok());
        let document = Some((NewDocument { pages, ..new_document(document) }, file));
        Ok(ReadFile { document, inner, rejected: Vec::new(), is_whole })
    }
}

impl Pending {
    /// A file that was received.
    fn of(file: UploadedFile) -> Pending {
        let UploadedFile { content, sha256, name, options } = file;
        let bytes = content.bytes();
        Pending::outermost(Box::new(content), &name, options, bytes, sha256)
    }

    /// A file that was received before.
    pub(super) fn stored(content: Box<dyn Content>, file: &FileDetails) -> Pending {
        let FileDetails { name, options, sha256, bytes, .. } = file;
        Pending::outermost(content, name, options.clone(), *bytes, sha256.clone())
    }

    fn outermost(
        content: Box<dyn Content>,
        name: &str,
        options: FileOptions,
        bytes: u64,
        sha256: String,
    ) -> Pending {
        let name = base_name(name).to_owned();
        let about = Map::from_iter([
            ("name".to_owned(), name.clone().into()),
            ("bytes".to_owned(), bytes.into()),
            ("reader".to_owned(), weir_documents::READER_VERSION.into()),
        ]);
        Pending {
            content,
            name,
            options,
            about,
            depth: 0,
            waiting_bytes: 0,
            bytes,
            sha256,
            is_attachment: false,
        }
    }

    /// The id of its document.
    fn document_id(&self) -> String {
        self.options.id.clone().unwrap_or_else(|| self.name.clone())
    }
}

impl Documents {
    fn none(id: String) -> Documents {
        Documents { id, documents: Vec::new(), rejected: Vec::new(), files: Vec::new(), is_whole: true }
    }
}

impl Gathered {
    /// None yet; of all files together at most `bytes_max` of text are taken.
    pub(super) fn new(bytes_max: usize) -> Gathered {
        Gathered { checked: CheckedDocuments::default(), version: None, bytes: 0, bytes_max }
    }

    /// Adds a file. Of documents with one id the last one counts.
    pub(super) fn add(&mut self, outcome: FileOutcome) {
        let checked = &mut self.checked;
        let read = match outcome {
            FileOutcome::Read(read) => read,
            FileOutcome::Known(file) => {
                checked.documents.retain(|document| !file.ids.contains(&document.id));
                checked.files.retain(|other| !file.ids.contains(&other.id));
                checked.unchanged += file.ids.len() as u64;
                self.version = Some(file.version);
                return;
            }
        };
        checked.rejected.extend(read.rejected);
        checked.files.extend(read.files);
        for document in read.documents {
            self.bytes += document.text.len();
            if self.bytes > self.bytes_max {
                let setting = "limits.ingest_body_bytes_max";
                let reason = too_much_text("the files of the request", self.bytes_max, setting);
                checked.rejected.push((document.id, reason));
            } else {
                checked.documents.push(document);
            }
        }
    }
}

/// The files of an archive. One that can't be unpacked is named, and so is all of an archive in too many others.
fn unpacked(
    members: Vec<Attachment>,
    lost: Vec<Lost>,
    id: &str,
    metadata: Option<&Metadata>,
    depth: usize,
) -> Result<ReadFile, Invalid> {
    if depth >= ATTACHMENT_DEPTH_MAX {
        let message = format!("archives within more than {ATTACHMENT_DEPTH_MAX} others are not unpacked");
        return Err(Invalid::whole(ErrorCode::FileLimit, message));
    }
    let inner = members.into_iter().map(|member| within(member, id, metadata, depth, false)).collect();
    let rejected = lost
        .into_iter()
        .map(|lost| (format!("{id}/{}", lost.part), Invalid::whole(code_of(&lost.code), lost.message)))
        .collect();
    Ok(ReadFile { document: None, inner, rejected, is_whole: true })
}

/// Divides the files within a file into those that are read and those over a limit. `count` and `bytes` are those that are there already.
fn within_limits(inner: Vec<Pending>, count: usize, mut bytes: usize) -> (Vec<Pending>, Rejected) {
    let (mut taken, mut rejected) = (Vec::new(), Vec::new());
    for file in inner {
        bytes += file.waiting_bytes;
        let is_over = count + taken.len() >= ATTACHMENTS_MAX || bytes > WAITING_BYTES_MAX;
        match is_over {
            false => taken.push(file),
            true if file.is_attachment => {}
            true => {
                let message = format!(
                    "a file has at most {ATTACHMENTS_MAX} files within it, of {WAITING_BYTES_MAX} bytes in all: divide it"
                );
                let name = file.options.id.unwrap_or(file.name);
                rejected.push((name, Invalid::whole(ErrorCode::FileLimit, message)));
            }
        }
    }
    (taken, rejected)
}

fn too_much_text(what: &str, bytes_max: usize, setting: &str) -> Invalid {
    let message =
        format!("{what} have more than {bytes_max} bytes of text; the limit follows from `{setting}`");
    Invalid::whole(ErrorCode::FileLimit, message)
}

/// A file within another one: its document has the metadata that was sent for the outer file, and names that as its parent.
fn within(
    file: Attachment,
    parent: &str,
    metadata: Option<&Metadata>,
    depth: usize,
    is_attachment: bool,
) -> Pending {
    let Attachment { name, bytes } = file;
    let id = Some(format!("{parent}/{name}"));
    let base = base_name(&name).to_owned();
    let about = Map::from_iter([
        ("name".to_owned(), base.clone().into()),
        ("bytes".to_owned(), bytes.len().into()),
        ("parent".to_owned(), parent.into()),
    ]);
    let options = FileOptions { id, metadata: metadata.cloned(), ..FileOptions::default() };
    let sha256 = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    Pending {
        waiting_bytes: bytes.len(),
        bytes: bytes.len() as u64,
        content: Box::new(Cursor::new(bytes)),
        name: base,
        options,
        about,
        depth: depth + 1,
        sha256,
        is_attachment,
    }
}

/// The pages of a file.
pub(crate) fn page_map(pages: Vec<Page>) -> Option<PageMap> {
    PageMap::new(pages.into_iter().map(|page| (page.end as u64, page.label, page.approximate)))
}
