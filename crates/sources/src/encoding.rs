//! The encodings of texts: by byte order mark, as declared in the text, UTF-8, or Latin-1 where nothing else is possible.

use std::borrow::Cow;
use std::path::Path;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// Bytes at the beginning of a text that can declare its encoding.
const DECLARATION_BYTES_MAX: usize = 4096;

/// Bytes of a text that decide whether it is UTF-16 without a byte order mark.
const SNIFFED_BYTES: usize = 4096;

/// Longest run of letters beyond ASCII in a word of Latin-1: texts in other alphabets have longer ones.
const LETTERS_IN_A_ROW_MAX: usize = 3;

/// Bytes of a sentence in which `¿` and `¡` have their other mark.
const SENTENCE_BYTES_MAX: usize = 1000;

/// Where a text declares its encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Declaration {
    /// Nowhere.
    None,
    /// In `<meta charset>`, `<meta http-equiv>` or `<?xml encoding?>`.
    Html,
    /// In a comment of the first two lines, as editors and Python read it: `coding: latin-1`.
    Comment,
}

/// The encoding of a byte order mark, and the length of the mark.
pub(crate) fn byte_order_mark(bytes: &[u8]) -> Option<(&'static Encoding, usize)> {
    // UTF-32 begins as UTF-16 does
    if bytes.starts_with(b"\xff\xfe\0\0") { None } else { Encoding::for_bom(bytes) }
}

/// Decodes a text without a byte order mark. `Err` has the offset of the first byte that is not of the text's encoding.
pub(crate) fn decode(bytes: Vec<u8>, declaration: Declaration) -> Result<String, usize> {
    let declared = match declaration {
        Declaration::None => None,
        Declaration::Html => declared_in_html(&bytes),
        // texts outlive such comments, so that UTF-8 is tried first
        Declaration::Comment => None,
    };
    if let Some(encoding) = declared.filter(|encoding| *encoding != UTF_8) {
        return Ok(encoding.decode_without_bom_handling(&bytes).0.into_owned());
    }
    if let Some(encoding) = utf_16_without_mark(&bytes) {
        return Ok(encoding.decode_without_bom_handling(&bytes).0.into_owned());
    }
    let bytes = match String::from_utf8(bytes) {
        Ok(text) => return Ok(text),
        Err(error) => error,
    };
    let bad = bytes.utf8_error().valid_up_to();
    let bytes = bytes.as_bytes();
    let of_comment = match declaration {
        Declaration::Comment => declared_in_comment(bytes),
        Declaration::None | Declaration::Html => None,
    };
    let decoded = match of_comment.filter(|encoding| *encoding != UTF_8) {
        Some(encoding) => encoding.decode_without_bom_handling_and_without_replacement(bytes),
        None => latin_1(bytes).then(|| WINDOWS_1252.decode_without_bom_handling(bytes).0),
    };
    decoded.map(Cow::into_owned).ok_or(bad)
}

/// Decodes a part of a text that is Latin-1 as a whole.
pub(crate) fn decode_latin_1(bytes: &[u8]) -> Cow<'_, str> {
    WINDOWS_1252.decode_without_bom_handling(bytes).0
}

/// Whether a file that begins like this is text. `is_cut` is true where it goes on.
pub(crate) fn is_text(head: &[u8], is_cut: bool) -> bool {
    if byte_order_mark(head).is_some() {
        return true;
    }
    let is_utf_8 = match std::str::from_utf8(head) {
        Ok(_) => true,
        // the last character may be cut
        Err(error) => is_cut && error.error_len().is_none(),
    };
    is_utf_8 && !head.contains(&0) || latin_1(head)
}

/// How to convert a file that could not be decoded, as a command that works.
pub(crate) fn remedy(path: &Path) -> String {
    let quoted = |name: &str| format!("'{}'", name.replace('\'', r"'\''"));
    let name = path.display().to_string();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let (before, ending) = match stem.rsplit_once('.') {
        Some((before, ending)) if !ending.contains('/') => (before, format!(".{ending}")),
        Some(_) | None => (stem, String::new()),
    };
    let source = quoted(&name);
    let read = if stem.len() < name.len() { format!("gzip -dc {source} | ") } else { String::new() };
    let input = if read.is_empty() { format!(" {source}") } else { String::new() };
    let target = quoted(&format!("{before}.utf-8{ending}"));
    format!(
        "convert it from its encoding, such as ISO-8859-1: {read}iconv -f ISO-8859-1 -t UTF-8{input} > {target}"
    )
}

/// The encoding that a page declares. As in browsers, a page that declares UTF-16 in ASCII is UTF-8.
fn declared_in_html(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(DECLARATION_BYTES_MAX)];
    let head: String = head.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect();
    let head = without_comments(&head);
    let of_xml = head.trim_start().strip_prefix("<?xml").and_then(|rest| {
        let declaration = rest.split("?>").next()?;
        value_after(declaration, "encoding")
    });
    let of_meta = || {
        let tags = head
            .split("<meta")
            .skip(1)
            .filter(|rest| rest.starts_with([' ', '\t', '\n', '\r', '\u{c}', '/']));
        tags.filter_map(|rest| rest.split('>').next()).find_map(|tag| value_after(tag, "charset"))
    };
    let label = of_xml.or_else(of_meta)?;
    let encoding = Encoding::for_label(label.as_bytes())?;
    Some(if [UTF_16LE, UTF_16BE].contains(&encoding) { UTF_8 } else { encoding })
}

fn without_comments(text: &str) -> String {
    let mut kept = String::new();
    let mut rest = text;
    while let Some((before, comment)) = rest.split_once("<!--") {
        kept.push_str(before);
        rest = comment.split_once("-->").map_or("", |(_, after)| after);
    }
    kept + rest
}

/// The value of `name=value`, in quotes or up to white space or a semicolon.
fn value_after(text: &str, name: &str) -> Option<String> {
    text.match_indices(name).find_map(|(at, _)| {
        let value = text[at + name.len()..].trim_start().strip_prefix('=')?.trim_start();
        let value = value.strip_prefix(['"', '\'']).unwrap_or(value);
        let end = value
            .find(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ';' | '/'))
            .unwrap_or(value.len());
        (end > 0).then(|| value[..end].to_owned())
    })
}

/// The encoding in `coding: NAME` or `coding=NAME` of the first two lines.
fn declared_in_comment(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(DECLARATION_BYTES_MAX)]);
    head.lines().take(2).find_map(|line| {
        let (_, rest) = line.split_once("coding")?;
        let name = rest.strip_prefix([':', '='])?.trim_start();
        let end = name.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')));
        let name = name[..end.unwrap_or(name.len())].to_lowercase().replace('_', "-");
        let name = name.trim_end_matches("-unix").trim_end_matches("-dos");
        // Python writes names without the first hyphen too
        Encoding::for_label(name.as_bytes()).or(match name {
            "latin-1" | "iso-latin-1" => Some(WINDOWS_1252),
            "utf-8-sig" => Some(UTF_8),
            _ => None,
        })
    })
}

/// UTF-16 whose text is mostly ASCII: every other byte is zero.
fn utf_16_without_mark(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    if !bytes.len().is_multiple_of(2) || !head.contains(&0) {
        return None;
    }
    let (units, _) = head.as_chunks::<2>();
    let (high, low) = units.iter().fold((0, 0), |(high, low), [first, second]| {
        (high + usize::from(*first == 0), low + usize::from(*second == 0))
    });
    match (high, low) {
        (0, low) if low * 2 > units.len() => Some(UTF_16LE),
        (high, 0) if high * 2 > units.len() => Some(UTF_16BE),
        _ => None,
    }
}

/// Whether a text that is not UTF-8 can only be Latin-1 or its superset Windows-1252.
///
/// Damaged UTF-8 has other parts that are valid, other alphabets have whole words beyond ASCII, and the Latin alphabets of
/// eastern Europe have letters where Latin-1 has signs. So the bytes beyond ASCII have to be letters or punctuation where
/// western languages write them, and most letters are ASCII.
pub(crate) fn latin_1(bytes: &[u8]) -> bool {
    let is_text = |byte: u8| !byte.is_ascii_control() || matches!(byte, b'\t' | b'\n' | b'\r' | 0x0c);
    if !bytes.iter().all(|byte| is_text(*byte)) || has_utf_8_sequence(bytes) {
        return false;
    }
    let count = |is_counted: fn(u8) -> bool| bytes.iter().filter(|byte| is_counted(**byte)).count();
    if count(|byte| byte.is_ascii_alphabetic()) < count(is_high_letter) {
        return false;
    }
    let mut letters_in_a_row = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        letters_in_a_row = if is_high_letter(byte) { letters_in_a_row + 1 } else { 0 };
        if !byte.is_ascii() && (letters_in_a_row > LETTERS_IN_A_ROW_MAX || !is_western(bytes, at)) {
            return false;
        }
    }
    true
}

/// Whether the byte beyond ASCII at this place is written there in western languages. The comments name the letters that the byte
/// is in the alphabets of eastern Europe.
fn is_western(bytes: &[u8], at: usize) -> bool {
    let text_before = &bytes[..at];
    let before = text_before.last().copied().unwrap_or(b' ');
    let after = bytes.get(at + 1).copied().unwrap_or(b' ');
    let sentence = &bytes[at..bytes.len().min(at + SENTENCE_BYTES_MAX)];
    let is_beside_letter = is_letter(before) || is_letter(after);
    match bytes[at] {
        // õ, as in Portuguese; ő
        0xd5 | 0xf5 => matches!(after, b'e' | b'E'),
        // œ; ś
        0x8c | 0x9c => matches!(after, b'u' | b't' | b'd' | b's' | b'U' | b'T' | b'D' | b'S'),
        // a capital does not follow a small letter
        byte @ 0xc0..0xdf if is_high_letter(byte) => !before.is_ascii_lowercase() && before < 0xdf,
        byte if is_high_letter(byte) => true,
        // quotes, dashes, the ellipsis and the bullet of Windows, « and », spaces, hyphens and the dot of Catalan; §, °, ², ´, × and ÷
        0x82
        | 0x84
        | 0x85
        | 0x91..=0x97
        | 0xa0
        | 0xa7
        | 0xab
        | 0xad
        | 0xb0
        | 0xb2
        | 0xb4
        | 0xb7
        | 0xbb
        | 0xd7
        | 0xf7 => true,
        // €, ‰ and ™
        0x80 | 0x89 | 0x99 => true,
        // £, © and ®; Ł, Š and Ž
        0xa3 | 0xa9 | 0xae => !is_letter(after),
        // ±, ¼, ½ and ¾; ą, ź, ˝ and ž
        0xb1 | 0xbc..=0xbe => !is_beside_letter,
        // ª, ¹ and º; Ş, š and ş
        0xaa | 0xb9 | 0xba => before.is_ascii_digit(),
        // ³; ł
        0xb3 => before.is_ascii_digit() || before == b'm' && !is_letter(after) && is_unit(text_before),
        // µ; ľ
        0xb5 => text_before.trim_ascii_end().last().is_some_and(u8::is_ascii_digit),
        // ¡ and ¿, to which marks at the end belong; Ą and ż
        0xa1 => !is_letter(before) && sentence.contains(&b'!'),
        0xbf => !is_letter(before) && sentence.contains(&b'?'),
        _ => false,
    }
}

/// Whether a text ends with a unit of length.
fn is_unit(text: &[u8]) -> bool {
    let word = text.rsplit(|byte| !is_letter(*byte)).next().unwrap_or_default();
    [b"m".as_slice(), b"mm", b"cm", b"dm", b"km"].contains(&word)
}

/// The letters of western languages. Those that only Icelandic has are other letters in Turkish; `ÿ` is more often a damage.
fn is_high_letter(byte: u8) -> bool {
    matches!(byte, 0x8c | 0x9c | 0xc0..=0xff)
        && !matches!(byte, 0xd0 | 0xd7 | 0xdd | 0xde | 0xf0 | 0xf7 | 0xfd..=0xff)
}

fn is_letter(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || is_high_letter(byte)
}

/// Whether a part beyond ASCII is valid UTF-8.
fn has_utf_8_sequence(bytes: &[u8]) -> bool {
    bytes.utf8_chunks().any(|chunk| !chunk.valid().is_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], declaration: Declaration, expected: Result<&str, usize>) {
        let found = decode(bytes.to_vec(), declaration);
        assert_eq!(found.as_deref().map_err(|bad| *bad), expected, "{}", bytes.escape_ascii());
    }

    #[test]
    fn a_declared_encoding_is_honoured() {
        let page = |head: &str| [head.as_bytes(), b"Gr\xfc\xdfe \xa4"].concat();
        for head in [
            "<meta charset=iso-8859-15>",
            "<META CHARSET = 'ISO-8859-15'>",
            "<!-- <meta charset=utf-8> --><meta http-equiv=\"Content-Type\" content=\"text/html; charset=iso-8859-15\">",
            "<?xml version=\"1.0\" encoding=\"iso-8859-15\"?>",
        ] {
            check(&page(head), Declaration::Html, Ok(&format!("{head}Grüße €")));
        }
        check(
            b"<meta charset=shift_jis>\x93\xfa\x96{",
            Declaration::Html,
            Ok("<meta charset=shift_jis>日本"),
        );
        check("<meta charset=utf-16>é".as_bytes(), Declaration::Html, Ok("<meta charset=utf-16>é"));
        check(b"<meta charset=nonsense>caf\xe9", Declaration::Html, Ok("<meta charset=nonsense>café"));
        check(
            b"# -*- coding: koi8-r -*-\n\xc4\xc1",
            Declaration::Comment,
            Ok("# -*- coding: koi8-r -*-\nда"),
        );
        check(
            b"# vim: set fileencoding=latin-1 :\nA\xff",
            Declaration::Comment,
            Ok("# vim: set fileencoding=latin-1 :\nAÿ"),
        );
        check("# coding: latin-1\né".as_bytes(), Declaration::Comment, Ok("# coding: latin-1\né"));
    }

    #[test]
    fn western_texts_are_latin_1_without_a_declaration() {
        for (bytes, text) in [
            (b"caf\xe9 noir".as_slice(), "café noir"),
            (
                b"\xc9t\xe9, No\xebl \xe0 la cr\xe8me: 5 \x80, \x93ja\x94 \x96 20\xb0",
                "Été, Noël à la crème: 5 €, “ja” – 20°",
            ),
            (b"Gr\xfc\xdfe aus \xd6sterreich", "Grüße aus Österreich"),
            (b"5 m\xb2 und 3\xba, 2 m\xb3, 5 \xb5m \xb1 1, \xa9 2026", "5 m² und 3º, 2 m³, 5 µm ± 1, © 2026"),
            (b"\xbfQu\xe9 tal? \xa1S\xed, se\xf1or!", "¿Qué tal? ¡Sí, señor!"),
            (b"le c\x9cur; a\xe7\xf5es; col\xb7lecci\xf3", "le cœur; ações; col·lecció"),
        ] {
            check(bytes, Declaration::None, Ok(text));
        }
    }

    #[test]
    fn what_may_be_another_encoding_is_refused() {
        for (bytes, bad) in [
            (b"ok\xff".as_slice(), 2),
            (b"caf\xc3", 3),
            (b"caf\xc3\xa9 caf\xe9", 9),
            (b"\xef\xf0\xe8\xe2\xe5\xf2", 0),
            (b"\xb3\xf3d\xbc", 0),
            (b"a\xb3\xf3d", 1),
            (b"\xde\xfeman", 0),
            (b"id\xf5 van", 2),
            (b"s\xb1 i s\xb9", 1),
            (b"\xbfe jest", 0),
            (b"je\x9cli nie", 2),
            (b"\xa9koda \xbee", 0),
            (b"m\xb3ody", 1),
            (b"\x7fELF\0\xe9", 5),
            (b"a\x81", 1),
        ] {
            check(bytes, Declaration::None, Err(bad));
        }
    }

    #[test]
    fn utf_16_is_recognised_by_its_zeros() {
        let text = "Der Bär im Wald";
        let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
        check(&little, Declaration::None, Ok(text));
        check(&big, Declaration::Html, Ok(text));
        check(b"a\0", Declaration::None, Ok("a"));
        check(b"ab\0\0", Declaration::None, Ok("ab\0\0"));
    }

    #[test]
    fn the_remedy_names_both_files() {
        assert_eq!(
            remedy(Path::new("d/it's.txt")),
            r"convert it from its encoding, such as ISO-8859-1: iconv -f ISO-8859-1 -t UTF-8 'd/it'\''s.txt' > 'd/it'\''s.utf-8.txt'"
        );
        assert_eq!(
            remedy(Path::new("d.x/README.gz")),
            "convert it from its encoding, such as ISO-8859-1: gzip -dc 'd.x/README.gz' | iconv -f ISO-8859-1 -t UTF-8 > 'd.x/README.utf-8'"
        );
    }
}
