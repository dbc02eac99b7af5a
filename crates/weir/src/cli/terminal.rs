//! Text for terminals: bold where the output is one, and no control characters from documents.

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

/// Control characters, and those that change the direction of text.
fn is_unsafe_to_print(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_documents_are_removed() {
        assert_eq!(one_line("a\n\n b\tc "), "a b c ");
        assert_eq!(one_line("\x1b[2Jx\u{202e}y\0"), "[2Jxy");
    }
}
