//! Files become documents.

use std::collections::{HashSet, VecDeque};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use walkdir::WalkDir;
use weir_api::{Document, Metadata};

use super::html;

/// Bytes of a file that becomes one document, at most. The gateway's own limit for a text is far below.
const FILE_BYTES_MAX: u64 = 256 << 20;

/// A file that will be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Input {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Its path relative to the folder that was given, with forward slashes: the document's id.
    pub(super) id: String,
    /// Its size, as far as it was known when it was found.
    pub(super) bytes: u64,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Markdown,
    Html,
    JsonLines,
}

/// Something that could not become a document.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub(super) struct Rejected {
    /// The file, or the file and the line (`path#3`), or the document's id.
    pub(super) name: String,
    /// Why.
    pub(super) message: String,
}

/// What was found under the given paths.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    /// The files to read, in the order of their names.
    pub(super) files: Vec<Input>,
    /// What can't be read, and files that would overwrite each other.
    pub(super) rejected: Vec<Rejected>,
    /// How many files of other kinds stand in the folders.
    pub(super) other_files: u64,
}

impl Inputs {
    /// Looks for files: a given file is taken, a given folder is searched with all its folders. Hidden files and
    /// folders (their names begin with a dot) are left out, and links are not followed.
    pub(super) fn find(paths: &[PathBuf]) -> Inputs {
        let mut inputs = Inputs::default();
        for path in paths {
            match std::fs::metadata(path) {
                Ok(about) if about.is_dir() => inputs.add_folder(path),
                Ok(about) => inputs.add_file(path, about.len()),
                Err(error) => inputs.reject(path.display().to_string(), error.to_string()),
            }
        }
        inputs.reject_namesakes();
        inputs
    }

    /// Bytes of all files.
    pub(super) fn bytes(&self) -> u64 {
        self.files.iter().map(|input| input.bytes).sum()
    }

    fn reject(&mut self, name: String, message: String) {
        self.rejected.push(Rejected { name, message });
    }

    fn add_file(&mut self, path: &Path, bytes: u64) {
        let id = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        match kind_of(path) {
            Some(kind) => self.files.push(Input { path: path.to_owned(), id, bytes, kind }),
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
            self.files.push(Input { path: entry.path().to_owned(), id: parts.join("/"), bytes, kind });
        }
    }

    /// Two files under one id would replace each other on every run; the second is named instead.
    fn reject_namesakes(&mut self) {
        let mut ids = HashSet::new();
        let (kept, namesakes) =
            std::mem::take(&mut self.files).into_iter().partition::<Vec<Input>, _>(|input| {
                input.kind == Kind::JsonLines || ids.insert(input.id.clone())
            });
        self.files = kept;
        for input in namesakes {
            let message = format!("another file has the id `{}`; give the folder above both", input.id);
            self.reject(input.path.display().to_string(), message);
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

/// A step of reading: some bytes of the files, and what came of them.
#[derive(Debug)]
pub(super) struct Step {
    /// Bytes of files that were read.
    pub(super) bytes: u64,
    /// What they are.
    pub(super) outcome: Outcome,
}

/// What a piece of a file is.
#[derive(Debug)]
pub(super) enum Outcome {
    /// A document.
    Document(Document),
    /// Nothing to search for.
    Empty,
    /// Something that can't be read.
    Rejected(Rejected),
}

/// Reads files one after the other, and `.jsonl` files line by line.
pub(super) struct Documents {
    files: VecDeque<Input>,
    lines: Option<Lines>,
}

impl Documents {
    /// The documents of `files`.
    pub(super) fn of(files: Vec<Input>) -> Documents {
        Documents { files: files.into(), lines: None }
    }
}

impl Iterator for Documents {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.lines.as_mut().and_then(Lines::next) {
                return Some(step);
            }
            self.lines = None;
            let input = self.files.pop_front()?;
            if input.kind != Kind::JsonLines {
                return Some(Step { bytes: input.bytes, outcome: read_file(&input) });
            }
            match File::open(&input.path) {
                Ok(file) => self.lines = Some(Lines { file: Some(BufReader::new(file)), input, number: 0 }),
                Err(error) => {
                    let name = input.path.display().to_string();
                    let outcome = Outcome::Rejected(Rejected { name, message: error.to_string() });
                    return Some(Step { bytes: input.bytes, outcome });
                }
            }
        }
    }
}

fn read_file(input: &Input) -> Outcome {
    match read_text(&input.path) {
        Ok(text) => document_of_file(input, text),
        Err(message) => Outcome::Rejected(Rejected { name: input.path.display().to_string(), message }),
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

fn document_of_file(input: &Input, text: String) -> Outcome {
    let (title, text) = match input.kind {
        Kind::Markdown => (first_heading(&text), text),
        Kind::Html => {
            let page = html::read(&text);
            (page.title, page.text)
        }
        Kind::Text | Kind::JsonLines => (None, text),
    };
    if text.trim().is_empty() {
        return Outcome::Empty;
    }
    let stem = || input.path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut metadata = Map::new();
    metadata.insert("path".to_owned(), input.id.clone().into());
    Outcome::Document(Document {
        id: Some(input.id.clone()),
        title: title.or_else(stem),
        text,
        metadata: Some(Metadata::from_map(&metadata)),
    })
}

/// The first heading of a Markdown text: `# …` to `###### …`, or a line that is underlined with `=`.
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

/// The lines of a `.jsonl` file.
struct Lines {
    file: Option<BufReader<File>>,
    input: Input,
    number: u64,
}

impl Lines {
    fn next(&mut self) -> Option<Step> {
        let mut line = Vec::new();
        let read = self.file.as_mut()?.read_until(b'\n', &mut line);
        self.number += 1;
        let rejected = |message: String| {
            let name = format!("{}#{}", self.input.path.display(), self.number);
            Outcome::Rejected(Rejected { name, message })
        };
        let outcome = match read {
            Ok(0) => return None,
            Ok(_) if line.trim_ascii().is_empty() => Outcome::Empty,
            Ok(_) => match self.document_of(&line) {
                Ok(document) => Outcome::Document(document),
                Err(message) => rejected(message),
            },
            Err(error) => {
                let outcome = rejected(error.to_string());
                // Reading on would fail again and again.
                self.file = None;
                outcome
            }
        };
        Some(Step { bytes: line.len() as u64, outcome })
    }

    /// A line is an object with `text`; `id` (or `_id`), `title` and `metadata` when it has them. What else it has
    /// goes to the metadata.
    fn document_of(&self, line: &[u8]) -> Result<Document, String> {
        let text = std::str::from_utf8(line).map_err(|error| {
            format!("is not valid UTF-8: byte {} of the line is the first bad one", error.valid_up_to())
        })?;
        let mut fields: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("is not a JSON object: {error}"))?;
        let id = match fields.remove("id").or_else(|| fields.remove("_id")) {
            None | Some(Value::Null) => format!("{}#{}", self.input.id, self.number),
            Some(Value::String(id)) => id,
            Some(Value::Number(id)) => id.to_string(),
            Some(Value::Bool(_) | Value::Array(_) | Value::Object(_)) => {
                return Err("`id` must be a text or a number".to_owned());
            }
        };
        let text = take_text(&mut fields, "text")?.ok_or("has no `text`")?;
        let title = take_text(&mut fields, "title")?.filter(|title| !title.is_empty());
        let mut metadata = match fields.remove("metadata") {
            None | Some(Value::Null) => Map::new(),
            Some(Value::Object(metadata)) => metadata,
            Some(Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                return Err("`metadata` must be an object".to_owned());
            }
        };
        for (name, value) in fields {
            metadata.entry(name).or_insert(value);
        }
        metadata.entry("path").or_insert_with(|| self.input.id.clone().into());
        Ok(Document { id: Some(id), title, text, metadata: Some(Metadata::from_map(&metadata)) })
    }
}

fn take_text(fields: &mut Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(format!("`{name}` must be a text"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes files into a folder, reads the folder, and shows each outcome in a line.
    fn read_all(files: &[(&str, &[u8])]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let inputs = Inputs::find(&[folder.path().to_owned()]);
        let prefix = format!("{}/", folder.path().display());
        Documents::of(inputs.files)
            .map(|step| match step.outcome {
                Outcome::Document(document) => {
                    let metadata = document.metadata.unwrap();
                    let (id, title) = (document.id.unwrap(), document.title.unwrap_or("-".into()));
                    format!("{id} | {title} | {} | {}", document.text, metadata.as_json())
                }
                Outcome::Empty => "empty".to_owned(),
                Outcome::Rejected(rejected) => {
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
    fn lines_become_documents_and_bad_ones_are_named() {
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
    fn files_that_would_overwrite_each_other_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["a/x.txt", "b/x.txt", "c.png"].map(|name| folder.path().join(name));
        for path in &paths {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let inputs = Inputs::find(&[paths.as_slice(), &[folder.path().join("none")]].concat());
        assert_eq!(inputs.files.iter().map(|input| input.id.as_str()).collect::<Vec<_>>(), ["x.txt"]);
        let messages: Vec<&str> = inputs.rejected.iter().map(|rejected| rejected.message.as_str()).collect();
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
    fn headings_are_found_as_markdown_means_them() {
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
