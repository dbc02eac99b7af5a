//! Stub.
use crate::Language;
/// A term and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The term.
    pub text: &'a str,
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}
/// Analyses texts of one language, with buffers that are used again.
#[derive(Debug)]
pub struct Analyser {}
impl Analyser {
    /// For one language.
    pub fn new(_language: Language) -> Analyser {
        Analyser {}
    }
    /// Calls `on_token` for every term.
    pub fn analyse(&mut self, text: &str, mut on_token: impl FnMut(Token<'_>)) {
        let mut start = 0;
        for word in text.split(|c: char| !c.is_alphanumeric()) {
            if !word.is_empty() {
                on_token(Token { text: &word.to_lowercase(), start, end: start + word.len() });
            }
            start += word.len();
            start += text[start..].chars().next().map_or(0, char::len_utf8);
        }
    }
}
/// One-off form.
pub fn analyse(text: &str, language: Language, on_token: impl FnMut(Token<'_>)) {
    Analyser::new(language).analyse(text, on_token);
}
