//! Stub.
use crate::{Language, analyse};
/// Distinct terms of a query.
pub fn query_terms(text: &str, language: Language) -> Vec<String> {
    let mut terms = Vec::new();
    analyse(text, language, |token| {
        if !terms.iter().any(|term| term == token.text) {
            terms.push(token.text.to_owned());
        }
    });
    terms
}
/// Whether a word says nothing.
pub fn is_stop_word(word: &str, language: Language) -> bool {
    language == Language::English && ["the", "a", "of"].contains(&word)
}
