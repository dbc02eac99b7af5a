//! OpenDocument files: text, sheets, presentations.
//!
//! Sheets are read by the text of their cells, which is the displayed value. Insertions are text, deletions are not.

mod plain;
mod sheet;
mod styles;

use crate::budget::Budget;
use crate::output::{Block, Output};
use crate::package::Package;
use crate::xml::{Event, Tag, Xml};
use crate::{Extracted, Failure, Limits};
use plain::{PlainText, collapse};
use styles::{Lists, Styles};

/// Bytes of a property of a document.
const PROPERTY_BYTES_MAX: usize = 4096;

/// Extracts the text of an OpenDocument file of any kind.
pub(crate) fn extract(bytes: &[u8], limits: &Limits) -> Result<Extracted, Failure> {
    let budget = Budget::new(limits);
    let mut package = Package::open(bytes, &budget)?;
    if is_encrypted(&mut package, &budget)? {
        return Err(Failure::Encrypted);
    }
    let mut output = Output::new(limits);
    if package.names().any(|name| name.starts_with("Basic/") || name.starts_with("Scripts/")) {
        output.warn("macros", "the macros of the file were not run and are no part of the text");
    }
    if let Ok(Some(text)) = package.text("meta.xml") {
        read_properties(&text, &budget, &mut output);
    }
    let content = package.required("content.xml")?;
    let mut styles = Styles::default();
    if let Ok(Some(text)) = package.text("styles.xml") {
        // its damage costs the numbers of lists, not the text
        match styles.add(&text, &budget) {
            Ok(()) | Err(Failure::DamagedFile(_)) => {}
            Err(failure) => return Err(failure),
        }
    }
    styles.add(&content, &budget)?;
    let mut body = Body {
        xml: Xml::new(&content, &budget),
        output,
        budget: &budget,
        styles,
        lists: Lists::default(),
        kind: Kind::Text,
        item: None,
        due: Vec::new(),
        paragraphs: 0,
        is_title: false,
        has_breaks: false,
    };
    body.read()?;
    if body.kind == Kind::Text && !body.has_breaks {
        body.output.forget_pages();
    }
    body.output.finish()
}

/// Whether the manifest says that a part is encrypted.
fn is_encrypted(package: &mut Package<'_>, budget: &Budget<'_>) -> Result<bool, Failure> {
    let Ok(Some(text)) = package.text("META-INF/manifest.xml") else { return Ok(false) };
    let mut xml = Xml::new(&text, budget);
    loop {
        match xml.next() {
            Ok(Some(Event::Open(tag))) if tag.name() == "encryption-data" => return Ok(true),
            Ok(Some(Event::Open(_) | Event::Close(_) | Event::Text(_))) => {}
            Ok(None) | Err(Failure::DamagedFile(_)) => return Ok(false),
            Err(failure) => return Err(failure),
        }
    }
}

/// Reads the title, the author and the dates of `meta.xml`. Damage ends them alone.
fn read_properties(text: &str, budget: &Budget<'_>, output: &mut Output<'_>) {
    let mut xml = Xml::new(text, budget);
    let mut last_author = String::new();
    while let Ok(Some(event)) = xml.next() {
        let Event::Open(tag) = event else { continue };
        let key = match tag.name() {
            "title" => "title",
            "initial-creator" => "author",
            "creator" => "creator",
            "creation-date" => "created",
            "date" => "modified",
            _ => continue,
        };
        let Ok(value) = xml.text(PROPERTY_BYTES_MAX) else { break };
        match key {
            "title" => output.set_title(&value),
            "creator" => last_author = value,
            key => output.add_metadata(key, &value),
        }
    }
    output.add_metadata("author", &last_author);
}

/// The kind of a file, by the element of its body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Spreadsheet,
    Presentation,
}

/// The state of the reader of `content.xml`.
struct Body<'a, 'l> {
    xml: Xml<'a>,
    output: Output<'l>,
    budget: &'a Budget<'a>,
    styles: Styles,
    lists: Lists,
    kind: Kind,
    /// The item that began and has no paragraph yet, with the number that it starts at.
    item: Option<Option<u32>>,
    /// Notes whose paragraph is still open.
    due: Vec<(&'static str, String)>,
    /// Paragraphs that are open: those of a frame are within another.
    paragraphs: usize,
    /// Whether the frame of a slide's title is open.
    is_title: bool,
    has_breaks: bool,
}

impl Body<'_, '_> {
    fn read(&mut self) -> Result<(), Failure> {
        while !self.output.is_full() {
            match self.xml.next()? {
                Some(Event::Open(tag)) => self.open(&tag)?,
                Some(Event::Close(tag)) => self.close(tag.name()),
                Some(Event::Text(text)) if self.paragraphs > 0 => self.output.push(&collapse(&text)),
                Some(Event::Text(_)) => {}
                None => break,
            }
        }
        self.end_paragraph();
        Ok(())
    }

    fn open(&mut self, tag: &Tag<'_>) -> Result<(), Failure> {
        match tag.full_name() {
            "office:text" => self.output.start_page(None, true),
            "office:spreadsheet" => self.kind = Kind::Spreadsheet,
            "office:presentation" | "office:drawing" => self.kind = Kind::Presentation,
            "svg:title" | "svg:desc" => self.xml.skip()?,
            "draw:page" => self.open_slide(tag)?,
            "presentation:notes" => self.read_notes()?,
            "text:section"
                if self.output.skips_hidden()
                    && tag.attr("display").is_some_and(|display| display == "none") =>
            {
                self.skip_hidden()?
            }
            "text:hidden-text" if self.output.skips_hidden() => self.skip_hidden()?,
            "text:list" => self.lists.open(tag),
            "table:table" if self.kind == Kind::Spreadsheet => self.read_sheet(tag)?,
            "table:table" => self.output.start_table(),
            "table:table-row" => self.output.start_row(),
            "table:table-cell" | "table:covered-table-cell" => self.output.start_cell(),
            _ => self.open_text(tag)?,
        }
        Ok(())
    }

    /// The elements of text.
    fn open_text(&mut self, tag: &Tag<'_>) -> Result<(), Failure> {
        match tag.name() {
            "tracked-changes" | "forms" | "note-citation" | "ruby-text" | "automatic-styles"
            | "font-face-decls" | "settings" | "scripts" => self.xml.skip()?,
            "list-item" => self.item = Some(tag.number("start-value")),
            "p" | "h" => self.open_paragraph(tag)?,
            "span" if self.is_hidden_style("text", &tag.attr("style-name").unwrap_or_default()) => {
                self.skip_hidden()?
            }
            "frame" => {
                let class = tag.attr("class").unwrap_or_default();
                if plain::is_slide_furniture(&class) {
                    self.xml.skip()?;
                } else {
                    self.is_title = class == "title";
                }
            }
            "note" => {
                let kind = if tag.attr("note-class").is_some_and(|class| class == "endnote") {
                    "endnote"
                } else {
                    "footnote"
                };
                let note = PlainText::read(&mut self.xml, self.output.bytes_left())?;
                self.due.push((kind, note.text));
            }
            "annotation" => {
                let comment = PlainText::read(&mut self.xml, self.output.bytes_left())?;
                if self.paragraphs > 0 {
                    self.due.push(("comment", comment.text));
                } else {
                    self.output.note("comment", &comment.text);
                }
            }
            "soft-page-break" if self.output.page_has_text() => self.break_page(),
            "tab" if self.paragraphs > 0 => self.output.tab(),
            "line-break" if self.paragraphs > 0 => self.output.line_break(),
            "s" if self.paragraphs > 0 => self.output.push(" "),
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, name: &str) {
        match name {
            "p" | "h" => self.end_paragraph(),
            "list" => self.lists.close(),
            "list-item" => self.item = None,
            "frame" => self.is_title = false,
            "table-row" => self.output.end_row(),
            "table" => self.output.end_table(),
            "page" => self.output.end_block(),
            _ => {}
        }
    }

    fn open_paragraph(&mut self, tag: &Tag<'_>) -> Result<(), Failure> {
        let style = tag.attr("style-name").unwrap_or_default();
        if self.is_hidden_style("paragraph", &style) {
            return self.skip_hidden();
        }
        if self.kind == Kind::Text
            && self.styles.breaks_page(&style)
            && self.output.page_has_text()
            && self.paragraphs == 0
        {
            self.break_page();
        }
        self.paragraphs += 1;
        let item = self.item.take();
        let number = match item {
            Some(start) if self.lists.is_open() => Some(self.lists.next(&self.styles, start)),
            Some(_) | None => None,
        };
        let block = if self.is_title || self.styles.is_title(&style) {
            Block::Heading(1, String::new())
        } else if tag.name() == "h" {
            Block::Heading(tag.number("outline-level").unwrap_or(1), number.unwrap_or_default())
        } else {
            number.map_or(Block::Paragraph, |number| Block::Item(self.lists.level(), number))
        };
        self.output.start_block(if self.output.in_table() { Block::Paragraph } else { block });
        Ok(())
    }

    fn end_paragraph(&mut self) {
        self.paragraphs = self.paragraphs.saturating_sub(1);
        if !self.output.in_table() {
            self.output.end_block();
        }
        for (kind, text) in std::mem::take(&mut self.due) {
            self.output.note(kind, &text);
        }
        self.output.end_block();
    }

    /// Begins a slide. A hidden one is an empty page, so that the others keep their numbers.
    fn open_slide(&mut self, tag: &Tag<'_>) -> Result<(), Failure> {
        self.kind = Kind::Presentation;
        let is_wanted = self.output.wants_next_page();
        self.output.end_block();
        self.output.start_page(None, false);
        if self.is_hidden_style("drawing-page", &tag.attr("style-name").unwrap_or_default()) {
            self.skip_hidden()
        } else if is_wanted {
            Ok(())
        } else {
            self.xml.skip()
        }
    }

    fn read_notes(&mut self) -> Result<(), Failure> {
        let notes = PlainText::read(&mut self.xml, self.output.bytes_left())?;
        if !notes.text.is_empty() {
            self.output.start_block(Block::Paragraph);
            self.output.push(&format!("Notes: {}", notes.text));
            self.output.end_block();
        }
        Ok(())
    }

    fn read_sheet(&mut self, tag: &Tag<'_>) -> Result<(), Failure> {
        let style = tag.attr("style-name").unwrap_or_default();
        if self.is_hidden_style("table", &style) {
            return self.skip_hidden();
        }
        let is_wanted = self.output.wants_next_page();
        let name = tag.attr("name").unwrap_or_default();
        self.output.start_page(Some(name.clone().into_owned()), false);
        if !is_wanted || self.output.is_full() {
            return self.xml.skip();
        }
        self.output.start_block(Block::Heading(1, String::new()));
        self.output.push(&name);
        self.output.end_block();
        sheet::read(&mut self.xml, self.budget, &mut self.output)
    }

    fn break_page(&mut self) {
        self.has_breaks = true;
        self.output.start_page(None, true);
    }

    /// Whether what has the style is hidden, and left out.
    fn is_hidden_style(&self, family: &str, name: &str) -> bool {
        self.output.skips_hidden() && self.styles.is_hidden(family, name)
    }

    /// Passes over an element that its reader doesn't see.
    fn skip_hidden(&mut self) -> Result<(), Failure> {
        if !self.xml.text(1 << 10)?.trim().is_empty() {
            self.output.warn_hidden();
        }
        Ok(())
    }
}
