//! Ids that files keep when they are renamed.
//!
//! The id of a document is the path that its file had when it was first sent. A file that is found under another path gets the id of its document:
//! by the `path` in the document's metadata or, after a rename, by equal content of a file that is gone.

use std::collections::{BTreeMap, HashMap, HashSet};

use weir_client::StepResult;

use super::plan::{ContentId, Stored};
use weir_sources::{Documents, SourceFile};

/// The documents that were made from files of a folder, by their paths. Only those of files with one document are of use.
struct ByPath<'a>(HashMap<&'a str, Vec<(&'a str, &'a Stored)>>);

impl<'a> ByPath<'a> {
    fn of(stored: &'a BTreeMap<String, Stored>, folder: &str) -> ByPath<'a> {
        let mut by_path: HashMap<&str, Vec<(&str, &Stored)>> = HashMap::new();
        for (id, document) in stored.iter().filter(|(_, stored)| stored.folder.as_deref() == Some(folder)) {
            if let Some(path) = &document.path {
                by_path.entry(path).or_default().push((id, document));
            }
        }
        ByPath(by_path)
    }

    /// The documents of a path; of a file that was uploaded without those of its attachments.
    fn documents(&self, path: &str, is_uploaded: bool) -> Vec<(&'a str, &'a Stored)> {
        let all = self.0.get(path).into_iter().flatten().copied();
        all.filter(|(_, stored)| !is_uploaded || matches!(stored.content, ContentId::File(_))).collect()
    }

    /// The ids of files that are gone, by their content.
    fn gone(&self, present: &HashSet<String>) -> HashMap<&'a ContentId, Vec<&'a str>> {
        let mut gone: HashMap<&ContentId, Vec<&str>> = HashMap::new();
        let mut paths: Vec<&&str> = self.0.keys().filter(|path| !present.contains(**path)).collect();
        paths.sort_unstable();
        for path in paths {
            let uploaded = self.documents(path, true);
            let all = if uploaded.is_empty() { self.documents(path, false) } else { uploaded };
            if let [(id, stored)] = all.as_slice() {
                gone.entry(&stored.content).or_default().push(id);
            }
        }
        gone
    }
}

/// The paths of all files of a folder, with the prefix.
pub(in crate::cli) struct Present {
    all: HashSet<String>,
    /// Those of files with one document each.
    single: HashSet<String>,
}

impl Present {
    /// Of these files.
    pub(in crate::cli) fn of(files: &[SourceFile]) -> Present {
        let all = files.iter().map(|file| file.id().to_owned()).collect();
        let single = files.iter().filter(|file| file.has_one_document());
        Present { all, single: single.map(|file| file.id().to_owned()).collect() }
    }

    /// Whether the folder has no file.
    pub(in crate::cli) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}

/// Gives files the ids of their documents; the number of files that were renamed. Files with several documents have the ids that these bring, or
/// those of their path.
pub(in crate::cli) fn keep_ids(
    stored: &BTreeMap<String, Stored>,
    folder: &str,
    files: &mut [SourceFile],
    present: &Present,
) -> u64 {
    let by_path = ByPath::of(stored, folder);
    let mut new = Vec::new();
    for file in files.iter_mut().filter(|file| file.has_one_document()) {
        let documents = by_path.documents(file.id(), file.is_uploaded());
        match documents.first() {
            Some(_) if documents.iter().any(|(id, _)| *id == file.id()) => {}
            Some((id, _)) => file.keep_id((*id).to_owned()),
            None => new.push(file),
        }
    }
    let mut gone = by_path.gone(&present.all);
    let (mut renamed, mut taken) = (0, HashSet::new());
    let mut unmatched = Vec::new();
    for file in new {
        // without a file that is gone nothing is read
        let content = if gone.is_empty() { None } else { content_of(file) };
        let ids = content.as_ref().and_then(|content| gone.get_mut(content)).filter(|ids| !ids.is_empty());
        let Some(ids) = ids else {
            unmatched.push(file);
            continue;
        };
        let id = ids.remove(0).to_owned();
        taken.insert(id.clone());
        renamed += 1;
        file.keep_id(id);
    }
    for file in unmatched {
        let is_of_other_file =
            taken.contains(file.id()) || is_kept(stored.get(file.id()), file.id(), folder, &present.single);
        if is_of_other_file {
            let id = free_id(file.id(), stored, &taken);
            taken.insert(id.clone());
            file.keep_id(id);
        }
    }
    renamed
}

/// Whether a document with that id is the one of a file of the folder that was renamed.
fn is_kept(stored: Option<&Stored>, id: &str, folder: &str, present: &HashSet<String>) -> bool {
    let Some(stored) = stored.filter(|stored| stored.folder.as_deref() == Some(folder)) else { return false };
    stored.path.as_deref().is_some_and(|path| path != id && present.contains(path))
}

/// `id~2`, or with a further number.
fn free_id(id: &str, stored: &BTreeMap<String, Stored>, taken: &HashSet<String>) -> String {
    let mut number = 2_u64;
    loop {
        let free = format!("{id}~{number}");
        if !stored.contains_key(&free) && !taken.contains(&free) {
            return free;
        }
        number += 1;
    }
}

fn content_of(file: &SourceFile) -> Option<ContentId> {
    if file.is_uploaded() {
        return ContentId::of_file(file.path());
    }
    let step = Documents::of(vec![file.clone()]).next()?;
    match step.result {
        StepResult::Document(document) => Some(ContentId::of_text(&document.text)),
        StepResult::File(_) | StepResult::Empty | StepResult::Rejected(_) | StepResult::Note(_) => None,
    }
}
