//! The recursive X-Y cut: a page is divided at its widest white strips, first between columns, then between blocks.

use crate::pdf::lines::{Line, is_same_row, join};
use crate::pdf::spans::Span;

/// Nested cuts; a page of columns has up to 10.
const DEPTH_MAX: usize = 24;

/// Spans that are looked at in all cuts of a file. Pages beyond are read by rows.
const WORK_MAX: u64 = 60_000_000;

/// A page of prose has fewer spans.
const SPANS_MAX: usize = 20_000;

/// Least number of lines of a column of prose.
const COLUMN_LINES_MIN: usize = 3;

/// Least number of glyphs of a line of a column of prose, in the mean; the columns of a table have fewer.
const COLUMN_GLYPHS_MIN: f32 = 16.0;

/// Adds the lines of `spans`, which have one direction, to `out`. `work` counts the spans that were looked at so far.
pub(super) fn cut(spans: Vec<Span>, work: &mut u64, out: &mut Vec<Line>) {
    // parts that are still to be divided, the first one on top
    let mut parts = vec![(spans, 0)];
    while let Some((spans, depth)) = parts.pop() {
        *work += spans.len() as u64;
        if spans.len() < 2 || spans.len() > SPANS_MAX || depth >= DEPTH_MAX || *work > WORK_MAX {
            rows(spans, out);
            continue;
        }
        match divide(&spans) {
            Some(border) => {
                let (first, second): (Vec<Span>, Vec<Span>) =
                    spans.into_iter().partition(|span| border.is_before(span));
                parts.push((second, depth + 1));
                parts.push((first, depth + 1));
            }
            None => rows(spans, out),
        }
    }
}

/// Where a part of a page is divided.
#[derive(Clone, Copy)]
enum Border {
    /// Between columns, of which the right one may be read first.
    Vertical { x: f32, is_right_to_left: bool },
    /// Between blocks.
    Horizontal { y: f32 },
}

impl Border {
    /// Whether a span is read before the border.
    fn is_before(self, span: &Span) -> bool {
        match self {
            Border::Vertical { x, is_right_to_left } => (span.x0 < x) != is_right_to_left,
            Border::Horizontal { y } => span.y - 0.3 * span.size < y,
        }
    }
}

/// The border that divides spans into two parts, both with spans.
fn divide(spans: &[Span]) -> Option<Border> {
    let body = body_size(spans);
    let columns = widest_gap(spans.iter().map(|span| (span.x0, span.x1)).collect(), 0.9 * body);
    if let Some(x) = columns
        && has_columns(spans, x, body)
    {
        let right: usize = spans.iter().filter(|span| span.is_right_to_left).map(|span| span.glyphs).sum();
        let is_right_to_left = right * 2 > spans.iter().map(|span| span.glyphs).sum::<usize>();
        return Some(Border::Vertical { x, is_right_to_left });
    }
    let y = widest_gap(
        spans.iter().map(|span| (span.y - 0.75 * span.size, span.y + 0.2 * span.size)).collect(),
        0.05 * body,
    )?;
    let border = Border::Horizontal { y };
    let before = spans.iter().filter(|span| border.is_before(span)).count();
    (before > 0 && before < spans.len()).then_some(border)
}

fn body_size(spans: &[Span]) -> f32 {
    let mut sizes: Vec<f32> = spans.iter().map(|span| span.size).collect();
    let middle = sizes.len() / 2;
    *sizes.select_nth_unstable_by(middle, f32::total_cmp).1
}

/// The middle of the widest gap between intervals, of those wider than `min`.
fn widest_gap(mut intervals: Vec<(f32, f32)>, min: f32) -> Option<f32> {
    intervals.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut end = intervals.first()?.1;
    let (mut widest, mut middle) = (min, None);
    for (start, next_end) in intervals {
        if start - end > widest {
            widest = start - end;
            middle = Some((start + end) / 2.0);
        }
        end = end.max(next_end);
    }
    middle
}

/// Whether both sides of `x` are columns of prose.
fn has_columns(spans: &[Span], x: f32, body: f32) -> bool {
    let is_prose = |is_left: bool| {
        let side = || spans.iter().filter(move |span| (span.x0 < x) == is_left);
        let mut baselines: Vec<f32> = side().map(|span| span.y).collect();
        baselines.sort_by(f32::total_cmp);
        baselines.dedup_by(|a, b| (*a - *b).abs() < 0.4 * body);
        let glyphs: usize = side().map(|span| span.glyphs).sum();
        baselines.len() >= COLUMN_LINES_MIN && glyphs as f32 > COLUMN_GLYPHS_MIN * baselines.len() as f32
    };
    is_prose(true) && is_prose(false)
}

/// Lines by baseline, and from left to right within one.
fn rows(mut spans: Vec<Span>, out: &mut Vec<Line>) {
    spans.sort_by(|a, b| a.y.total_cmp(&b.y));
    let mut row: Vec<Span> = Vec::new();
    for span in spans {
        if row.last().is_some_and(|last| !is_same_row(last, &span)) {
            end_row(&mut row, out);
        }
        row.push(span);
    }
    end_row(&mut row, out);
}

fn end_row(row: &mut Vec<Span>, out: &mut Vec<Line>) {
    row.sort_by(|a, b| a.x0.total_cmp(&b.x0));
    out.extend(join(std::mem::take(row)));
}
