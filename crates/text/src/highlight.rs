//! Highlights: the positions of a query's words in a text; and snippets.

use crate::{Analyser, Language, QueryTerms, query_terms};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// The byte spans of the words of `text` whose term is a term of the query, in order, without overlap.
///
/// Overlapping bigrams are merged into one span. Stop words that [`query_terms`] drops are not highlighted.
pub fn highlight(text: &str, query: &str, language: Language) -> Vec<Range<usize>> {
    let QueryTerms { terms, forms, .. } = query_terms(query, language, None);
    highlight_terms(text, &terms.into_iter().chain(forms).map(|term| term.text).collect(), language)
}

/// As [`highlight`], for terms produced by [`crate::analyse`].
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

/// The first window of at most `max_chars` characters of `text` with the most distinct words of `spans`, as a byte span,
/// trimmed and, if possible, cut at white space.
///
/// `spans` are those of [`highlight`]; invalid spans are ignored. Without spans, the window is the start of the text.
pub fn snippet(text: &str, spans: &[Range<usize>], max_chars: usize) -> Range<usize> {
    let spans: Vec<Range<usize>> =
        spans.iter().filter(|&span| text.get(span.clone()).is_some()).cloned().collect();
    let core = densest_window(text, &spans, max_chars).unwrap_or(0..0);
    let spare = max_chars.saturating_sub(text[core.clone()].chars().count());
    let earliest = chars_before(text, core.start, spare / 2);
    let start = next_word_start(text, earliest, core.start);
    let spare = spare - text[start..core.start].chars().count();
    let latest = chars_after(text, core.end, spare);
    let end = last_word_end(text, core.end, latest);
    let window = &text[start..end];
    let leading = window.len() - window.trim_start().len();
    start + leading..start + leading + window.trim().len()
}

/// The shortest range from the start of one span to the end of another with the most distinct words, of at most `max_chars` characters.
fn densest_window(text: &str, spans: &[Range<usize>], max_chars: usize) -> Option<Range<usize>> {
    let word = |span: &Range<usize>| text[span.clone()].to_lowercase();
    let mut counts: HashMap<String, usize> = HashMap::new(); // counts of the words in the window that begins at `first`
    let mut best: Option<(usize, Range<usize>)> = None;
    let (mut first, mut chars, mut end) = (0, 0, spans.first()?.start);
    for span in spans {
        if span.start < end && span.end <= end {
            continue; // out of order
        }
        chars += text[end..span.end.max(end)].chars().count();
        end = span.end;
        *counts.entry(word(span)).or_default() += 1;
        while chars > max_chars && spans[first] != *span {
            let removed = word(&spans[first]);
            if let Some(count) = counts.get_mut(&removed) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(&removed);
                }
            }
            let next = spans[first + 1].start.max(spans[first].start);
            chars = chars.saturating_sub(text[spans[first].start..next].chars().count());
            first += 1;
        }
        if chars <= max_chars && best.as_ref().is_none_or(|(count, _)| counts.len() > *count) {
            best = Some((counts.len(), spans[first].start..end));
        }
    }
    best.map(|(_, range)| range)
}

/// The offset `count` characters before `at`, or 0.
fn chars_before(text: &str, at: usize, count: usize) -> usize {
    match count {
        0 => at,
        _ => text[..at].char_indices().rev().nth(count - 1).map_or(0, |(offset, _)| offset),
    }
}

/// The offset `count` characters after `at`, or the end.
fn chars_after(text: &str, at: usize, count: usize) -> usize {
    text[at..].char_indices().nth(count).map_or(text.len(), |(offset, _)| at + offset)
}

/// The first start of a word in `from..=to`; `from` if there is none.
fn next_word_start(text: &str, from: usize, to: usize) -> usize {
    if from == 0 || text[..from].ends_with(char::is_whitespace) {
        return from;
    }
    text[from..to].find(char::is_whitespace).map_or(from, |space| from + space)
}

/// The last end of a word in `from..=to`; `to` if there is none.
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
    fn every_inflected_form_of_a_query_word_is_highlighted() {
        check(
            "The runner runs; RUNNING is a run.",
            "the running",
            "The runner [runs]; [RUNNING] is a [run].",
        );
        check("Cafe\u{301} or café", "cafe", "[Cafe\u{301}] or [café]");
    }

    #[test]
    fn overlapping_bigrams_are_one_highlight() {
        check("私は東京都に住む", "東京都", "私は[東京都]に住む");
        check("東京と京都", "京都", "東京と[京都]");
        check("京都abc", "abc京都", "[京都][abc]");
    }

    #[test]
    fn a_compound_is_one_highlight() {
        check("An e-mail, an email, a mail", "email", "An [e-mail], an [email], a mail");
        check("C++ or C", "C++", "[C++] or [C]");
        check("DEC 0054 and dec0054", "dec-0054", "[DEC] [0054] and [dec0054]");
    }

    #[test]
    fn a_query_without_words_highlights_nothing() {
        check("Text", "?!", "Text");
    }

    fn check_snippet(text: &str, query: &str, max_chars: usize, expected: &str) {
        let spans = highlight(text, query, Language::English);
        assert_eq!(&text[snippet(text, &spans, max_chars)], expected);
    }

    #[test]
    fn a_snippet_has_the_most_distinct_words_of_the_query() {
        let text = "Salt and salt and salt. Nothing here at all. Pepper with salt is better than salt alone.";
        check_snippet(text, "salt pepper", 30, "all. Pepper with salt is");
    }

    #[test]
    fn the_first_of_equal_windows_is_chosen() {
        check_snippet("One salt here and some more there, then salt again.", "salt", 14, "One salt here");
    }

    #[test]
    fn a_snippet_without_highlights_is_the_start_of_the_text() {
        check_snippet("One two three four.", "nothing", 12, "One two");
        check_snippet("One two.", "nothing", 100, "One two.");
        check_snippet("", "nothing", 10, "");
    }

    #[test]
    fn a_snippet_without_spaces_is_cut_between_characters() {
        check_snippet("漢字仮名交じり文", "仮名", 4, "字仮名交");
    }

    #[test]
    fn a_highlight_longer_than_the_snippet_yields_the_start_of_the_text() {
        check_snippet("abc defghijk", "defghijk", 4, "abc");
        check_snippet("abc defghijk", "defghijk", 0, "");
    }

    #[test]
    #[allow(clippy::reversed_empty_ranges, reason = "the input under test")]
    fn invalid_spans_are_ignored() {
        for spans in [vec![5..2, 0..99, 1..2], vec![2..4, 0..2], vec![4..4, 3..4, 0..9]] {
            let span = snippet("né été", &spans, 3);
            assert!("né été".get(span).is_some());
        }
    }
}
