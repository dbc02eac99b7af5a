//! The context of a placeholder within a text.

use weir_translate::json::write_string;

use crate::link::LinkState;

/// The place behind a part of a text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Place {
    link: LinkState,
    literal: LiteralState,
}

/// Whether the place is within a string of JSON inside a text: of a block of code, or of a text that begins with a quote.
#[derive(Debug, Clone, Copy, Default)]
struct LiteralState {
    /// Whether anything but white space came.
    is_begun: bool,
    /// Backticks that follow each other.
    ticks: u8,
    is_code: bool,
    is_string: bool,
    is_escaped: bool,
}

impl Place {
    /// Whether it belongs to an address.
    pub(crate) fn is_in_link(&self) -> bool {
        self.link.is_inside()
    }

    /// Goes on behind a part of the text.
    pub(crate) fn pass(&mut self, part: &str) {
        for byte in part.bytes() {
            self.link.pass_byte(byte);
            self.literal.pass_byte(byte);
        }
    }

    /// A value as it is written here.
    pub(crate) fn written(&self, value: &str) -> String {
        if !self.literal.is_string {
            return value.to_owned();
        }
        let mut quoted = Vec::with_capacity(value.len() + 2);
        write_string(&mut quoted, value);
        String::from_utf8_lossy(&quoted[1..quoted.len() - 1]).into_owned()
    }
}

impl LiteralState {
    fn pass_byte(&mut self, byte: u8) {
        let is_first = !self.is_begun && !byte.is_ascii_whitespace();
        self.is_begun |= is_first;
        self.ticks = if byte == b'`' { self.ticks % 3 + 1 } else { 0 };
        if self.ticks == 3 {
            *self =
                LiteralState { is_begun: true, ticks: 3, is_code: !self.is_code, ..LiteralState::default() };
        } else if self.is_string {
            // no string of JSON has a line break
            let ends = byte == b'"' && !self.is_escaped || byte == b'\n';
            self.is_string = !ends;
            self.is_escaped = byte == b'\\' && !self.is_escaped;
        } else if byte == b'"' {
            self.is_string = self.is_code || is_first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_escaped_in_strings_of_json_alone() {
        for (before, is_escaped) in [
            ("a \"", false),
            ("\"", true),
            (" \"a\\\"", true),
            ("\"a\" and \"", false),
            ("see:\n```json\n{\"a\":\"", true),
            ("```\n{\"a\":\"b\", \"", true),
            ("```\n{\"a\":\"b\", ", false),
            ("```\n{\"a\":1}\n``` \"", false),
        ] {
            let mut place = Place::default();
            place.pass(before);
            assert_eq!(place.written("a\n\"") == "a\\n\\\"", is_escaped, "{before}");
        }
    }
}
