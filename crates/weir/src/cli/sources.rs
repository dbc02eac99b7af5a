//! Reads documents from files: text, Markdown, HTML and JSON Lines.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Map;
use walkdir::WalkDir;
use weir_api::{Document, Metadata};
use weir_client::{JsonLines, ReadStep, Rejection, StepResult};
use weir_text::HtmlPage;

/// Bytes of a file that becomes one document, at most. The gateway's default limit for a text is far lower.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A file to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceFile {
    path: PathBuf,
    /// Its path relative to the given folder, with forward slashes: the document's id.
    id: String,
    /// Its size when it was found.
    bytes: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Markdown,
    Html,
    JsonLines,
}

/// The files under the given paths.
#[derive(Debug, Default)]
pub(super) struct SourceFiles {
    /// The files to read: the paths in the given order, each folder sorted by name.
    pub(super) files: Vec<SourceFile>,
    /// Paths that can't be read, and files whose id another file has.
    pub(super) rejections: Vec<Rejection>,
    /// The number of files of other kinds in the folders.
    pub(super) other_files: u64,
}

impl SourceFiles {
    /// Finds files in `paths`, and in the folders among them at any depth. Hidden files and folders (their names begin
    /// with a dot) are left out, and links are not followed.
    pub(super) fn find(paths: &[PathBuf]) -> SourceFiles {
        let mut sources = SourceFiles::default();
        for path in paths {
            match std::fs::metadata(path) {
                Ok(about) if about.is_dir() => sources.add_folder(path),
                Ok(about) => sources.add_file(path, about.len()),
                Err(error) => sources.reject(path.display().to_string(), error.to_string()),
            }
        }
        sources.reject_duplicate_ids();
        sources
    }

    /// The size of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    fn reject(&mut self, name: String, message: String) {
        self.rejections.push(Rejection { name, message });
    }

    fn add_file(&mut self, path: &Path, bytes: u64) {
        let id = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match kind_of(path) {
            Some(kind) => self.files.push(SourceFile { path: path.to_owned(), id, bytes, kind }),
            None => self.reject(
                path.display().to_string(),
                "is not a .txt, .md, .html, .htm or .jsonl file".to_owned(),
            ),
        }
    }

    fn add_folder(&mut self, folder: &Path) {
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
            let Some(kind) = kind_of(entry.path()) else {
                self.other_files += 1;
                continue;
            };
            let relative = entry.path().strip_prefix(folder).unwrap_or(entry.path());
            let parts: Vec<_> = relative.iter().map(|part| part.to_string_lossy()).collect();
            let bytes = entry.metadata().map(|about| about.len()).unwrap_or_default();
            self.files.push(SourceFile { path: entry.path().to_owned(), id: parts.join("/"), bytes, kind });
        }
    }

    /// Keeps the first file of each id: documents with equal ids would replace each other.
    fn reject_duplicate_ids(&mut self) {
        let mut ids = HashSet::new();
        let (kept, duplicates) =
            std::mem::take(&mut self.files).into_iter().partition::<Vec<SourceFile>, _>(|file| {
                file.kind == Kind::JsonLines || ids.insert(file.id.clone())
            });
        self.files = kept;
        for file in duplicates {
            let message = format!("another file has the id `{}`; give the folder above both", file.id);
            self.reject(file.path.display().to_string(), message);
        }
    }
}

fn kind_of(path: &Path) -> Option<Kind> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "txt" => Some(Kind::Text),
        "md" => Some(Kind::Markdown),
        "html" | "htm" => Some(Kind::Html),
        "jsonl" => Some(Kind::JsonLines),
        _ => None,
    }
}

/// Reads files one after the other, and `.jsonl` files line by line.
pub(super) struct Documents {
    files: VecDeque<SourceFile>,
    lines: Option<JsonLines>,
}

impl Documents {
    /// The documents of `files`.
    pub(super) fn of(files: Vec<SourceFile>) -> Documents {
        Documents { files: files.into(), lines: None }
    }
}

impl Iterator for Documents {
    type Item = ReadStep;

    fn next(&mut self) -> Option<ReadStep> {
        loop {
            if let Some(step) = self.lines.as_mut().and_then(JsonLines::next) {
                return Some(step);
            }
            self.lines = None;
            let file = self.files.pop_front()?;
            let read = if file.kind == Kind::JsonLines {
                match JsonLines::open(file.path.clone(), file.id.clone()) {
                    Ok(lines) => {
                        self.lines = Some(lines);
                        continue;
                    }
                    Err(error) => Err(error.to_string()),
                }
            } else {
                read_text(&file.path).map(|text| document_of_file(&file, text))
            };
            let result = read.unwrap_or_else(|message| {
                StepResult::Rejected(Rejection { name: file.path.display().to_string(), message })
            });
            return Some(ReadStep { bytes: file.bytes, result });
        }
    }
}

fn read_text(path: &Path) -> Result<String, String> {
    let mut bytes = Vec::new();
    let mut file = File::open(path).map_err(|error| error.to_string())?.take(FILE_BYTES_MAX + 1);
    file.read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(format!("has more than {FILE_BYTES_MAX} bytes; cut it into several files"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let offset = error.utf8_error().valid_up_to();
        format!("is not valid UTF-8: byte {offset} is the first bad one")
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

fn document_of_file(file: &SourceFile, text: String) -> StepResult {
    let (title, text) = match file.kind {
        Kind::Markdown => (first_heading(&text), text),
        Kind::Html => {
            let page = HtmlPage::parse(&text);
            (page.title, page.text)
        }
        Kind::Text | Kind::JsonLines => (None, text),
    };
    if text.trim().is_empty() {
        return StepResult::Empty;
    }
    let stem = || file.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut metadata = Map::new();
    metadata.insert("path".to_owned(), file.id.clone().into());
    StepResult::Document(Document {
        id: Some(file.id.clone()),
        title: title.or_else(stem),
        text,
        metadata: Some(Metadata::from_map(&metadata)),
    })
}

/// The first heading of a Markdown text outside code blocks: `# …` to `###### …`, or a line underlined with `=`.
fn first_heading(text: &str) -> Option<String> {
    let mut is_code = false;
    let mut above = "";
    for line in text.lines() {
        let line = line.trim();
        if line.starts_with("```") || line.starts_with("~~~") {
            is_code = !is_code;
        } else if !is_code {
            let level = line.len() - line.trim_start_matches('#').len();
            let rest = line.get(level..).unwrap_or_default();
            if (1..=6).contains(&level) && rest.starts_with([' ', '\t']) {
                let heading = rest.trim().trim_end_matches('#').trim();
                if !heading.is_empty() {
                    return Some(heading.to_owned());
                }
            } else if line.len() >= 2 && line.bytes().all(|byte| byte == b'=') && !above.is_empty() {
                return Some(above.to_owned());
            }
        }
        above = line;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a folder with these files; one line per result.
    fn read_all(files: &[(&str, &[u8])]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let sources = SourceFiles::find(&[folder.path().to_owned()]);
        let prefix = format!("{}/", folder.path().display());
        Documents::of(sources.files)
            .map(|step| match step.result {
                StepResult::Document(document) => {
                    let metadata = document.metadata.unwrap();
                    let (id, title) = (document.id.unwrap(), document.title.unwrap_or("-".into()));
                    format!("{id} | {title} | {} | {}", document.text, metadata.as_json())
                }
                StepResult::Empty => "empty".to_owned(),
                StepResult::Rejected(rejected) => {
                    format!("{}: {}", rejected.name.trim_start_matches(&prefix), rejected.message)
                }
            })
            .collect()
    }

    #[test]
    fn each_kind_of_file_becomes_a_document() {
        let files: [(&str, &[u8]); 8] = [
            ("a.txt", b"plain"),
            ("b/c d.md", b"intro\n```\n# no\n```\n## Title ##\ntext"),
            ("b/e.HTML", b"<title>T</title><p>x"),
            ("b/f.htm", b"<p>y"),
            ("b/picture.png", b"x"),
            (".git/g.txt", b"hidden"),
            ("empty.txt", b" \n"),
            ("bad.txt", b"ok\xff"),
        ];
        assert_eq!(
            read_all(&files),
            [
                r#"a.txt | a | plain | {"path":"a.txt"}"#,
                "b/c d.md | Title | intro\n```\n# no\n```\n## Title ##\ntext | {\"path\":\"b/c d.md\"}",
                r#"b/e.HTML | T | x | {"path":"b/e.HTML"}"#,
                r#"b/f.htm | f | y | {"path":"b/f.htm"}"#,
                "bad.txt: is not valid UTF-8: byte 2 is the first bad one",
                "empty",
            ]
        );
    }

    #[test]
    fn lines_become_documents_and_malformed_ones_are_rejected() {
        let lines = b"{\"id\":\"x/1\",\"text\":\"a\",\"title\":\"T\",\"metadata\":{\"k\":1},\"year\":2020}\n\
            {\"_id\":7,\"text\":\"b\"}\n\n{\"text\":\"c\"}\nno json\n{\"text\":1}\n{\"id\":[]}\n{\"id\":\"y\"}\n\xff\n[1]\n{\"text\":\"last\"}";
        assert_eq!(
            read_all(&[("l.jsonl", lines)]),
            [
                r#"x/1 | T | a | {"k":1,"path":"l.jsonl","year":2020}"#,
                r#"7 | - | b | {"path":"l.jsonl"}"#,
                "empty",
                r#"l.jsonl#4 | - | c | {"path":"l.jsonl"}"#,
                "l.jsonl#5: is not a JSON object: expected ident at line 1 column 2",
                "l.jsonl#6: `text` must be a text",
                "l.jsonl#7: `id` must be a text or a number",
                "l.jsonl#8: has no `text`",
                "l.jsonl#9: is not valid UTF-8: byte 0 of the line is the first bad one",
                "l.jsonl#10: is not a JSON object: invalid type: sequence, expected a map at line 1 column 0",
                r#"l.jsonl#11 | - | last | {"path":"l.jsonl"}"#,
            ]
        );
    }

    #[test]
    fn files_with_the_id_of_another_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a/x.txt", "b/x.txt", "c.png"].map(|name| folder.path().join(name));
        for path in &paths {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let sources = SourceFiles::find(&[paths.as_slice(), &[folder.path().join("none")]].concat());
        assert_eq!(sources.files.iter().map(|file| file.id.as_str()).collect::<Vec<_>>(), ["x.txt"]);
        let messages: Vec<&str> =
            sources.rejections.iter().map(|rejection| rejection.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "is not a .txt, .md, .html, .htm or .jsonl file",
                "No such file or directory (os error 2)",
                "another file has the id `x.txt`; give the folder above both",
            ]
        );
    }

    #[test]
    fn the_first_heading_is_found_in_both_forms_of_markdown() {
        for (text, expected) in [
            ("# A", Some("A")),
            ("#hash\n\n###### B #", Some("B")),
            ("Title\n=====\ntext", Some("Title")),
            ("====", None),
            ("####### seven", None),
            ("#", None),
            ("", None),
        ] {
            assert_eq!(first_heading(text).as_deref(), expected, "{text}");
        }
    }
}
