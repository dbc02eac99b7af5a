//! Documents in a JSON Lines file: one object per line.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use serde_json::{Map, Value};
use weir_api::{Document, Metadata};

use crate::{ReadStep, Rejection, StepResult};

/// Reads a file line by line. Lines that are not documents are rejected as `path#line`.
///
/// A line is an object with `text`, and optionally `id` (or `_id`), `title` and `metadata`. Its other fields are added
/// to the metadata, and so is `path`.
pub struct JsonLines {
    /// `None` after a read error: the next read would fail too.
    file: Option<BufReader<File>>,
    path: PathBuf,
    file_id: String,
    line_number: u64,
}

impl JsonLines {
    /// Opens a file. Documents without an id get `file_id#line`; `file_id` is also the default of their metadata's `path`.
    pub fn open(path: PathBuf, file_id: String) -> std::io::Result<JsonLines> {
        let file = Some(BufReader::new(File::open(&path)?));
        Ok(JsonLines { file, path, file_id, line_number: 0 })
    }

    fn document(&self, line: &[u8]) -> Result<Document, String> {
        let text = std::str::from_utf8(line).map_err(|error| {
            format!("is not valid UTF-8: byte {} of the line is the first bad one", error.valid_up_to())
        })?;
        let mut fields: Map<String, Value> =
            serde_json::from_str(text).map_err(|error| format!("is not a JSON object: {error}"))?;
        let id = match fields.remove("id").or_else(|| fields.remove("_id")) {
            None | Some(Value::Null) => format!("{}#{}", self.file_id, self.line_number),
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
        metadata.entry("path").or_insert_with(|| self.file_id.clone().into());
        Ok(Document { id: Some(id), title, text, metadata: Some(Metadata::from_map(&metadata)) })
    }
}

impl Iterator for JsonLines {
    type Item = ReadStep;

    fn next(&mut self) -> Option<ReadStep> {
        let mut line = Vec::new();
        let read = self.file.as_mut()?.read_until(b'\n', &mut line);
        self.line_number += 1;
        let document = match read {
            Ok(0) => return None,
            Ok(_) if line.trim_ascii().is_empty() => Ok(StepResult::Empty),
            Ok(_) => self.document(&line).map(StepResult::Document),
            Err(error) => {
                self.file = None;
                Err(error.to_string())
            }
        };
        let result = document.unwrap_or_else(|message| {
            let name = format!("{}#{}", self.path.display(), self.line_number);
            StepResult::Rejected(Rejection { name, message })
        });
        Some(ReadStep { bytes: line.len() as u64, result })
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
