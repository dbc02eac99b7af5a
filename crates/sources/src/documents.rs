//! Reads files and makes documents of them.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Map, Value};
use weir_api::{Document, FileOptions, Metadata};
use weir_client::{JsonLines, ReadStep, Rejection, StepResult, document_of_fields};

use super::SourceFile;
use super::encoding::Declaration;
use super::front_matter::FrontMatter;
use super::headings::first_heading;
use super::input::{Counter, Input};
use super::kinds::{Heading, Reader, stem_of};
use super::notebook;
use super::rows::Rows;

/// The field of the metadata with the name of the folder that was given to `weir ingest` or `weir sync`.
pub const FOLDER: &str = "folder";

/// The field of the metadata with the path of the file in that folder, behind the prefix of the ids.
pub const PATH: &str = "path";

/// Most bytes of a title, as of files whose text the gateway extracts.
const TITLE_BYTES_MAX: usize = 1_000;

/// Reads files one after the other, and those with several documents one by one.
pub struct Documents {
    files: VecDeque<SourceFile>,
    open: Option<OpenFile>,
}

struct OpenFile {
    results: Results,
    folder: Option<Arc<str>>,
    kept_id: Option<String>,
    bytes_read: Counter,
}

/// The documents of a file, each with its place: the path, or the path and a line or position.
type Results = Box<dyn Iterator<Item = (String, StepResult)>>;

impl Documents {
    /// The documents of `files`.
    pub fn of(files: Vec<SourceFile>) -> Documents {
        Documents { files: files.into(), open: None }
    }
}

impl Iterator for Documents {
    type Item = ReadStep;

    fn next(&mut self) -> Option<ReadStep> {
        loop {
            if let Some(open) = &mut self.open
                && let Some((place, result)) = open.results.next()
            {
                let result = in_folder(open.folder.as_deref(), with_id(open.kept_id.as_deref(), result));
                return Some(ReadStep { bytes: open.bytes_read.take(), place, result });
            }
            self.open = None;
            let file = self.files.pop_front()?;
            match open(&file) {
                Ok(open) => self.open = Some(open),
                Err(message) => {
                    let name = file.path.display().to_string();
                    let result = StepResult::Rejected(Rejection { name: name.clone(), message });
                    return Some(ReadStep { bytes: file.bytes, place: name, result });
                }
            }
        }
    }
}

fn open(file: &SourceFile) -> Result<OpenFile, String> {
    let input = Input::open(&file.path, file.kind.is_compressed).map_err(|error| error.to_string())?;
    let bytes_read = input.bytes_read.clone();
    let results: Results = match file.kind.reader {
        Reader::Text(Heading::Markdown) => one(file, markdown(file, input.read_text(Declaration::Comment)?)),
        Reader::Text(heading) => one(file, text(file, heading, input.read_text(Declaration::Comment)?)),
        Reader::Source => one(file, source(file, input.read_text(Declaration::Comment)?)),
        Reader::Notebook => one(file, source(file, notebook::text(&input.read_text(Declaration::None)?)?)),
        Reader::Html => one(file, page(file, &input.read_text(Declaration::Html)?)),
        Reader::Json => json(file, input.read_text(Declaration::None)?)?,
        Reader::JsonLines => {
            let lines = JsonLines::new(input.reader, file.path.clone(), file.id.clone());
            Box::new(lines.with_prefix(&file.prefix).map(|step| (step.place, step.result)))
        }
        Reader::Rows(separator) => Box::new(Rows::open(input, separator, file)?),
        Reader::Upload => return Ok(to_upload(file)),
    };
    Ok(OpenFile { results, folder: file.folder.clone(), kept_id: file.kept_id.clone(), bytes_read })
}

/// A file that is sent as it is.
fn to_upload(file: &SourceFile) -> OpenFile {
    let options = FileOptions {
        id: Some(file.id.clone()),
        metadata: Some(Metadata::from_map(&metadata_of(file, Map::new()))),
        ..FileOptions::default()
    };
    let source = weir_client::SourceFile { path: file.path.clone(), options };
    let bytes_read = Counter::of(file.bytes);
    let results = one(file, StepResult::File(source));
    OpenFile { results, folder: file.folder.clone(), kept_id: file.kept_id.clone(), bytes_read }
}

/// The documents of a file that contains at most one.
fn one(file: &SourceFile, result: StepResult) -> Results {
    Box::new(std::iter::once((file.path.display().to_string(), result)))
}

/// Gives the only document of a file the id that it keeps.
fn with_id(kept_id: Option<&str>, mut result: StepResult) -> StepResult {
    let Some(kept_id) = kept_id else { return result };
    if let StepResult::Document(document) = &mut result {
        document.id = Some(kept_id.to_owned());
    } else if let StepResult::File(file) = &mut result {
        file.options.id = Some(kept_id.to_owned());
    }
    result
}

/// Adds the folder to a document's metadata, unless it has a field of that name.
fn in_folder(folder: Option<&str>, result: StepResult) -> StepResult {
    let Some(folder) = folder else { return result };
    let with_folder = |metadata: Option<&Metadata>| {
        let mut fields = metadata.and_then(|metadata| metadata.to_map().ok()).unwrap_or_default();
        fields.entry(FOLDER).or_insert_with(|| folder.into());
        Some(Metadata::from_map(&fields))
    };
    match result {
        StepResult::Document(mut document) => {
            document.metadata = with_folder(document.metadata.as_ref());
            StepResult::Document(document)
        }
        StepResult::File(mut file) => {
            file.options.metadata = with_folder(file.options.metadata.as_ref());
            StepResult::File(file)
        }
        StepResult::Rejected(_) | StepResult::Empty | StepResult::Note(_) => result,
    }
}

/// A Markdown file: its front matter is title and metadata, the rest is the text.
fn markdown(file: &SourceFile, text: String) -> StepResult {
    let Some((front_matter, body)) = FrontMatter::split(&text) else {
        return document(file, first_heading(Heading::Markdown, &text), text);
    };
    let title = front_matter.title.or_else(|| first_heading(Heading::Markdown, body));
    if body.trim().is_empty() && title.is_none() {
        return StepResult::Empty;
    }
    StepResult::Document(Document {
        id: Some(file.id.clone()),
        title: title.or_else(|| stem_of(&file.path)).map(cut_title),
        text: body.to_owned(),
        metadata: Some(Metadata::from_map(&metadata_of(file, front_matter.metadata))),
        ..Document::default()
    })
}

/// Source code: the title is the path, which says what the code is for.
fn source(file: &SourceFile, text: String) -> StepResult {
    document(file, Some(file.id.clone()), text)
}

fn text(file: &SourceFile, heading: Heading, text: String) -> StepResult {
    document(file, first_heading(heading, &text), text)
}

fn page(file: &SourceFile, source: &str) -> StepResult {
    let page = weir_text::HtmlPage::parse(source);
    document(file, page.title, page.text)
}

fn document(file: &SourceFile, title: Option<String>, text: String) -> StepResult {
    if text.trim().is_empty() {
        return StepResult::Empty;
    }
    StepResult::Document(Document {
        id: Some(file.id.clone()),
        title: title.or_else(|| stem_of(&file.path)).map(cut_title),
        text,
        metadata: Some(Metadata::from_map(&metadata_of(file, Map::new()))),
        ..Document::default()
    })
}

/// A title that is found in a file can be a whole paragraph: the gateway refuses long ones.
fn cut_title(mut title: String) -> String {
    title.truncate(title.floor_char_boundary(TITLE_BYTES_MAX));
    title
}

/// The metadata of a file: `path` is always its own, also where the file says another.
fn metadata_of(file: &SourceFile, mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.insert(PATH.to_owned(), file.id.clone().into());
    fields
}

/// An object with a text is a document, and so is each of a list where one has a text. Anything else is text itself.
fn json(file: &SourceFile, source: String) -> Result<Results, String> {
    if source.trim().is_empty() {
        return Ok(one(file, StepResult::Empty));
    }
    let value = serde_json::from_str(&source).map_err(|error| {
        format!("is not JSON: {error}; mend it, or name it .jsonl if it has an object per line, or .txt")
    })?;
    Ok(match value {
        Value::Object(fields) if has_text(&fields) => {
            let document = document_of_fields(fields, file.id.clone(), &file.id, &file.prefix)?;
            one(file, StepResult::Document(document))
        }
        Value::Array(items) if items.iter().filter_map(Value::as_object).any(has_text) => {
            let file = file.clone();
            Box::new((1..).zip(items).map(move |(position, item)| item_of_list(&file, position, item)))
        }
        Value::Object(_)
        | Value::Array(_)
        | Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_) => one(file, document(file, None, source)),
    })
}

fn has_text(fields: &Map<String, Value>) -> bool {
    fields.get("text").is_some_and(Value::is_string)
}

/// The document at a position of a list, from 1.
fn item_of_list(file: &SourceFile, position: u64, item: Value) -> (String, StepResult) {
    let place = format!("{}#{position}", file.path.display());
    let document = match item {
        Value::Object(fields) => {
            let default_id = format!("{}#{position}", file.id);
            document_of_fields(fields, default_id, &file.id, &file.prefix)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err("is not an object with `text`, as others of the list are".to_owned())
        }
    };
    let rejected = |message| StepResult::Rejected(Rejection { name: place.clone(), message });
    let result = document.map_or_else(rejected, StepResult::Document);
    (place, result)
}
