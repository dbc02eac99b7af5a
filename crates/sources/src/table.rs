//! How a table is written, and which of its columns are numbers: found before its rows are read.

use std::io::{BufRead, Error, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use csv::ByteRecord;
use serde_json::Number;

use super::encoding::latin_1;
use super::input::DOCUMENT_BYTES_MAX;
use super::kinds::Separator;

/// The separators that are recognised, in the order in which they are preferred.
const SEPARATORS: [u8; 4] = [b',', b';', b'\t', b'|'];

/// Rows that decide between the separators.
const SAMPLE_ROWS: usize = 20;

/// Significant digits that a number keeps.
const DIGITS_MAX: usize = 15;

/// Bytes of cells that are examined for their encoding at a time.
const EXAMINED_BYTES: usize = 64 << 10;

/// Parts of the names of columns that are text although all of their cells are numbers: 1.10 is a later version than 1.9.
const TEXT_COLUMNS: [&str; 2] = ["version", "release"];

/// How a table is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(crate) separator: u8,
    /// The bytes of a first line such as `sep=;`.
    pub(crate) skipped: usize,
}

impl Layout {
    /// The layout of a table that begins with `head`.
    pub(crate) fn of(head: &[u8], separator: Separator) -> Layout {
        if let Some((separator, skipped)) = declared_separator(head) {
            return Layout { separator, skipped };
        }
        let has_tab = || counts(head, b'\t').first().is_some_and(|count| *count > 0);
        let separator = match separator {
            Separator::Tab if has_tab() => b'\t',
            Separator::Tab | Separator::Any => likely_separator(head),
        };
        Layout { separator, skipped: 0 }
    }

    /// A reader of the header and of the rows.
    pub(crate) fn reader(
        self,
        mut input: Box<dyn BufRead + Send>,
        limit: &RecordLimit,
    ) -> csv::Reader<Limited> {
        input.consume(self.skipped);
        limit.reset();
        let reader = Limited { reader: input, left: limit.clone(), ends_line: false, last: b'\n' };
        csv::ReaderBuilder::new().delimiter(self.separator).flexible(true).from_reader(reader)
    }
}

/// The columns common to all rows of a table.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Columns {
    /// For each column, whether it has a cell and every cell that is not empty is a number.
    pub(crate) are_numbers: Vec<bool>,
    /// Whether what is not UTF-8 is Latin-1.
    pub(crate) is_latin_1: bool,
}

impl Columns {
    /// Reads all rows. A row that can't be read ends the table.
    pub(crate) fn of(mut reader: csv::Reader<Limited>, limit: &RecordLimit) -> Columns {
        let mut examined = Examined::default();
        let Ok(header) = reader.byte_headers() else { return Columns::default() };
        let names: Vec<String> =
            header.iter().map(|name| String::from_utf8_lossy(name).to_lowercase()).collect();
        header.iter().for_each(|cell| examined.add(cell));
        let is_text = |name: &String| TEXT_COLUMNS.iter().any(|part| name.contains(part));
        let mut can_be_numbers: Vec<bool> = names.iter().map(|name| !is_text(name)).collect();
        let mut have_cells = vec![false; names.len()];
        let mut record = ByteRecord::new();
        loop {
            limit.reset();
            if !matches!(reader.read_byte_record(&mut record), Ok(true)) {
                break;
            }
            record.iter().for_each(|cell| examined.add(cell));
            if record.len() != names.len() {
                continue; // the row is rejected
            }
            for (column, cell) in record.iter().enumerate().filter(|(_, cell)| !cell.trim_ascii().is_empty())
            {
                have_cells[column] = true;
                can_be_numbers[column] = can_be_numbers[column]
                    && std::str::from_utf8(cell).is_ok_and(|cell| number_of(cell.trim()).is_some());
            }
        }
        let are_numbers = can_be_numbers.iter().zip(have_cells).map(|(can, has)| *can && has).collect();
        Columns { are_numbers, is_latin_1: examined.is_latin_1() }
    }
}

/// The cells beyond ASCII.
#[derive(Default)]
struct Examined {
    cells: Vec<u8>,
    is_other: bool,
}

impl Examined {
    fn add(&mut self, cell: &[u8]) {
        if self.is_other || cell.is_ascii() {
            return;
        }
        self.cells.extend_from_slice(cell);
        self.cells.push(b' ');
        if self.cells.len() > EXAMINED_BYTES {
            self.is_other = !latin_1(&self.cells);
            self.cells.clear();
        }
    }

    fn is_latin_1(&self) -> bool {
        !self.is_other && latin_1(&self.cells)
    }
}

/// A number as people write it: no exponent, no zeros before it, few enough digits that none is lost. Zeros at the end of a
/// fraction are dropped.
pub(crate) fn number_of(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) =
        unsigned.split_once('.').map_or((unsigned, None), |(whole, part)| (whole, Some(part)));
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole)
        || whole.len() > 1 && whole.starts_with('0')
        || fraction.is_some_and(|part| !is_digits(part))
    {
        return None;
    }
    let Some(fraction) = fraction else {
        return text.parse::<i64>().ok().map(Number::from).filter(|_| text != "-0");
    };
    let digits = whole.len() + fraction.trim_end_matches('0').len();
    let value: f64 = text.parse().ok().filter(|_| digits <= DIGITS_MAX)?;
    Number::from_f64(value)
}

/// The separator in a first line such as `sep=;`, as spreadsheets write it, and the length of that line.
fn declared_separator(head: &[u8]) -> Option<(u8, usize)> {
    let end = head.iter().position(|byte| matches!(byte, b'\n' | b'\r'))?;
    let line =
        head[..end].strip_prefix(b"\"").and_then(|line| line.strip_suffix(b"\"")).unwrap_or(&head[..end]);
    let (name, separator) = line.split_at_checked(4)?;
    let &[separator] = separator else { return None };
    let is_declared = name.eq_ignore_ascii_case(b"sep=") && separator.is_ascii() && separator != b'"';
    is_declared.then(|| (separator, end + if head[end..].starts_with(b"\r\n") { 2 } else { 1 }))
}

/// The separator that occurs as often in most rows as in the header. Of several, the one that is most frequent in the header.
fn likely_separator(head: &[u8]) -> u8 {
    let mut best = (0, 0, SEPARATORS[0]);
    for separator in SEPARATORS {
        let counts = counts(head, separator);
        let Some((&in_header, in_rows)) = counts.split_first().filter(|(count, _)| **count > 0) else {
            continue;
        };
        let rows = in_rows.iter().filter(|count| **count == in_header).count();
        if (rows, in_header) > (best.0, best.1) {
            best = (rows, in_header, separator);
        }
    }
    best.2
}

/// The number of separators outside quotes in the header and in the first rows that `head` has.
fn counts(head: &[u8], separator: u8) -> Vec<usize> {
    let (mut counts, mut count, mut is_quoted, mut has_content) = (Vec::new(), 0, false, false);
    for &byte in head {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'\n' | b'\r' if !is_quoted => {
                counts.extend(has_content.then_some(count));
                (count, has_content) = (0, false);
                if counts.len() > SAMPLE_ROWS {
                    return counts;
                }
                continue;
            }
            _ => count += usize::from(byte == separator && !is_quoted),
        }
        has_content = true;
    }
    counts.extend(has_content.then_some(count));
    counts
}

/// Bytes that may still be read for a row: a quote without an end makes one of the rest of the file.
#[derive(Clone, Default)]
pub(crate) struct RecordLimit(Arc<AtomicU64>);

impl RecordLimit {
    pub(crate) fn reset(&self) {
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

/// The bytes of a table, in which every line ends with a line feed alone, the last one too: the parser counts lines by them, and
/// counts that of CR LF with the line after it.
pub(crate) struct Limited {
    reader: Box<dyn BufRead + Send>,
    left: RecordLimit,
    /// Whether the byte before was a carriage return.
    ends_line: bool,
    /// The last byte of the table as the parser sees it.
    last: u8,
}

impl Limited {
    /// Ends the last line, if it is not ended.
    fn end(&mut self, buffer: &mut [u8]) -> usize {
        match buffer.first_mut().filter(|_| self.last != b'\n') {
            Some(first) => {
                (*first, self.last) = (b'\n', b'\n');
                1
            }
            None => 0,
        }
    }
}

impl Read for Limited {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            let read = self.reader.read(buffer)?;
            self.left.spend(read as u64)?;
            let mut kept = 0;
            for at in 0..read {
                let byte = buffer[at];
                let is_second = self.ends_line && byte == b'\n';
                self.ends_line = byte == b'\r';
                if !is_second {
                    buffer[kept] = if self.ends_line { b'\n' } else { byte };
                    kept += 1;
                }
            }
            // nothing would be the end of the table
            if kept > 0 {
                self.last = buffer[kept - 1];
                return Ok(kept);
            }
            if read == 0 {
                return Ok(self.end(buffer));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_recognised_as_people_write_them() {
        for (text, number) in [
            ("2019", "2019"),
            ("-3", "-3"),
            ("1.5", "1.5"),
            ("0", "0"),
            ("19.90", "19.9"),
            ("20.00", "20.0"),
            ("-0.5", "-0.5"),
        ] {
            assert_eq!(number_of(text).map(|number| number.to_string()).as_deref(), Some(number));
        }
        for text in [
            "",
            "-",
            "007",
            "1e3",
            "+1",
            ".5",
            "5.",
            "true",
            "NaN",
            "-0",
            "1,5",
            "1.2.3",
            "12345678901234567890123",
            "1234567890.1234567",
            "２",
        ] {
            assert_eq!(number_of(text), None, "{text}");
        }
    }

    #[test]
    fn the_separator_is_that_of_the_header_and_of_the_rows() {
        for (head, separator) in [
            ("a,b\n;;;", b','),
            ("a;b,c;d\n", b';'),
            ("a\tb\nx, y\t1", b'\t'),
            ("a|b\r\nx|1", b'|'),
            ("\"Name, first, last\";b\n\"x;y\";1", b';'),
            ("Name, first, last;b\nx;1\n", b';'),
            ("a;b\r1;2", b';'),
            ("a b", b','),
            ("", b','),
        ] {
            let layout = Layout::of(head.as_bytes(), Separator::Any);
            assert_eq!((layout.separator as char, layout.skipped), (separator as char, 0), "{head}");
        }
        assert_eq!(Layout::of(b"a, b\tc\nx", Separator::Tab).separator, b'\t');
        assert_eq!(Layout::of(b"a;b\nx;y", Separator::Tab).separator, b';');
    }

    #[test]
    fn a_declared_separator_is_taken() {
        for (head, expected) in [
            ("sep=;\na,b", (b';', 6)),
            ("SEP=\t\r\na,b", (b'\t', 7)),
            ("\"sep=#\"\ra,b", (b'#', 8)),
            ("sep=;;\na,b", (b';', 0)),
            ("sep=", (b',', 0)),
        ] {
            let layout = Layout::of(head.as_bytes(), Separator::Tab);
            assert_eq!((layout.separator, layout.skipped), expected, "{head}");
        }
    }

    #[test]
    fn a_column_is_of_numbers_if_all_of_its_cells_are() {
        let limit = RecordLimit::default();
        let table = "n,part,version,none,mixed\n1.10,2,1.10,,1\n19.90, 3 ,2,,a\n,x,1,,\n1,2\n";
        let layout = Layout::of(table.as_bytes(), Separator::Any);
        let columns = Columns::of(layout.reader(Box::new(table.as_bytes()), &limit), &limit);
        assert_eq!(columns.are_numbers, [true, false, false, false, false]);
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
