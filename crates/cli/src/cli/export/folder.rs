//! A folder with a JSON file for each document. Names are made of ids, which are any text: no id leads out of the folder.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::cli::failure::{Failure, Result};

/// Most bytes of a name before its ending. File systems have 255.
const NAME_BYTES_MAX: usize = 150;
/// Most folders of an id; a longer one is a name with a hash.
const DEPTH_MAX: usize = 16;

/// The folder of an export.
pub(super) struct ExportFolder {
    path: PathBuf,
}

impl ExportFolder {
    /// Makes the folder, or takes an empty one.
    pub(super) fn create(path: &PathBuf) -> Result<ExportFolder> {
        let failed = |source| Failure::Write { path: path.display().to_string(), source };
        std::fs::create_dir_all(path).map_err(failed)?;
        if std::fs::read_dir(path).map_err(failed)?.next().is_some() {
            return Err(Failure::FolderNotEmpty { path: path.display().to_string() });
        }
        Ok(ExportFolder { path: path.clone() })
    }

    /// Writes the document of a line.
    pub(super) fn write(&mut self, line: &[u8]) -> Result<()> {
        let document: Value = serde_json::from_slice(line).unwrap_or_default();
        let id = document["id"].as_str().unwrap_or_default();
        let failed = |path: &Path, source| Failure::Write { path: path.display().to_string(), source };
        let mut path = self.path.join(relative_path(id));
        let mut opened = open_new(&path);
        if opened.as_ref().is_err_and(is_taken) {
            // of an id that differs in characters that the file system does not distinguish
            path = self.path.join(hashed_name(id));
            opened = open_new(&path);
        }
        let mut file = opened.map_err(|source| failed(&path, source))?;
        // the bytes of the line: numbers stay as they are written
        file.write_all(line).and_then(|()| file.write_all(b"\n")).map_err(|source| failed(&path, source))
    }
}

fn open_new(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    OpenOptions::new().write(true).create_new(true).open(path)
}

/// Whether another file or folder has the name, or one of the folders is a file.
fn is_taken(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::AlreadyExists | ErrorKind::NotADirectory | ErrorKind::IsADirectory)
}

/// The path of a document in the folder.
fn relative_path(id: &str) -> PathBuf {
    let parts: Vec<String> = id.split('/').map(encoded).collect();
    let is_fit =
        parts.len() <= DEPTH_MAX && parts.iter().all(|part| !part.is_empty() && part.len() <= NAME_BYTES_MAX);
    if !is_fit {
        return hashed_name(id).into();
    }
    let mut path: PathBuf = parts.iter().collect();
    path.as_mut_os_string().push(".json");
    path
}

/// A name that only this id has.
fn hashed_name(id: &str) -> String {
    let hash: String = Sha256::digest(id).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    let mut start = encoded(id);
    start.truncate(start.floor_char_boundary(NAME_BYTES_MAX / 2));
    format!("{start}~{hash}.json")
}

/// A part of an id as a name: letters, digits and `_-. ` stay, everything else and a dot at the start or the end is `%XX`.
fn encoded(part: &str) -> String {
    let mut name = String::with_capacity(part.len());
    for (at, c) in part.char_indices() {
        let is_edge = at == 0 || at + c.len_utf8() == part.len();
        if c.is_alphanumeric() || matches!(c, '_' | '-') || (matches!(c, '.' | ' ') && !is_edge) {
            name.push(c);
        } else {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| name.push_str(&format!("%{byte:02X}")));
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_id_leads_out_of_the_folder() {
        let check = |id: &str, expected: &str| assert_eq!(relative_path(id), Path::new(expected), "{id}");
        check("a/b.md", "a/b.md.json");
        check("Über uns", "Über uns.json");
        check("../../etc/passwd", "%2E%2E/%2E%2E/etc/passwd.json");
        check("..", "%2E%2E.json");
        check(".ssh", "%2Essh.json");
        check("a\\b:c\0\n", "a%5Cb%3Ac%00%0A.json");
        check("con. ", "con.%20.json");
        for id in ["/etc/passwd", "", "a//b", "a/", &"x".repeat(151), &"d/".repeat(20)] {
            let path = relative_path(id);
            let name = path.to_str().unwrap();
            assert!(name.contains('~') && !name.contains('/') && name.len() < 200, "{id} {name}");
        }
        assert_ne!(hashed_name("a/"), hashed_name("a//"));
    }

    #[test]
    fn ids_that_meet_in_one_name_have_files_of_their_own() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new");
        let mut export = ExportFolder::create(&path).unwrap();
        for id in ["a", "a.json/b", "a", "c"] {
            export.write(format!("{{\"id\":\"{id}\",\"text\":\"1.10\"}}").as_bytes()).unwrap();
        }
        let files = std::fs::read_dir(&path).unwrap().count();
        assert_eq!(files, 4, "a.json, c.json and two with hashes");
        assert!(matches!(ExportFolder::create(&path), Err(Failure::FolderNotEmpty { .. })));
    }
}
