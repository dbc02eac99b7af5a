//! Documents in a table: a row each, below a header.

use std::io::{BufRead, Error, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use csv::ByteRecord;
use serde_json::{Map, Value};
use weir_client::{Rejection, StepResult, document_of_fields};

use super::SourceFile;
use super::input::DOCUMENT_BYTES_MAX;
use super::kinds::{Separator, stem_of};

/// The column whose cells are texts.
const TEXT: &str = "text";

/// The columns beside [`TEXT`] that are no metadata.
const FIELDS: [&str; 3] = ["id", "_id", "title"];

/// Reads a table row by row. Rows that are not documents are rejected as `path#line`.
///
/// With a column `text`, a row is that text, with the columns `id` (or `_id`) and `title`; its other cells are metadata.
/// Without one, the text of a row has a line `column: cell` for each cell. Empty cells are left out.
pub(super) struct Rows {
    /// `None` after a read error: the next read would fail too.
    reader: Option<csv::Reader<Limited>>,
    record_limit: RecordLimit,
    columns: Vec<String>,
    has_text: bool,
    path: PathBuf,
    file_id: String,
    prefix: Arc<str>,
}

impl Rows {
    /// Reads the header.
    pub(super) fn open(
        mut reader: Box<dyn BufRead + Send>,
        separator: Separator,
        file: &SourceFile,
    ) -> Result<Rows, String> {
        let delimiter = match separator {
            Separator::Tab => b'\t',
            Separator::Comma => comma_or_semicolon(reader.fill_buf().map_err(|error| error.to_string())?),
        };
        let record_limit = RecordLimit::default();
        record_limit.reset();
        let reader = Limited { reader, left: record_limit.clone() };
        let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).flexible(true).from_reader(reader);
        let header = reader.byte_headers().map_err(|error| error.to_string())?;
        let columns = columns_of(header)?;
        let has_text = columns.iter().any(|column| column == TEXT);
        let (path, file_id, prefix) = (file.path.clone(), file.id.clone(), file.prefix.clone());
        Ok(Rows { reader: Some(reader), record_limit, columns, has_text, path, file_id, prefix })
    }

    /// The document of a row that begins in this line.
    fn document(&self, record: &ByteRecord, line: u64) -> Result<StepResult, String> {
        if record.len() != self.columns.len() {
            return Err(format!(
                "has {} cells and the header {}; put quotes around cells that contain the separator",
                record.len(),
                self.columns.len()
            ));
        }
        let mut cells = Vec::with_capacity(record.len());
        for (column, cell) in self.columns.iter().zip(record) {
            let cell = std::str::from_utf8(cell).map_err(|_| {
                format!("is not valid UTF-8 in `{column}`; convert the file with iconv -t UTF-8")
            })?;
            cells.push((column.as_str(), cell.trim()));
        }
        cells.retain(|(_, cell)| !cell.is_empty());
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
    fn fields_of_listing(&self, cells: &[(&str, &str)]) -> Map<String, Value> {
        let lines: Vec<String> = cells.iter().map(|(column, cell)| format!("{column}: {cell}")).collect();
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
        let reader = self.reader.as_mut()?;
        self.record_limit.reset();
        let mut record = ByteRecord::new();
        let read = reader.read_byte_record(&mut record);
        let line = record.position().unwrap_or(reader.position()).line();
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

/// The names of the columns; those of fields are in lower case, and columns without a name get a number.
fn columns_of(header: &ByteRecord) -> Result<Vec<String>, String> {
    let mut columns: Vec<String> = Vec::with_capacity(header.len());
    for (position, name) in (1..).zip(header) {
        let name = std::str::from_utf8(name)
            .map_err(|_| "has a header that is not valid UTF-8; convert the file with iconv -t UTF-8")?
            .trim();
        let lower = name.to_lowercase();
        let name = match name {
            "" => format!("column_{position}"),
            _ if lower == TEXT || FIELDS.contains(&lower.as_str()) => lower,
            name => name.to_owned(),
        };
        if columns.contains(&name) {
            return Err(format!("has two columns with the name `{name}`; rename one"));
        }
        columns.push(name);
    }
    Ok(columns)
}

/// The fields of a row with a text.
fn fields_of(cells: &[(&str, &str)]) -> Map<String, Value> {
    let (mut fields, mut metadata) = (Map::new(), Map::new());
    for &(column, cell) in cells {
        match column {
            TEXT | "id" | "_id" | "title" => fields.insert(column.to_owned(), cell.into()),
            _ => metadata.insert(column.to_owned(), value_of(cell)),
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

/// A number where the cell is written as JSON writes it, so that `007` and `1.10` stay as they are.
fn value_of(cell: &str) -> Value {
    match serde_json::from_str::<Value>(cell) {
        Ok(Value::Number(number)) if number.to_string() == cell => Value::Number(number),
        _ => cell.into(),
    }
}

fn comma_or_semicolon(head: &[u8]) -> u8 {
    let header = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let count = |separator| header.iter().filter(|byte| **byte == separator).count();
    if count(b';') > count(b',') { b';' } else { b',' }
}

/// Bytes that may still be read for a row: a quote without an end makes one of the rest of the file.
#[derive(Clone, Default)]
struct RecordLimit(Arc<AtomicU64>);

impl RecordLimit {
    fn reset(&self) {
        self.0.store(DOCUMENT_BYTES_MAX, Ordering::Relaxed);
    }

    fn spend(&self, bytes: u64) -> std::io::Result<()> {
        let left = self.0.load(Ordering::Relaxed).checked_sub(bytes).ok_or_else(|| {
            Error::other(format!(
                "the row has more than {DOCUMENT_BYTES_MAX} bytes; look for a quote without an end"
            ))
        })?;
        self.0.store(left, Ordering::Relaxed);
        Ok(())
    }
}

struct Limited {
    reader: Box<dyn BufRead + Send>,
    left: RecordLimit,
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.left.spend(read as u64)?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_that_are_numbers_in_json_become_numbers() {
        for cell in ["2019", "-3", "1.5", "0"] {
            assert!(value_of(cell).is_number(), "{cell}");
        }
        for cell in
            ["007", "1.10", "1e3", "+1", ".5", "true", "null", "\"a\"", "NaN", "12345678901234567890123"]
        {
            assert_eq!(value_of(cell), cell, "{cell}");
        }
    }

    #[test]
    fn the_separator_that_the_header_has_more_of_is_taken() {
        assert_eq!(comma_or_semicolon(b"a,b\n;;;"), b',');
        assert_eq!(comma_or_semicolon(b"a;b,c;d\n"), b';');
        assert_eq!(comma_or_semicolon(b""), b',');
    }

    #[test]
    fn a_row_without_an_end_is_cut_off() {
        let limit = RecordLimit::default();
        limit.reset();
        assert!(limit.spend(DOCUMENT_BYTES_MAX).is_ok());
        let message = limit.spend(1).unwrap_err().to_string();
        assert_eq!(message, "the row has more than 268435456 bytes; look for a quote without an end");
    }
}
