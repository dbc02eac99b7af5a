//! The rows of an OpenDocument sheet.
//!
//! Rows and cells can be repeated by a number. Copies that have text count as cells; empty ones cost nothing.

use crate::Failure;
use crate::budget::Budget;
use crate::output::Output;
use crate::xml::{Event, Tag, Xml};

use super::plain::PlainText;

/// A cell with text.
#[derive(Debug)]
struct Cell {
    /// The column, from 0.
    column: u64,
    copies: u64,
    text: String,
}

/// Reads the rows of the table whose start was the last event, up to its end.
pub(super) fn read(xml: &mut Xml<'_>, budget: &Budget<'_>, output: &mut Output<'_>) -> Result<(), Failure> {
    output.start_table();
    let end = xml.depth();
    while let Some(event) = xml.next()? {
        match event {
            Event::Open(tag) if tag.name() == "table-row" => {
                let is_hidden = output.skips_hidden()
                    && tag.attr("visibility").is_some_and(|visibility| visibility != "visible");
                let copies = repeated(&tag, "number-rows-repeated");
                let cells = read_row(xml, budget, output)?;
                if is_hidden && !cells.is_empty() {
                    output.warn_hidden();
                } else if !cells.is_empty() {
                    write_row(&cells, copies, budget, output)?;
                }
            }
            Event::Open(tag) if matches!(tag.name(), "shapes" | "forms") => xml.skip()?,
            Event::Close(_) if xml.depth() < end => break,
            Event::Open(_) | Event::Close(_) | Event::Text(_) => {}
        }
        if output.is_full() {
            break;
        }
    }
    output.end_table();
    Ok(())
}

fn repeated(tag: &Tag<'_>, name: &str) -> u64 {
    tag.number::<u32>(name).map_or(1, u64::from).max(1)
}

/// Reads the cells of a row that have text.
fn read_row(xml: &mut Xml<'_>, budget: &Budget<'_>, output: &Output<'_>) -> Result<Vec<Cell>, Failure> {
    let mut cells = Vec::new();
    let mut column = 0;
    let end = xml.depth();
    while let Some(event) = xml.next()? {
        match event {
            Event::Open(tag) if matches!(tag.name(), "table-cell" | "covered-table-cell") => {
                let copies = repeated(&tag, "number-columns-repeated");
                let plain = PlainText::read(xml, output.bytes_left())?;
                let mut text = plain.text;
                for comment in plain.comments.into_iter().filter(|_| !output.skips_comments()) {
                    text.push_str(&format!(" [comment: {comment}]"));
                }
                budget.take_cells(1)?;
                if !text.trim().is_empty() {
                    cells.push(Cell { column, copies, text });
                }
                column += copies;
            }
            Event::Close(_) if xml.depth() < end => break,
            Event::Open(_) | Event::Close(_) | Event::Text(_) => {}
        }
    }
    Ok(cells)
}

fn write_row(
    cells: &[Cell],
    copies: u64,
    budget: &Budget<'_>,
    output: &mut Output<'_>,
) -> Result<(), Failure> {
    let with_text: u64 = cells.iter().map(|cell| cell.copies).sum();
    budget.take_cells(with_text.saturating_mul(copies))?;
    for _ in 0..copies {
        output.start_row();
        let mut next = 0;
        for cell in cells {
            output.empty_cells(usize::try_from(cell.column - next).unwrap_or(usize::MAX));
            for _ in 0..cell.copies {
                output.start_cell();
                output.push(&cell.text);
            }
            next = cell.column + cell.copies;
        }
        output.end_row();
        if output.is_full() {
            break;
        }
    }
    Ok(())
}
