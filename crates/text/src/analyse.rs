//! Analysis: the terms of a text, as the lexical index stores them and queries look them up.
//!
//! A word is a run of letters, digits and combining marks. It is normalised, stemmed and folded ([`crate::fold`]).
//! Compounds ([`crate::compound`]) yield a term for each part and terms for the whole, which have the position of the
//! first part. Scripts without spaces between words yield overlapping bigrams of characters; a single character yields
//! itself. The work per character is bounded, so analysis takes linear time for any input.

use crate::Language;
use crate::compound::{Compound, Part, WORD_CHARS_MAX};
use crate::fold::{fold, normalise};
use crate::script::{CharClass, char_class, is_hangul_tail, is_word_character};
use crate::stem::CachedStemmer;

/// The version of the terms. An index made with another version does not have the terms that queries look up: it must be
/// made again. To be raised with every change of the terms of any text.
pub const ANALYSER_VERSION: u32 = 2;

/// A CJK or Thai cluster (a character and its combining marks) is cut off after this many characters.
const CLUSTER_CHARS_MAX: usize = 16;

/// A term and the span of its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The term: normalised, stemmed and folded. Never empty, and without white space.
    pub text: &'a str,
    /// First byte of the word in the input.
    pub start: usize,
    /// One past the last byte of the word in the input.
    pub end: usize,
    /// Position in the text, from 0: that of the word, of the part of a compound, or of the first part of a whole.
    pub position: usize,
    /// Its kind.
    pub kind: TokenKind,
    /// Whether it is the main token of its position: exactly one token of each position is.
    pub in_sequence: bool,
    /// Whether it is a word if connectors separate words and changes of case and kind do not: `python3` and `dev` of
    /// `python3-dev`.
    pub is_word: bool,
    /// The first byte of its compound; `None` outside compounds.
    pub compound: Option<usize>,
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenKind {
    /// A word that is no compound, or a bigram.
    Word,
    /// A part of a compound, without symbols.
    Part,
    /// Another form of the text of other tokens: several parts as one term, a part with its symbols, a character of a bigram.
    Form,
}

/// The properties of a token beside its text and span.
#[derive(Clone, Copy)]
struct Role {
    kind: TokenKind,
    in_sequence: bool,
    is_word: bool,
    compound: Option<usize>,
}

impl Role {
    const WORD: Role = Role { kind: TokenKind::Word, in_sequence: true, is_word: true, compound: None };
    /// A character of a bigram.
    const CHARACTER: Role =
        Role { kind: TokenKind::Form, in_sequence: false, is_word: false, compound: None };
}

/// Analyses texts of one language; reuses its buffers and its cache of stems from text to text.
#[derive(Debug)]
pub struct Analyser {
    language: Language,
    stemmer: CachedStemmer,
    /// The normalised word, before stemming.
    word: String,
    /// The term, or the first cluster of a bigram.
    term: String,
    /// Output buffer of folding; swapped with `word` or `term`.
    folded: String,
    compound: Compound,
    /// The position of the next word.
    position: usize,
}

/// Analyses one text. For many texts, [`Analyser::analyse`] is faster.
pub fn analyse(text: &str, language: Language, on_token: impl FnMut(Token<'_>)) {
    Analyser::new(language).analyse(text, on_token);
}

/// The terms of a text in its order, one for each position, stop words and repetitions included: two texts with the same sequence
/// are found by the same phrase.
pub fn sequence(text: &str, language: Language) -> Vec<String> {
    let mut terms = Vec::new();
    analyse(text, language, |token| {
        if token.in_sequence {
            terms.push(token.text.to_owned());
        }
    });
    terms
}

/// The terms of the words of a text in its order, where only connectors and white space separate words.
pub fn words(text: &str, language: Language) -> Vec<String> {
    let mut terms = Vec::new();
    analyse(text, language, |token| {
        if token.is_word {
            terms.push(token.text.to_owned());
        }
    });
    terms
}

impl Analyser {
    /// An analyser for texts of `language`.
    pub fn new(language: Language) -> Analyser {
        Analyser {
            language,
            stemmer: CachedStemmer::new(language),
            word: String::new(),
            term: String::new(),
            folded: String::new(),
            compound: Compound::default(),
            position: 0,
        }
    }

    /// Calls `on_token` for every term of `text`, in document order.
    ///
    /// Starts and positions of tokens never decrease; of tokens that start alike, the longest comes first, and characters of bigrams come
    /// before bigrams. Stop words are not removed here: documents keep them, [`crate::query_terms`] drops them.
    pub fn analyse(&mut self, text: &str, mut on_token: impl FnMut(Token<'_>)) {
        self.analyse_words(text, &mut |token: Token<'_>, _: &str| on_token(token));
    }

    /// As [`Analyser::analyse`], and also passes the word before stemming.
    pub(crate) fn analyse_words(&mut self, text: &str, on_word: &mut impl FnMut(Token<'_>, &str)) {
        let bytes = text.as_bytes();
        self.position = 0;
        let mut at = 0;
        while at < bytes.len() {
            let start = at;
            // a capital at the start of a word does not make it a compound
            let mut kind = KINDS[usize::from(bytes[at])];
            let mut kinds = kind & DIGIT;
            while kind != 0 {
                at += 1;
                kind = bytes.get(at).map_or(0, |byte| KINDS[usize::from(*byte)]);
                kinds |= kind;
            }
            if at < bytes.len() && !bytes[at].is_ascii() {
                at = self.unicode_run(text, start, on_word);
            } else if start == at {
                at += 1; // a separator, which is one byte
            } else if is_plain(bytes, start, at, kinds) {
                self.word(text, start, at, on_word);
                at += 1; // the separator, which is one byte
            } else {
                at = self.compound(text, start, on_word);
            }
        }
    }

    /// Emits the word or compound at `start`, or the bigrams of a script without spaces, or skips one character of others. Returns the
    /// offset after it.
    fn unicode_run(&mut self, text: &str, start: usize, on_word: &mut impl FnMut(Token<'_>, &str)) -> usize {
        let mut chars = text[start..].char_indices();
        let Some((_, first)) = chars.next() else { return text.len() };
        match char_class(first) {
            CharClass::Spaced => self.compound(text, start, on_word),
            CharClass::Unspaced => {
                let is_other = |c| !matches!(char_class(c), CharClass::Unspaced | CharClass::Extender);
                let end = chars.find(|(_, c)| is_other(*c)).map_or(text.len(), |(offset, _)| start + offset);
                self.bigrams(text, start, end, on_word);
                end
            }
            CharClass::Extender | CharClass::Separator => start + first.len_utf8(),
        }
    }

    /// Emits the compound, or the word, at `start`. Returns the offset after it.
    fn compound(&mut self, text: &str, start: usize, on_word: &mut impl FnMut(Token<'_>, &str)) -> usize {
        let mut compound = std::mem::take(&mut self.compound);
        let end = compound.scan(text, start);
        if compound.is_plain() {
            let span = compound.parts[0].span.clone();
            self.word(text, span.start, span.end, on_word);
        } else {
            self.emit_compound(text, &compound, on_word);
        }
        self.compound = compound;
        end
    }

    fn emit_compound(&mut self, text: &str, compound: &Compound, on_word: &mut impl FnMut(Token<'_>, &str)) {
        let start = compound.parts[0].outer.start;
        let form = Role { kind: TokenKind::Form, in_sequence: false, is_word: false, compound: Some(start) };
        if compound.words > 1 {
            self.joined(text, &compound.parts, form, on_word);
        }
        for parts in compound.parts.chunk_by(|one, next| one.word == next.word) {
            // pieces of a word that is too long for a term are words
            let is_joined =
                parts.len() > 1 && self.joined(text, parts, Role { is_word: true, ..form }, on_word);
            for part in parts {
                let is_word = !is_joined;
                let with_symbols = part.has_symbols();
                if with_symbols {
                    self.with_symbols(text, part, Role { in_sequence: true, is_word, ..form }, on_word);
                }
                let (in_sequence, is_word) = (!with_symbols, is_word && !with_symbols);
                self.load(&text[part.span.clone()]);
                let role = Role { kind: TokenKind::Part, in_sequence, is_word, ..form };
                if self.emit_stemmed(part.span.start, part.span.end, role, on_word) {
                    self.position += 1;
                }
            }
        }
    }

    /// Emits several parts as one term, unless it would be too long; returns whether it did. A dot keeps the numbers of different words
    /// apart: `3.14` is not `314`, but `e-mail` is `email`. Symbols after a word stay: `C++11` is not `C11`.
    fn joined(
        &mut self,
        text: &str,
        parts: &[Part],
        role: Role,
        on_word: &mut impl FnMut(Token<'_>, &str),
    ) -> bool {
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else { return false };
        if last.outer.end - first.outer.start > 4 * WORD_CHARS_MAX {
            return false;
        }
        let mut joined = String::new();
        let mut word = first.word;
        for part in parts {
            self.load(&text[part.span.clone()]);
            let are_numbers = joined.ends_with(|c: char| c.is_ascii_digit())
                && self.word.starts_with(|c: char| c.is_ascii_digit());
            if part.word != word && are_numbers {
                joined.push('.');
            }
            word = part.word;
            joined.push_str(&self.word);
            joined.push_str(part.suffix);
        }
        if joined.chars().count() > WORD_CHARS_MAX {
            return false;
        }
        self.word = joined;
        self.emit_stemmed(first.outer.start, last.outer.end, role, on_word)
    }

    /// Emits a part with its symbols, which is not stemmed.
    fn with_symbols(
        &mut self,
        text: &str,
        part: &Part,
        role: Role,
        on_word: &mut impl FnMut(Token<'_>, &str),
    ) {
        self.load(&text[part.span.clone()]);
        self.term.clear();
        self.term.push_str(part.prefix);
        fold(&self.word, &mut self.term);
        self.term.push_str(part.suffix);
        let token = self.token(part.outer.start, part.outer.end, role);
        on_word(token, &self.term);
    }

    /// Emits the word at `start..end`, which is no compound.
    fn word(&mut self, text: &str, start: usize, end: usize, on_word: &mut impl FnMut(Token<'_>, &str)) {
        let raw = &text[start..end];
        if self.is_possessive(text, start, raw) {
            return;
        }
        self.load(raw);
        if self.emit_stemmed(start, end, Role::WORD, on_word) {
            self.position += 1;
        }
    }

    /// Normalises a word into `self.word`.
    fn load(&mut self, raw: &str) {
        self.word.clear();
        if raw.is_ascii() && self.language != Language::Turkish {
            self.word.push_str(raw);
            self.word.make_ascii_lowercase();
        } else {
            normalise(raw, self.language == Language::Turkish, &mut self.word);
        }
    }

    /// The token of `self.term`.
    fn token(&self, start: usize, end: usize, role: Role) -> Token<'_> {
        let Role { kind, in_sequence, is_word, compound } = role;
        Token { text: &self.term, start, end, position: self.position, kind, in_sequence, is_word, compound }
    }

    /// Stems and folds `self.word` and emits the term unless it is empty; returns whether it did.
    fn emit_stemmed(
        &mut self,
        start: usize,
        end: usize,
        role: Role,
        on_word: &mut impl FnMut(Token<'_>, &str),
    ) -> bool {
        // The English stemmer expects words without accents; all others depend on them.
        let fold_first = matches!(self.language, Language::English | Language::None);
        if fold_first && !self.word.is_ascii() {
            self.folded.clear();
            fold(&self.word, &mut self.folded);
            std::mem::swap(&mut self.word, &mut self.folded);
        }
        self.term.clear();
        self.stemmer.stem(&self.word, &mut self.term);
        if !fold_first && !self.term.is_ascii() {
            self.folded.clear();
            fold(&self.term, &mut self.folded);
            std::mem::swap(&mut self.term, &mut self.folded);
        }
        if self.term.is_empty() {
            return false;
        }
        on_word(self.token(start, end, role), &self.word);
        true
    }

    /// Emits the overlapping bigrams of the clusters (a character and its marks) at `start..end`, or a single cluster; and each
    /// character of a bigram that may be a word.
    fn bigrams(&mut self, text: &str, start: usize, end: usize, on_word: &mut impl FnMut(Token<'_>, &str)) {
        let mut at = start;
        let mut previous: Option<(usize, usize)> = None; // start and end of the cluster in `term`
        let mut has_bigram = false;
        self.term.clear();
        while at < end {
            let cluster_start = at;
            at += cluster_length(&text[at..end]);
            self.word.clear();
            normalise(bounded_cluster(&text[cluster_start..at]), false, &mut self.word);
            if self.word.is_empty() {
                continue;
            }
            if let Some((start, end)) = previous {
                self.character(start, end, on_word);
                let previous_length = self.term.len();
                self.term.push_str(&self.word);
                on_word(self.token(start, at, Role::WORD), &self.term);
                self.term.drain(..previous_length);
                self.position += 1;
                has_bigram = true;
            } else {
                self.term.push_str(&self.word);
            }
            previous = Some((cluster_start, at));
        }
        let Some((start, end)) = previous else { return };
        if has_bigram {
            // the position of the last bigram, so that a word after it follows the bigram
            self.position -= 1;
            self.character(start, end, on_word);
        } else {
            on_word(self.token(start, end, Role::WORD), &self.term);
        }
        self.position += 1;
    }

    /// Emits the cluster in `self.term` if it may be a word.
    fn character(&self, start: usize, end: usize, on_word: &mut impl FnMut(Token<'_>, &str)) {
        if self.term.chars().next().is_some_and(is_word_character) {
            on_word(self.token(start, end, Role::CHARACTER), &self.term);
        }
    }

    /// Whether the word `raw` at `start` is the `s` of an English possessive, which carries no meaning.
    fn is_possessive(&self, text: &str, start: usize, raw: &str) -> bool {
        self.language == Language::English
            && matches!(raw, "s" | "S")
            && text[..start]
                .strip_suffix(['\'', '’'])
                .and_then(|before| before.chars().next_back())
                .is_some_and(char::is_alphanumeric)
    }
}

const DIGIT: u8 = 1;
const CAPITAL: u8 = 2;
const SMALL: u8 = 4;
/// The kind of each byte in a word; 0 for others.
static KINDS: [u8; 256] = {
    let mut kinds = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        kinds[byte] = match byte as u8 {
            b'0'..=b'9' => DIGIT,
            b'A'..=b'Z' => CAPITAL,
            b'a'..=b'z' => SMALL,
            _ => 0,
        };
        byte += 1;
    }
    kinds
};

/// Whether the ASCII word at `start..end`, whose bytes after the first letter are of `kinds`, is surely no compound. An ASCII byte or
/// nothing follows it.
fn is_plain(bytes: &[u8], start: usize, end: usize, kinds: u8) -> bool {
    let starts_word =
        |at: usize| bytes.get(at).is_some_and(|byte| !byte.is_ascii() || byte.is_ascii_alphanumeric());
    // the last byte of a hyphen in UTF-8 may be that of another character
    let may_have_prefix = start > 0 && matches!(bytes[start - 1], b'-' | b'.' | 0x90..=0x92);
    let may_continue = match bytes.get(end) {
        Some(b'-' | b'_' | b'.' | b'/' | b'@' | b'&') => starts_word(end + 1),
        Some(b':') => starts_word(end + 1) || bytes.get(end + 1) == Some(&b':'),
        Some(b'+') => bytes.get(end + 1) == Some(&b'+'),
        Some(b'#') => true,
        _ => false,
    };
    let is_of_one_kind = kinds.count_ones() <= 1;
    is_of_one_kind && end - start <= WORD_CHARS_MAX && !may_have_prefix && !may_continue
}

/// Bytes of the first cluster: the first character and its extenders, or a decomposed Hangul syllable.
fn cluster_length(text: &str) -> usize {
    let mut chars = text.char_indices();
    let starts_hangul =
        chars.next().is_some_and(|(_, c)| matches!(c, '\u{1100}'..='\u{11ff}' | '\u{a960}'..='\u{d7ff}'));
    chars
        .find(|&(_, c)| char_class(c) != CharClass::Extender && !(starts_hangul && is_hangul_tail(c)))
        .map_or(text.len(), |(at, _)| at)
}

/// The first [`CLUSTER_CHARS_MAX`] characters of a cluster.
fn bounded_cluster(cluster: &str) -> &str {
    let length = cluster.char_indices().nth(CLUSTER_CHARS_MAX).map_or(cluster.len(), |(at, _)| at);
    &cluster[..length]
}

#[cfg(test)]
mod tests;
