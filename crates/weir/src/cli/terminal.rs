//! What differs between a terminal and a file: bold letters, and text that others wrote.

use std::io::IsTerminal;

use weir_config::Environment;

/// How to write for people.
#[derive(Debug, Clone, Copy)]
pub(super) struct Style {
    is_bold_shown: bool,
}

impl Style {
    /// Bold when the standard output is a terminal and nobody asked for plain text.
    pub(super) fn of_output(environment: &Environment) -> Style {
        Style { is_bold_shown: std::io::stdout().is_terminal() && !environment.is_colour_refused() }
    }

    /// Never bold.
    #[cfg(test)]
    pub(super) const PLAIN: Style = Style { is_bold_shown: false };

    /// Always bold.
    #[cfg(test)]
    pub(super) const BOLD: Style = Style { is_bold_shown: true };

    /// `text` in bold.
    pub(super) fn bold(self, text: &str) -> String {
        if self.is_bold_shown { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// `text` on one line and without control characters: a document must not be able to drive the terminal.
pub(super) fn one_line(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    let mut is_gap = false;
    for c in text.chars() {
        if c.is_whitespace() {
            is_gap = true;
        } else if !is_dangerous(c) {
            if std::mem::take(&mut is_gap) {
                line.push(' ');
            }
            line.push(c);
        }
    }
    if is_gap {
        line.push(' ');
    }
    line
}

/// Control characters, and those that turn the direction of writing around.
fn is_dangerous(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_cannot_drive_the_terminal() {
        assert_eq!(one_line("a\n\n b\tc "), "a b c ");
        assert_eq!(one_line("\x1b[2Jx\u{202e}y\0"), "[2Jxy");
    }
}
