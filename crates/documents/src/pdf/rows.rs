//! Rows of tables whose cells have several lines.

use crate::pdf::spans::WIDE_GAP;
use crate::pdf::text::TextLine;

/// A cell beside another one is less than so far above or below it, in sizes of the letters: centred cells are half a line off.
const BESIDE: f32 = 0.85;

/// The next line of a cell is at most so far below, in sizes of the letters.
const NEXT_LINE: f32 = 1.5;

/// A column is at least so far from the start of the row, in sizes of the letters.
const COLUMN_MIN: f32 = 3.0;

/// Joins lines that are cells beside the line before, or the next line of its last cell.
pub(super) fn merge(lines: Vec<TextLine>) -> Vec<TextLine> {
    let mut merged: Vec<TextLine> = Vec::with_capacity(lines.len());
    for line in lines {
        let Some(row) = merged.last_mut().filter(|row| row.turn == line.turn && line.cells.is_empty()) else {
            merged.push(line);
            continue;
        };
        if is_cell_beside(row, &line) {
            if row.cells.is_empty() {
                row.cells.push((row.x0, row.x1));
            }
            row.cells.push((line.x0, line.x1));
            extend(row, &line, '\t');
        } else if is_next_line_of_cell(row, &line) {
            extend(row, &line, ' ');
        } else {
            merged.push(line);
        }
    }
    merged
}

fn is_cell_beside(row: &TextLine, line: &TextLine) -> bool {
    let distance = (line.y1 - row.y1).abs();
    distance < BESIDE * row.size.min(line.size) && line.x0 > row.x1 + WIDE_GAP * row.size
}

fn is_next_line_of_cell(row: &TextLine, line: &TextLine) -> bool {
    let [_, .., last] = row.cells.as_slice() else { return false };
    let step = line.y1 - row.y1;
    (last.0 - line.x0).abs() < 0.6 * line.size
        && line.x0 > row.x0 + COLUMN_MIN * line.size
        && (0.5 * line.size..NEXT_LINE * line.size).contains(&step)
}

/// Adds a line to a row; the row ends where the line ends.
fn extend(row: &mut TextLine, line: &TextLine, between: char) {
    row.text.push(between);
    row.text.push_str(&line.text);
    row.x1 = row.x1.max(line.x1);
    row.y0 = row.y0.min(line.y0);
    row.y1 = line.y1;
}
