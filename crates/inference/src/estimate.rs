//! Estimated tokens of a text, for models on other servers.

use std::ops::Range;

use super::pseudo::word_spans;

/// Maximum bytes of a token: longer English words usually become several tokens, and so do two Chinese characters (6 bytes).
const TOKEN_BYTES_MAX: usize = 6;

/// The byte span of each token: a word, or a part of a long word.
pub(super) fn token_spans(text: &str) -> Vec<Range<usize>> {
    let mut spans = Vec::new();
    for word in word_spans(text) {
        let mut start = word.start;
        for (at, c) in text[word.clone()].char_indices() {
            let end = word.start + at + c.len_utf8();
            if end - start > TOKEN_BYTES_MAX {
                spans.push(start..word.start + at);
                start = word.start + at;
            }
        }
        spans.push(start..word.end);
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_words_and_texts_without_spaces_are_split() {
        let check = |text: &str, expected: &[&str]| {
            let pieces: Vec<&str> = token_spans(text).into_iter().map(|span| &text[span]).collect();
            assert_eq!(pieces, expected);
        };
        check("", &[]);
        check("a weir, indeed", &["a", "weir", "indeed"]);
        check("waterfalls", &["waterf", "alls"]);
        check("東京都庁", &["東京", "都庁"]);
        check("naïvety", &["naïve", "ty"]);
    }
}
