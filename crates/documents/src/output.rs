//! The text that a reader writes, its pages and its warnings.
//!
//! A reader says what begins and ends; this module writes white space, the marks of Markdown and the ranges of pages, and
//! keeps the limits on text and pages.

use serde_json::{Map, Value};

use crate::{Attachment, Extracted, Failure, Limits, Page, Warning};

/// Deepest indentation of a list item, in levels.
const ITEM_LEVELS_MAX: usize = 4;
/// Most empty cells between two cells of a row.
const GAP_CELLS_MAX: usize = 64;
/// Bytes of one value of the metadata.
const METADATA_BYTES_MAX: usize = 4096;

/// The kind of a note that is a comment.
pub(crate) const COMMENT: &str = "comment";

/// The kind of a paragraph.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum Block {
    /// Plain text.
    #[default]
    Paragraph,
    /// A heading, level from 1, with its generated number or none.
    Heading(usize, String),
    /// A list item: its level from 0, its generated number or none.
    Item(usize, String),
}

/// The text, pages and warnings of a file while it is read.
pub(crate) struct Output<'l> {
    limits: &'l Limits,
    text: String,
    pages: Vec<Page>,
    open_page: Option<(Option<String>, bool)>,
    /// Pages that began, with those before `Limits::first_page`.
    pages_begun: usize,
    block: Block,
    /// Whether the open block has text.
    has_text: bool,
    /// Whether the open page has text, written or before `Limits::first_page`.
    page_has_text: bool,
    /// Whether the block before was a list item.
    after_item: bool,
    table_depth: usize,
    row: Option<Vec<String>>,
    row_bytes: usize,
    /// A page that begins behind the open row.
    page_after_row: Option<(Option<String>, bool)>,
    is_full: bool,
    warnings: Vec<Warning>,
    /// The title that the file declares.
    pub(crate) title: Option<String>,
    metadata: Map<String, Value>,
    attachments: Vec<Attachment>,
}

impl<'l> Output<'l> {
    /// An empty text.
    pub(crate) fn new(limits: &'l Limits) -> Output<'l> {
        Output {
            limits,
            text: String::new(),
            pages: Vec::new(),
            open_page: None,
            pages_begun: 0,
            block: Block::Paragraph,
            has_text: false,
            page_has_text: false,
            after_item: false,
            table_depth: 0,
            row: None,
            row_bytes: 0,
            page_after_row: None,
            is_full: false,
            warnings: Vec::new(),
            title: None,
            metadata: Map::new(),
            attachments: Vec::new(),
        }
    }

    /// Whether a limit was reached and no more text is taken.
    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    /// Whether the page that begins next is one that the caller wants.
    pub(crate) fn wants_next_page(&self) -> bool {
        self.pages_begun >= self.limits.first_page
    }

    /// Whether the open page has text.
    pub(crate) fn page_has_text(&self) -> bool {
        self.page_has_text
    }

    /// Bytes of text that still fit.
    pub(crate) fn bytes_left(&self) -> usize {
        self.limits.text_bytes.saturating_sub(self.text.len() + self.row_bytes)
    }

    /// Begins a page; in a table behind the open row.
    pub(crate) fn start_page(&mut self, label: Option<String>, approximate: bool) {
        if self.row.is_some() {
            self.page_after_row = Some((label, approximate));
            return;
        }
        let at_block_end = !self.has_text;
        self.close_page(at_block_end);
        if self.pages.len() >= self.limits.pages {
            if !self.is_full {
                self.warn("page_limit", &format!("the text ends after {} pages", self.limits.pages));
            }
            self.is_full = true;
            return;
        }
        self.pages_begun += 1;
        self.page_has_text = false;
        if self.pages_begun > self.limits.first_page {
            self.open_page = Some((label, approximate));
        }
    }

    /// Ends the open page; with `at_block_end` behind a blank line.
    fn close_page(&mut self, at_block_end: bool) {
        if let Some((label, approximate)) = self.open_page.take() {
            if at_block_end && self.text.len() > self.pages.last().map_or(0, |page| page.end) {
                self.newlines(2);
            }
            self.pages.push(Page { end: self.text.len(), label, approximate });
        }
    }

    /// Whether text is dropped because its page was read before.
    fn is_before_first_page(&self) -> bool {
        self.pages_begun > 0 && self.open_page.is_none()
    }

    /// Begins a block. The one before ends.
    pub(crate) fn start_block(&mut self, block: Block) {
        self.end_block();
        self.block = block;
    }

    /// Changes what the open block is, if nothing of it is written yet.
    pub(crate) fn set_block(&mut self, block: Block) {
        if !self.has_text {
            self.block = block;
        }
    }

    /// Whether the open block has text.
    pub(crate) fn block_has_text(&self) -> bool {
        self.has_text
    }

    /// Ends the open block; in a cell of a table, a space stands for its end.
    pub(crate) fn end_block(&mut self) {
        if self.row.is_some() {
            self.space_in_cell();
        } else if self.has_text {
            self.trim_end();
            self.after_item = matches!(self.block, Block::Item(..));
        }
        self.has_text = false;
        self.block = Block::Paragraph;
    }

    /// Writes text of the open block, with white space as it is except line breaks, which are spaces.
    pub(crate) fn push(&mut self, text: &str) {
        self.write(text, false);
    }

    /// Writes text whose line breaks and tabs are its own.
    pub(crate) fn push_lines(&mut self, text: &str) {
        self.write(text, true);
    }

    fn write(&mut self, text: &str, keep_lines: bool) {
        self.page_has_text |= !text.trim().is_empty();
        if self.is_full || self.is_before_first_page() || text.is_empty() {
            return;
        }
        let left = self.bytes_left();
        if let Some(row) = &mut self.row {
            let Some(cell) = row.last_mut() else { return };
            let before = cell.len();
            extend(cell, cut(text, left), false);
            self.row_bytes += cell.len() - before;
        } else {
            let text = if self.has_text {
                text
            } else {
                text.trim_start_matches(|c: char| c.is_whitespace() || c.is_control())
            };
            if text.is_empty() {
                return;
            }
            if !self.has_text {
                self.start_text();
            }
            let left = self.bytes_left();
            extend(&mut self.text, cut(text, left), keep_lines);
        }
        if text.len() > left {
            self.reach_text_limit();
        }
    }

    /// Writes the white space and the mark before the first text of a block.
    fn start_text(&mut self) {
        let is_item = matches!(self.block, Block::Item(..));
        self.newlines(if is_item && self.after_item { 1 } else { 2 });
        let mark = match &self.block {
            Block::Paragraph => String::new(),
            Block::Heading(level, number) if number.is_empty() => {
                format!("{} ", "#".repeat((*level).clamp(1, 6)))
            }
            Block::Heading(level, number) => format!("{} {number} ", "#".repeat((*level).clamp(1, 6))),
            Block::Item(level, number) => {
                let number = if number.is_empty() { "-" } else { number };
                format!("{}{number} ", "  ".repeat((*level).min(ITEM_LEVELS_MAX)))
            }
        };
        if mark.len() <= self.bytes_left() {
            self.text.push_str(&mark);
        }
        self.has_text = true;
        self.after_item = false;
    }

    /// A tab; a space in a cell.
    pub(crate) fn tab(&mut self) {
        if self.row.is_some() {
            self.space_in_cell();
        } else if self.has_text && self.bytes_left() > 0 && !self.is_full {
            self.text.push('\t');
        }
    }

    /// A line break within a block; a space in a cell.
    pub(crate) fn line_break(&mut self) {
        if self.row.is_some() {
            self.space_in_cell();
        } else if self.has_text && !self.is_full {
            self.trim_end();
            self.newlines(1);
        }
    }

    /// A paragraph of its own, such as `[footnote: …]`; in a cell behind the text of the cell.
    pub(crate) fn note(&mut self, kind: &str, text: &str) {
        let text = text.trim();
        if text.is_empty() || (kind == COMMENT && !self.limits.comments) {
            return;
        }
        if self.row.is_some() {
            self.space_in_cell();
            self.push(&format!("[{kind}: {text}]"));
        } else {
            self.start_block(Block::Paragraph);
            self.push(&format!("[{kind}: {text}]"));
            self.end_block();
        }
    }

    /// Begins a table. A table within a cell belongs to the text of the cell.
    pub(crate) fn start_table(&mut self) {
        if self.table_depth == 0 {
            self.end_block();
            self.after_item = false;
            if !self.text.is_empty() && !self.is_before_first_page() {
                self.newlines(2);
            }
        }
        self.table_depth += 1;
    }

    /// Ends a table.
    pub(crate) fn end_table(&mut self) {
        self.table_depth = self.table_depth.saturating_sub(1);
        if self.table_depth == 0 {
            self.end_row();
        }
    }

    /// Ends whatever is open: tables, their row, the block.
    pub(crate) fn end_all(&mut self) {
        self.table_depth = self.table_depth.min(1);
        self.end_table();
        self.end_block();
    }

    /// Whether a table is open.
    pub(crate) fn in_table(&self) -> bool {
        self.table_depth > 0
    }

    /// Whether a row is open.
    pub(crate) fn in_row(&self) -> bool {
        self.row.is_some()
    }

    /// Begins a row of a table.
    pub(crate) fn start_row(&mut self) {
        if self.table_depth == 1 {
            self.end_row();
            self.row = Some(Vec::new());
        }
    }

    /// Begins a cell of a row.
    pub(crate) fn start_cell(&mut self) {
        if self.table_depth > 1 {
            self.space_in_cell();
        } else if self.row.as_ref().is_some_and(|row| row.len() < self.limits.text_bytes)
            && self.bytes_left() > 0
        {
            self.row_bytes += 1;
            self.row.get_or_insert_default().push(String::new());
        }
    }

    /// Cells without text, such as those that a merged cell covers.
    pub(crate) fn empty_cells(&mut self, count: usize) {
        for _ in 0..count.min(GAP_CELLS_MAX) {
            self.start_cell();
        }
    }

    /// Ends a row: its cells are a line, separated by tabs.
    pub(crate) fn end_row(&mut self) {
        if self.table_depth > 1 {
            return;
        }
        let Some(row) = self.row.take() else { return };
        self.row_bytes = 0;
        self.has_text = false;
        if let Some(last) = row.iter().rposition(|cell| !cell.trim().is_empty()) {
            let line = row[..=last]
                .iter()
                .map(|cell| cell.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
                .join("\t");
            if !self.text.is_empty() && !self.text.ends_with('\n') {
                self.newlines(1);
            }
            let fits = cut(&line, self.bytes_left());
            self.text.push_str(fits);
            if fits.len() < line.len() {
                self.reach_text_limit();
            }
        }
        if let Some((label, approximate)) = self.page_after_row.take() {
            if !self.text.is_empty() && !self.text.ends_with('\n') {
                self.newlines(1);
            }
            self.has_text = true; // no blank line within a table
            self.start_page(label, approximate);
            self.has_text = false;
        }
    }

    /// Drops the open row, as of a row that is hidden. Returns whether it had text.
    pub(crate) fn drop_row(&mut self) -> bool {
        self.row_bytes = 0;
        self.row.take().is_some_and(|row| row.iter().any(|cell| !cell.trim().is_empty()))
    }

    fn space_in_cell(&mut self) {
        let left = self.bytes_left();
        if let Some(cell) = self.row.as_mut().and_then(|row| row.last_mut())
            && left > 0
            && !cell.is_empty()
            && !cell.ends_with(' ')
        {
            cell.push(' ');
            self.row_bytes += 1;
        }
    }

    /// Makes the text end with at least `count` line ends, if it isn't empty.
    fn newlines(&mut self, count: usize) {
        let has = self.text.len() - self.text.trim_end_matches('\n').len();
        for _ in has..count {
            if !self.text.is_empty() && self.bytes_left() > 0 {
                self.text.push('\n');
            }
        }
    }

    /// Removes white space at the end of the text, as far as the open page.
    fn trim_end(&mut self) {
        let page = self.pages.last().map_or(0, |page| page.end);
        let end = self.text.trim_end_matches([' ', '\t', '\n']).len().max(page);
        self.text.truncate(end);
    }

    fn reach_text_limit(&mut self) {
        if !self.is_full {
            self.warn("text_limit", &format!("the text ends after {} bytes", self.limits.text_bytes));
        }
        self.is_full = true;
    }

    /// Counts a part that was left out.
    pub(crate) fn warn(&mut self, code: &str, message: &str) {
        if let Some(warning) = self.warnings.iter_mut().find(|warning| warning.code == code) {
            warning.count += 1;
        } else {
            self.warnings.push(Warning { code: code.to_owned(), message: message.to_owned(), count: 1 });
        }
    }

    /// Whether text is left out that readers of the file don't see.
    pub(crate) fn skips_hidden(&self) -> bool {
        !self.limits.hidden_text
    }

    /// Whether comments are left out.
    pub(crate) fn skips_comments(&self) -> bool {
        !self.limits.comments
    }

    /// Counts text that readers of the file don't see.
    pub(crate) fn warn_hidden(&mut self) {
        self.warn("hidden_text", "text, rows, sheets or slides that the file hides were left out");
    }

    /// Counts a page, slide, sheet or chapter that can't be read.
    pub(crate) fn warn_broken_page(&mut self) {
        self.warn(
            "broken_page",
            "pages, slides, sheets or chapters are missing or damaged and were left out",
        );
    }

    /// Adds a fact to the metadata, if it isn't empty. The first value stays.
    pub(crate) fn add_metadata(&mut self, key: &str, value: &str) {
        let value = one_line(value);
        if !value.is_empty() && !self.metadata.contains_key(key) {
            self.metadata.insert(key.to_owned(), Value::String(value));
        }
    }

    /// Adds a fact with several values to the metadata: one is a string, more are a list.
    pub(crate) fn add_list(&mut self, key: &str, values: &[String]) {
        match values {
            [] => {}
            [value] => self.add_metadata(key, value),
            values => {
                drop(self.metadata.insert(
                    key.to_owned(),
                    values.iter().map(|value| Value::String(one_line(value))).collect(),
                ))
            }
        }
    }

    /// Sets the title, if it isn't empty and there is none yet.
    pub(crate) fn set_title(&mut self, title: &str) {
        let title = one_line(title);
        if !title.is_empty() && self.title.is_none() {
            self.title = Some(title);
        }
    }

    /// Adds a file within the file.
    pub(crate) fn attach(&mut self, attachment: Attachment) {
        self.attachments.push(attachment);
    }

    /// Says that the file has no pages: their breaks aren't known.
    pub(crate) fn forget_pages(&mut self) {
        self.pages.clear();
        self.open_page = None;
        self.pages_begun = 0;
    }

    /// The text of the file. A file without text and attachments fails.
    pub(crate) fn finish(mut self) -> Result<Extracted, Failure> {
        self.end_all();
        self.close_page(false);
        let end = self.text.trim_end().len();
        self.text.truncate(end);
        for page in &mut self.pages {
            page.end = page.end.min(end);
        }
        if let Some(last) = self.pages.last_mut() {
            last.end = end;
        }
        if self.text.is_empty() && self.attachments.is_empty() && self.limits.first_page == 0 {
            return Err(Failure::NoText(
                "it has no words; if it holds pictures of text, recognise their text first".to_owned(),
            ));
        }
        Ok(Extracted {
            text: self.text,
            title: self.title,
            metadata: self.metadata,
            pages: self.pages,
            warnings: self.warnings,
            attachments: self.attachments,
            ..Extracted::default()
        })
    }
}

/// As much of `text` as has at most `bytes` bytes.
fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// Appends `text` without control characters and soft hyphens; a no-break space is a space.
fn extend(to: &mut String, text: &str, keep_lines: bool) {
    for character in text.chars() {
        match character {
            '\n' | '\t' if keep_lines => to.push(character),
            '\n' | '\r' | '\t' | '\u{b}' | '\u{c}' | '\u{a0}' | '\u{2028}' | '\u{2029}' => to.push(' '),
            '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{ad}' | '\u{200b}' | '\u{feff}' => {}
            _ => to.push(character),
        }
    }
}

/// A value of the metadata: one line of limited length.
fn one_line(value: &str) -> String {
    let value = cut(value, METADATA_BYTES_MAX).split_whitespace().collect::<Vec<_>>().join(" ");
    value.chars().filter(|character| !character.is_control()).collect()
}
