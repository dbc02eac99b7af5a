//! Strings of a PDF that are meant for people.

use std::borrow::Cow;

/// The characters of `PDFDocEncoding` from 0x80 to 0xA0.
const PDF_DOC_HIGH: [char; 33] = [
    '•', '†', '‡', '…', '—', '–', 'ƒ', '⁄', '‹', '›', '−', '‰', '„', '“', '”', '‘', '’', '‚', '™', 'ﬁ', 'ﬂ',
    'Ł', 'Œ', 'Š', 'Ÿ', 'Ž', 'ı', 'ł', 'œ', 'š', 'ž', '\u{fffd}', '€',
];

/// The characters of `PDFDocEncoding` from 0x18 to 0x1F.
const PDF_DOC_LOW: [char; 8] = ['˘', 'ˇ', 'ˆ', '˙', '˝', '˛', '˚', '˜'];

/// A string in UTF-16 or UTF-8 with its mark, else in `PDFDocEncoding`.
pub(super) fn text(bytes: &[u8]) -> String {
    let text = match bytes {
        [0xfe, 0xff, rest @ ..] => utf_16(rest, u16::from_be_bytes),
        [0xff, 0xfe, rest @ ..] => utf_16(rest, u16::from_le_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        _ => bytes.iter().map(|&byte| pdf_doc(byte)).collect(),
    };
    without_languages(&text).into_owned()
}

/// The text on one line, without control characters; nothing if there is none.
pub(super) fn line(bytes: &[u8]) -> Option<String> {
    let line: Vec<String> = text(bytes)
        .split_whitespace()
        .map(|word| word.chars().filter(|character| !character.is_control()).collect())
        .collect();
    let line = line.join(" ");
    (!line.trim().is_empty()).then_some(line)
}

fn utf_16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units = bytes.as_chunks::<2>().0.iter().map(|&pair| unit(pair));
    char::decode_utf16(units).map(|character| character.unwrap_or('\u{fffd}')).collect()
}

fn pdf_doc(byte: u8) -> char {
    match byte {
        0x18..=0x1f => PDF_DOC_LOW.get(usize::from(byte - 0x18)).copied().unwrap_or(' '),
        0x80..=0xa0 => PDF_DOC_HIGH.get(usize::from(byte - 0x80)).copied().unwrap_or(' '),
        _ => char::from(byte),
    }
}

/// Removes the marks of languages: `ESC`, a code, `ESC`.
fn without_languages(text: &str) -> Cow<'_, str> {
    if !text.contains('\u{1b}') {
        return text.into();
    }
    text.split('\u{1b}').step_by(2).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_read_by_their_mark() {
        assert_eq!(text(b"\xfe\xff\x00W\x00\xe9\xd8\x3d\xde\x00"), "Wé😀");
        assert_eq!(text(b"\xff\xfeW\x00"), "W");
        assert_eq!(text("\u{feff}ä".as_bytes()), "ä");
        assert_eq!(text(b"caf\xe9 \x80 \x93"), "café • ﬁ");
        assert_eq!(text(b"\xfe\xff\x00\x1b\x00e\x00n\x00\x1b\x00a"), "a");
        assert_eq!(line(b"  a\n b\x01 ").as_deref(), Some("a b"));
        assert_eq!(line(b" \n"), None);
    }
}
