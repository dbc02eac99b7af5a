//! Tokens of a text whose tokenizer is out of reach, about.

use std::ops::Range;

use super::pseudo::word_spans;

/// Bytes of a token, at most: English words of more letters become two tokens or more, and so do two Chinese characters.
const TOKEN_BYTES_MAX: usize = 6;

/// The byte span of each token: words, and pieces of long ones.
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
    fn long_words_are_several_tokens_and_so_is_a_text_without_spaces() {
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
