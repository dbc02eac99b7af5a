//! Text for terminals: bold where the output is one, no control characters from documents, tables, questions.

use std::io::IsTerminal;

use weir_config::Environment;

/// Whether text is formatted.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    is_bold_shown: bool,
}

impl Style {
    /// Bold when the standard output is a terminal and the environment does not disable colours.
    pub(super) fn of_output(environment: &Environment) -> Style {
        Style { is_bold_shown: std::io::stdout().is_terminal() && !environment.is_colour_disabled() }
    }

    /// Plain text.
    #[cfg(test)]
    pub(super) const PLAIN: Style = Style { is_bold_shown: false };

    /// Formatted text.
    #[cfg(test)]
    pub(super) const BOLD: Style = Style { is_bold_shown: true };

    /// `text` in bold.
    pub(super) fn bold(self, text: &str) -> String {
        if self.is_bold_shown { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `text` on one line and without control characters, so that a document can't send commands to the terminal.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut has_space = false;
    for c in text.chars() {
        if c.is_whitespace() {
            has_space = true;
        } else if !is_unsafe_to_print(c) {
            if std::mem::take(&mut has_space) {
                line.push(' ');
            }
            line.push(c);
        }
    }
    if has_space {
        line.push(' ');
    }
    line
}

/// `text` with its lines and tabs, without other control characters.
pub(super) fn printable(text: &str) -> String {
    text.chars().filter(|c| matches!(c, '\n' | '\t') || !is_unsafe_to_print(*c)).collect()
}

/// The side of a column on which its cells begin or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// A table with a header; a cell is one line. Columns are as wide as their widest cell and two spaces apart.
pub(super) fn render_table<const N: usize>(header: [(&str, Align); N], rows: &[[String; N]]) -> String {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| one_line(cell))).collect();
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([header[column].0.chars().count()]).max().unwrap_or_default()
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let render_row = |cells: [&str; N]| {
        let cells = cells.iter().zip(header).zip(widths).map(|((cell, (_, align)), width)| match align {
            Align::Left => format!("{cell:<width$}"),
            Align::Right => format!("{cell:>width$}"),
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    let titles = render_row(header.map(|(title, _)| title));
    let rows = rows.iter().map(|row| render_row(row.each_ref().map(String::as_str)));
    std::iter::once(titles).chain(rows).collect()
}

/// Asks a question that is answered with `y`. Without a terminal nobody is asked, and the answer is no.
pub(super) fn confirm(question: &str) -> std::io::Result<bool> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Ok(false);
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

/// Control characters, and those that change the direction of text.
fn is_unsafe_to_print(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [["a".to_owned(), "1000".to_owned()], ["läng".to_owned(), "2".to_owned()]];
        let header = [("X", Align::Left), ("N", Align::Right)];
        assert_eq!(render_table(header, &rows), "X        N\na     1000\nläng     2\n");
        let left = [("N", Align::Right), ("X", Align::Left)];
        assert_eq!(render_table(left, &[["1".to_owned(), "a\n\x1b[31mb".to_owned()]]), "N  X\n1  a [31mb\n");
    }

    #[test]
    fn control_characters_of_documents_are_removed() {
        assert_eq!(one_line("a\n\n b\tc "), "a b c ");
        assert_eq!(one_line("\x1b[2Jx\u{202e}y\0"), "[2Jxy");
        assert_eq!(printable("a\r\n\tb\x1b[2J\u{202e}"), "a\n\tb[2J");
    }
}
