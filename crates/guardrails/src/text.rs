//! A text in the middle of which, or at whose end, more may come.

use std::cell::Cell;

/// Blanks before and after a line break inside of a number, at most.
const BREAK_BLANKS_MAX: usize = 8;

/// The separator of two groups of digits: a sign, a line break, or both.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gap {
    /// The sign; zero if there is only a line break.
    pub(crate) separator: u8,
    pub(crate) has_break: bool,
    pub(crate) end: usize,
}

impl Gap {
    /// Whether it may be in a number in which the sign is `separator`, or not known yet if that is zero. A line break may stand for any.
    pub(crate) fn fits(&self, separator: u8) -> bool {
        self.separator == 0 || separator == 0 || self.separator == separator
    }
}

/// The bytes that are scanned, and whether a decision depended on where they end.
///
/// Detectors read bytes through [`Text::at`]. While a stream goes on, a decision that looked past the last byte could be another one
/// when more text arrives; one that did not is final. So no detector needs to know about streams.
pub(crate) struct Text<'t> {
    pub(crate) str: &'t str,
    pub(crate) bytes: &'t [u8],
    saw_end: Cell<bool>,
    is_final: bool,
}

impl<'t> Text<'t> {
    pub(crate) fn new(str: &'t str, is_final: bool) -> Text<'t> {
        Text { str, bytes: str.as_bytes(), saw_end: Cell::new(false), is_final }
    }

    /// Whether no text follows.
    pub(crate) fn is_final(&self) -> bool {
        self.is_final
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// The byte at a position; zero at the end, which is remembered.
    pub(crate) fn at(&self, position: usize) -> u8 {
        match self.bytes.get(position) {
            Some(&byte) => byte,
            None => {
                self.saw_end.set(true);
                0
            }
        }
    }

    /// The byte before a position, zero at the start.
    pub(crate) fn before(&self, position: usize) -> u8 {
        if position == 0 { 0 } else { self.bytes[position - 1] }
    }

    /// Whether the text continues with these ASCII bytes, whatever their case. Reads no further than the first that differs.
    pub(crate) fn has(&self, position: usize, expected: &[u8]) -> bool {
        expected.iter().enumerate().all(|(index, byte)| self.at(position + index).eq_ignore_ascii_case(byte))
    }

    /// Whether the text continues with exactly these bytes.
    pub(crate) fn has_exactly(&self, position: usize, expected: &[u8]) -> bool {
        expected.iter().enumerate().all(|(index, byte)| self.at(position + index) == *byte)
    }

    /// The position after the last of the bytes from `start` on that `is_part` accepts, at most `bytes_max`.
    pub(crate) fn run(&self, start: usize, bytes_max: usize, is_part: impl Fn(u8) -> bool) -> usize {
        let mut end = start;
        while end - start < bytes_max && is_part(self.at(end)) {
            end += 1;
        }
        end
    }

    /// The gap at a position, if there is one and a digit follows.
    pub(crate) fn gap(&self, start: usize, is_separator: impl Fn(u8) -> bool) -> Option<Gap> {
        self.any_gap(start, is_separator).filter(|gap| self.at(gap.end).is_ascii_digit())
    }

    /// The gap at a position, if there is one.
    pub(crate) fn any_gap(&self, start: usize, is_separator: impl Fn(u8) -> bool) -> Option<Gap> {
        let is_white = |byte: u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let byte = self.at(start);
        if !is_separator(byte) && !is_white(byte) {
            return None;
        }
        if is_separator(byte) && !is_white(self.at(start + 1)) {
            return Some(Gap { separator: byte, has_break: false, end: start + 1 });
        }
        let (mut gap, mut has_break) = (start, false);
        if let Some(end) = self.line_break_end(gap) {
            (gap, has_break) = (end, true);
        }
        let byte = self.at(gap);
        let separator = if is_separator(byte) { byte } else { 0 };
        if separator != 0 {
            gap += 1;
            if !has_break && let Some(end) = self.line_break_end(gap) {
                (gap, has_break) = (end, true);
            }
        }
        (gap > start).then_some(Gap { separator, has_break, end: gap })
    }

    /// The digit at or after a position, and the position after it. One line break before it is skipped.
    pub(crate) fn digit(&self, position: usize) -> Option<(u8, usize)> {
        let mut at = position;
        if !self.at(at).is_ascii_digit() {
            at = self.line_break_end(at)?;
        }
        let byte = self.at(at);
        byte.is_ascii_digit().then_some((byte, at + 1))
    }

    /// The position after the one line break that is here, with the blanks around it. An empty line is no such break.
    pub(crate) fn line_break_end(&self, start: usize) -> Option<usize> {
        let is_blank = |byte: u8| matches!(byte, b' ' | b'\t');
        let at = self.run(start, BREAK_BLANKS_MAX, is_blank);
        let after = match self.at(at) {
            b'\r' if self.at(at + 1) == b'\n' => at + 2,
            b'\r' | b'\n' => at + 1,
            _ => return None,
        };
        Some(self.run(after, BREAK_BLANKS_MAX, is_blank))
    }

    /// Whether the line before a number, or the one after it, ends or begins with a digit, as in a column of numbers.
    pub(crate) fn is_in_column(&self, start: usize, end: usize) -> bool {
        let before = &self.bytes[start.saturating_sub(2 * BREAK_BLANKS_MAX + 2)..start];
        let line_before = before.trim_ascii_end();
        let has_break = before[line_before.len()..].iter().any(|byte| matches!(byte, b'\n' | b'\r'));
        (has_break && line_before.last().is_some_and(u8::is_ascii_digit))
            || self.line_break_end(end).is_some_and(|next| self.at(next).is_ascii_digit())
    }

    /// Whether a letter or digit begins here, as far as numbers and addresses are bounded by one: ASCII, and Latin, Greek and Cyrillic
    /// letters. A Chinese or Japanese character may well be followed by a number or an address without a space.
    pub(crate) fn is_joined_after(&self, position: usize) -> bool {
        let byte = self.at(position);
        byte.is_ascii_alphanumeric() || is_two_byte_letter(byte)
    }

    /// The same for the character before a position.
    pub(crate) fn is_joined_before(&self, position: usize) -> bool {
        let byte = self.before(position);
        byte.is_ascii_alphanumeric()
            || (byte >= 0x80 && position >= 2 && is_two_byte_letter(self.bytes[position - 2]))
    }

    /// Whether a decision since the last call depended on where the text ends.
    pub(crate) fn take_saw_end(&self) -> bool {
        self.saw_end.replace(false) && !self.is_final
    }
}

/// Whether a byte begins a character of two bytes that is a letter, but for a few signs: Latin with marks, Greek, Cyrillic, Armenian.
pub(crate) fn is_two_byte_letter(byte: u8) -> bool {
    matches!(byte, 0xC3..=0xD6)
}
