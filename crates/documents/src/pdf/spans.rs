//! Glyphs of a page to spans: pieces of a line without a wide gap.

use crate::pdf::page::{Glyph, Turn};
use crate::pdf::script;

/// Gaps from this share of the size on are spaces.
const SPACE_GAP: f32 = 0.17;

/// The same in scripts that are written from right to left, whose letters are joined.
const SPACE_GAP_RIGHT_TO_LEFT: f32 = 0.09;

/// Gaps from this multiple of the size on end a span.
pub(super) const WIDE_GAP: f32 = 1.6;

/// Spaces narrower than this share of the size are not spaces.
const SPACE_ADVANCE_MIN: f32 = 0.05;

/// A glyph is drawn twice for bold letters within this share of the size.
const DOUBLE_STRIKE: f32 = 0.12;

/// A piece of a line, in coordinates in which writing runs to the right.
#[derive(Debug, Clone)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) x0: f32,
    pub(super) x1: f32,
    /// The baseline.
    pub(super) y: f32,
    pub(super) size: f32,
    pub(super) turn: Turn,
    /// Number of glyphs.
    pub(super) glyphs: usize,
    pub(super) is_right_to_left: bool,
    pub(super) is_annotation: bool,
}

/// A glyph in the coordinates of spans.
struct Piece {
    x: f32,
    y: f32,
    advance: f32,
    size: f32,
    text: Box<str>,
}

/// The last glyph, from which the next one may continue.
#[derive(Clone, Copy)]
struct Pen {
    x: f32,
    y: f32,
    advance: f32,
    size: f32,
    turn: Turn,
    is_annotation: bool,
}

/// The spans of a page in the order of its content.
pub(super) fn spans(glyphs: &[Glyph], width: f32, height: f32) -> Vec<Span> {
    let mut builder = Builder { pieces: Vec::new(), pen: None, spans: Vec::new() };
    for glyph in glyphs {
        builder.push(glyph, width, height);
    }
    builder.flush();
    builder.spans
}

struct Builder {
    pieces: Vec<Piece>,
    pen: Option<Pen>,
    spans: Vec<Span>,
}

impl Builder {
    fn push(&mut self, glyph: &Glyph, width: f32, height: f32) {
        let (x, y) = turned(glyph, width, height);
        if self.pen.is_some_and(|pen| ends_span(pen, glyph, x, y)) {
            self.flush();
        }
        let is_space = glyph.text.chars().all(char::is_whitespace);
        let pen = Pen {
            x,
            y,
            advance: glyph.advance,
            size: glyph.size,
            turn: glyph.turn,
            is_annotation: glyph.is_annotation,
        };
        if is_space {
            if !self.pieces.is_empty() && glyph.advance > SPACE_ADVANCE_MIN * glyph.size {
                self.pieces.push(Piece { x, y, advance: glyph.advance, size: glyph.size, text: " ".into() });
            }
            self.pen = Some(pen);
            return;
        }
        let is_struck_twice = self.pieces.last().is_some_and(|last| {
            let near = DOUBLE_STRIKE * glyph.size;
            last.text == glyph.text && (last.x - x).abs() < near && (last.y - y).abs() < near
        });
        if !is_struck_twice {
            self.pieces.push(Piece {
                x,
                y,
                advance: glyph.advance,
                size: glyph.size,
                text: glyph.text.clone(),
            });
            self.pen = Some(pen);
        }
    }

    /// Ends the span.
    fn flush(&mut self) {
        let Some(pen) = self.pen else { return };
        let mut pieces = std::mem::take(&mut self.pieces);
        let is_right_to_left = pieces.iter().any(|piece| piece.text.chars().any(script::is_right_to_left));
        if is_right_to_left {
            pieces.sort_by(|a, b| a.x.total_cmp(&b.x));
        }
        join_accents(&mut pieces);
        let words = with_spaces(&pieces, if is_right_to_left { SPACE_GAP_RIGHT_TO_LEFT } else { SPACE_GAP });
        let text = if is_right_to_left { script::logical_order(&words) } else { words.concat() };
        if text.trim().is_empty() {
            return;
        }
        self.spans.push(Span {
            x0: pieces.iter().map(|piece| piece.x).fold(f32::MAX, f32::min),
            x1: pieces.iter().map(|piece| piece.x + piece.advance).fold(f32::MIN, f32::max),
            y: median(pieces.iter().map(|piece| piece.y)),
            size: median(pieces.iter().map(|piece| piece.size)),
            turn: pen.turn,
            glyphs: pieces.len(),
            text,
            is_right_to_left,
            is_annotation: pen.is_annotation,
        });
    }
}

/// The place of a glyph when the page is turned so that its writing runs to the right.
fn turned(glyph: &Glyph, width: f32, height: f32) -> (f32, f32) {
    match glyph.turn {
        Turn::None | Turn::Other => (glyph.x, glyph.y),
        Turn::Quarter => (glyph.y, width - glyph.x),
        Turn::Half => (width - glyph.x, height - glyph.y),
        Turn::ThreeQuarters => (height - glyph.y, glyph.x),
    }
}

/// Whether a glyph begins another span than the one of the pen.
fn ends_span(pen: Pen, glyph: &Glyph, x: f32, y: f32) -> bool {
    let size = pen.size.max(glyph.size).max(0.1);
    if glyph.is_annotation != pen.is_annotation {
        return true;
    }
    let gap = x - (pen.x + pen.advance);
    let is_right_to_left = glyph.text.chars().any(script::is_right_to_left);
    let continues_to_the_left = is_right_to_left && x + glyph.advance - pen.x > -2.0 * size;
    glyph.turn != pen.turn
        || (y - pen.y).abs() > 0.55 * size
        || gap > WIDE_GAP * size
        || (gap < -0.7 * size && !continues_to_the_left)
}

/// Joins accents that are drawn over a letter with the letter.
fn join_accents(pieces: &mut Vec<Piece>) {
    if !pieces.iter().any(|piece| script::combining_mark(&piece.text).is_some()) {
        return;
    }
    let mut joined: Vec<Piece> = Vec::with_capacity(pieces.len());
    let mut pending: Option<(Piece, char)> = None;
    for mut piece in pieces.drain(..) {
        if let Some((accent, mark)) = pending.take() {
            if is_over(&accent, &piece) {
                piece.text = script::compose(&piece.text, mark);
            } else {
                joined.push(accent);
            }
        }
        match script::combining_mark(&piece.text) {
            Some(mark) => match joined.last_mut().filter(|last| is_over(&piece, last)) {
                Some(last) => last.text = script::compose(&last.text, mark),
                None => pending = Some((piece, mark)),
            },
            None => joined.push(piece),
        }
    }
    joined.extend(pending.map(|(accent, _)| accent));
    *pieces = joined;
}

fn is_over(accent: &Piece, letter: &Piece) -> bool {
    let mut characters = letter.text.chars();
    let (Some(character), None) = (characters.next(), characters.next()) else { return false };
    let middle = accent.x + accent.advance / 2.0;
    character.is_alphabetic()
        && middle > letter.x
        && middle < letter.x + letter.advance
        && (letter.x + letter.advance / 2.0 - middle).abs() < 0.3 * letter.size
}

/// The texts of pieces, with a space for each wide gap.
fn with_spaces(pieces: &[Piece], gap: f32) -> Vec<String> {
    let mut words = Vec::with_capacity(pieces.len() + pieces.len() / 4);
    let mut last: Option<&Piece> = None;
    for piece in pieces {
        if last.is_some_and(|last| piece.x - (last.x + last.advance) > gap * last.size.min(piece.size)) {
            words.push(" ".to_owned());
        }
        let mut text = String::new();
        script::fold(&piece.text, &mut text);
        words.push(text);
        last = Some(piece);
    }
    words
}

fn median(values: impl Iterator<Item = f32>) -> f32 {
    let mut values: Vec<f32> = values.collect();
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(middle, f32::total_cmp).1
}
