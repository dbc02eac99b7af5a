//! Spans of a page to lines in the order of reading, without models.
//!
//! The order of the content is kept unless it can't be the order of reading: most programs write pages as people read them, and
//! know columns and boxes better than their geometry shows. Else the page is cut at its white areas.

use crate::pdf::cut;
use crate::pdf::page::{PageContent, Turn};
use crate::pdf::spans::{Span, WIDE_GAP, spans};

/// Share of steps up within a column from which on the order of the content is not that of reading.
const DISORDER_MAX: f32 = 0.12;

/// Comparisons of annotations with lines on one page.
const ANNOTATION_WORK_MAX: usize = 4_000_000;

/// A line of text.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// The text; cells of a row are separated by tabs.
    pub(super) text: String,
    pub(super) x0: f32,
    pub(super) x1: f32,
    pub(super) y0: f32,
    pub(super) y1: f32,
    pub(super) size: f32,
    pub(super) turn: Turn,
    pub(super) spans: Vec<Span>,
}

/// The lines of a page in the order of reading.
pub(super) fn lines(content: &PageContent, work: &mut u64) -> Vec<Line> {
    let (annotations, spans): (Vec<Span>, Vec<Span>) = spans(&content.glyphs, content.width, content.height)
        .into_iter()
        .partition(|span| span.is_annotation);
    let by_stream = lines_of_stream(spans);
    let mut lines = if disorder(&by_stream) < DISORDER_MAX && !is_out_of_order(&by_stream) {
        by_stream
    } else {
        let spans: Vec<Span> = by_stream.into_iter().flat_map(|line| line.spans).collect();
        let mut lines = Vec::new();
        for turn in Turn::ALL {
            cut::cut(spans.iter().filter(|span| span.turn == turn).cloned().collect(), work, &mut lines);
        }
        lines
    };
    place_annotations(annotations, &mut lines);
    lines
}

/// Joins the spans of a line, which are in the order of the content.
pub(super) fn join(mut spans: Vec<Span>) -> Option<Line> {
    let turn = spans.first()?.turn;
    let glyphs = |spans: &[Span]| spans.iter().map(|span| span.glyphs).sum::<usize>();
    let right: usize = spans.iter().filter(|span| span.is_right_to_left).map(|span| span.glyphs).sum();
    let is_right_to_left = right * 2 > glyphs(&spans);
    if is_right_to_left {
        spans.sort_by(|a, b| b.x0.total_cmp(&a.x0));
    }
    let mut text = String::new();
    let mut last: Option<&Span> = None;
    for span in &spans {
        let gap =
            last.map_or(0.0, |last| if is_right_to_left { last.x0 - span.x1 } else { span.x0 - last.x1 });
        if gap > WIDE_GAP * span.size {
            text.truncate(text.trim_end_matches(' ').len());
            text.push('\t');
        } else if gap > 0.18 * span.size && !text.ends_with(' ') {
            text.push(' ');
        }
        text.push_str(if text.ends_with([' ', '\t']) {
            span.text.trim_start_matches(' ')
        } else {
            &span.text
        });
        last = Some(span);
    }
    let bound = |start: f32, choose: fn(f32, f32) -> f32, of: fn(&Span) -> f32| {
        spans.iter().map(of).fold(start, choose)
    };
    Some(Line {
        text: with_single_spaces(text.trim()),
        x0: bound(f32::MAX, f32::min, |span| span.x0),
        x1: bound(f32::MIN, f32::max, |span| span.x1),
        y0: bound(f32::MAX, f32::min, |span| span.y - 0.8 * span.size),
        y1: bound(f32::MIN, f32::max, |span| span.y + 0.2 * span.size),
        size: bound(0.0, f32::max, |span| span.size),
        turn,
        spans,
    })
}

fn with_single_spaces(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        if character != ' ' || !out.ends_with([' ', '\t']) {
            out.push(character);
        }
    }
    out
}

/// Whether two spans have the same baseline.
pub(super) fn is_same_row(a: &Span, b: &Span) -> bool {
    a.turn == b.turn && (a.y - b.y).abs() < 0.5 * a.size.max(b.size)
}

/// Lines in the order of the content.
fn lines_of_stream(spans: Vec<Span>) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut row: Vec<Span> = Vec::new();
    for span in spans {
        let fits = row.last().is_some_and(|last| {
            let continues = span.is_right_to_left
                || last.is_right_to_left
                || span.x0 > last.x1 - 0.5 * last.size.max(span.size);
            is_same_row(last, &span) && continues
        });
        if !fits {
            lines.extend(join(std::mem::take(&mut row)));
        }
        row.push(span);
    }
    lines.extend(join(row));
    lines
}

/// Share of steps from one line to the next that go up although the lines overlap, or go back in a row.
fn disorder(lines: &[Line]) -> f32 {
    let (mut backward, mut steps) = (0_u32, 0_u32);
    for (a, b) in lines.iter().zip(lines.iter().skip(1)).filter(|(a, b)| a.turn == b.turn) {
        steps += 1;
        let overlap = a.x1.min(b.x1) - a.x0.max(b.x0);
        let is_same_row = (a.y1 - b.y1).abs() < 0.5 * a.size.max(b.size);
        let is_right_to_left = a.spans.iter().chain(&b.spans).any(|span| span.is_right_to_left);
        if (b.y1 < a.y1 - 0.5 * a.size && overlap > 0.0) || (is_same_row && b.x0 < a.x0 && !is_right_to_left)
        {
            backward += 1;
        }
    }
    if steps < 4 { 0.0 } else { backward as f32 / steps as f32 }
}

/// A run of lines that goes down.
struct Block {
    x0: f32,
    x1: f32,
    y0: f32,
    y1: f32,
    lines: usize,
}

/// Whether the content can't be in the order of reading: a block begins above and before the one that precedes it, or rows run
/// across columns of prose.
fn is_out_of_order(lines: &[Line]) -> bool {
    has_backward_block(lines) || has_rows_across_columns(lines)
}

fn has_backward_block(lines: &[Line]) -> bool {
    let is_right_to_left =
        lines.iter().filter(|line| line.spans.iter().any(|span| span.is_right_to_left)).count() * 2
            > lines.len();
    let mut blocks: Vec<Block> = Vec::new();
    for line in lines.iter().filter(|line| line.turn == Turn::None) {
        match blocks.last_mut() {
            Some(block) if line.y1 > block.y1 - 0.5 * line.size && line.y0 < block.y1 + 4.0 * line.size => {
                block.x0 = block.x0.min(line.x0);
                block.x1 = block.x1.max(line.x1);
                block.y1 = block.y1.max(line.y1);
                block.lines += 1;
            }
            _ => blocks.push(Block { x0: line.x0, x1: line.x1, y0: line.y0, y1: line.y1, lines: 1 }),
        }
    }
    blocks.iter().zip(blocks.iter().skip(1)).any(|(a, b)| {
        let is_before = if is_right_to_left { b.x0 > a.x1 } else { b.x1 < a.x0 };
        a.lines >= 4 && b.lines >= 4 && is_before && b.y0 < a.y1 - 4.0 * (a.y1 - a.y0) / a.lines as f32
    })
}

fn has_rows_across_columns(lines: &[Line]) -> bool {
    let mut gaps: Vec<f32> = Vec::new();
    for line in lines {
        let pairs = line.spans.iter().zip(line.spans.iter().skip(1));
        let mut wide = pairs.filter(|(a, b)| b.x0 - a.x1 > 0.9 * line.size && a.glyphs > 16 && b.glyphs > 16);
        gaps.extend(wide.next().map(|(_, b)| b.x0));
    }
    gaps.sort_by(f32::total_cmp);
    let near = gaps
        .get(gaps.len() / 2)
        .map_or(0, |middle| gaps.iter().filter(|gap| (*gap - middle).abs() < 3.0).count());
    gaps.len() >= 6 && near * 10 > gaps.len() * 7 && gaps.len() * 5 > lines.len() * 2
}

/// Puts the text of annotations and fields into the line beside which it stands, else at the end.
fn place_annotations(annotations: Vec<Span>, lines: &mut Vec<Line>) {
    let can_search = annotations.len().saturating_mul(lines.len()) <= ANNOTATION_WORK_MAX;
    let mut rest = Vec::new();
    for span in annotations {
        let beside = |line: &Line| {
            line.spans.iter().any(|other| is_same_row(other, &span))
                && (span.x0 >= line.x1 || span.x1 <= line.x0)
        };
        match lines.iter_mut().find(|line| can_search && beside(line)) {
            Some(line) => {
                let mut spans = std::mem::take(&mut line.spans);
                spans.push(span);
                spans.sort_by(|a, b| a.x0.total_cmp(&b.x0));
                if let Some(joined) = join(spans) {
                    *line = joined;
                }
            }
            None => rest.push(span),
        }
    }
    lines.extend(lines_of_stream(rest));
}
