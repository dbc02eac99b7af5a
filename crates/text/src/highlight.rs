//! Where a query's words stand in a text, and the part of a long text that shows most of them.

use crate::{Analyser, Language, query_terms};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The byte spans of the words of `text` whose term is among the query's, in order, without overlap.
///
/// Pairs of characters that overlap are merged into one span. The words that [`query_terms`] drops are not
/// marked.
pub fn highlight(text: &str, query: &str, language: Language) -> Vec<Range<usize>> {
    highlight_terms(text, &query_terms(query, language).into_iter().map(|term| term.text).collect(), language)
}

/// As [`highlight`], for terms as [`crate::analyse`] makes them.
pub fn highlight_terms(text: &str, terms: &HashSet<String>, language: Language) -> Vec<Range<usize>> {
    let mut spans: Vec<Range<usize>> = Vec::new();
    if terms.is_empty() {
        return spans;
    }
    Analyser::new(language).analyse(text, |token| {
        if !terms.contains(token.text) {
            return;
        }
        match spans.last_mut() {
            Some(last) if token.start < last.end => last.end = last.end.max(token.end),
            _ => spans.push(token.start..token.end),
        }
    });
    spans
}

/// The window of at most `max_chars` characters of `text` that shows the most different words of `spans`, and
/// of those windows the first; as a byte span, cut at white space where there is some, and trimmed.
///
/// `spans` are those of [`highlight`]; others are ignored when they are no spans of `text`. Without any, the
/// window is the beginning of the text.
pub fn snippet(text: &str, spans: &[Range<usize>], max_chars: usize) -> Range<usize> {
    let spans: Vec<Range<usize>> =
        spans.iter().filter(|&span| text.get(span.clone()).is_some()).cloned().collect();
    let core = densest(text, &spans, max_chars).unwrap_or(0..0);
    let spare = max_chars.saturating_sub(text[core.clone()].chars().count());
    let earliest = back_by(text, core.start, spare / 2);
    let start = next_word(text, earliest, core.start);
    let spare = spare - text[start..core.start].chars().count();
    let latest = forward_by(text, core.end, spare);
    let end = last_word_end(text, core.end, latest);
    let window = &text[start..end];
    let leading = window.len() - window.trim_start().len();
    start + leading..start + leading + window.trim().len()
}

/// The shortest stretch from one span's start to another's end that holds the most different words and at most
/// `max_chars` characters.
fn densest(text: &str, spans: &[Range<usize>], max_chars: usize) -> Option<Range<usize>> {
    let word = |span: &Range<usize>| text[span.clone()].to_lowercase();
    let mut within: HashMap<String, usize> = HashMap::new(); // words from `first` on, with their count
    let mut best: Option<(usize, Range<usize>)> = None;
    let (mut first, mut chars, mut end) = (0, 0, spans.first()?.start);
    for span in spans {
        if span.start < end && span.end <= end {
            continue; // out of order
        }
        chars += text[end..span.end.max(end)].chars().count();
        end = span.end;
        *within.entry(word(span)).or_default() += 1;
        while chars > max_chars && spans[first] != *span {
            let gone = word(&spans[first]);
            if let Some(count) = within.get_mut(&gone) {
                *count -= 1;
                if *count == 0 {
                    within.remove(&gone);
                }
            }
            let next = spans[first + 1].start.max(spans[first].start);
            chars = chars.saturating_sub(text[spans[first].start..next].chars().count());
            first += 1;
        }
        if chars <= max_chars && best.as_ref().is_none_or(|(count, _)| within.len() > *count) {
            best = Some((within.len(), spans[first].start..end));
        }
    }
    best.map(|(_, range)| range)
}

/// The place `count` characters before `at`, or the start.
fn back_by(text: &str, at: usize, count: usize) -> usize {
    match count {
        0 => at,
        _ => text[..at].char_indices().rev().nth(count - 1).map_or(0, |(place, _)| place),
    }
}

/// The place `count` characters after `at`, or the end.
fn forward_by(text: &str, at: usize, count: usize) -> usize {
    text[at..].char_indices().nth(count).map_or(text.len(), |(place, _)| at + place)
}

/// The first start of a word in `from..=to`; `from` itself when nothing but one word stands there.
fn next_word(text: &str, from: usize, to: usize) -> usize {
    if from == 0 || text[..from].ends_with(char::is_whitespace) {
        return from;
    }
    text[from..to].find(char::is_whitespace).map_or(from, |space| from + space)
}

/// The last end of a word in `from..=to`; `to` itself when nothing but one word stands there.
fn last_word_end(text: &str, from: usize, to: usize) -> usize {
    if to == text.len() || text[to..].starts_with(char::is_whitespace) {
        return to;
    }
    text[from..to].rfind(char::is_whitespace).map_or(to, |space| from + space)
}

#[cfg(test)]
mod tests {
    use super::{highlight, snippet};
    use crate::Language;

    /// `expected`: the text with its highlights in brackets.
    fn check(text: &str, query: &str, expected: &str) {
        let mut marked = text.to_owned();
        for span in highlight(text, query, Language::English).into_iter().rev() {
            marked.insert(span.end, ']');
            marked.insert(span.start, '[');
        }
        assert_eq!(marked, expected);
    }

    #[test]
    fn every_form_of_a_querys_word_is_marked() {
        check(
            "The runner runs; RUNNING is a run.",
            "the running",
            "The runner [runs]; [RUNNING] is a [run].",
        );
        check("Cafe\u{301} or café", "cafe", "[Cafe\u{301}] or [café]");
    }

    #[test]
    fn pairs_that_overlap_are_marked_as_one() {
        check("私は東京都に住む", "東京都", "私は[東京都]に住む");
        check("東京と京都", "京都", "東京と[京都]");
        check("京都abc", "abc京都", "[京都][abc]");
    }

    #[test]
    fn an_empty_query_marks_nothing() {
        check("Text", "?!", "Text");
    }

    fn check_snippet(text: &str, query: &str, max_chars: usize, expected: &str) {
        let spans = highlight(text, query, Language::English);
        assert_eq!(&text[snippet(text, &spans, max_chars)], expected);
    }

    #[test]
    fn a_snippet_shows_the_most_different_words_of_the_query() {
        let text = "Salt and salt and salt. Nothing here at all. Pepper with salt is better than salt alone.";
        check_snippet(text, "salt pepper", 30, "all. Pepper with salt is");
    }

    #[test]
    fn of_equal_windows_the_first_is_shown() {
        check_snippet("One salt here and some more there, then salt again.", "salt", 14, "One salt here");
    }

    #[test]
    fn a_snippet_without_highlights_is_the_beginning() {
        check_snippet("One two three four.", "nothing", 12, "One two");
        check_snippet("One two.", "nothing", 100, "One two.");
        check_snippet("", "nothing", 10, "");
    }

    #[test]
    fn a_snippet_without_space_is_cut_between_characters() {
        check_snippet("漢字仮名交じり文", "仮名", 4, "字仮名交");
    }

    #[test]
    fn a_highlight_longer_than_the_snippet_gives_the_beginning() {
        check_snippet("abc defghijk", "defghijk", 4, "abc");
        check_snippet("abc defghijk", "defghijk", 0, "");
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges, reason = "what must be ignored")]
    fn spans_that_are_none_of_the_text_are_ignored() {
        for spans in [vec![5..2, 0..99, 1..2], vec![2..4, 0..2], vec![4..4, 3..4, 0..9]] {
            let span = snippet("né été", &spans, 3);
            assert!("né été".get(span).is_some());
        }
    }
}
