//! Word documents.
//!
//! Insertions are text, deletions are not. Of alternatives, the first is read. A DOCX file has no pages: their breaks are
//! those of the program that saved it, and are marked as approximate.

mod notes;
mod numbering;
mod styles;

use std::collections::HashMap;

use crate::budget::Budget;
use crate::ooxml::{self, Relationships};
use crate::output::{Block, Output};
use crate::package::Package;
use crate::xml::{Event, Tag, Xml};
use crate::{Extracted, Failure, Limits};
use numbering::Lists;
use styles::Styles;

/// Extracts the text of a Word document.
pub(crate) fn extract(bytes: &[u8], limits: &Limits) -> Result<Extracted, Failure> {
    let budget = Budget::new(limits);
    let mut package = Package::open(bytes, &budget)?;
    let mut output = Output::new(limits);
    let main = ooxml::main_part(&mut package, &budget, "word/document.xml")?;
    ooxml::read_properties(&mut package, &budget, &mut output)?;
    let relationships = Relationships::of(&mut package, &budget, &main)?;
    let mut part = |kind: &str| relationships.target(kind).map_or(Ok(None), |part| package.text(part));
    let styles = part("styles")?.map_or(Ok(Styles::default()), |text| Styles::parse(&text, &budget))?;
    let lists = part("numbering")?.map_or(Ok(Lists::default()), |text| Lists::parse(&text, &budget))?;
    let mut all_notes = HashMap::new();
    for (kind, relationship, element, _) in notes::KINDS {
        let text = part(relationship)?.unwrap_or_default();
        all_notes.insert(kind, notes::parse(&text, element, &budget, limits.text_bytes)?);
    }
    let text = package.required(&main)?;
    let mut body = Body {
        xml: Xml::new(&text, &budget),
        output,
        styles,
        lists,
        notes: all_notes,
        due: Vec::new(),
        paragraph: Properties::default(),
        is_hidden: false,
        has_breaks: false,
        merged: Vec::new(),
    };
    body.read()?;
    if !body.has_breaks {
        body.output.forget_pages();
    }
    body.output.finish()
}

/// The properties of a paragraph.
#[derive(Debug, Default)]
struct Properties {
    style: String,
    outline: Option<usize>,
    list: Option<String>,
    list_level: Option<usize>,
    breaks_page: bool,
}

/// The state of the reader of `document.xml`.
struct Body<'a, 'l> {
    xml: Xml<'a>,
    output: Output<'l>,
    styles: Styles,
    lists: Lists,
    /// The texts of notes by kind and id. A note is written once, however often it is referred to.
    notes: HashMap<&'static str, HashMap<String, String>>,
    /// Notes whose paragraph is still open.
    due: Vec<(&'static str, String)>,
    paragraph: Properties,
    /// Whether the open run is hidden.
    is_hidden: bool,
    has_breaks: bool,
    /// For each open cell, the cells that it covers to its right.
    merged: Vec<usize>,
}

impl Body<'_, '_> {
    fn read(&mut self) -> Result<(), Failure> {
        self.output.start_page(None, true);
        let mut in_text = false;
        while !self.output.is_full() {
            match self.xml.next()? {
                Some(Event::Open(tag)) => {
                    in_text = tag.name() == "t";
                    self.open(&tag)?;
                }
                Some(Event::Close(tag)) => {
                    in_text = false;
                    self.close(tag.name());
                }
                Some(Event::Text(text)) if in_text => self.push(&text),
                Some(Event::Text(_)) => {}
                None => break,
            }
        }
        self.end_paragraph();
        Ok(())
    }

    fn open(&mut self, tag: &Tag<'_>) -> Result<(), Failure> {
        match tag.name() {
            "del" | "moveFrom" | "instrText" | "delText" | "Fallback" | "rt" | "sectPr" | "tblPr"
            | "tblGrid" | "trPr" => self.xml.skip()?,
            "p" => {
                self.paragraph = Properties::default();
                self.output.start_block(Block::Paragraph);
            }
            "pPr" => self.paragraph_properties()?,
            "r" => self.is_hidden = false,
            "vanish" => self.is_hidden = self.output.skips_hidden() && tag.is_on("val"),
            "rStyle" => {
                let is_hidden = self.styles.is_hidden(&tag.attr("val").unwrap_or_default());
                self.is_hidden = self.output.skips_hidden() && is_hidden;
            }
            "tab" | "ptab" if !self.is_hidden => self.output.tab(),
            "noBreakHyphen" => self.push("-"),
            "br" if tag.attr("type").as_deref() == Some("page") => {
                self.output.end_block();
                self.break_page();
            }
            "br" | "cr" => self.output.line_break(),
            "lastRenderedPageBreak" if self.output.page_has_text() => self.break_page(),
            "tbl" => self.output.start_table(),
            "tr" => self.output.start_row(),
            "tc" => {
                self.output.start_cell();
                self.merged.push(0);
            }
            "gridSpan" => {
                if let Some(merged) = self.merged.last_mut() {
                    *merged = tag.number::<usize>("val").unwrap_or(1).saturating_sub(1);
                }
            }
            name => {
                if let Some((kind, ..)) = notes::KINDS.iter().find(|(.., reference)| *reference == name) {
                    self.refer(kind, &tag.attr("id").unwrap_or_default());
                }
            }
        }
        Ok(())
    }

    fn close(&mut self, name: &str) {
        match name {
            "p" => self.end_paragraph(),
            "r" => self.is_hidden = false,
            "tc" => {
                let merged = self.merged.pop().unwrap_or(0);
                self.output.empty_cells(if self.merged.is_empty() { merged } else { 0 });
            }
            "tr" => self.output.end_row(),
            "tbl" => self.output.end_table(),
            _ => {}
        }
    }

    /// Reads the properties of a paragraph up to their end.
    fn paragraph_properties(&mut self) -> Result<(), Failure> {
        let mut properties = Properties::default();
        while let Some(event) = self.xml.next()? {
            match event {
                Event::Open(tag) => match tag.name() {
                    "pStyle" => properties.style = tag.attr("val").unwrap_or_default().into_owned(),
                    "outlineLvl" => properties.outline = tag.number("val").map(styles::outline_level),
                    "numId" => properties.list = tag.attr("val").map(std::borrow::Cow::into_owned),
                    "ilvl" => properties.list_level = tag.number("val"),
                    "pageBreakBefore" => properties.breaks_page = tag.is_on("val"),
                    "rPr" | "sectPr" | "pPrChange" => self.xml.skip()?,
                    _ => {}
                },
                Event::Close(tag) if tag.name() == "pPr" => break,
                Event::Close(_) | Event::Text(_) => {}
            }
        }
        if properties.breaks_page && self.output.page_has_text() {
            self.break_page();
        }
        self.paragraph = properties;
        Ok(())
    }

    /// Writes text of a run. The number of an item is counted with the first text: empty paragraphs have none.
    fn push(&mut self, text: &str) {
        let is_in_hidden = self.output.skips_hidden() && self.styles.is_hidden(&self.paragraph.style);
        if self.is_hidden || is_in_hidden {
            if !text.trim().is_empty() {
                self.output.warn_hidden();
            }
            return;
        }
        if !self.output.block_has_text() && !text.trim().is_empty() && !self.output.in_table() {
            let block = self.block();
            self.output.set_block(block);
        }
        self.output.push(text);
    }

    /// The kind of the open paragraph. Its number is used up.
    fn block(&mut self) -> Block {
        let paragraph = std::mem::take(&mut self.paragraph);
        let of_style = self.styles.list(&paragraph.style);
        let level = paragraph.list_level.or(of_style.as_ref().map(|(_, level)| *level)).unwrap_or(0);
        let list = paragraph.list.or(of_style.map(|(list, _)| list)).filter(|list| list != "0");
        let number = list.as_ref().map(|list| self.lists.next(list, level).unwrap_or_default());
        let heading = paragraph.outline.unwrap_or_else(|| self.styles.heading(&paragraph.style));
        match number {
            number if heading > 0 => Block::Heading(heading, number.unwrap_or_default()),
            Some(number) => Block::Item(level, number),
            None => Block::Paragraph,
        }
    }

    fn break_page(&mut self) {
        self.has_breaks = true;
        self.output.start_page(None, true);
    }

    /// Remembers a note for the end of the paragraph.
    fn refer(&mut self, kind: &'static str, id: &str) {
        if let Some(text) = self.notes.get_mut(kind).and_then(|notes| notes.remove(id)) {
            self.due.push((kind, text));
        }
    }

    fn end_paragraph(&mut self) {
        if !self.output.in_table() {
            self.output.end_block();
        }
        for (kind, text) in std::mem::take(&mut self.due) {
            self.output.note(kind, &text);
        }
        self.output.end_block();
    }
}
