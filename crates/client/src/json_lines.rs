//! Documents in a JSON Lines file: one object per line.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use weir_api::Document;

use crate::{ReadStep, Rejection, StepResult, document_of_fields};

/// Bytes of a line, at most. The gateway's default limit for a text is far lower.
const LINE_BYTES_MAX: u64 = 256 << 20;

/// Bytes that some programs write at the beginning of a file in UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads a file line by line. Lines that are not documents are rejected as `path#line`.
///
/// A line is an object as [`document_of_fields`] describes it.
pub struct JsonLines {
    /// `None` after a read error: the next read would fail too.
    file: Option<Box<dyn BufRead + Send>>,
    path: PathBuf,
    file_id: String,
    prefix: String,
    line_number: u64,
}

impl JsonLines {
    /// Opens a file. Documents without an id get `file_id#line`; `file_id` is also the default of their metadata's `path`.
    pub fn open(path: PathBuf, file_id: String) -> std::io::Result<JsonLines> {
        let reader = Box::new(BufReader::new(File::open(&path)?));
        Ok(JsonLines::new(reader, path, file_id))
    }

    /// The same for a file that is open. `path` names it in rejections.
    pub fn new(reader: Box<dyn BufRead + Send>, path: PathBuf, file_id: String) -> JsonLines {
        JsonLines { file: Some(reader), path, file_id, prefix: String::new(), line_number: 0 }
    }

    /// Puts `prefix` before the ids that lines bring.
    pub fn with_prefix(mut self, prefix: &str) -> JsonLines {
        prefix.clone_into(&mut self.prefix);
        self
    }

    fn place(&self) -> String {
        format!("{}#{}", self.path.display(), self.line_number)
    }

    fn document(&self, line: &[u8]) -> Result<Document, String> {
        let text = std::str::from_utf8(line).map_err(|error| {
            format!(
                "is not valid UTF-8: byte {} of the line is the first bad one; write the file in UTF-8, as JSON is",
                error.valid_up_to()
            )
        })?;
        let fields = serde_json::from_str(text).map_err(|error| format!("is not a JSON object: {error}"))?;
        let default_id = format!("{}#{}", self.file_id, self.line_number);
        document_of_fields(fields, default_id, &self.file_id, &self.prefix)
    }
}

/// Reads a line. Of one that is too long nothing is kept.
fn read_line(file: &mut dyn BufRead) -> std::io::Result<Result<Vec<u8>, String>> {
    let mut line = Vec::new();
    Read::take(&mut *file, LINE_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
    if line.len() as u64 <= LINE_BYTES_MAX {
        return Ok(Ok(line));
    }
    if line.last() != Some(&b'\n') {
        file.skip_until(b'\n')?;
    }
    Ok(Err(format!("has more than {LINE_BYTES_MAX} bytes; cut it into several documents")))
}

impl Iterator for JsonLines {
    type Item = ReadStep;

    fn next(&mut self) -> Option<ReadStep> {
        let read = read_line(self.file.as_mut()?);
        self.line_number += 1;
        let mut bytes = 0;
        let document = match read {
            Ok(Ok(line)) if line.is_empty() => return None,
            Ok(Ok(line)) => {
                bytes = line.len() as u64;
                let mark = if self.line_number == 1 { BYTE_ORDER_MARK } else { b"" };
                let line = line.strip_prefix(mark).unwrap_or(&line);
                match line.trim_ascii().is_empty() {
                    true => Ok(StepResult::Empty),
                    false => self.document(line).map(StepResult::Document),
                }
            }
            Ok(Err(message)) => Err(message),
            Err(error) => {
                self.file = None;
                Err(error.to_string())
            }
        };
        let result = document
            .unwrap_or_else(|message| StepResult::Rejected(Rejection { name: self.place(), message }));
        Some(ReadStep { bytes, place: self.place(), result })
    }
}
