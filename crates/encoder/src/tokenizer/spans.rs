//! Corrects the spans of the reference tokenizer.
//!
//! Some tokenizers include the space before a word, some have a token for the end of the text, and normalisation may shift spans.

use std::ops::Range;

/// Spans of `text` from `offsets`: ascending in start and end, at character boundaries, without surrounding white space.
pub(super) fn of_text(text: &str, offsets: &[(usize, usize)]) -> Vec<Range<usize>> {
    let mut last = 0..0;
    let mut spans = Vec::with_capacity(offsets.len());
    for (start, end) in offsets {
        let span = trimmed(text, text.floor_char_boundary(*start), text.ceil_char_boundary(*end));
        let start = span.start.max(last.start);
        last = start..span.end.max(last.end).max(start);
        spans.push(last.clone());
    }
    spans
}

fn trimmed(text: &str, start: usize, end: usize) -> Range<usize> {
    let span = text.get(start..end).unwrap_or_default();
    let blank = span.len() - span.trim_start().len();
    if blank == span.len() {
        return end..end;
    }
    start + blank..start + span.trim_end().len()
}

#[cfg(test)]
mod tests {
    use super::of_text;

    #[test]
    fn spans_are_at_character_boundaries_and_ascend() {
        let check = |text: &str, offsets: &[(usize, usize)], expected: &[std::ops::Range<usize>]| {
            assert_eq!(of_text(text, offsets), expected, "{text:?} {offsets:?}");
        };
        check("one two", &[(0, 3), (3, 7)], &[0..3, 4..7]);
        check("\u{6c34}x", &[(0, 1), (1, 2), (2, 3), (3, 4)], &[0..3, 0..3, 0..3, 3..4]);
        check("a  b", &[(0, 1), (1, 2), (2, 4)], &[0..1, 2..2, 3..4]);
        check("ab", &[(1, 2), (0, 1), (9, 9)], &[1..2, 1..2, 2..2]);
        check("", &[(0, 0)], std::slice::from_ref(&(0..0)));
    }
}
