//! Finds the tables in a text, so that each chunk of their rows can have their header.
//!
//! A table is written with bars, as in Markdown, or with tabs between the cells, as from HTML and spreadsheets.

use std::ops::Range;

/// Bytes of a header, at most: a longer line is no header.
const HEADER_BYTES_MAX: usize = 1000;

/// Fewest rows of a table with tabs below its header.
const TAB_ROWS_MIN: usize = 2;

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// The line with the names of the columns.
    pub(crate) header: Range<usize>,
    /// The lines below it.
    pub(crate) rows: Range<usize>,
}

/// For each chunk that begins among the rows of a table, the span of that table's header.
///
/// `chunks` are spans of `text` in the order of their begin, as [`chunk`](crate::chunk) returns them.
pub fn table_headers(text: &str, chunks: &[Range<usize>]) -> Vec<Option<Range<usize>>> {
    let tables = tables(text);
    let header_at = |at: usize| {
        let table = tables.get(tables.partition_point(|table| table.rows.end <= at))?;
        (table.rows.start <= at).then(|| table.header.clone())
    };
    chunks.iter().map(|chunk| header_at(chunk.start)).collect()
}

/// The tables of a text, in order.
pub(crate) fn tables(text: &str) -> Vec<Table> {
    let mut tables = Vec::new();
    if !text.contains(['|', '\t']) {
        return tables;
    }
    let mut lines = Lines { text, at: 0 }.peekable();
    while let Some(header) = lines.next() {
        let line = &text[header.clone()];
        if header.len() > HEADER_BYTES_MAX {
            continue;
        }
        let is_row: fn(&str) -> bool = match lines.peek().map(|next| &text[next.clone()]) {
            Some(next) if line.contains('|') && is_rule(next) => |line| line.contains('|'),
            Some(next) if has_tabs(line) && (1..=tabs_of(line)).contains(&tabs_of(next)) => {
                |line| line.trim_end().contains('\t')
            }
            Some(_) | None => continue,
        };
        let is_ruled = line.contains('|') && lines.peek().is_some_and(|next| is_rule(&text[next.clone()]));
        let (start, mut end, mut count) = (header.end, header.end, 0);
        while let Some(row) = lines.next_if(|row| is_row(&text[row.clone()])) {
            end = row.end;
            count += 1;
        }
        if is_ruled || count >= TAB_ROWS_MIN {
            tables.push(Table { header, rows: start..end });
        }
    }
    tables
}

/// Whether a line separates a header from its rows: `|---|:--:|`.
fn is_rule(line: &str) -> bool {
    line.contains('|')
        && ["--", ":-", "-:", "|-"].iter().any(|rule| line.contains(rule))
        && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' ' | '\t' | '\r' | '+'))
}

/// Whether a line has cells with tabs between them: it begins with neither, as indented code does.
fn has_tabs(line: &str) -> bool {
    !line.starts_with(char::is_whitespace) && tabs_of(line) > 0
}

fn tabs_of(line: &str) -> usize {
    line.trim_end_matches(['\r', ' ']).bytes().filter(|byte| *byte == b'\t').count()
}

/// The lines of a text, without their line feeds.
struct Lines<'a> {
    text: &'a str,
    at: usize,
}

impl Iterator for Lines<'_> {
    type Item = Range<usize>;

    fn next(&mut self) -> Option<Range<usize>> {
        let start = self.at;
        let rest = self.text.get(start..).filter(|rest| !rest.is_empty())?;
        let end = start + rest.find('\n').unwrap_or(rest.len());
        self.at = end + 1;
        Some(start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::tables;

    /// `expected`: for each table its header and its rows.
    fn check(text: &str, expected: &[(&str, &str)]) {
        let found: Vec<(&str, &str)> = tables(text)
            .into_iter()
            .map(|table| (&text[table.header], text[table.rows].trim_matches('\n')))
            .collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn a_header_with_a_rule_below_it_begins_a_table() {
        check(
            "x\n\n| a | b |\n|---|:-:|\n| 1 | 2 |\n| 3 | 4 |\n\ny",
            &[("| a | b |", "|---|:-:|\n| 1 | 2 |\n| 3 | 4 |")],
        );
        check("a | b\r\n--|--\r\n1 | 2\r\n", &[("a | b\r", "--|--\r\n1 | 2\r")]);
        check("a | b\n1 | 2\n3 | 4", &[]);
        check("| a |\n|---|\n", &[("| a |", "|---|")]);
    }

    #[test]
    fn lines_with_tabs_are_a_table() {
        check("a\tb\tc\n1\t2\n3\t4\t5", &[("a\tb\tc", "1\t2\n3\t4\t5")]);
        check("a\tb\n1\t2\t3\n4\t5", &[]);
        check("t\na\tb\n1\t2\n3\n\t4\n", &[]);
        check("t\na\tb\n1\t2\n\t4\n5\t\n\ny\tz", &[("a\tb", "1\t2\n\t4")]);
        check(
            "a\tb\tc\n1\t2\t3\n4\t5\n\n6\t7\n8\t9\n0\t1",
            &[("a\tb\tc", "1\t2\t3\n4\t5"), ("6\t7", "8\t9\n0\t1")],
        );
        check("func f() {\n\ta\tb\n\tc\td\n\te\tf\n}", &[]);
    }
}
