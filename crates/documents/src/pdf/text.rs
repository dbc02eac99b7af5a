//! The lines of all pages to the text of the file: paragraphs, headings, list items, rows, joined words.

use crate::pdf::headings::{Heading, Headings, headings};
use crate::pdf::hyphens::{Hyphens, first_word, last_word};
use crate::pdf::lines::Line;
use crate::pdf::outline::Entry;
use crate::pdf::page::Turn;
use crate::pdf::{heads, marks, script};
use std::collections::HashMap;

/// A step from line to line over this multiple of the usual one ends a paragraph.
const PARAGRAPH_STEP: f32 = 1.4;

/// The same in sizes of the letters, where a page has too few lines.
const PARAGRAPH_STEP_IN_SIZES: f32 = 1.75;

/// Rows of a table may be so far apart, in sizes of the letters.
const ROW_STEP_MAX: f32 = 4.0;

/// A change of size by this share ends a paragraph.
const SIZE_CHANGE: f32 = 0.25;

/// Fewest steps by which the usual one of a page is known.
const STEPS_MIN: usize = 5;

/// A line of the text.
#[derive(Debug, Clone)]
pub(super) struct TextLine {
    pub(super) text: String,
    pub(super) x0: f32,
    pub(super) x1: f32,
    pub(super) y0: f32,
    pub(super) y1: f32,
    pub(super) size: f32,
    pub(super) turn: Turn,
    /// Left and right ends of the cells of a row; empty for a line of prose.
    pub(super) cells: Vec<(f32, f32)>,
}

impl TextLine {
    pub(super) fn new(line: Line) -> TextLine {
        let mut cells = Vec::new();
        if line.text.contains('\t') {
            cells.extend(line.spans.iter().map(|span| (span.x0, span.x1)));
        }
        let Line { text, x0, x1, y0, y1, size, turn, .. } = line;
        TextLine { text, x0, x1, y0, y1, size, turn, cells }
    }

    /// Whether the line is written as the page is held.
    pub(super) fn is_upright(&self) -> bool {
        self.turn == Turn::None
    }
}

/// The lines of a page in the order of reading.
#[derive(Debug, Default)]
pub(super) struct TextPage {
    pub(super) lines: Vec<TextLine>,
    pub(super) height: f32,
}

/// The text of a file.
pub(super) struct Text {
    pub(super) text: String,
    /// The end of each page.
    pub(super) ends: Vec<usize>,
}

/// The text of all pages.
pub(super) fn assemble(mut pages: Vec<TextPage>, outline: &[Entry]) -> Text {
    let body_size = body_size(&pages);
    heads::remove(&mut pages, body_size);
    for line in pages.iter_mut().flat_map(|page| &mut page.lines) {
        line.text = marks::clean(&line.text);
    }
    let headings = headings(&pages, outline, body_size);
    let hyphens = Hyphens::new(pages.iter().flat_map(|page| &page.lines).map(|line| line.text.as_str()));
    let mut writer = Writer { text: String::new(), ends: Vec::new(), hyphens, is_after_heading: false };
    let mut last: Option<&TextLine> = None;
    for (number, page) in pages.iter().enumerate() {
        last = writer.page(number, page, &headings, last).or(last);
    }
    writer.finish(pages.len())
}

/// The size of most letters.
fn body_size(pages: &[TextPage]) -> f32 {
    let mut weights: HashMap<i32, usize> = HashMap::new();
    for line in pages.iter().flat_map(|page| &page.lines) {
        *weights.entry((line.size * 2.0).round() as i32).or_default() += line.text.len();
    }
    weights
        .into_iter()
        .max_by_key(|&(size, weight)| (weight, -size))
        .map_or(10.0, |(size, _)| size as f32 / 2.0)
}

struct Writer {
    text: String,
    ends: Vec<usize>,
    hyphens: Hyphens,
    is_after_heading: bool,
}

impl Writer {
    /// Writes a page after the line `last`, and returns its last line.
    fn page<'p>(
        &mut self,
        number: usize,
        page: &'p TextPage,
        headings: &Headings,
        last: Option<&'p TextLine>,
    ) -> Option<&'p TextLine> {
        let step = usual_step(page);
        let mut previous = last;
        let mut is_first = true;
        let mut at = 0;
        while let Some(line) = page.lines.get(at) {
            let heading = headings.get(&(number, at)).copied();
            let border = match previous {
                None => Border::None,
                Some(_) if heading.is_some() || self.is_after_heading => Border::Paragraph,
                Some(previous) if is_first => page_border(previous, line),
                Some(previous) => border(previous, line, step),
            };
            self.separate(border, previous, line);
            if is_first && number > 0 {
                self.end_pages(number);
            }
            is_first = false;
            let lines = heading.map_or(1, |heading| heading.lines.max(1));
            let written = page.lines.get(at..at + lines).unwrap_or_default();
            match heading {
                Some(heading) => self.heading(heading, written),
                None => self.line(line, border, previous),
            }
            self.is_after_heading = heading.is_some();
            previous = written.last();
            at += lines;
        }
        (!is_first).then_some(previous).flatten()
    }

    /// Ends all pages before the page `number`.
    fn end_pages(&mut self, number: usize) {
        self.ends.resize(number, self.text.len());
    }

    fn heading(&mut self, heading: Heading, lines: &[TextLine]) {
        self.text.extend(std::iter::repeat_n('#', heading.level));
        for line in lines {
            self.text.push(' ');
            self.text.push_str(&line.text.replace('\t', " "));
        }
    }

    fn line(&mut self, line: &TextLine, border: Border, previous: Option<&TextLine>) {
        let goes_on =
            border == Border::Line && previous.is_some_and(|previous| !marks::ends_clause(&previous.text));
        match marks::list_item(&line.text, !goes_on) {
            Some(item) => {
                self.text.push_str("- ");
                self.text.push_str(item);
            }
            None => self.text.push_str(&line.text),
        }
    }

    fn separate(&mut self, border: Border, previous: Option<&TextLine>, line: &TextLine) {
        if border == Border::Line
            && let Some(previous) = previous
            && self.join(previous, line)
        {
            return;
        }
        self.text.push_str(match border {
            Border::None => "",
            Border::Line => "\n",
            Border::Paragraph => "\n\n",
        });
    }

    /// Joins two lines without a space, if a word goes on or the script has no spaces.
    fn join(&mut self, previous: &TextLine, line: &TextLine) -> bool {
        if previous.turn != line.turn {
            return false;
        }
        let (end, start) = (last_word(&previous.text), first_word(&line.text));
        if let Some(is_kept) = self.hyphens.join(end, start) {
            if !is_kept {
                self.text.pop();
            }
            return true;
        }
        let (Some(a), Some(b)) = (previous.text.chars().next_back(), line.text.chars().next()) else {
            return false;
        };
        let is_full = previous.x1 > line.x1 - 1.5 * line.size;
        is_full
            && script::is_ideographic(a)
            && script::is_ideographic(b)
            && previous.cells.is_empty()
            && line.cells.is_empty()
    }

    fn finish(mut self, pages: usize) -> Text {
        self.end_pages(pages);
        // soft hyphens within lines were places where a line could have ended
        if !self.text.contains('\u{ad}') {
            return Text { text: self.text, ends: self.ends };
        }
        let mut removed = self.text.match_indices('\u{ad}').map(|(at, _)| at).peekable();
        let mut count = 0;
        for end in &mut self.ends {
            while removed.next_if(|&at| at < *end).is_some() {
                count += 1;
            }
            *end -= count * '\u{ad}'.len_utf8();
        }
        Text { text: self.text.replace('\u{ad}', ""), ends: self.ends }
    }
}

/// How a line follows the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Border {
    None,
    Line,
    Paragraph,
}

/// The border between two pages: none where the sentence goes on.
fn page_border(previous: &TextLine, line: &TextLine) -> Border {
    let begins_small = line.text.chars().next().is_some_and(char::is_lowercase);
    let is_ideographic = |character: Option<char>| {
        character.is_some_and(|character| character.is_alphabetic() && script::is_ideographic(character))
    };
    let goes_on = begins_small
        || (is_ideographic(previous.text.chars().next_back()) && is_ideographic(line.text.chars().next()));
    let is_same_size = (previous.size - line.size).abs() < 0.1 * line.size;
    if goes_on && is_same_size && !marks::ends_sentence(&previous.text) {
        Border::Line
    } else {
        Border::Paragraph
    }
}

/// The border between two lines of a page, whose usual step is `usual`.
fn border(previous: &TextLine, line: &TextLine, usual: Option<f32>) -> Border {
    let size = previous.size.max(line.size);
    let step = line.y1 - previous.y1;
    if previous.turn != line.turn || step < -0.5 * size {
        return Border::Paragraph;
    }
    if are_rows(previous, line) && step < ROW_STEP_MAX * size {
        return Border::Line;
    }
    let largest = usual.map_or(PARAGRAPH_STEP_IN_SIZES * size, |usual| {
        (PARAGRAPH_STEP * usual).clamp(1.3 * size, 2.6 * size)
    });
    let is_new_size = (previous.size - line.size).abs() > SIZE_CHANGE * size;
    let indent = line.x0 - previous.x0;
    let is_indented = (0.8 * size..5.0 * size).contains(&indent)
        && marks::ends_sentence(&previous.text)
        && previous.cells.is_empty();
    if step > largest || is_new_size || is_indented { Border::Paragraph } else { Border::Line }
}

/// Whether two lines are rows of one table: at least two cells begin or end at the same places.
fn are_rows(a: &TextLine, b: &TextLine) -> bool {
    let near = |x: f32, y: f32| (x - y).abs() < 0.6 * a.size;
    let is_aligned = |cell: &&(f32, f32)| {
        b.cells.iter().take(100).any(|other| near(cell.0, other.0) || near(cell.1, other.1))
    };
    a.cells.iter().take(100).filter(is_aligned).count() >= 2
}

/// The usual step from line to line of a page.
fn usual_step(page: &TextPage) -> Option<f32> {
    let mut steps: Vec<f32> = page
        .lines
        .iter()
        .zip(page.lines.iter().skip(1))
        .filter(|(a, b)| a.turn == b.turn && (a.size - b.size).abs() < 0.1 * a.size)
        .map(|(a, b)| (b.y1 - a.y1, a.size))
        .filter(|&(step, size)| step > 0.5 * size && step < 3.0 * size)
        .map(|(step, _)| step)
        .collect();
    let middle = steps.len() / 2;
    (steps.len() >= STEPS_MIN).then(|| *steps.select_nth_unstable_by(middle, f32::total_cmp).1)
}
