//! The text of a part: its transfer encoding, its charset, its lines.

use std::borrow::Cow;

use encoding_rs::{Encoding, REPLACEMENT};
use mail_parser::decoders::charsets::map::charset_decoder;

use crate::xml::utf8;

/// Undoes a transfer encoding. Damage costs the damaged characters alone.
pub(super) fn decode_transfer<'a>(encoding: &str, bytes: &'a [u8]) -> Cow<'a, [u8]> {
    match encoding.trim().to_ascii_lowercase().as_str() {
        "base64" => Cow::Owned(decode_base64(bytes)),
        "quoted-printable" => Cow::Owned(decode_quoted_printable(bytes)),
        _ => Cow::Borrowed(bytes),
    }
}

fn decode_base64(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len() / 4 * 3);
    let (mut bits, mut count) = (0_u32, 0);
    for byte in bytes {
        let value = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            // the end of one encoded piece; another may follow
            b'=' => {
                (bits, count) = (0, 0);
                continue;
            }
            _ => continue,
        };
        bits = bits << 6 | u32::from(value);
        count += 6;
        if count >= 8 {
            count -= 8;
            decoded.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    decoded
}

fn decode_quoted_printable(bytes: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(bytes.len());
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let text = line.trim_ascii_end();
        let (mut rest, continues) = text.strip_suffix(b"=").map_or((text, false), |text| (text, true));
        while let Some((first, tail)) = rest.split_first() {
            let hex = tail.get(..2).filter(|_| *first == b'=').and_then(|hex| std::str::from_utf8(hex).ok());
            if let Some(byte) = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
                decoded.push(byte);
                rest = &tail[2..];
            } else {
                decoded.push(*first);
                rest = tail;
            }
        }
        if !continues && line.ends_with(b"\n") {
            decoded.push(b'\n');
        }
    }
    decoded
}

/// The text of bytes in a charset. Bytes that are invalid in it are read as UTF-8, and what is none of that as Windows-1252.
pub(super) fn decode_text<'a>(charset: Option<&str>, bytes: &'a [u8]) -> Cow<'a, str> {
    let label = charset.unwrap_or("us-ascii").trim().to_ascii_lowercase();
    if matches!(label.as_str(), "us-ascii" | "ascii" | "utf-8" | "utf8" | "") {
        return utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
    }
    match Encoding::for_label(label.as_bytes()) {
        Some(encoding) if encoding != REPLACEMENT => {
            let (text, _, is_broken) = encoding.decode(bytes);
            if is_broken { utf8(bytes) } else { text }
        }
        Some(_) => utf8(bytes),
        // charsets that browsers don't know, such as UTF-7 and IBM850
        None => {
            charset_decoder(label.as_bytes()).map_or_else(|| utf8(bytes), |decode| Cow::Owned(decode(bytes)))
        }
    }
}

/// Joins the lines that the sender's program wrapped (RFC 3676).
pub(super) fn unwrap_flowed(text: &str, deletes_space: bool) -> String {
    let mut joined = String::with_capacity(text.len());
    let mut open: Option<usize> = None; // the depth of quotes of a line that goes on
    for line in text.lines() {
        let depth = line.bytes().take_while(|byte| *byte == b'>').count();
        let content = &line[depth..];
        let content = content.strip_prefix(' ').unwrap_or(content);
        let is_signature = content == "-- ";
        if open == Some(depth) && !is_signature {
            joined.push_str(content);
        } else {
            if open.is_some() {
                joined.push('\n');
            }
            joined.push_str(&line[..depth]);
            if depth > 0 {
                joined.push(' ');
            }
            joined.push_str(content);
        }
        open = (content.ends_with(' ') && !is_signature).then_some(depth);
        if open.is_none() {
            joined.push('\n');
        } else if deletes_space {
            joined.pop();
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broken_transfer_encodings_cost_what_is_broken() {
        for (encoding, raw, expected) in [
            ("base64", "SGVs\r\nbG8=", "Hello"),
            ("BASE64", "SGVsbG8=*&^%$=", "Hello"),
            ("base64", "SGVsbG8", "Hello"),
            ("base64", "SGk=SGk=", "HiHi"),
            ("quoted-printable", "gr=C3=B6=\r\n=C3=9Fer  \r\nx", "gr\u{f6}\u{df}er\nx"),
            ("quoted-printable", "=ZZ=4=\n", "=ZZ=4"),
            ("8bit", "as it is", "as it is"),
        ] {
            assert_eq!(decode_transfer(encoding, raw.as_bytes()), expected.as_bytes(), "{raw}");
        }
    }

    #[test]
    fn bytes_that_a_charset_lacks_are_read_as_utf8_or_windows_1252() {
        for (charset, raw, expected) in [
            (Some("us-ascii"), "gr\u{f6}\u{df}er".as_bytes(), "gr\u{f6}\u{df}er"),
            (None, b"gr\xf6\xdfer", "gr\u{f6}\u{df}er"),
            (Some("koi8-r"), b"\xd2\xc5\xcb\xc1", "\u{440}\u{435}\u{43a}\u{430}"),
            (Some("shift_jis"), "\u{5ddd} \u{ff}".as_bytes(), "\u{5ddd} \u{ff}"),
            (Some("utf-7"), b"river +AGE- weir", "river a weir"),
            (Some("x-unknown-9"), b"caf\xe9", "caf\u{e9}"),
            (Some("iso-2022-kr"), b"plain", "plain"),
        ] {
            assert_eq!(decode_text(charset, raw), expected, "{charset:?}");
        }
    }

    #[test]
    fn flowed_lines_are_joined_at_the_same_depth_of_quotes() {
        let flowed =
            "This line was wrapped \r\nby the sender.\r\n> quoted line \r\n> goes on\r\n-- \r\nsignature\r\n";
        assert_eq!(
            unwrap_flowed(flowed, true),
            "This line was wrappedby the sender.\n> quoted linegoes on\n-- \nsignature\n"
        );
        assert_eq!(unwrap_flowed("a \n> b \nc", false), "a \n> b \nc\n");
    }
}
