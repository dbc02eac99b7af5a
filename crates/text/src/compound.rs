//! Compounds: what is written as one but consists of several words or has symbols that matter.
//!
//! Three kinds, which combine: words joined by a connector (`snake_case`, `10.1.168.192`, `AT&T`), a word whose letters
//! change in case or kind (`camelCase`, `python3`), and a word with symbols (`C++`, `C#`, `.NET`, `-v`, `--long`).

use std::ops::Range;

use crate::script::{CharClass, char_class, decimal_digit};

/// A longer compound is several compounds.
const WORDS_MAX: usize = 16;
/// Longer words are cut into pieces of this many characters: a word of 100,000 characters stays searchable by its
/// pieces and produces no term that is too long for a term dictionary.
pub(crate) const WORD_CHARS_MAX: usize = 64;
/// Fewest letters that are a part beside a digit: `python3` has two parts, `p53`, `x86` and `IL2` have one.
const LETTERS_BESIDE_DIGITS_MIN: usize = 3;
/// Fewest letters before any change from lower to upper case: `userID` has two parts, `siRNA` has one.
const LETTERS_BEFORE_CAPITAL_MIN: usize = 3;
/// Fewest letters before a capital that begins a word in lower case: `toString` has two parts, `iPhone` has one.
const LETTERS_BEFORE_WORD_MIN: usize = 2;
/// Fewest letters in lower case after an acronym and a capital: `XMLHttp` has two parts, `DNAse` has one.
const LETTERS_AFTER_ACRONYM_MIN: usize = 3;
/// Fewest capitals of an acronym before a capitalised word: `IOError` has two parts, `RNase` has one.
const ACRONYM_MIN: usize = 2;

/// A part of a compound, which has one position.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) span: Range<usize>,
    /// Index of the word that it belongs to.
    pub(crate) word: usize,
    /// `-`, `--`, `.` or nothing.
    pub(crate) prefix: &'static str,
    /// `++`, `#` or nothing.
    pub(crate) suffix: &'static str,
    /// The span with prefix and suffix.
    pub(crate) outer: Range<usize>,
}

impl Part {
    pub(crate) fn has_symbols(&self) -> bool {
        !self.prefix.is_empty() || !self.suffix.is_empty()
    }
}

/// The parts of a compound; reused from word to word.
#[derive(Debug, Default)]
pub(crate) struct Compound {
    pub(crate) parts: Vec<Part>,
    /// Words that connectors join.
    pub(crate) words: usize,
    runs: Vec<Run>,
}

/// Characters of one kind, one after the other.
#[derive(Clone, Copy, Debug)]
struct Run {
    kind: Kind,
    /// Offsets of the first character and the last.
    start: usize,
    last: usize,
    chars: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Digits,
    Capitals,
    /// And letters without case.
    Small,
}

impl Compound {
    /// Finds the parts of the compound, or the word, that starts at `start`; returns the offset after it. A letter or digit of a script
    /// with spaces between words must stand there.
    pub(crate) fn scan(&mut self, text: &str, start: usize) -> usize {
        self.parts.clear();
        self.words = 0;
        let mut at = start;
        loop {
            let end = word_end(text, at);
            let first = self.parts.len();
            self.add_parts(text, at..end);
            let (suffix, after) = suffix(text, end);
            if let Some(last) = self.parts.last_mut() {
                (last.suffix, last.outer.end) = (suffix, after);
            }
            if self.words == 0
                && let Some((prefix, outer)) = prefix(text, start)
            {
                (self.parts[first].prefix, self.parts[first].outer.start) = (prefix, outer);
            }
            self.words += 1;
            match next_word(text, end, after).filter(|_| self.words < WORDS_MAX) {
                Some(next) => at = next,
                None => return after,
            }
        }
    }

    /// Whether it is a single word without symbols.
    pub(crate) fn is_plain(&self) -> bool {
        self.parts.len() == 1 && !self.parts[0].has_symbols()
    }

    fn add_parts(&mut self, text: &str, word: Range<usize>) {
        let chars = text[word.clone()].chars().take(WORD_CHARS_MAX + 1).count();
        if chars > WORD_CHARS_MAX {
            let mut start = word.start;
            for (count, (offset, _)) in text[word.clone()].char_indices().enumerate().skip(1) {
                if count % WORD_CHARS_MAX == 0 {
                    self.push(start..word.start + offset);
                    start = word.start + offset;
                }
            }
            return self.push(start..word.end);
        }
        self.read_runs(&text[word.clone()]);
        let (mut start, mut letters) = (0, 0);
        for index in 0..self.runs.len() {
            let run = self.runs[index];
            if let Some(boundary) = boundary(&self.runs, index, letters) {
                self.push(word.start + start..word.start + boundary);
                start = boundary;
                letters = usize::from(boundary < run.start);
            }
            letters = if run.kind == Kind::Digits { 0 } else { letters + run.chars };
        }
        self.push(word.start + start..word.end);
    }

    fn push(&mut self, span: Range<usize>) {
        let part = Part { outer: span.clone(), span, word: self.words, prefix: "", suffix: "" };
        self.parts.push(part);
    }

    fn read_runs(&mut self, word: &str) {
        self.runs.clear();
        for (at, c) in word.char_indices() {
            let kind = match c {
                '0'..='9' => Kind::Digits,
                'a'..='z' => Kind::Small,
                'A'..='Z' => Kind::Capitals,
                _ if char_class(c) == CharClass::Extender => continue,
                _ if decimal_digit(c).is_some() => Kind::Digits,
                _ if c.is_uppercase() => Kind::Capitals,
                _ => Kind::Small,
            };
            match self.runs.last_mut() {
                Some(run) if run.kind == kind => (run.last, run.chars) = (at, run.chars + 1),
                _ => self.runs.push(Run { kind, start: at, last: at, chars: 1 }),
            }
        }
    }
}

/// Where a part ends because the run `index` follows: at its start, or before the capital that precedes it; `None` if none ends.
/// `letters`: those of the part since its last digit.
fn boundary(runs: &[Run], index: usize, letters: usize) -> Option<usize> {
    let (before, run) = (runs[index.checked_sub(1)?], runs[index]);
    let ends = match (before.kind, run.kind) {
        (Kind::Digits, _) => {
            let following = runs[index..].iter().take_while(|run| run.kind != Kind::Digits);
            following.map(|run| run.chars).sum::<usize>() >= LETTERS_BESIDE_DIGITS_MIN
        }
        (_, Kind::Digits) => letters >= LETTERS_BESIDE_DIGITS_MIN,
        (Kind::Small, Kind::Capitals) => {
            let begins_word =
                run.chars == 1 && runs.get(index + 1).is_some_and(|next| next.kind == Kind::Small);
            letters >= LETTERS_BEFORE_CAPITAL_MIN || begins_word && letters >= LETTERS_BEFORE_WORD_MIN
        }
        (Kind::Capitals, Kind::Small) => {
            let is_acronym = before.chars > ACRONYM_MIN && run.chars >= LETTERS_AFTER_ACRONYM_MIN;
            return is_acronym.then_some(before.last);
        }
        (Kind::Capitals, Kind::Capitals) | (Kind::Small, Kind::Small) => false,
    };
    ends.then_some(run.start)
}

/// The end of the word that starts at `start`.
fn word_end(text: &str, start: usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = start;
    loop {
        while at < bytes.len() && bytes[at].is_ascii_alphanumeric() {
            at += 1;
        }
        match text[at..].chars().next() {
            Some(c) if !c.is_ascii() && is_in_word(c) => at += c.len_utf8(),
            _ => return at,
        }
    }
}

fn is_in_word(c: char) -> bool {
    matches!(char_class(c), CharClass::Spaced | CharClass::Extender)
}

fn starts_word(text: &str) -> bool {
    text.chars().next().is_some_and(|c| char_class(c) == CharClass::Spaced)
}

fn is_hyphen(c: char) -> bool {
    matches!(c, '-' | '\u{2010}' | '\u{2011}' | '\u{2212}')
}

/// The symbols after the word that ends at `end`, and the offset after them.
fn suffix(text: &str, end: usize) -> (&'static str, usize) {
    let rest = &text[end..];
    if rest.starts_with("++") {
        ("++", end + 2)
    } else if rest.starts_with('#') && !starts_word(&rest[1..]) {
        ("#", end + 1)
    } else {
        ("", end)
    }
}

/// The symbols before the word at `start`, and their offset: hyphens of an option or a negative number, the dot of a name. They follow
/// white space, or punctuation that does not end a word.
fn prefix(text: &str, start: usize) -> Option<(&'static str, usize)> {
    let before = &text[..start];
    let (prefix, rest) = match before.strip_suffix(is_hyphen) {
        Some(rest) => match rest.strip_suffix(is_hyphen) {
            Some(rest) => ("--", rest),
            None => ("-", rest),
        },
        None => (".", before.strip_suffix('.').filter(|_| !starts_with_digit(&text[start..]))?),
    };
    let follows = rest.chars().next_back().is_none_or(|c| match c {
        '-' | '.' | ')' | ']' | '}' | '_' | '/' | ':' | '@' | '&' | '+' | '#' => false,
        _ => char_class(c) == CharClass::Separator,
    });
    follows.then_some((prefix, rest.len()))
}

fn starts_with_digit(text: &str) -> bool {
    text.chars().next().is_some_and(|c| decimal_digit(c).is_some())
}

/// The start of the word that a connector joins to the one before, which ends at `end`, with its symbols at `after`.
fn next_word(text: &str, end: usize, after: usize) -> Option<usize> {
    let rest = &text[after..];
    if after > end && starts_word(rest) {
        return Some(after);
    }
    let connector = rest.chars().next()?;
    let length = match connector {
        ':' if rest.starts_with("::") => 2,
        '-' | '_' | '.' | '/' | ':' | '@' | '&' => 1,
        '\u{2010}' | '\u{2011}' => connector.len_utf8(),
        _ => return None,
    };
    starts_word(&rest[length..]).then_some(after + length)
}
