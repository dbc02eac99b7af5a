//! Stub.
use crate::{Language, analyse, query_terms};
use std::ops::Range;
/// Spans of the query's words in the text.
pub fn highlight(text: &str, query: &str, language: Language) -> Vec<Range<usize>> {
    let terms = query_terms(query, language);
    let mut spans = Vec::new();
    analyse(text, language, |token| {
        if terms.iter().any(|term| term == token.text) {
            spans.push(token.start..token.end);
        }
    });
    spans
}
/// The best window.
pub fn snippet(text: &str, _spans: &[Range<usize>], max_chars: usize) -> Range<usize> {
    0..text.floor_char_boundary(max_chars)
}
