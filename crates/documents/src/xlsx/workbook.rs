//! Shared parts of the sheets of a workbook: their list, the texts of their cells, the formats of their numbers.

use crate::Failure;
use crate::budget::Budget;
use crate::xml::{Event, Xml};

use super::format::Format;

/// Sheets of one workbook.
const SHEETS_MAX: usize = 20_000;
/// Formats of one workbook.
const FORMATS_MAX: usize = 100_000;

/// A sheet of a workbook.
#[derive(Debug)]
pub(super) struct Sheet {
    pub(super) name: String,
    /// The id of its relationship.
    pub(super) relationship: String,
    pub(super) is_hidden: bool,
}

/// The main part of a workbook.
#[derive(Debug, Default)]
pub(super) struct Workbook {
    pub(super) sheets: Vec<Sheet>,
    /// Whether days are counted from 1904.
    pub(super) from_1904: bool,
}

impl Workbook {
    /// Reads `workbook.xml`.
    pub(super) fn parse(text: &str, budget: &Budget<'_>) -> Result<Workbook, Failure> {
        let mut workbook = Workbook::default();
        let mut xml = Xml::new(text, budget);
        while let Some(event) = xml.next()? {
            let Event::Open(tag) = event else { continue };
            match tag.name() {
                "workbookPr" => workbook.from_1904 = tag.is_set("date1904"),
                "sheet" if workbook.sheets.len() < SHEETS_MAX => workbook.sheets.push(Sheet {
                    name: tag.attr("name").unwrap_or_default().into_owned(),
                    relationship: tag.relation().unwrap_or_default().into_owned(),
                    is_hidden: tag.attr("state").is_some_and(|state| state != "visible"),
                }),
                _ => {}
            }
        }
        Ok(workbook)
    }
}

/// The texts that cells refer to: one buffer and the end of each text.
#[derive(Debug, Default)]
pub(super) struct SharedStrings {
    text: String,
    ends: Vec<usize>,
}

impl SharedStrings {
    /// Reads `sharedStrings.xml`. Hints of how to pronounce a text are left out.
    pub(super) fn parse(text: &str, budget: &Budget<'_>) -> Result<SharedStrings, Failure> {
        let mut strings = SharedStrings::default();
        let mut in_text = false;
        let mut xml = Xml::new(text, budget);
        while let Some(event) = xml.next()? {
            match event {
                Event::Open(tag) if tag.name() == "rPh" => xml.skip()?,
                Event::Open(tag) => in_text = tag.name() == "t",
                Event::Text(text) if in_text => strings.text.push_str(&text),
                Event::Text(_) => {}
                Event::Close(tag) => {
                    in_text = false;
                    if tag.name() == "si" {
                        strings.ends.push(strings.text.len());
                    }
                }
            }
        }
        Ok(strings)
    }

    /// The text with the number, from 0; empty where there is none.
    pub(super) fn get(&self, index: usize) -> &str {
        let Some(end) = self.ends.get(index) else { return "" };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.text[start..*end]
    }
}

/// The number formats of the styles of cells, by the number of the style.
#[derive(Debug, Default)]
pub(super) struct Formats {
    formats: Vec<Format>,
    /// For each style its place in `formats`.
    styles: Vec<usize>,
}

impl Formats {
    /// Reads `styles.xml`.
    pub(super) fn parse(text: &str, budget: &Budget<'_>) -> Result<Formats, Failure> {
        let mut custom = std::collections::HashMap::new();
        let mut places = std::collections::HashMap::new();
        let mut formats = Formats::default();
        let mut in_cell_styles = false;
        let mut xml = Xml::new(text, budget);
        while let Some(event) = xml.next()? {
            match event {
                Event::Open(tag) => match tag.name() {
                    "numFmt" if custom.len() < FORMATS_MAX => {
                        if let (Some(id), Some(code)) =
                            (tag.number::<u32>("numFmtId"), tag.attr("formatCode"))
                        {
                            custom.insert(id, code.into_owned());
                        }
                    }
                    "cellXfs" => in_cell_styles = true,
                    "xf" if in_cell_styles && formats.styles.len() < FORMATS_MAX => {
                        let id = tag.number("numFmtId").unwrap_or(0);
                        let place = *places.entry(id).or_insert_with(|| {
                            formats.formats.push(
                                custom
                                    .get(&id)
                                    .map_or_else(|| Format::built_in(id), |code| Format::parse(code)),
                            );
                            formats.formats.len() - 1
                        });
                        formats.styles.push(place);
                    }
                    _ => {}
                },
                Event::Close(tag) if tag.name() == "cellXfs" => in_cell_styles = false,
                Event::Close(_) | Event::Text(_) => {}
            }
        }
        Ok(formats)
    }

    /// The format of cells in the style.
    pub(super) fn get(&self, style: usize) -> &Format {
        self.styles.get(style).and_then(|place| self.formats.get(*place)).unwrap_or(&Format::General)
    }
}
