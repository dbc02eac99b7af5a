//! Units, which chunks are packed from: sentences, and the words or tokens of sentences that exceed a limit.

use crate::segment::{Border, gap_border};
use std::ops::Range;

/// A piece of text that chunks do not split further.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// Tokens that overlap the unit.
    pub(crate) tokens: usize,
    /// The border after the unit.
    pub(crate) border: Border,
}

/// The tokens of a part of the document, as spans of the document.
pub(crate) struct Tokens {
    spans: Vec<Range<usize>>,
}

/// Upper limits of a unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnitLimits {
    pub(crate) tokens_max: usize,
    pub(crate) bytes_max: usize,
}

impl Tokens {
    /// `spans` are relative to `base`. Unordered spans lead to wrong counts but are otherwise harmless.
    pub(crate) fn new(mut spans: Vec<Range<usize>>, base: usize) -> Tokens {
        for span in &mut spans {
            *span = base.saturating_add(span.start)..base.saturating_add(span.end);
        }
        Tokens { spans }
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The tokens that overlap `start..end`.
    pub(crate) fn within(&self, start: usize, end: usize) -> &[Range<usize>] {
        let first = self.spans.partition_point(|token| token.end <= start);
        let after_last = self.spans.partition_point(|token| token.start < end);
        self.spans.get(first..after_last).unwrap_or_default()
    }
}

/// Appends `start..end` of `text` as one unit if it is within `limits`; otherwise as words, words beyond the limits as
/// tokens, and tokens beyond `bytes_max` as runs of characters. `border` follows the last unit.
pub(crate) fn push_units(
    text: &str,
    Range { start, end }: Range<usize>,
    border: Border,
    tokens: &Tokens,
    limits: UnitLimits,
    out: &mut Vec<Unit>,
) {
    let whole = Unit { start, end, tokens: tokens.within(start, end).len(), border };
    if whole.tokens <= limits.tokens_max && end - start <= limits.bytes_max {
        return out.push(whole);
    }
    let mut at = start;
    while at < end {
        let rest = &text[at..end];
        let word_end = at + rest.find(char::is_whitespace).unwrap_or(rest.len());
        let next = end - text[word_end..end].trim_start().len();
        let border = if next == end { border } else { gap_border(&text[word_end..next]) };
        let word = Unit { start: at, end: word_end, tokens: tokens.within(at, word_end).len(), border };
        if word.tokens <= limits.tokens_max && word_end - at <= limits.bytes_max {
            out.push(word);
        } else {
            push_word_parts(text, &word, tokens, limits.bytes_max, out);
        }
        at = next;
    }
}

/// The unit split in its middle, or the unit itself if it is a single character.
pub(crate) fn halves(text: &str, unit: &Unit, tokens: &Tokens) -> Vec<Unit> {
    let Unit { start, end, border, .. } = *unit;
    let first_char = text[start..end].chars().next().map_or(0, char::len_utf8);
    let middle = text.floor_char_boundary(start + (end - start) / 2).max(start + first_char);
    if middle == end {
        return vec![unit.clone()];
    }
    let left_end = start + text[start..middle].trim_end().len();
    let right_start = end - text[middle..end].trim_start().len();
    let half = |start, end, border| Unit { start, end, tokens: tokens.within(start, end).len(), border };
    let gap = gap_border(&text[left_end..right_start]);
    vec![half(start, left_end, gap), half(right_start, end, border)]
}

/// Appends a word as one unit per token; tokens longer than `bytes_max` are split further.
///
/// A token that begins within a character (some models have tokens of bytes) is split after that character.
pub(crate) fn push_word_parts(
    text: &str,
    word: &Unit,
    tokens: &Tokens,
    bytes_max: usize,
    out: &mut Vec<Unit>,
) {
    let mut at = word.start;
    let starts = tokens.within(word.start, word.end).iter().map(|token| text.ceil_char_boundary(token.start));
    for cut in starts.chain([word.end]).filter(|&cut| cut <= word.end) {
        while at < cut {
            let end = even_part_end(text, at, cut, bytes_max);
            let border = if end == word.end { word.border } else { Border::Inside };
            out.push(Unit { start: at, end, tokens: tokens.within(at, end).len(), border });
            at = end;
        }
    }
}

/// The end of the first part when `start..end` is split into the fewest nearly equal parts of at most `bytes_max` bytes.
/// Requires `bytes_max` of at least 4, the longest character.
fn even_part_end(text: &str, start: usize, end: usize, bytes_max: usize) -> usize {
    let length = end - start;
    if length <= bytes_max {
        return end;
    }
    let even = text.floor_char_boundary(start + length.div_ceil(length.div_ceil(bytes_max)));
    if even > start { even } else { text.floor_char_boundary(start + bytes_max) }
}

#[cfg(test)]
mod tests {
    use super::{Tokens, UnitLimits, push_units};
    use crate::segment::Border;

    fn check(text: &str, tokens: &[std::ops::Range<usize>], limits: (usize, usize), expected: &[&str]) {
        let limits = UnitLimits { tokens_max: limits.0, bytes_max: limits.1 };
        let mut units = Vec::new();
        let tokens = Tokens::new(tokens.to_vec(), 0);
        push_units(text, 0..text.len(), Border::Sentence, &tokens, limits, &mut units);
        let found: Vec<_> = units.iter().map(|unit| &text[unit.start..unit.end]).collect();
        assert_eq!(found, expected);
        assert_eq!(units.last().map(|unit| unit.border), Some(Border::Sentence));
    }

    #[test]
    fn text_beyond_the_limits_is_split_into_words_then_tokens_then_characters() {
        let tokens = [0..3, 3..5, 6..8];
        check("abcde fg", &tokens, (3, 8), &["abcde fg"]);
        check("abcde fg", &tokens, (2, 8), &["abcde", "fg"]);
        check("abcde fg", &tokens, (1, 8), &["abc", "de", "fg"]);
        check("ééé", &[0..6, 6..6], (9, 5), &["é", "éé"]);
        check("éé", &[0..1, 1..2, 2..3, 3..4], (1, 8), &["é", "é"]);
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges, reason = "the input under test")]
    fn invalid_token_spans_are_harmless() {
        check("éa b", &[1..9, 700..2, 0..1, usize::MAX..3], (1, 4), &["é", "a", "b"]);
    }
}
