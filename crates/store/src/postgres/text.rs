//! Texts in PostgreSQL, which refuses U+0000.
//!
//! U+0000 is stored as U+0001 U+0001, and U+0001 as U+0001 U+0002: the order of texts by their bytes stays, and texts without these characters are stored
//! as they are.

use std::borrow::Cow;

/// The text as it is stored.
pub(super) fn escape(text: &str) -> Cow<'_, str> {
    if !text.bytes().any(|byte| byte <= 1) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for character in text.chars() {
        match character {
            '\0' => escaped.push_str("\u{1}\u{1}"),
            '\u{1}' => escaped.push_str("\u{1}\u{2}"),
            character => escaped.push(character),
        }
    }
    Cow::Owned(escaped)
}

/// The text that was stored; `None` if [`escape`] does not make this.
pub(super) fn unescape(stored: &str) -> Option<Cow<'_, str>> {
    if !stored.bytes().any(|byte| byte == 1) {
        return Some(Cow::Borrowed(stored));
    }
    let mut text = String::with_capacity(stored.len());
    let mut characters = stored.chars();
    while let Some(character) = characters.next() {
        text.push(match character {
            '\u{1}' => match characters.next()? {
                '\u{1}' => '\0',
                '\u{2}' => '\u{1}',
                _ => return None,
            },
            character => character,
        });
    }
    Some(Cow::Owned(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_back_and_keep_their_order() {
        let mut texts = [
            "",
            "\0",
            "\0\0",
            "\0\u{1}",
            "\0a",
            "\u{1}",
            "\u{1}\0",
            "\u{1}\u{1}",
            "\u{1}\u{2}",
            "\u{2}",
            "a",
            "a\0",
            "a\u{1}",
            "é",
        ];
        texts.sort_unstable();
        for pair in texts.windows(2) {
            assert!(escape(pair[0]).as_bytes() < escape(pair[1]).as_bytes(), "{pair:?}");
        }
        for text in texts {
            assert!(!escape(text).contains('\0'));
            assert_eq!(unescape(&escape(text)).as_deref(), Some(text));
        }
        assert!(matches!(escape("ab"), Cow::Borrowed("ab")));
        for damaged in ["\u{1}", "\u{1}a"] {
            assert_eq!(unescape(damaged), None);
        }
    }
}
