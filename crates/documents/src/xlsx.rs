//! Excel workbooks: a page for each sheet, a line for each row, the values as a reader sees them.
//!
//! The text is written as the cells are read: the size of a sheet costs nothing, only its cells do.

mod format;
mod workbook;

use std::collections::HashMap;

use crate::budget::Budget;
use crate::ooxml::{self, Relationships};
use crate::output::{Block, Output};
use crate::package::Package;
use crate::xml::{Event, Tag, Xml};
use crate::{Extracted, Failure, Limits};
use workbook::{Formats, SharedStrings, Workbook};

/// Comments of one sheet.
const COMMENTS_MAX: usize = 100_000;
/// Ranges of hidden columns of one sheet.
const HIDDEN_COLUMNS_MAX: usize = 1_000;

/// Extracts the text of a workbook.
pub(crate) fn extract(bytes: &[u8], limits: &Limits) -> Result<Extracted, Failure> {
    let budget = Budget::new(limits);
    let mut package = Package::open(bytes, &budget)?;
    let mut output = Output::new(limits);
    let main = ooxml::main_part(&mut package, &budget, "xl/workbook.xml")?;
    ooxml::read_properties(&mut package, &budget, &mut output)?;
    let relationships = Relationships::of(&mut package, &budget, &main)?;
    let workbook = Workbook::parse(&package.required(&main)?, &budget)?;
    let mut part = |kind: &str| relationships.target(kind).map_or(Ok(None), |part| package.text(part));
    let strings = part("sharedStrings")?
        .map_or(Ok(SharedStrings::default()), |text| SharedStrings::parse(&text, &budget))?;
    let formats = part("styles")?.map_or(Ok(Formats::default()), |text| Formats::parse(&text, &budget))?;
    for sheet in &workbook.sheets {
        let part = relationships.get(&sheet.relationship).filter(|part| part.kind != "chartsheet");
        if sheet.is_hidden && output.skips_hidden() {
            output.warn_hidden();
            continue;
        }
        let is_wanted = output.wants_next_page();
        output.start_page(Some(sheet.name.clone()), false);
        if output.is_full() {
            break;
        }
        let Some(part) = part.filter(|_| is_wanted) else { continue };
        let text = match package.text(&part.target) {
            Ok(Some(text)) => text,
            Ok(None) | Err(Failure::DamagedFile(_)) => {
                output.warn_broken_page();
                continue;
            }
            Err(failure) => return Err(failure),
        };
        output.start_block(Block::Heading(1, String::new()));
        output.push(&sheet.name);
        output.end_block();
        let comments = read_comments(&mut package, &budget, &part.target)?;
        let from_1904 = workbook.from_1904;
        let mut rows = Rows {
            xml: Xml::new(&text, &budget),
            output: &mut output,
            budget: &budget,
            strings: &strings,
            formats: &formats,
            from_1904,
            comments,
        };
        match rows.read() {
            Ok(()) => {}
            Err(Failure::DamagedFile(_)) => output.warn_broken_page(),
            Err(failure) => return Err(failure),
        }
        output.end_all();
    }
    output.finish()
}

/// The comments of a sheet by the references of their cells. Conversations replace the plain comments that stand for them.
fn read_comments(
    package: &mut Package<'_>,
    budget: &Budget<'_>,
    part: &str,
) -> Result<HashMap<String, String>, Failure> {
    let relationships = Relationships::of(package, budget, part)?;
    let mut comments: HashMap<String, String> = HashMap::new();
    let kind = if relationships.target("threadedComment").is_some() { "threadedComment" } else { "comments" };
    for part in relationships.targets(kind) {
        let Ok(Some(text)) = package.text(part) else { continue };
        let (mut cell, mut in_text) = (String::new(), false);
        let mut xml = Xml::new(&text, budget);
        while let Ok(Some(event)) = xml.next() {
            match event {
                Event::Open(tag) if matches!(tag.name(), "comment" | "threadedComment") => {
                    cell = tag.attr("ref").unwrap_or_default().into_owned();
                    if comments.get(&cell).is_some_and(|comment| !comment.is_empty()) {
                        comments.entry(cell.clone()).or_default().push(' ');
                    }
                }
                Event::Open(tag) => {
                    in_text = tag.name() == "t" || (kind == "threadedComment" && tag.name() == "text")
                }
                Event::Close(_) => in_text = false,
                Event::Text(text) if in_text && comments.len() < COMMENTS_MAX => {
                    comments.entry(cell.clone()).or_default().push_str(&text)
                }
                Event::Text(_) => {}
            }
        }
    }
    Ok(comments)
}

/// A cell while it is read.
#[derive(Debug, Default)]
struct Cell {
    /// Its column, from 1.
    column: usize,
    reference: String,
    kind: String,
    style: usize,
    value: String,
}

/// The state of the reader of one sheet.
struct Rows<'a, 'o, 'l> {
    xml: Xml<'a>,
    output: &'o mut Output<'l>,
    budget: &'a Budget<'a>,
    strings: &'o SharedStrings,
    formats: &'o Formats,
    from_1904: bool,
    comments: HashMap<String, String>,
}

impl Rows<'_, '_, '_> {
    fn read(&mut self) -> Result<(), Failure> {
        let mut hidden_columns = Vec::new();
        let mut first_column = 1;
        self.output.start_table();
        while !self.output.is_full() {
            let Some(event) = self.xml.next()? else { break };
            let Event::Open(tag) = event else { continue };
            match tag.name() {
                "dimension" => first_column = column(&tag.attr("ref").unwrap_or_default()).max(1),
                "col"
                    if self.output.skips_hidden()
                        && tag.is_set("hidden")
                        && hidden_columns.len() < HIDDEN_COLUMNS_MAX =>
                {
                    hidden_columns.push(
                        tag.number::<usize>("min").unwrap_or(0)..=tag.number::<usize>("max").unwrap_or(0),
                    );
                }
                "row" => {
                    let is_hidden = self.output.skips_hidden() && tag.is_set("hidden");
                    self.read_row(first_column, |column| {
                        hidden_columns.iter().any(|range| range.contains(&column))
                    })?;
                    if !is_hidden {
                        self.output.end_row();
                    } else if self.output.drop_row() {
                        self.output.warn_hidden();
                    }
                }
                "extLst" | "headerFooter" | "dataValidations" | "conditionalFormatting" => self.xml.skip()?,
                _ => {}
            }
        }
        self.output.end_table();
        let mut rest: Vec<_> = std::mem::take(&mut self.comments).into_iter().collect();
        rest.sort();
        for (_, comment) in rest {
            self.output.note("comment", &comment);
        }
        Ok(())
    }

    /// Reads the cells of a row up to its end.
    fn read_row(&mut self, first_column: usize, is_hidden: impl Fn(usize) -> bool) -> Result<(), Failure> {
        self.output.start_row();
        let mut cell = Cell::default();
        let mut last = first_column - 1;
        let mut in_value = false;
        while let Some(event) = self.xml.next()? {
            match event {
                Event::Open(tag) => match tag.name() {
                    "c" => {
                        self.budget.take_cells(1)?;
                        cell = next_cell(&tag, cell.column);
                    }
                    "v" | "t" => in_value = true,
                    "f" | "rPh" => self.xml.skip()?,
                    _ => {}
                },
                Event::Text(text) if in_value => cell.value.push_str(&text),
                Event::Text(_) => {}
                Event::Close(tag) => match tag.name() {
                    "row" => break,
                    "v" | "t" => in_value = false,
                    "c" if !cell.value.is_empty() || self.comments.contains_key(&cell.reference) => {
                        if is_hidden(cell.column) {
                            self.output.warn_hidden();
                        } else {
                            self.write(&cell, last);
                            last = cell.column;
                        }
                    }
                    _ => {}
                },
            }
            if self.output.is_full() {
                break;
            }
        }
        Ok(())
    }

    /// Writes a cell; `last` is the column of the cell before.
    fn write(&mut self, cell: &Cell, last: usize) {
        self.output.empty_cells(cell.column.saturating_sub(last + 1));
        self.output.start_cell();
        let value = cell.value.trim();
        match cell.kind.as_str() {
            "s" => {
                let text = value.parse().map_or("", |index| self.strings.get(index));
                self.output.push(text);
            }
            "b" => self.output.push(if value == "1" { "TRUE" } else { "FALSE" }),
            "n" | "" => match value.parse() {
                Ok(number) => {
                    let shown = self.formats.get(cell.style).show(number, self.from_1904);
                    self.output.push(&shown);
                }
                Err(_) => self.output.push(value),
            },
            // text of a formula, inline text, errors, dates in ISO 8601
            _ => self.output.push(&cell.value),
        }
        if let Some(comment) = self.comments.remove(&cell.reference) {
            self.output.note("comment", &comment);
        }
    }
}

/// The cell that begins; without a reference it stands behind the one before.
fn next_cell(tag: &Tag<'_>, column_before: usize) -> Cell {
    let reference = tag.attr("r").unwrap_or_default().into_owned();
    let column = match column(&reference) {
        0 => column_before + 1,
        column => column,
    };
    Cell {
        column,
        reference,
        kind: tag.attr("t").unwrap_or_default().into_owned(),
        style: tag.number("s").unwrap_or(0),
        value: String::new(),
    }
}

/// The number of the column of a reference such as `AB12`, from 1; 0 for none. Columns end at `XFD`.
fn column(reference: &str) -> usize {
    const COLUMNS_MAX: usize = 16_384;
    let letters = reference.bytes().take_while(u8::is_ascii_alphabetic).take(4);
    letters
        .fold(0, |column, letter| column * 26 + usize::from(letter.to_ascii_uppercase() - b'A') + 1)
        .min(COLUMNS_MAX)
}

#[cfg(test)]
mod tests {
    use super::column;

    #[test]
    fn columns_are_counted_from_one() {
        for (reference, expected) in [
            ("A1", 1),
            ("Z9", 26),
            ("AA1", 27),
            ("XFD1048576", 16_384),
            ("AAAAAAAA1", 16_384),
            ("12", 0),
            ("", 0),
        ] {
            assert_eq!(column(reference), expected, "{reference}");
        }
    }
}
