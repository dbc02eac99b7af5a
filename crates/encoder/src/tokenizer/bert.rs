//! BERT's treatment of characters: its normaliser, and its splitting of words.
//!
//! Source: `BertNormalizer` and `BertPreTokenizer` of the `tokenizers` crate. The tables of Unicode are that crate's too, because newer
//! ones would give other tokens than the model was trained with.

use unicode_categories::UnicodeCategories;
use unicode_normalization_alignments::char::{canonical_combining_class, decompose_canonical};

/// The settings of a `BertNormalizer` with `clean_text`.
pub(super) struct Normalizer {
    pub(super) is_lowercase: bool,
    pub(super) strips_accents: bool,
    pub(super) separates_ideographs: bool,
}

/// The part of a character in the words of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Part of a word.
    Letter,
    /// A word of its own.
    Ideograph,
    /// Between words.
    Space,
    /// Left out: the word goes on behind it.
    Removed,
}

impl Normalizer {
    pub(super) fn role(&self, c: char) -> Role {
        match c {
            '\t' | '\n' | '\r' | ' ' => Role::Space,
            '!'..='~' => Role::Letter,
            '\0' | '\u{fffd}' => Role::Removed,
            c if c.is_other() => Role::Removed,
            c if c.is_whitespace() => Role::Space,
            c if self.separates_ideographs && is_ideograph(c) => Role::Ideograph,
            _ => Role::Letter,
        }
    }

    /// Calls `push` with each character that `c` becomes: without accents, lower-cased. Returns whether the text around it changes
    /// nothing about them: false for a combining character that stays, whose place depends on its neighbours.
    pub(super) fn each_char(&self, c: char, mut push: impl FnMut(char)) -> bool {
        if c.is_ascii() {
            push(if self.is_lowercase { c.to_ascii_lowercase() } else { c });
            return true;
        }
        let mut lower =
            |c: char| if self.is_lowercase { c.to_lowercase().for_each(&mut push) } else { push(c) };
        if !self.strips_accents {
            lower(c);
            return true;
        }
        let mut is_alone = true;
        decompose_canonical(c, |part| {
            if !part.is_mark_nonspacing() {
                is_alone &= canonical_combining_class(part) == 0;
                lower(part);
            }
        });
        is_alone
    }
}

/// Whether a character of a normalised text is a word of its own.
pub(super) fn is_punctuation(c: char) -> bool {
    c.is_ascii_punctuation() || c.is_punctuation()
}

/// Han characters; no kana, no Hangul.
fn is_ideograph(c: char) -> bool {
    matches!(c,
        '\u{4e00}'..='\u{9fff}'
        | '\u{3400}'..='\u{4dbf}'
        | '\u{20000}'..='\u{2a6df}'
        | '\u{2a700}'..='\u{2b73f}'
        | '\u{2b740}'..='\u{2b81f}'
        | '\u{2b920}'..='\u{2ceaf}'
        | '\u{f900}'..='\u{faff}'
        | '\u{2f800}'..='\u{2fa1f}')
}
