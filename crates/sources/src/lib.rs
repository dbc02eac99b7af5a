//! Finds the files to ingest and reads documents from them: of each kind by its ending, with its encoding, title and fields.

#![forbid(unsafe_code)]

mod documents;
mod encoding;
mod front_matter;
mod headings;
mod input;
mod kinds;
mod markup;
mod notebook;
mod rows;
mod table;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use walkdir::WalkDir;
use weir_client::Rejection;

pub use documents::{Documents, FOLDER, PATH};
use kinds::{Kind, Reader, is_of_more_kinds, kind_of};
pub use kinds::{MoreKinds, accepted};

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    path: PathBuf,
    /// The prefix and the path relative to the given folder, with forward slashes: the document's id.
    id: String,
    /// The name of the given folder in which it was found; `None` for a file that was given itself.
    folder: Option<Arc<str>>,
    /// The prefix of the ids of its documents, also of ids in rows, lines and objects.
    prefix: Arc<str>,
    /// The id of its document where that is not `id`: the path that the file had when it was first sent.
    kept_id: Option<String>,
    /// Its size when it was found.
    bytes: u64,
    kind: Kind,
}

impl SourceFile {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The prefix and the path relative to the given folder.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Gives its document another id than that of its path.
    pub fn keep_id(&mut self, id: String) {
        self.kept_id = Some(id);
    }

    /// Whether the gateway extracts its text.
    pub fn is_uploaded(&self) -> bool {
        self.kind.reader == Reader::Upload
    }

    /// Whether it is one document with the id of the file, whatever its content.
    pub fn has_one_document(&self) -> bool {
        match self.kind.reader {
            Reader::Text(_) | Reader::Source | Reader::Notebook | Reader::Html | Reader::Upload => true,
            Reader::Json | Reader::JsonLines | Reader::Rows(_) => false,
        }
    }
}

/// The files under the given paths.
#[derive(Debug, Default)]
pub struct SourceFiles {
    /// The files to read: the paths in the given order, each folder sorted by name.
    pub files: Vec<SourceFile>,
    /// Paths that can't be read, and files whose id another file has.
    pub rejections: Vec<Rejection>,
    /// Files in the folders that are of other kinds.
    pub left_out: LeftOut,
    /// The ids of those among them that other gateways read: [`MoreKinds`].
    pub of_more_kinds: Vec<String>,
    prefix: Arc<str>,
    more: MoreKinds,
}

/// Files that are not ingested.
#[derive(Debug, Default)]
pub struct LeftOut {
    /// The number of files of other kinds, by kind: `.png`.
    pub files: BTreeMap<String, u64>,
    /// The number of files, lines and rows without text.
    pub empty: u64,
}

impl LeftOut {
    /// Whether nothing was left out.
    pub fn is_nothing(&self) -> bool {
        self.files.is_empty() && self.empty == 0
    }
}

/// The largest numbers first: `12 .png, 3 .psd, 1 empty`.
impl std::fmt::Display for LeftOut {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut kinds: Vec<(&str, u64)> =
            self.files.iter().map(|(kind, count)| (kind.as_str(), *count)).collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        kinds.extend((self.empty > 0).then_some(("empty", self.empty)));
        let kinds: Vec<String> =
            kinds.iter().map(|(kind, count)| format!("{count} {}", printable(kind))).collect();
        formatter.write_str(&kinds.join(", "))
    }
}

/// A kind without control characters, and without those that change the direction of text: it is the ending of a name of any file.
fn printable(kind: &str) -> String {
    let is_unsafe =
        |c: char| c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    kind.chars().filter(|c| !is_unsafe(*c)).collect()
}

/// The last part of a folder's absolute path; that of `/` is empty.
pub fn folder_name(folder: &Path) -> Arc<str> {
    let absolute = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
    absolute.file_name().map(|name| name.to_string_lossy()).unwrap_or_default().into()
}

impl SourceFiles {
    /// Finds files in `paths`, and in the folders among them at any depth. Hidden files and folders (their names begin
    /// with a dot) are left out, and links are not followed. All ids begin with `prefix`.
    pub fn find(paths: &[PathBuf], prefix: &str) -> SourceFiles {
        SourceFiles::find_with(paths, prefix, MoreKinds::default())
    }

    /// The same with further kinds.
    pub fn find_with(paths: &[PathBuf], prefix: &str, more: MoreKinds) -> SourceFiles {
        let mut sources = SourceFiles { prefix: prefix.into(), more, ..SourceFiles::default() };
        for path in paths {
            match std::fs::metadata(path) {
                Ok(about) if about.is_dir() => sources.add_folder(path),
                // a pipe is read to its end, as of `weir ingest <(command)`
                Ok(about) if about.is_file() || about.file_type().is_fifo() => {
                    sources.add_file(path, about.len());
                }
                Ok(_) => {
                    let message = "is a socket or a device; store its content in a file";
                    sources.reject(path.display().to_string(), message.to_owned());
                }
                Err(error) => sources.reject(path.display().to_string(), error.to_string()),
            }
        }
        sources.reject_duplicate_ids();
        sources
    }

    /// Whether no file is to be read and nothing was rejected.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.rejections.is_empty()
    }

    /// Whether files were given themselves, not with their folder.
    pub fn has_named_files(&self) -> bool {
        self.files.iter().any(|file| file.folder.is_none())
    }

    /// The size of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The ids of the files, by the names that they have in rejections.
    pub fn ids_by_name(&self) -> HashMap<String, String> {
        self.files.iter().map(|file| (file.path.display().to_string(), file.id.clone())).collect()
    }

    fn reject(&mut self, name: String, message: String) {
        self.rejections.push(Rejection { name, message });
    }

    fn add_file(&mut self, path: &Path, bytes: u64) {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let id = format!("{}{name}", self.prefix);
        match kind_of(path, self.more) {
            Ok(kind) => {
                let (path, prefix) = (path.to_owned(), self.prefix.clone());
                self.files.push(SourceFile { path, id, folder: None, prefix, kept_id: None, bytes, kind });
            }
            Err(kind) => {
                self.note_other_kind(path, id);
                let message = format!("is of a kind that is not read ({kind}); accepted are {}", accepted());
                self.reject(path.display().to_string(), message);
            }
        }
    }

    /// Takes note of a file that other gateways read, unless it is empty.
    fn note_other_kind(&mut self, path: &Path, id: String) {
        let is_empty = path.metadata().is_ok_and(|about| about.len() == 0);
        if !is_empty && is_of_more_kinds(path) {
            self.of_more_kinds.push(id);
        }
    }

    fn add_folder(&mut self, folder: &Path) {
        let name = folder_name(folder);
        let is_shown = |name: &std::ffi::OsStr| !name.to_string_lossy().starts_with('.');
        let entries = WalkDir::new(folder)
            .sort_by_file_name()
            .into_iter()
            .filter_entry(|entry| entry.depth() == 0 || is_shown(entry.file_name()));
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    let name = error.path().unwrap_or(folder).display().to_string();
                    self.reject(name, error.to_string());
                    continue;
                }
            };
            if !entry.file_type().is_file() {
                continue;
            }
            let relative = entry.path().strip_prefix(folder).unwrap_or(entry.path());
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            let id = format!("{}{}", self.prefix, parts.join("/"));
            let kind = match kind_of(entry.path(), self.more) {
                Ok(kind) => kind,
                Err(kind) => {
                    *self.left_out.files.entry(kind).or_default() += 1;
                    self.note_other_kind(entry.path(), id);
                    continue;
                }
            };
            let bytes = entry.metadata().map(|about| about.len()).unwrap_or_default();
            let folder = Some(name.clone());
            let (path, prefix) = (entry.path().to_owned(), self.prefix.clone());
            self.files.push(SourceFile { path, id, folder, prefix, kept_id: None, bytes, kind });
        }
    }

    /// Keeps the first file of each id: documents with equal ids would replace each other.
    fn reject_duplicate_ids(&mut self) {
        let mut ids = HashSet::new();
        let (kept, duplicates) =
            std::mem::take(&mut self.files).into_iter().partition::<Vec<SourceFile>, _>(|file| {
                file.kind.reader == Reader::JsonLines || ids.insert(file.id.clone())
            });
        self.files = kept;
        for file in duplicates {
            let message = format!(
                "another file has the id `{}`; give the folder above both, or each alone with a --prefix",
                file.id
            );
            self.reject(file.path.display().to_string(), message);
        }
    }
}
