//! PowerPoint presentations: a page for each slide, its title first, its notes and comments last.

use crate::budget::Budget;
use crate::ooxml::{self, Relationships};
use crate::output::{Block, Output};
use crate::package::Package;
use crate::xml::{Event, Tag, Xml};
use crate::{Extracted, Failure, Limits};

/// Extracts the text of a presentation.
pub(crate) fn extract(bytes: &[u8], limits: &Limits) -> Result<Extracted, Failure> {
    let budget = Budget::new(limits);
    let mut package = Package::open(bytes, &budget)?;
    let mut output = Output::new(limits);
    let main = ooxml::main_part(&mut package, &budget, "ppt/presentation.xml")?;
    ooxml::read_properties(&mut package, &budget, &mut output)?;
    let relationships = Relationships::of(&mut package, &budget, &main)?;
    let text = package.required(&main)?;
    let mut xml = Xml::new(&text, &budget);
    while let Some(event) = xml.next()? {
        let Event::Open(tag) = event else { continue };
        if tag.name() != "sldId" {
            continue;
        }
        let slide = tag.relation().and_then(|id| relationships.get(&id));
        let is_wanted = output.wants_next_page();
        output.start_page(None, false);
        if output.is_full() {
            break;
        }
        match slide {
            Some(slide) if is_wanted => read_slide(&mut package, &budget, &slide.target, &mut output)?,
            Some(_) => {}
            None => output.warn_broken_page(),
        }
        output.end_all();
    }
    output.finish()
}

/// Reads a slide. A slide that is damaged is left out; a limit fails the file.
fn read_slide(
    package: &mut Package<'_>,
    budget: &Budget<'_>,
    part: &str,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let text = match package.text(part) {
        Ok(Some(text)) => text,
        Ok(None) | Err(Failure::DamagedFile(_)) => {
            output.warn_broken_page();
            return Ok(());
        }
        Err(failure) => return Err(failure),
    };
    for wanted in [Wanted::Title, Wanted::Body] {
        match Shapes::new(&text, budget, output, wanted).read() {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(Failure::DamagedFile(_)) => output.warn_broken_page(),
            Err(failure) => return Err(failure),
        }
        output.end_all();
    }
    let relationships = Relationships::of(package, budget, part)?;
    for diagram in relationships.targets("diagramData") {
        if let Ok(Some(text)) = package.text(diagram) {
            Shapes::new(&text, budget, output, Wanted::Body).read().or_else(unless_damaged)?;
        }
    }
    if let Some(Ok(Some(text))) = relationships.target("notesSlide").map(|part| package.text(part)) {
        let mut notes = Output::new(budget.limits);
        Shapes::new(&text, budget, &mut notes, Wanted::Notes).read().or_else(unless_damaged)?;
        if let Ok(notes) = notes.finish() {
            output.start_block(Block::Paragraph);
            output.push_lines(&format!("Notes: {}", notes.text));
            output.end_block();
        }
    }
    for comments in relationships.targets("comments") {
        if let Ok(Some(text)) = package.text(comments) {
            read_comments(&text, budget, output).or_else(unless_damaged)?;
        }
    }
    Ok(())
}

/// Damage to what accompanies a slide is no failure.
fn unless_damaged<T: Default>(failure: Failure) -> Result<T, Failure> {
    if matches!(failure, Failure::DamagedFile(_)) { Ok(T::default()) } else { Err(failure) }
}

/// Comments of either kind: `cm` with `text`, or with paragraphs.
fn read_comments(text: &str, budget: &Budget<'_>, output: &mut Output<'_>) -> Result<(), Failure> {
    let mut xml = Xml::new(text, budget);
    while let Some(event) = xml.next()? {
        let Event::Open(tag) = event else { continue };
        if matches!(tag.name(), "text" | "t") {
            let comment = xml.text(output.bytes_left())?;
            output.note("comment", &comment);
        }
    }
    Ok(())
}

/// The shapes that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Title,
    /// All but the title.
    Body,
    /// The text of a page of notes, and not its header and slide number.
    Notes,
}

/// The state of the reader of the shapes of one slide.
struct Shapes<'a, 'o, 'l> {
    xml: Xml<'a>,
    output: &'o mut Output<'l>,
    wanted: Wanted,
    /// The kind of placeholder that the open shape fills; empty for none, `obj` for content.
    placeholder: String,
    is_item: bool,
    /// Whether items of the open list have numbers.
    is_numbered: bool,
    level: usize,
    /// The number of the last item of each level.
    counters: Vec<u32>,
}

impl<'a, 'o, 'l> Shapes<'a, 'o, 'l> {
    fn new(
        text: &'a str,
        budget: &'a Budget<'a>,
        output: &'o mut Output<'l>,
        wanted: Wanted,
    ) -> Shapes<'a, 'o, 'l> {
        Shapes {
            xml: Xml::new(text, budget),
            output,
            wanted,
            placeholder: String::new(),
            is_item: false,
            is_numbered: false,
            level: 0,
            counters: Vec::new(),
        }
    }

    /// Reads the shapes. Returns `false` for a hidden slide.
    fn read(&mut self) -> Result<bool, Failure> {
        let mut in_text = false;
        while let Some(event) = self.xml.next()? {
            if self.output.is_full() {
                break;
            }
            match event {
                Event::Open(tag)
                    if tag.name() == "sld"
                        && self.output.skips_hidden()
                        && tag.attr("show").is_some_and(|show| matches!(&*show, "0" | "false")) =>
                {
                    self.output.warn_hidden();
                    return Ok(false);
                }
                Event::Open(tag) => {
                    in_text = tag.name() == "t";
                    self.open(&tag)?;
                }
                Event::Close(tag) => {
                    in_text = false;
                    self.close(tag.name());
                }
                Event::Text(text) if in_text && self.is_wanted() => self.push(&text),
                Event::Text(_) => {}
            }
        }
        Ok(true)
    }

    fn is_wanted(&self) -> bool {
        let placeholder = self.placeholder.as_str();
        match self.wanted {
            Wanted::Title => is_title(placeholder),
            Wanted::Body => !is_title(placeholder) && !matches!(placeholder, "sldNum" | "dt" | "ftr" | "hdr"),
            Wanted::Notes => placeholder == "body",
        }
    }

    fn open(&mut self, tag: &Tag<'_>) -> Result<(), Failure> {
        match tag.name() {
            "Fallback" => self.xml.skip()?,
            "sp" | "graphicFrame" | "pic" | "cxnSp" => self.placeholder.clear(),
            "cNvPr" if self.output.skips_hidden() && tag.is_set("hidden") => {
                if self.wanted == Wanted::Body {
                    self.output.warn_hidden();
                }
                // the placeholder of a header, whose text is left out
                self.placeholder = "hdr".to_owned();
            }
            "ph" if self.placeholder.is_empty() => {
                self.placeholder =
                    tag.attr("type").map_or_else(|| "obj".to_owned(), std::borrow::Cow::into_owned)
            }
            "p" => {
                self.output.start_block(Block::Paragraph);
                self.is_item = self.placeholder == "obj";
                self.is_numbered = false;
                self.level = 0;
            }
            "pPr" => {
                self.level = tag.number("lvl").unwrap_or(0).min(8);
                self.is_item |= self.level > 0;
            }
            "buNone" => self.is_item = false,
            "buChar" | "buBlip" => self.is_item = true,
            "buAutoNum" => {
                self.is_item = true;
                self.is_numbered = true;
            }
            "br" if self.is_wanted() => self.output.line_break(),
            "tbl" if self.wanted == Wanted::Body => self.output.start_table(),
            "tr" if self.wanted == Wanted::Body => self.output.start_row(),
            "tc" if self.wanted == Wanted::Body => self.output.start_cell(),
            _ => {}
        }
        Ok(())
    }

    fn close(&mut self, name: &str) {
        match name {
            "p" => self.output.end_block(),
            "txBody" => self.counters.clear(),
            "tr" if self.wanted == Wanted::Body => self.output.end_row(),
            "tbl" if self.wanted == Wanted::Body => self.output.end_table(),
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        if !self.output.block_has_text() && !text.trim().is_empty() {
            let block = match self.wanted {
                Wanted::Title => Block::Heading(1, String::new()),
                Wanted::Body if self.is_item && !self.output.in_table() => {
                    Block::Item(self.level, self.number())
                }
                Wanted::Body | Wanted::Notes => Block::Paragraph,
            };
            self.output.set_block(block);
        }
        self.output.push(text);
    }

    /// The number of the next item; empty for a bullet.
    fn number(&mut self) -> String {
        self.counters.truncate(self.level + 1);
        self.counters.resize(self.level + 1, 0);
        if !self.is_numbered {
            self.counters[self.level] = 0;
            return String::new();
        }
        self.counters[self.level] = self.counters[self.level].saturating_add(1);
        format!("{}.", self.counters[self.level])
    }
}

fn is_title(placeholder: &str) -> bool {
    matches!(placeholder, "title" | "ctrTitle")
}
