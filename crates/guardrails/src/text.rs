//! A text in the middle of which, or at whose end, more may come.

use std::cell::Cell;

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
