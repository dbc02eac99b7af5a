//! Which folders were sent to which collections from here: a folder must not replace the documents of another of its name without a word.
//!
//! The gateway compares the names of folders (`replace_if_equal`), so that a folder can be moved and sent from several machines. Two folders of
//! one name are distinguished by their paths, of which a file of the user keeps a record. Where it has none, because another machine or user has
//! sent the documents, some of them are compared with the folder.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use weir_api::{DocumentReply, ErrorCode, RawJson};
use weir_client::{Client, ClientError, DocumentsQuery, StepResult};
use weir_config::Environment;

use super::failure::{Failure, Result};
use super::terminal::one_line;
use weir_sources::{Documents, FOLDER, SourceFiles, folder_name};

/// Records that are kept: the newest.
const RECORDS_MAX: usize = 1_000;
/// Documents of a folder that are compared with the stored ones where there is no record.
const COMPARED_MAX: usize = 50;

/// Where documents go.
#[derive(Clone, Copy)]
pub(super) struct Destination<'a> {
    pub(super) client: &'a Client,
    /// The URL of the gateway.
    pub(super) url: &'a str,
    pub(super) collection: &'a str,
    /// The prefix of the ids of the documents.
    pub(super) prefix: &'a str,
    /// Whether documents that a folder does not have are deleted.
    pub(super) deletes: bool,
}

/// Which folders were sent to one destination under one name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    url: String,
    collection: String,
    prefix: String,
    folder: String,
    /// Absolute paths: several where one command named several folders of this name.
    paths: Vec<PathBuf>,
}

impl Record {
    fn is_of(&self, to: &Destination<'_>, folder: &str) -> bool {
        self.url == to.url
            && self.collection == to.collection
            && self.prefix == to.prefix
            && self.folder == folder
    }
}

/// The records of a user.
pub(super) struct KnownFolders {
    /// `None` where the environment names no place for it.
    file: Option<PathBuf>,
}

impl KnownFolders {
    /// The file `weir/folders.json` in `XDG_STATE_HOME`, or in `.local/state` of `HOME`.
    pub(super) fn of(environment: &Environment) -> KnownFolders {
        let state = environment.get("XDG_STATE_HOME").map(PathBuf::from);
        let state = state.or_else(|| Some(Path::new(environment.get("HOME")?).join(".local/state")));
        KnownFolders { file: state.map(|state| state.join("weir/folders.json")) }
    }

    /// Refuses the folders among `paths` that have the name of another one whose documents are stored, unless `replace`. Refuses none
    /// where the environment names no place for records: files sent from here could not be distinguished from others.
    ///
    /// # Errors
    /// When a folder is refused, and when the gateway can't be asked.
    pub(super) async fn check(
        &self,
        to: &Destination<'_>,
        paths: &[PathBuf],
        replace: bool,
    ) -> Result<(), Failure> {
        if replace || self.file.is_none() {
            return Ok(());
        }
        let records = self.read();
        for path in paths.iter().filter(|path| path.is_dir()) {
            let name = folder_name(path);
            let known: &[PathBuf] =
                records.iter().find(|record| record.is_of(to, &name)).map_or(&[], |record| &record.paths);
            if known.contains(&absolute(path)) {
                continue;
            }
            let other = known.iter().find(|other| other.is_dir());
            // the folder that was sent is gone: this one is it, moved
            let is_moved = other.is_none() && !known.is_empty();
            if is_moved || !has_documents(to, &name, &self.longer_prefixes(to, path)).await? {
                continue;
            }
            match other {
                Some(other) => return Err(other_folder(to, path, format!("they are of {}", shown(other)))),
                None => check_by_documents(to, path, &name).await?,
            }
        }
        Ok(())
    }

    /// The longer prefixes with which folders of that name were sent to the destination's collection.
    pub(super) fn longer_prefixes(&self, to: &Destination<'_>, folder: &Path) -> Vec<String> {
        let name = folder_name(folder);
        let is_below = |record: &Record| {
            let to = Destination { prefix: &record.prefix, ..*to };
            record.is_of(&to, &name)
        };
        let prefixes = self.read().into_iter().filter(is_below).map(|record| record.prefix);
        prefixes.filter(|prefix| prefix.len() > to.prefix.len() && prefix.starts_with(to.prefix)).collect()
    }

    /// Records that the folders among `paths` are sent; with `replace`, instead of others.
    pub(super) fn record(&self, to: &Destination<'_>, paths: &[PathBuf], replace: bool) {
        let folders: Vec<&PathBuf> = paths.iter().filter(|path| path.is_dir()).collect();
        let Some(file) = self.file.as_ref().filter(|_| !folders.is_empty()) else { return };
        if let Err(error) = record(file, to, &folders, replace) {
            eprintln!(
                "note: {} can't be written: {error}; a folder of the same name elsewhere will be recognised by its documents alone",
                shown(file)
            );
        }
    }

    fn read(&self) -> Vec<Record> {
        let file = self.file.as_ref().and_then(|file| std::fs::read(file).ok());
        file.map(|bytes| records_of(&bytes)).unwrap_or_default()
    }
}

/// A damaged file has no records.
fn records_of(bytes: &[u8]) -> Vec<Record> {
    serde_json::from_slice(bytes).unwrap_or_default()
}

fn record(
    file: &Path,
    to: &Destination<'_>,
    folders: &[&PathBuf],
    replace: bool,
) -> Result<(), std::io::Error> {
    let mut file = open(file)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let before = records_of(&bytes);
    let mut records = before.clone();
    for folder in folders {
        let name = folder_name(folder);
        let old = records.iter().position(|record| record.is_of(to, &name)).map(|at| records.remove(at));
        let mut paths = old.map(|record| record.paths).unwrap_or_default();
        let path = absolute(folder);
        let is_sent_now = |other: &PathBuf| folders.iter().any(|folder| absolute(folder) == *other);
        paths.retain(|other| *other != path && other.is_dir() && (!replace || is_sent_now(other)));
        paths.push(path);
        let (url, collection, prefix) = (to.url.to_owned(), to.collection.to_owned(), to.prefix.to_owned());
        records.push(Record { url, collection, prefix, folder: name.to_string(), paths });
    }
    records.drain(..records.len().saturating_sub(RECORDS_MAX));
    if records == before {
        return Ok(());
    }
    file.rewind()?;
    file.set_len(0)?;
    file.write_all(&serde_json::to_vec_pretty(&records)?)
}

/// Opens the file for one process at a time, and makes it where it is missing.
fn open(path: &Path) -> Result<File, std::io::Error> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600); // paths are nobody else's business
    let file = options.open(path)?;
    file.lock()?;
    Ok(file)
}

/// Whether the collection has documents of a folder of that name, with the prefix and without the `others`.
async fn has_documents(to: &Destination<'_>, name: &str, others: &[String]) -> Result<bool, ClientError> {
    // paths that begin with a prefix, by code point
    let begins = |prefix: &str| json!({"path": {"gte": prefix, "lt": format!("{prefix}{}", char::MAX)}});
    let mut conditions = vec![json!({ FOLDER: name })];
    conditions.extend((!to.prefix.is_empty()).then(|| begins(to.prefix)));
    conditions.extend(others.iter().map(|prefix| json!({"not": begins(prefix)})));
    let filter = json!({"and": conditions});
    let filter = RawJson::from_text(filter.to_string()).ok();
    let query = DocumentsQuery { filter, limit: Some(1), ..DocumentsQuery::default() };
    match to.client.documents_page(to.collection, &query, None).await {
        // no document has the field of a folder or of a path
        Err(ClientError::Refused {
            code: ErrorCode::CollectionNotFound | ErrorCode::UnknownField, ..
        }) => Ok(false),
        page => Ok(!page?.data.is_empty()),
    }
}

/// Compares documents of the folder with the stored ones: two folders of one name have few in common.
async fn check_by_documents(to: &Destination<'_>, path: &Path, name: &str) -> Result<(), Failure> {
    let sources = SourceFiles::find(&[path.to_owned()], to.prefix);
    let compared = Documents::of(sources.files).filter_map(|step| Compared::of(step.result));
    let (mut both, mut differ) = (0, 0);
    for one in compared.take(COMPARED_MAX) {
        let stored = match to.client.document(to.collection, &one.id).await {
            Err(ClientError::Refused { code: ErrorCode::DocumentNotFound, .. }) => continue,
            stored => stored?,
        };
        let fields = stored.metadata.to_map().unwrap_or_default();
        if fields.get(FOLDER).and_then(|folder| folder.as_str()) == Some(name) {
            both += 1;
            differ += usize::from(!one.content.is_of(&stored, &fields));
        }
    }
    if to.deletes && both == 0 {
        return Err(other_folder(
            to,
            path,
            "they were not sent from here, and both have no document in common".to_owned(),
        ));
    }
    if 2 * differ > both {
        let what = format!("they were not sent from here, and {differ} of the {both} compared differ");
        return Err(other_folder(to, path, what));
    }
    eprintln!(
        "note: `{}` has documents of a folder `{}` that were not sent from here; they are taken for older ones of this folder",
        to.collection,
        one_line(name)
    );
    Ok(())
}

/// The compared part of a folder's file under an id.
struct Compared {
    id: String,
    content: FolderContent,
}

enum FolderContent {
    Text(String),
    /// The SHA-256 of a file whose text the gateway extracts.
    Sha256(String),
}

impl Compared {
    /// `None` for what is not sent, and for a file that cannot be read.
    fn of(result: StepResult) -> Option<Compared> {
        match result {
            StepResult::Document(document) => {
                Some(Compared { id: document.id?, content: FolderContent::Text(document.text) })
            }
            StepResult::File(file) => {
                let content = FolderContent::Sha256(sha256_of(&file.path).ok()?);
                Some(Compared { id: file.options.id?, content })
            }
            StepResult::Rejected(_) | StepResult::Empty | StepResult::Note(_) => None,
        }
    }
}

impl FolderContent {
    /// Whether a stored document has this content. Titles and other metadata of equal files change with the versions of this program.
    fn is_of(&self, stored: &DocumentReply, metadata: &Map<String, Value>) -> bool {
        match self {
            FolderContent::Text(text) => *text == stored.text,
            FolderContent::Sha256(hash) => {
                metadata.get("file").and_then(|file| file["sha256"].as_str()) == Some(hash)
            }
        }
    }
}

/// The SHA-256 of a file, as the gateway has it in `file.sha256`.
fn sha256_of(path: &Path) -> Result<String, std::io::Error> {
    let (mut file, mut hash) = (File::open(path)?, Sha256::new());
    let mut part = vec![0; 1 << 16];
    loop {
        match file.read(&mut part)? {
            0 => return Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            bytes => hash.update(&part[..bytes]),
        }
    }
}

fn other_folder(to: &Destination<'_>, path: &Path, what: String) -> Failure {
    Failure::OtherFolder {
        collection: to.collection.to_owned(),
        folder: one_line(&folder_name(path)),
        what,
        path: shown(&absolute(path)),
    }
}

fn absolute(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

fn shown(path: &Path) -> String {
    one_line(&path.display().to_string())
}
