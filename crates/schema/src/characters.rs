//! Halves of surrogate pairs in JSON: servers and callers that cut a text within a character send them, and no string of Rust has them.

use std::borrow::Cow;
use std::sync::LazyLock;

use memchr::memmem;

/// The bytes of an escape, `\uXXXX`.
const ESCAPE_BYTES: usize = 6;
/// Made once: every event of a stream is searched.
static ESCAPE_FINDER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"\\u"));

/// JSON in which the replacement character stands for every half of a surrogate pair.
pub fn whole_characters(json: &[u8]) -> Cow<'_, [u8]> {
    // Most texts have no such escape.
    let is_none = memchr::memchr(b'\\', json).is_none_or(|at| ESCAPE_FINDER.find(&json[at..]).is_none());
    if is_none {
        return Cow::Borrowed(json);
    }
    let mut out = Cow::Borrowed(json);
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', &json[at..]) {
        at += found;
        match (escaped(json, at), escaped(json, at + ESCAPE_BYTES)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => at += 2 * ESCAPE_BYTES,
            (Some(0xD800..=0xDFFF), _) => {
                out.to_mut()[at..at + ESCAPE_BYTES].copy_from_slice(b"\\ufffd");
                at += ESCAPE_BYTES;
            }
            // another escape: the byte after the backslash may be one, too
            _ => at = json.len().min(at + 2),
        }
    }
    out
}

/// The code of the escape `\uXXXX` at a place.
fn escaped(json: &[u8], at: usize) -> Option<u32> {
    let digits = json.get(at..at + ESCAPE_BYTES)?.strip_prefix(b"\\u")?;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::whole_characters;

    #[test]
    fn halves_are_replaced_and_pairs_are_kept() {
        for (json, expected) in [
            (r#""a""#, r#""a""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\uDE00x""#, r#""\ufffdx""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\ud83d\n""#, r#""\ufffd\n""#),
            // an escaped backslash
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\u00e9\ud8""#, r#""\u00e9\ud8""#),
            (r#"\ud83d\"#, r#"\ufffd\"#),
        ] {
            assert_eq!(String::from_utf8_lossy(&whole_characters(json.as_bytes())), expected);
        }
    }
}
