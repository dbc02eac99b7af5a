//! Documents in a table: a row each, below a header.

use std::borrow::Cow;
use std::path::PathBuf;
use std::sync::Arc;

use csv::ByteRecord;
use serde_json::{Map, Value};
use weir_client::{Rejection, StepResult, document_of_fields};

use super::SourceFile;
use super::encoding::{decode_latin_1, remedy};
use super::input::Input;
use super::kinds::{Separator, stem_of};
use super::table::{Columns, Layout, Limited, RecordLimit, number_of};

/// The column whose cells are texts.
const TEXT: &str = "text";

/// The columns beside [`TEXT`] that are no metadata.
const FIELDS: [&str; 3] = ["id", "_id", "title"];

/// Reads a table row by row. Rows that are not documents are rejected as `path#line`.
///
/// With a column `text`, a row is that text, with the columns `id` (or `_id`) and `title`; its other cells are metadata: numbers
/// where all cells of the column are, and texts elsewhere. Without one, the text of a row has a line `column: cell` for each
/// cell. Empty cells are left out.
pub(crate) struct Rows {
    /// `None` after a read error: the next read would fail too.
    reader: Option<csv::Reader<Limited>>,
    record_limit: RecordLimit,
    names: Vec<String>,
    columns: Columns,
    has_text: bool,
    /// A note about the table before its first row.
    note: Option<String>,
    /// Lines before the header.
    lines_skipped: u64,
    path: PathBuf,
    file_id: String,
    prefix: Arc<str>,
}

impl Rows {
    /// Reads the header, and the rows once for the types of the columns.
    pub(crate) fn open(mut input: Input, separator: Separator, file: &SourceFile) -> Result<Rows, String> {
        let record_limit = RecordLimit::default();
        let layout = Layout::of(input.reader.fill_buf().map_err(|error| error.to_string())?, separator);
        let first_pass =
            Input::open(&file.path, file.kind.is_compressed).map_err(|error| error.to_string())?;
        let columns = Columns::of(layout.reader(first_pass.reader, &record_limit), &record_limit);
        let mut reader = layout.reader(input.reader, &record_limit);
        let header = reader.byte_headers().map_err(|error| error.to_string())?;
        let names = names_of(header, columns.is_latin_1, &file.path)?;
        let has_text = names.iter().any(|name| name == TEXT);
        let note = match names.as_slice() {
            [name] if !has_text => Some(format!(
                "is read as a table with one column, `{}`; the separators are a comma, a semicolon, a tab and a bar, and a first line \
                 such as sep=# names another",
                name.escape_debug()
            )),
            _ => None,
        };
        Ok(Rows {
            reader: Some(reader),
            record_limit,
            names,
            columns,
            has_text,
            note,
            lines_skipped: u64::from(layout.skipped > 0),
            path: file.path.clone(),
            file_id: file.id.clone(),
            prefix: file.prefix.clone(),
        })
    }

    /// The document of a row that begins in this line.
    fn document(&self, record: &ByteRecord, line: u64) -> Result<StepResult, String> {
        if record.len() != self.names.len() {
            return Err(format!(
                "has {} cells and the header {}; put quotes around cells that contain the separator",
                record.len(),
                self.names.len()
            ));
        }
        let mut texts = Vec::with_capacity(record.len());
        for (name, cell) in self.names.iter().zip(record) {
            let text = text_of(cell, self.columns.is_latin_1)
                .ok_or_else(|| format!("is not valid UTF-8 in `{name}`; {}", remedy(&self.path)))?;
            texts.push(text);
        }
        let cells = self.names.iter().zip(&texts).enumerate();
        let cells = cells.map(|(column, (name, text))| Cell {
            name,
            text: text.trim(),
            is_number: self.columns.are_numbers.get(column).is_some_and(|is_number| *is_number),
        });
        let cells: Vec<Cell<'_>> = cells.filter(|cell| !cell.text.is_empty()).collect();
        let fields = if self.has_text { fields_of(&cells) } else { self.fields_of_listing(&cells) };
        let is_empty = !fields.contains_key(TEXT) && !fields.contains_key("title");
        if is_empty {
            return Ok(StepResult::Empty);
        }
        let default_id = format!("{}#{line}", self.file_id);
        document_of_fields(with_text(fields), default_id, &self.file_id, &self.prefix)
            .map(StepResult::Document)
    }

    /// The fields of a row of a table without texts.
    fn fields_of_listing(&self, cells: &[Cell<'_>]) -> Map<String, Value> {
        let lines: Vec<String> = cells.iter().map(|cell| format!("{}: {}", cell.name, cell.text)).collect();
        let mut fields = Map::new();
        if !lines.is_empty() {
            fields.insert(TEXT.to_owned(), lines.join("\n").into());
            fields.insert("title".to_owned(), stem_of(&self.path).into());
        }
        fields
    }
}

impl Iterator for Rows {
    type Item = (String, StepResult);

    fn next(&mut self) -> Option<(String, StepResult)> {
        if let Some(note) = self.note.take() {
            return Some((self.path.display().to_string(), StepResult::Note(note)));
        }
        let reader = self.reader.as_mut()?;
        self.record_limit.reset();
        let mut record = ByteRecord::new();
        let read = reader.read_byte_record(&mut record);
        let line = line_of(&record, reader.position().line()) + self.lines_skipped;
        let document = match read {
            Ok(false) => return None,
            Ok(true) => self.document(&record, line),
            Err(error) => {
                self.reader = None;
                Err(error.to_string())
            }
        };
        let place = format!("{}#{line}", self.path.display());
        let rejected = |message| StepResult::Rejected(Rejection { name: place.clone(), message });
        let result = document.unwrap_or_else(rejected);
        Some((place, result))
    }
}

/// The line in which a record begins, where the reader is at line `next` behind it. The position of a record is that of the
/// blank lines before it.
fn line_of(record: &ByteRecord, next: u64) -> u64 {
    let line_feeds = record.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
    let line = next.saturating_sub(line_feeds + 1);
    // a quote without an end contains the end of its line
    record.position().map_or(next, |position| position.line().max(line))
}

/// A cell that is not empty.
struct Cell<'a> {
    name: &'a str,
    text: &'a str,
    is_number: bool,
}

/// The text of a cell; `None` if it is neither UTF-8 nor Latin-1.
fn text_of(cell: &[u8], is_latin_1: bool) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(cell).ok().map(Cow::Borrowed);
    text.or_else(|| is_latin_1.then(|| decode_latin_1(cell)))
}

/// The names of the columns; those of fields are in lower case, and columns without a name get a number.
fn names_of(header: &ByteRecord, is_latin_1: bool, path: &std::path::Path) -> Result<Vec<String>, String> {
    let mut names: Vec<String> = Vec::with_capacity(header.len());
    for (position, name) in (1..).zip(header) {
        let name = text_of(name, is_latin_1)
            .ok_or_else(|| format!("has a header that is not valid UTF-8; {}", remedy(path)))?;
        let name = name.trim();
        let lower = name.to_lowercase();
        let name = match name {
            "" => format!("column_{position}"),
            _ if lower == TEXT || FIELDS.contains(&lower.as_str()) => lower,
            name => name.to_owned(),
        };
        if names.contains(&name) {
            return Err(format!("has two columns with the name `{name}`; rename one"));
        }
        names.push(name);
    }
    Ok(names)
}

/// The fields of a row with a text.
fn fields_of(cells: &[Cell<'_>]) -> Map<String, Value> {
    let (mut fields, mut metadata) = (Map::new(), Map::new());
    for cell in cells {
        match cell.name {
            TEXT | "id" | "_id" | "title" => fields.insert(cell.name.to_owned(), cell.text.into()),
            name => {
                let number = number_of(cell.text).filter(|_| cell.is_number);
                metadata.insert(name.to_owned(), number.map_or_else(|| cell.text.into(), Value::Number))
            }
        };
    }
    fields.insert("metadata".to_owned(), metadata.into());
    fields
}

/// Adds an empty text to a row with a title alone.
fn with_text(mut fields: Map<String, Value>) -> Map<String, Value> {
    fields.entry(TEXT).or_insert_with(|| "".into());
    fields
}
