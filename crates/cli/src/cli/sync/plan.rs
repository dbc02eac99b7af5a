//! The difference between a folder and its collection.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Read as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use weir_api::{Document, DocumentReply, ErrorCode, Metadata};
use weir_client::{Client, ClientError, ReadStep, Rejection, SourceFile, StepResult};

use weir_sources::{FOLDER, PATH, SourceFiles};

/// Documents that are listed in one call.
const PAGE: usize = 1_000;

/// A document of the collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Stored {
    /// The [`PATH`] of its metadata: the file that it was made from.
    pub(in crate::cli) path: Option<String>,
    /// The [`FOLDER`] of its metadata: the folder that the file was in.
    pub(in crate::cli) folder: Option<String>,
    /// Its content without its name.
    pub(super) content: ContentId,
    /// Over title, text and metadata.
    hash: u64,
}

/// The content by which a renamed file is recognised.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::cli) enum ContentId {
    /// The SHA-256 of a file whose text the gateway extracts.
    File(String),
    /// A hash of the text.
    Text(u64),
}

impl ContentId {
    /// Of a text.
    pub(super) fn of_text(text: &str) -> ContentId {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        ContentId::Text(hasher.finish())
    }

    /// Of a file, if it can be read.
    pub(super) fn of_file(path: &Path) -> Option<ContentId> {
        let mut hash = Sha256::new();
        let mut file = std::fs::File::open(path).ok()?;
        let mut part = vec![0; 64 << 10];
        loop {
            match file.read(&mut part).ok()? {
                0 => break,
                bytes => hash.update(&part[..bytes]),
            }
        }
        Some(ContentId::File(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()))
    }
}

/// The documents of a collection whose ids begin with `prefix`, by id; none where there is no collection yet.
pub(in crate::cli) async fn list(
    client: &Client,
    collection: &str,
    prefix: &str,
) -> Result<BTreeMap<String, Stored>, ClientError> {
    let mut stored = BTreeMap::new();
    let mut after = prefix.to_owned();
    loop {
        let page = match client.documents_after(collection, PAGE, &after).await {
            Err(ClientError::Refused { code: ErrorCode::CollectionNotFound, .. }) => return Ok(stored),
            page => page?,
        };
        let last = page.data.last().map(|document| document.id.clone());
        stored.extend(page.data.into_iter().filter(|document| document.id.starts_with(prefix)).map(entry_of));
        match last {
            // ids are in byte order, so that those with the prefix are together
            Some(last) if page.next_cursor.is_some() && last.starts_with(prefix) => after = last,
            Some(_) | None => return Ok(stored),
        }
    }
}

fn entry_of(document: DocumentReply) -> (String, Stored) {
    let stored = stored_of(document.title.as_deref(), &document.text, &document.metadata);
    (document.id, stored)
}

fn stored_of(title: Option<&str>, text: &str, metadata: &Metadata) -> Stored {
    let mut fields = metadata.to_map().unwrap_or_default();
    let sha256 = fields.get("file").and_then(|file| Some(file.get("sha256")?.as_str()?.to_owned()));
    let content = sha256.map_or_else(|| ContentId::of_text(text), ContentId::File);
    let mut field = |name: &str| fields.remove(name).and_then(|value| value.as_str().map(str::to_owned));
    Stored { path: field(PATH), folder: field(FOLDER), content, hash: hash_of(title, text, metadata) }
}

/// The document of a step as it will be stored.
pub(in crate::cli) fn stored_by(step: &ReadStep) -> Option<(String, Stored)> {
    match &step.result {
        StepResult::Document(document) => {
            let metadata = document.metadata.clone().unwrap_or_else(Metadata::empty);
            let stored = stored_of(document.title.as_deref(), &document.text, &metadata);
            Some((document.id.clone()?, stored))
        }
        StepResult::File(file) => {
            let id = file.options.id.clone()?;
            let content = ContentId::of_file(&file.path)?;
            let metadata = file.options.metadata.as_ref();
            let stored = Stored {
                path: text_field(metadata, PATH),
                folder: text_field(metadata, FOLDER),
                content,
                hash: 0,
            };
            Some((id, stored))
        }
        StepResult::Rejected(_) | StepResult::Empty | StepResult::Note(_) => None,
    }
}

fn text_field(metadata: Option<&Metadata>, name: &str) -> Option<String> {
    let fields = metadata?.to_map().ok()?;
    Some(fields.get(name)?.as_str()?.to_owned())
}

fn hash_of(title: Option<&str>, text: &str, metadata: &Metadata) -> u64 {
    let mut hasher = DefaultHasher::new();
    (title, text, metadata.as_json()).hash(&mut hasher);
    hasher.finish()
}

/// The steps to take; complete when every step of reading the folder was observed.
pub(in crate::cli) struct Plan<'a> {
    stored: &'a BTreeMap<String, Stored>,
    folder: &'a str,
    /// The ids of the files, by the names that rejections have.
    files: HashMap<String, String>,
    seen: HashSet<String>,
    /// The files of which a part was rejected: all their documents stay.
    broken: HashSet<String>,
    /// The files of which the gateway extracts the text: the documents of their attachments stay.
    uploaded: HashSet<String>,
    /// The files that are in the folder and not read now: their documents stay.
    unread: HashSet<String>,
    /// Whether a part of the folder could not be read: then nothing is known to be gone.
    pub(in crate::cli) is_incomplete: bool,
    /// The ids that the collection does not have.
    pub(in crate::cli) new: Vec<String>,
    /// The ids that the collection has with other content.
    pub(in crate::cli) changed: Vec<String>,
    /// The number of documents that the collection has as they are.
    pub(in crate::cli) unchanged: u64,
    /// The unreadable files.
    pub(in crate::cli) rejections: Vec<Rejection>,
    /// Ids and places of the documents whose id an earlier one has.
    pub(super) replacing: Vec<(String, String)>,
}

impl<'a> Plan<'a> {
    /// The plan for the folder of that name, of which nothing is read yet.
    pub(in crate::cli) fn new(
        stored: &'a BTreeMap<String, Stored>,
        folder: &'a str,
        sources: &SourceFiles,
    ) -> Plan<'a> {
        Plan {
            stored,
            folder,
            files: sources.ids_by_name(),
            seen: HashSet::new(),
            broken: HashSet::new(),
            uploaded: HashSet::new(),
            // they were read by a gateway that was set otherwise
            unread: sources.of_more_kinds.iter().cloned().collect(),
            is_incomplete: false,
            new: Vec::new(),
            changed: Vec::new(),
            unchanged: 0,
            rejections: Vec::new(),
            replacing: Vec::new(),
        }
    }

    /// Takes note of files that are in the folder and of which no step follows.
    pub(in crate::cli) fn leave(&mut self, ids: impl Iterator<Item = String>) {
        self.unread.extend(ids);
    }

    /// Takes note of a step.
    pub(in crate::cli) fn observe(&mut self, step: &ReadStep) {
        match &step.result {
            StepResult::Document(document) => self.observe_document(document, &step.place),
            StepResult::File(file) => self.observe_file(file),
            StepResult::Rejected(rejection) => self.observe_rejection(rejection),
            StepResult::Empty | StepResult::Note(_) => {}
        }
    }

    fn observe_document(&mut self, document: &Document, place: &str) {
        let Some(id) = &document.id else { return };
        if !self.seen.insert(id.clone()) {
            self.replacing.push((id.clone(), place.to_owned()));
            return;
        }
        let metadata = document.metadata.clone().unwrap_or_else(Metadata::empty);
        let hash = hash_of(document.title.as_deref(), &document.text, &metadata);
        match self.stored.get(id) {
            None => self.new.push(id.clone()),
            Some(stored) if stored.hash != hash => self.changed.push(id.clone()),
            Some(_) => self.unchanged += 1,
        }
    }

    /// The gateway extracts the text, so that the bytes of the file are compared. Documents of its attachments stay with it.
    fn observe_file(&mut self, file: &SourceFile) {
        let Some(id) = &file.options.id else { return };
        let path = text_field(file.options.metadata.as_ref(), PATH);
        self.seen.insert(id.clone());
        self.uploaded.extend(path.clone());
        let content = ContentId::of_file(&file.path);
        match self.stored.get(id) {
            None => self.new.push(id.clone()),
            Some(stored) if Some(&stored.content) == content.as_ref() && stored.path == path => {
                self.unchanged += 1;
            }
            Some(_) => self.changed.push(id.clone()),
        }
    }

    /// A rejection has the name of its file, and a line, a row or a position behind `#`.
    fn observe_rejection(&mut self, rejection: &Rejection) {
        let name = rejection.name.as_str();
        let without_line = name.rsplit_once('#').map_or(name, |(file, _)| file);
        match self.files.get(name).or_else(|| self.files.get(without_line)) {
            Some(id) => self.broken.extend([id.clone()]),
            None => self.is_incomplete = true,
        }
        self.rejections.push(rejection.clone());
    }

    /// The ids of the documents that were made from files of the folder and that it no longer has.
    pub(in crate::cli) fn gone(&self) -> Vec<&'a str> {
        if self.is_incomplete {
            return Vec::new();
        }
        let is_gone = |id: &str, path: &str| {
            let stays = [&self.broken, &self.uploaded, &self.unread].iter().any(|files| files.contains(path));
            !stays && !self.seen.contains(id)
        };
        self.of_files().filter(|(id, path)| is_gone(id, path)).map(|(id, _)| id).collect()
    }

    /// The number of documents by file that stay only because a part of their file can't be read.
    pub(in crate::cli) fn kept(&self) -> BTreeMap<&'a str, u64> {
        let mut kept = BTreeMap::new();
        for (_, path) in
            self.of_files().filter(|(id, path)| !self.seen.contains(*id) && self.broken.contains(*path))
        {
            *kept.entry(path).or_default() += 1;
        }
        kept
    }

    /// The number of the collection's documents that were made from files of the folder.
    pub(in crate::cli) fn count_of_files(&self) -> usize {
        self.of_files().count()
    }

    /// Ids and paths of the documents that were made from files of the folder.
    fn of_files(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let is_of_folder = |stored: &Stored| stored.folder.as_deref() == Some(self.folder);
        let stored = self.stored.iter().filter(move |(_, stored)| is_of_folder(stored));
        stored.filter_map(|(id, stored)| Some((id.as_str(), stored.path.as_deref()?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sources::Documents;

    fn stored(ids_and_paths: &[(&str, Option<&str>)]) -> BTreeMap<String, Stored> {
        let stored = |path: &Option<&str>| Stored {
            path: path.map(str::to_owned),
            folder: Some("in".to_owned()),
            content: ContentId::Text(0),
            hash: 0,
        };
        ids_and_paths.iter().map(|(id, path)| ((*id).to_owned(), stored(path))).collect()
    }

    /// The plan for a folder with these files.
    fn plan<'a>(stored: &'a BTreeMap<String, Stored>, folder: &Path, files: &[(&str, &str)]) -> Plan<'a> {
        for (name, content) in files {
            std::fs::write(folder.join(name), content).unwrap();
        }
        let sources = SourceFiles::find(&[folder.to_owned()], "");
        let mut plan = Plan::new(stored, "in", &sources);
        Documents::of(sources.files).for_each(|step| plan.observe(&step));
        plan
    }

    #[test]
    fn documents_whose_file_or_line_is_gone_are_gone() {
        let stored = stored(&[
            ("a.txt", Some("a.txt")),
            ("gone.txt", Some("gone.txt")),
            ("kept", Some("l.jsonl")),
            ("lost", Some("l.jsonl")),
            ("by hand", None),
        ]);
        let folder = tempfile::tempdir().unwrap();
        let files = [("a.txt", "x"), ("l.jsonl", r#"{"id":"kept","text":"x"}"#), ("new.txt", "x")];
        let plan = plan(&stored, folder.path(), &files);
        assert_eq!(plan.gone(), ["gone.txt", "lost"]);
        assert_eq!((plan.new, plan.changed), (vec!["new.txt".into()], vec!["a.txt".into(), "kept".into()]));
    }

    #[test]
    fn documents_of_other_folders_stay() {
        let mut stored = stored(&[("gone.txt", Some("gone.txt")), ("other.txt", Some("other.txt"))]);
        for folder in [Some("other".to_owned()), None] {
            stored.get_mut("other.txt").unwrap().folder = folder;
            let folder = tempfile::tempdir().unwrap();
            let plan = plan(&stored, folder.path(), &[("a.txt", "x")]);
            assert_eq!((plan.gone(), plan.count_of_files()), (vec!["gone.txt"], 1));
        }
    }

    #[test]
    fn documents_of_a_file_with_bad_parts_stay() {
        let stored = stored(&[
            ("bad#2.txt", Some("bad#2.txt")),
            ("lost", Some("l.jsonl")),
            ("gone.txt", Some("gone.txt")),
        ]);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("bad#2.txt"), b"\xff").unwrap();
        let plan = plan(&stored, folder.path(), &[("l.jsonl", "no json")]);
        assert_eq!(plan.gone(), ["gone.txt"]);
        assert_eq!(plan.rejections.len(), 2);
    }

    #[test]
    fn nothing_is_gone_where_a_part_of_the_folder_could_not_be_read() {
        let stored = stored(&[("gone.txt", Some("gone.txt"))]);
        let folder = tempfile::tempdir().unwrap();
        let mut plan = plan(&stored, folder.path(), &[("a.txt", "x")]);
        assert_eq!(plan.gone(), ["gone.txt"]);
        let unreadable = Rejection { name: "sub".to_owned(), message: "permission denied".to_owned() };
        plan.observe(&ReadStep {
            bytes: 0,
            place: "sub".to_owned(),
            result: StepResult::Rejected(unreadable),
        });
        assert_eq!(plan.gone(), [""; 0]);
    }

    #[test]
    fn a_document_as_it_was_sent_is_unchanged() {
        let folder = tempfile::tempdir().unwrap();
        let folder_name = weir_sources::folder_name(folder.path());
        let metadata = format!(r#"{{"folder":"{folder_name}","path":"a.txt"}}"#);
        let metadata = Metadata::from_json(metadata).unwrap();
        let reply = DocumentReply {
            id: "a.txt".to_owned(),
            title: Some("a".to_owned()),
            text: "x".to_owned(),
            metadata,
            version: 1,
            chunks: 1,
        };
        let stored = BTreeMap::from([entry_of(reply)]);
        assert_eq!(plan(&stored, folder.path(), &[("a.txt", "x")]).unchanged, 1);
        assert_eq!(plan(&stored, folder.path(), &[("a.txt", "y")]).changed, ["a.txt"]);
    }
}
