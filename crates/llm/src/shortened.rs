//! A copy of a JSON text without most of its long strings. Long strings are skipped without decoding: only their length matters here.

use std::ops::Range;

/// Bytes that a string, or what follows an escape by number, keeps.
const KEPT: usize = 64;

/// The copy: valid JSON if and only if the original is.
#[derive(Debug)]
pub(crate) struct Shortened {
    pub(crate) json: Vec<u8>,
    cuts: Vec<Cut>,
}

/// Bytes that are not in the copy.
#[derive(Debug)]
struct Cut {
    /// Where they would be in the copy.
    at: usize,
    bytes: usize,
}

impl Shortened {
    /// The copy; `None` for what is not JSON, and for a long name of a field: names are checked to be UTF-8, of which the copy would lack a part.
    pub(crate) fn of(body: &[u8]) -> Option<Shortened> {
        let mut shortened = Shortened { json: Vec::new(), cuts: Vec::new() };
        let (mut at, mut copied) = (0, 0);
        while let Some(quote) = memchr::memchr(b'"', body.get(at..)?) {
            at += quote + 1;
            let mut start = at;
            let cuts_before = shortened.cuts.len();
            loop {
                at += plain_bytes(body.get(at..)?);
                let special = *body.get(at)?;
                if special == b'\\' && is_simple_escape(*body.get(at + 1)?) {
                    at += 2;
                    continue;
                }
                if at - start > KEPT {
                    shortened.json.extend_from_slice(&body[copied..start + KEPT]);
                    shortened.cuts.push(Cut { at: shortened.json.len(), bytes: at - start - KEPT });
                    copied = at;
                }
                match special {
                    b'"' => break at += 1,
                    b'\\' => at += 2,
                    _ => return None, // a control character
                }
                start = at;
            }
            let is_cut = shortened.cuts.len() > cuts_before;
            if is_cut && body[at..].trim_ascii_start().starts_with(b":") {
                return None;
            }
        }
        shortened.json.extend_from_slice(&body[copied..]);
        Some(shortened)
    }

    /// Where a value of the copy stands in the original.
    pub(crate) fn original(&self, range: Range<usize>) -> Range<usize> {
        let place = |at: usize| {
            at + self.cuts.iter().take_while(|cut| cut.at <= at).map(|cut| cut.bytes).sum::<usize>()
        };
        place(range.start)..place(range.end)
    }
}

/// How many bytes of a string come before a quote, an escape or a control character.
fn plain_bytes(bytes: &[u8]) -> usize {
    let plain = &bytes[..memchr::memchr2(b'"', b'\\', bytes).unwrap_or(bytes.len())];
    match has_control(plain) {
        false => plain.len(),
        true => plain.iter().take_while(|&&byte| byte >= b' ').count(),
    }
}

/// Whether a byte is a control character. Words of eight bytes are tested, four in a turn: of a loop over single bytes it depends on the profile
/// of the build whether the compiler makes it fast, and a slow one takes longer than all else of a long request.
#[inline(never)]
fn has_control(bytes: &[u8]) -> bool {
    let repeat = |byte| u64::from_ne_bytes([byte; 8]);
    let mut below = [0; 4];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        for (below, word) in below.iter_mut().zip(block.as_chunks().0) {
            // a byte below 0x20 has its highest bit set by the subtraction; other bytes have it before, or not at all without a borrow from such a byte
            let word = u64::from_ne_bytes(*word);
            *below |= word.wrapping_sub(repeat(b' ')) & !word;
        }
    }
    let below = below.into_iter().fold(0, |all, one| all | one);
    below & repeat(0x80) != 0 || rest.iter().any(|&byte| byte < b' ')
}

/// Whether the byte after a backslash is all of the escape.
fn is_simple_escape(byte: u8) -> bool {
    matches!(byte, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_character_is_found_at_any_place() {
        for byte in 0..=u8::MAX {
            for others in [b' ', 0x7f, 0x80, 0xff] {
                for at in 0..70 {
                    let mut bytes = [others; 70];
                    bytes[at] = byte;
                    assert_eq!(has_control(&bytes), byte < b' ', "{byte} at {at}, others {others}");
                    assert_eq!(
                        plain_bytes(&bytes),
                        if byte < b' ' || b"\"\\".contains(&byte) { at } else { 70 }
                    );
                }
            }
        }
        assert!(!has_control(&[]));
    }
}
