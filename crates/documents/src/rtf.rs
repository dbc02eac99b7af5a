//! Rich Text Format.

mod charset;
mod token;

use std::collections::HashMap;

use encoding_rs::{Encoding, MACINTOSH, WINDOWS_1252};

use crate::output::{Block, COMMENT, Output};
use crate::{Extracted, Failure, Limits};
use token::{Token, Tokens};

/// Fonts and styles of one file.
const TABLE_MAX: usize = 10_000;
/// Bytes of text that are decoded together.
const PENDING_MAX: usize = 1 << 16;
/// Bytes of a name, a marker or a property.
const CAPTURE_MAX: usize = 4096;

/// Extracts the text of an RTF file.
pub(crate) fn extract(bytes: &[u8], limits: &Limits) -> Result<Extracted, Failure> {
    let mut reader = Reader::new(limits);
    let mut tokens = Tokens::new(bytes);
    reader.output.start_page(None, true);
    while let Some(token) = tokens.next() {
        if let Token::Word("bin", Some(count)) = token {
            tokens.pass(usize::try_from(count).unwrap_or(0));
        } else {
            reader.read(token, limits.rtf_depth)?;
        }
        if reader.output.is_full() {
            break;
        }
    }
    reader.flush();
    reader.end_paragraph();
    if !reader.has_breaks {
        reader.output.forget_pages();
    }
    reader.output.finish()
}

/// Where the text of a group goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    Text,
    Nowhere,
    Fonts,
    Styles,
    /// The properties of the document.
    Info,
    Title,
    Author,
    Created,
    Modified,
    /// The number or bullet of an item.
    Marker,
    Footnote,
    Comment,
}

/// The state that a group inherits and its end restores.
#[derive(Debug, Clone, Copy)]
struct Group {
    destination: Destination,
    /// Characters behind `\u` that stand for it in old readers.
    fallback: usize,
    font: i32,
    is_hidden: bool,
    is_deleted: bool,
}

/// Properties of the open paragraph.
#[derive(Debug, Clone, Copy, Default)]
struct Paragraph {
    style: Option<i32>,
    outline: Option<i32>,
    level: usize,
    in_table: bool,
}

struct Reader<'l> {
    output: Output<'l>,
    groups: Vec<Group>,
    code_page: &'static Encoding,
    default_font: i32,
    fonts: HashMap<i32, &'static Encoding>,
    /// The levels of headings by the numbers of styles.
    headings: HashMap<i32, usize>,
    /// The font or style whose definition is open.
    defined: i32,
    /// Bytes that aren't decoded yet.
    pending: Vec<u8>,
    /// The first half of a pair of UTF-16.
    high: Option<u32>,
    to_skip: usize,
    after_star: bool,
    paragraph: Paragraph,
    captured: String,
    note: String,
    marker: Option<String>,
    due: Vec<(&'static str, String)>,
    date: [i32; 5],
    cell_is_open: bool,
    has_breaks: bool,
}

impl<'l> Reader<'l> {
    fn new(limits: &'l Limits) -> Reader<'l> {
        Reader {
            output: Output::new(limits),
            groups: vec![Group {
                destination: Destination::Text,
                fallback: 1,
                font: 0,
                is_hidden: false,
                is_deleted: false,
            }],
            code_page: WINDOWS_1252,
            default_font: 0,
            fonts: HashMap::new(),
            headings: HashMap::new(),
            defined: 0,
            pending: Vec::new(),
            high: None,
            to_skip: 0,
            after_star: false,
            paragraph: Paragraph::default(),
            captured: String::new(),
            note: String::new(),
            marker: None,
            due: Vec::new(),
            date: [0; 5],
            cell_is_open: false,
            has_breaks: false,
        }
    }

    fn group(&self) -> Group {
        self.groups[self.groups.len() - 1]
    }

    fn group_mut(&mut self) -> &mut Group {
        let last = self.groups.len() - 1;
        &mut self.groups[last]
    }

    fn read(&mut self, token: Token<'_>, depth_max: usize) -> Result<(), Failure> {
        match token {
            Token::Open => {
                self.flush();
                self.to_skip = 0;
                if self.groups.len() >= depth_max {
                    return Err(Failure::FileLimit(format!("its groups are nested deeper than {depth_max}")));
                }
                self.groups.push(self.group());
            }
            Token::Close => self.close(),
            Token::Byte(_) if self.to_skip > 0 => self.to_skip -= 1,
            Token::Byte(byte) => {
                self.pending.push(byte);
                if self.pending.len() >= PENDING_MAX {
                    self.flush();
                }
            }
            Token::Symbol(b'*') => self.after_star = true,
            Token::Symbol(_) if self.to_skip > 0 => self.to_skip -= 1,
            Token::Symbol(byte) => self.symbol(byte),
            Token::Word(word, number) => {
                self.flush();
                self.word(word, number);
            }
        }
        Ok(())
    }

    fn symbol(&mut self, byte: u8) {
        match byte {
            b'\\' | b'{' | b'}' => self.pending.push(byte),
            b'~' => self.pending.push(b' '),
            b'_' => self.pending.push(b'-'),
            b'\r' | b'\n' => self.word("par", None),
            _ => {}
        }
    }

    fn close(&mut self) {
        self.flush();
        self.to_skip = 0;
        self.after_star = false;
        let Some(parent) = self.groups.len().checked_sub(2).map(|at| self.groups[at].destination) else {
            return;
        };
        let Some(group) = self.groups.pop() else { return };
        if group.destination == parent {
            return;
        }
        let captured =
            if self.captured.is_empty() { String::new() } else { std::mem::take(&mut self.captured) };
        match group.destination {
            Destination::Title => self.output.set_title(&captured),
            Destination::Author => self.output.add_metadata("author", &captured),
            Destination::Created | Destination::Modified => {
                let [year, month, day, hour, minute] = std::mem::take(&mut self.date);
                let key = if group.destination == Destination::Created { "created" } else { "modified" };
                if (1..=9999).contains(&year) && (1..=12).contains(&month) && (1..=31).contains(&day) {
                    self.output
                        .add_metadata(key, &format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}"));
                }
            }
            Destination::Marker => self.marker = Some(captured),
            Destination::Footnote => self.due.push(("footnote", std::mem::take(&mut self.note))),
            Destination::Comment => self.due.push((COMMENT, std::mem::take(&mut self.note))),
            Destination::Text
            | Destination::Nowhere
            | Destination::Fonts
            | Destination::Styles
            | Destination::Info => {}
        }
    }

    fn word(&mut self, word: &str, number: Option<i32>) {
        let after_star = std::mem::take(&mut self.after_star);
        if self.to_skip > 0 && word != "u" {
            self.to_skip -= 1;
            return;
        }
        if let Some(destination) = destination(word, self.group().destination) {
            // text boxes stand within what else is skipped
            if self.group().destination != Destination::Nowhere || word == "shptxt" {
                self.start_destination(destination);
            }
            return;
        }
        if after_star {
            self.group_mut().destination = Destination::Nowhere;
            return;
        }
        if self.group().destination == Destination::Nowhere && word != "u" {
            return;
        }
        if !self.definition_word(word, number) && !self.character_word(word, number) {
            let destination = self.group().destination;
            if destination == Destination::Text {
                self.paragraph_word(word, number);
            } else if matches!(word, "par" | "line" | "tab" | "cell") {
                self.text(" ");
            }
        }
    }

    fn start_destination(&mut self, destination: Destination) {
        match destination {
            Destination::Text => self.output.start_block(Block::Paragraph),
            Destination::Footnote | Destination::Comment => self.note.clear(),
            Destination::Title | Destination::Author | Destination::Marker => self.captured.clear(),
            Destination::Nowhere
            | Destination::Fonts
            | Destination::Styles
            | Destination::Info
            | Destination::Created
            | Destination::Modified => {}
        }
        self.group_mut().destination = destination;
    }

    /// Words that define encodings, fonts, styles and dates. Returns whether the word is one.
    fn definition_word(&mut self, word: &str, number: Option<i32>) -> bool {
        let value = number.unwrap_or(0);
        let destination = self.group().destination;
        match (word, destination) {
            ("ansicpg", _) => self.code_page = charset::of_code_page(value),
            ("mac", _) => self.code_page = MACINTOSH,
            ("deff", _) => {
                self.default_font = value;
                self.group_mut().font = value;
            }
            ("f", Destination::Fonts) | ("s", Destination::Styles) => {
                self.defined = value;
                self.captured.clear();
            }
            ("fcharset", Destination::Fonts) if self.fonts.len() < TABLE_MAX => {
                self.fonts.extend(charset::of_character_set(value).map(|encoding| (self.defined, encoding)));
            }
            ("cpg", Destination::Fonts) if self.fonts.len() < TABLE_MAX => {
                self.fonts.insert(self.defined, charset::of_code_page(value));
            }
            ("yr", _) => self.date[0] = value,
            ("mo", _) => self.date[1] = value,
            ("dy", _) => self.date[2] = value,
            ("hr", _) => self.date[3] = value,
            ("min", _) => self.date[4] = value,
            _ => return false,
        }
        true
    }

    /// Words of characters. Returns whether the word is one.
    fn character_word(&mut self, word: &str, number: Option<i32>) -> bool {
        let is_on = number != Some(0);
        match word {
            "u" => {
                self.unicode(number.unwrap_or(0));
                self.to_skip = self.group().fallback;
            }
            "uc" => self.group_mut().fallback = usize::try_from(number.unwrap_or(1)).unwrap_or(0).min(16),
            "f" => self.group_mut().font = number.unwrap_or(0),
            "plain" => {
                let font = self.default_font;
                *self.group_mut() = Group { font, is_hidden: false, is_deleted: false, ..self.group() };
            }
            "v" => self.group_mut().is_hidden = is_on,
            "deleted" => self.group_mut().is_deleted = is_on,
            "emdash" => self.text("\u{2014}"),
            "endash" => self.text("\u{2013}"),
            "lquote" => self.text("\u{2018}"),
            "rquote" => self.text("\u{2019}"),
            "ldblquote" => self.text("\u{201c}"),
            "rdblquote" => self.text("\u{201d}"),
            "bullet" => self.text("\u{2022}"),
            "emspace" | "enspace" | "qmspace" => self.text(" "),
            _ => return false,
        }
        true
    }

    /// Words of paragraphs, tables and pages in the text itself.
    fn paragraph_word(&mut self, word: &str, number: Option<i32>) {
        match word {
            "pard" => self.paragraph = Paragraph::default(),
            "s" => self.paragraph.style = number,
            "outlinelevel" => self.paragraph.outline = number,
            "ilvl" => {
                self.paragraph.level = number.and_then(|level| usize::try_from(level).ok()).unwrap_or(0)
            }
            "intbl" => self.paragraph.in_table = true,
            "par" | "sect" => self.end_paragraph(),
            "line" | "softline" => self.output.line_break(),
            "tab" => self.output.tab(),
            "nestcell" | "nestrow" => self.output.end_block(),
            "cell" => {
                self.open_cell();
                self.end_paragraph();
                self.cell_is_open = false;
            }
            "row" => {
                self.output.end_row();
                self.cell_is_open = false;
            }
            "trowd" if !self.output.in_table() => self.end_paragraph(),
            "page" | "pagebb" | "softpage" => {
                self.output.end_block();
                if word == "page" || self.output.page_has_text() {
                    self.has_breaks = true;
                    self.output.start_page(None, true);
                }
            }
            _ => {}
        }
    }

    /// A unit of UTF-16, as a signed number.
    fn unicode(&mut self, number: i32) {
        let unit = (number as u32) & 0xffff;
        match (self.high.take(), unit) {
            (_, 0xd800..=0xdbff) => self.high = Some(unit),
            (Some(high), 0xdc00..=0xdfff) => {
                let character = char::from_u32(0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00));
                self.text(&character.unwrap_or(char::REPLACEMENT_CHARACTER).to_string());
            }
            (_, unit) => {
                if let Some(character) = char::from_u32(unit) {
                    self.text(&character.to_string());
                }
            }
        }
    }

    /// Decodes the bytes of text up to here.
    fn flush(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.pending);
        let encoding = self.fonts.get(&self.group().font).copied().unwrap_or(self.code_page);
        self.text(&encoding.decode_without_bom_handling(&bytes).0);
    }

    /// Text of the open group.
    fn text(&mut self, text: &str) {
        let group = self.group();
        match group.destination {
            Destination::Text if group.is_deleted => {}
            Destination::Text if group.is_hidden && self.output.skips_hidden() => {
                if !text.trim().is_empty() {
                    self.output.warn_hidden();
                }
            }
            Destination::Text => self.body_text(text),
            Destination::Footnote | Destination::Comment => {
                if self.note.len() + text.len() <= self.output.bytes_left() {
                    self.note.push_str(text);
                }
            }
            Destination::Title | Destination::Author | Destination::Marker => self.capture(text),
            Destination::Styles => {
                self.capture(text);
                if let Some((name, _)) = self.captured.split_once(';') {
                    let name = name.trim().to_ascii_lowercase();
                    let level = name
                        .strip_prefix("heading ")
                        .map_or((name == "title").then_some(1), |level| level.parse().ok());
                    if self.headings.len() < TABLE_MAX {
                        self.headings.extend(level.map(|level| (self.defined, level)));
                    }
                    self.captured.clear();
                }
            }
            Destination::Nowhere
            | Destination::Fonts
            | Destination::Info
            | Destination::Created
            | Destination::Modified => {}
        }
    }

    fn capture(&mut self, text: &str) {
        if self.captured.len() + text.len() <= CAPTURE_MAX {
            self.captured.push_str(text);
        }
    }

    fn body_text(&mut self, text: &str) {
        if self.paragraph.in_table {
            if text.trim().is_empty() && !self.cell_is_open {
                return;
            }
            self.open_cell();
        } else if self.output.in_table() && !text.trim().is_empty() {
            self.output.end_table();
            self.cell_is_open = false;
        }
        if !self.output.block_has_text() && !text.trim().is_empty() && !self.paragraph.in_table {
            let block = self.block();
            self.output.set_block(block);
        }
        self.output.push(text);
    }

    /// The kind of the open paragraph.
    fn block(&mut self) -> Block {
        let of_style = self.paragraph.style.and_then(|style| self.headings.get(&style)).copied();
        let of_outline = self
            .paragraph
            .outline
            .and_then(|level| usize::try_from(level).ok())
            .filter(|level| *level < 9)
            .map(|level| level + 1);
        let marker = self.marker.take().map(|marker| marker.trim().to_owned());
        let number = marker.map(|marker| {
            if marker.chars().any(char::is_alphanumeric) && marker.len() <= 20 {
                marker
            } else {
                String::new()
            }
        });
        match (of_outline.or(of_style), number) {
            (Some(level), number) => Block::Heading(level, number.unwrap_or_default()),
            (None, Some(number)) => Block::Item(self.paragraph.level, number),
            (None, None) => Block::Paragraph,
        }
    }

    /// Begins a table, a row and a cell, as far as they aren't open.
    fn open_cell(&mut self) {
        if !self.output.in_table() {
            self.output.start_table();
            self.cell_is_open = false;
        }
        if !self.output.in_row() {
            self.output.start_row();
            self.cell_is_open = false;
        }
        if !self.cell_is_open {
            self.output.start_cell();
            self.cell_is_open = true;
        }
    }

    fn end_paragraph(&mut self) {
        self.marker = None;
        if !self.output.in_row() {
            self.output.end_block();
        }
        for (kind, note) in std::mem::take(&mut self.due) {
            self.output.note(kind, &note);
        }
        self.output.end_block();
    }
}

/// The destination that a control word begins, if it is one.
fn destination(word: &str, parent: Destination) -> Option<Destination> {
    Some(match word {
        "fonttbl" => Destination::Fonts,
        "stylesheet" => Destination::Styles,
        "info" => Destination::Info,
        "title" if parent == Destination::Info => Destination::Title,
        "author" if parent == Destination::Info => Destination::Author,
        "creatim" if parent == Destination::Info => Destination::Created,
        "revtim" if parent == Destination::Info => Destination::Modified,
        "listtext" | "pntext" => Destination::Marker,
        "footnote" => Destination::Footnote,
        "annotation" => Destination::Comment,
        "shptxt" => Destination::Text,
        "colortbl" | "pict" | "object" | "objdata" | "header" | "headerl" | "headerr" | "headerf"
        | "footer" | "footerl" | "footerr" | "footerf" | "listtable" | "listoverridetable" | "rsidtbl"
        | "generator" | "themedata" | "colorschememapping" | "latentstyles" | "datastore" | "xmlnstbl"
        | "fldinst" | "nonshppict" | "bkmkstart" | "bkmkend" | "filetbl" | "revtbl" | "shpinst"
        | "shprslt" | "pntxta" | "pntxtb" | "userprops" | "docvar" | "template" | "atnid" | "atnauthor"
        | "atndate" | "ftnsep" | "ftnsepc" | "xe" | "tc" | "falt" | "panose" => Destination::Nowhere,
        _ => return None,
    })
}
