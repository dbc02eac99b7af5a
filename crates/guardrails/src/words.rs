//! Words of a text, normalised, and the vocabulary in which they are looked up.
//!
//! A word is a run of letters, digits, marks and invisible characters; a character of a script that is written without spaces (Chinese,
//! Japanese, Thai …) is a word by itself. Words of rules against prompt injection compare without case, marks, compatibility forms
//! (`ｉｇｎｏｒｅ`), invisible characters, look-alikes from Cyrillic and Greek, and digits for letters (`1gn0re`); those of deny lists
//! compare without case and compatibility forms only.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use unicode_normalization::char::{decompose_compatible, is_combining_mark};

use crate::normalise::is_invisible;

/// Longest word that is looked up, in bytes as it is written.
pub(crate) const WORD_BYTES_MAX: usize = 64;
/// No word of a deny list.
pub(crate) const NO_WORD: u32 = u32::MAX;
/// Sets of words that patterns refer to, at most.
const SETS_MAX: usize = 512;

/// Sets to which a word belongs, one bit each.
pub(crate) type Sets = [u64; SETS_MAX / 64];

/// The entry of a word.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) sets: Sets,
    /// How many words after this one belong to a phrase or an entry that begins with it; none if it begins none.
    reach: Option<u32>,
    /// Words of deny lists that are normalised to this one, with their numbers.
    denied: Vec<(Box<str>, u32)>,
}

/// Words to look up.
#[derive(Debug, Default)]
pub(crate) struct Vocabulary {
    /// Of all words.
    filter: Filter,
    /// Of words that begin a phrase or an entry.
    first_filter: Filter,
    numbers: HashMap<Box<[u8]>, u32, BuildHasherDefault<WordHasher>>,
    entries: Vec<Entry>,
    denied: u32,
}

impl Entry {
    /// How many words after this one belong to what begins with it.
    pub(crate) fn reach(&self) -> Option<u32> {
        self.reach
    }
}

impl Vocabulary {
    /// Adds a word to a set.
    pub(crate) fn add_to_set(&mut self, word: &str, set: usize) {
        let number = self.number(word);
        self.entries[number].sets[set / 64] |= 1 << (set % 64);
    }

    /// Adds a word of a deny list, and returns its number among them.
    pub(crate) fn add_denied(&mut self, word: &str) -> u32 {
        let number = self.number(word);
        let plain: String = plain(word).collect();
        let denied = &mut self.entries[number].denied;
        if let Some((_, known)) = denied.iter().find(|(known, _)| **known == *plain) {
            return *known;
        }
        denied.push((plain.into(), self.denied));
        self.denied += 1;
        self.denied - 1
    }

    /// Marks a word as one that begins something which has `reach` more words.
    pub(crate) fn begin(&mut self, word: &str, reach: u32) {
        let number = self.number(word);
        let entry = &mut self.entries[number];
        entry.reach = entry.reach.max(Some(reach));
        let mut folded = Folded::default();
        folded.fold(word);
        if let Some(bytes) = folded.bytes() {
            self.first_filter.add(bytes);
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub(crate) fn entry(&self, number: u32) -> &Entry {
        &self.entries[number as usize]
    }

    /// Whether an ASCII word could be in the vocabulary, or begin a phrase or an entry.
    #[inline(always)]
    pub(crate) fn may_have(&self, word: &[u8], is_first: bool) -> bool {
        let filter = if is_first { &self.first_filter } else { &self.filter };
        filter.may_have(word)
    }

    /// The entry of a word.
    pub(crate) fn find(&self, word: &str) -> Option<u32> {
        let mut folded = Folded::default();
        folded.fold(word);
        let bytes = folded.bytes()?;
        if self.filter.may_have(bytes) { self.numbers.get(bytes).copied() } else { None }
    }

    /// The number of a word among those of deny lists.
    pub(crate) fn denied(&self, entry: u32, word: &str) -> u32 {
        let is_same = |known: &str| plain(word).eq(known.chars());
        let found = self.entry(entry).denied.iter().find(|(known, _)| is_same(known));
        found.map_or(NO_WORD, |(_, number)| *number)
    }

    fn number(&mut self, word: &str) -> usize {
        let mut folded = Folded::default();
        folded.fold(word);
        let Some(bytes) = folded.bytes() else { return 0 };
        if let Some(number) = self.numbers.get(bytes) {
            return *number as usize;
        }
        self.filter.add(bytes);
        self.numbers.insert(bytes.into(), self.entries.len() as u32);
        self.entries.push(Entry::default());
        self.entries.len() - 1
    }
}

/// Whether a word can be stored: it has a letter or digit, and is short enough.
pub(crate) fn is_storable(word: &str) -> bool {
    let mut folded = Folded::default();
    folded.fold(word);
    word.len() <= WORD_BYTES_MAX && folded.bytes().is_some_and(|bytes| !bytes.is_empty())
}

/// The words of a text, with the positions of their first bytes.
pub(crate) fn words(text: &str) -> Vec<(usize, &str)> {
    let (mut words, mut at) = (Vec::new(), 0);
    while let Some(character) = text[at..].chars().next() {
        let length = if is_word(character) { word_length(&text[at..]) } else { 0 };
        if length > 0 {
            words.push((at, &text[at..at + length]));
        }
        at += length.max(character.len_utf8());
    }
    words
}

/// Bytes of the word with which a text begins.
pub(crate) fn word_length(text: &str) -> usize {
    match text.chars().next() {
        Some(first) if is_word(first) && is_alone(first) => first.len_utf8(),
        _ => word_rest(text),
    }
}

/// Bytes of the word in the middle of which a text begins.
pub(crate) fn word_rest(text: &str) -> usize {
    let is_part = |character: char| match character {
        '\0'..='\x7f' => character.is_ascii_alphanumeric(),
        // most letters of European languages that are not ASCII
        'À'..='Ö' | 'Ø'..='ö' | 'ø'..='ÿ' => true,
        _ => is_word(character) && !is_alone(character),
    };
    text.char_indices().find(|(_, character)| !is_part(*character)).map_or(text.len(), |(at, _)| at)
}

/// Whether a character is part of a word.
pub(crate) fn is_word(character: char) -> bool {
    character.is_alphanumeric()
        || (!character.is_ascii() && (is_invisible(character) || is_combining_mark(character)))
}

/// Whether a character is a word by itself: those of scripts without spaces between words.
pub(crate) fn is_alone(character: char) -> bool {
    matches!(character,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' | '\u{3040}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}'
        | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
}

/// Characters of a word in lower case and compatibility decomposition.
fn plain(word: &str) -> impl Iterator<Item = char> {
    let decomposed = word.chars().filter(|character| !is_invisible(*character)).flat_map(|character| {
        let mut parts = Vec::new();
        decompose_compatible(character, |part| parts.push(part));
        parts
    });
    decomposed.flat_map(char::to_lowercase)
}

/// A word as patterns against prompt injection compare it.
struct Folded {
    bytes: [u8; WORD_BYTES_MAX],
    length: usize,
}

impl Default for Folded {
    fn default() -> Folded {
        Folded { bytes: [0; WORD_BYTES_MAX], length: 0 }
    }
}

impl Folded {
    fn fold(&mut self, word: &str) {
        if word.is_ascii() {
            self.length = word.len();
            for (slot, byte) in self.bytes.iter_mut().zip(word.bytes()) {
                *slot = FOLDED[usize::from(byte)];
            }
        } else {
            let is_mixed = word.bytes().any(|byte| byte.is_ascii_alphabetic());
            for character in word.chars() {
                match u8::try_from(character) {
                    Ok(byte) if byte.is_ascii() => self.push(FOLDED[usize::from(byte)]),
                    Ok(byte @ 0xC0..) if LATIN_1[usize::from(byte - 0xC0) % 32] != b'-' => {
                        self.push(LATIN_1[usize::from(byte - 0xC0) % 32]);
                    }
                    _ if is_invisible(character) => {}
                    _ => decompose_compatible(character, |part| self.push_character(part, is_mixed)),
                }
            }
        }
    }

    fn push_character(&mut self, character: char, is_mixed: bool) {
        if is_combining_mark(character) {
            return;
        }
        for lower in character.to_lowercase() {
            let lower = if is_mixed { look_alike(lower) } else { lower };
            match u8::try_from(lower) {
                Ok(byte) if byte.is_ascii() => self.push(fold_ascii(byte)),
                _ => lower.encode_utf8(&mut [0; 4]).bytes().for_each(|byte| self.push(byte)),
            }
        }
    }

    fn push(&mut self, byte: u8) {
        if let Some(slot) = self.bytes.get_mut(self.length) {
            *slot = byte;
        }
        self.length += 1;
    }

    /// The word, if it is not too long.
    fn bytes(&self) -> Option<&[u8]> {
        self.bytes.get(..self.length).filter(|bytes| !bytes.is_empty())
    }
}

/// Folded letters of U+00C0 to U+00DF and, in lower case, U+00E0 to U+00FF, without their marks; `-` for those that have none.
const LATIN_1: [u8; 32] = *b"aaaaaa-ceeeeiiii-nooooo--uuuuy--";

/// A letter in lower case, and for a digit the letter that it resembles. `l` is `i`, because `1` may be either.
const fn fold_ascii(byte: u8) -> u8 {
    match byte {
        b'0' => b'o',
        b'1' | b'l' | b'L' => b'i',
        b'3' => b'e',
        b'4' => b'a',
        b'5' => b's',
        b'7' => b't',
        _ => byte.to_ascii_lowercase(),
    }
}

/// The Latin letter that a Cyrillic or Greek one resembles.
fn look_alike(character: char) -> char {
    match character {
        'а' | 'α' => 'a',
        'с' => 'c',
        'ԁ' => 'd',
        'е' | 'ε' => 'e',
        'һ' => 'h',
        'і' | 'ι' => 'i',
        'ј' => 'j',
        'κ' | 'к' => 'k',
        'м' => 'm',
        'ո' => 'n',
        'о' | 'ο' => 'o',
        'р' | 'ρ' => 'p',
        'ѕ' => 's',
        'т' | 'τ' => 't',
        'υ' | 'у' => 'y',
        'ѵ' | 'ν' => 'v',
        'х' | 'χ' => 'x',
        other => other,
    }
}

/// [`fold_ascii`] of every byte.
const FOLDED: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = fold_ascii(byte as u8);
        byte += 1;
    }
    table
};

/// A filter that rules out most words by two letters at each end: for each pair a bit for each length of a word with it
/// (the last one: that or longer).
#[derive(Debug)]
struct Filter {
    starts: Box<[u32; 1024]>,
    ends: Box<[u32; 1024]>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { starts: Box::new([0; 1024]), ends: Box::new([0; 1024]) }
    }
}

impl Filter {
    /// Adds a folded word.
    fn add(&mut self, word: &[u8]) {
        let [first, second, before, last] = ends(word);
        self.starts[pair(first, second)] |= length_bit(word);
        self.ends[pair(before, last)] |= length_bit(word);
    }

    /// Whether a word, folded or ASCII, may have been added.
    #[inline(always)]
    fn may_have(&self, word: &[u8]) -> bool {
        let [first, second, before, last] = ends(word);
        self.starts[pair(first, second)] & length_bit(word) != 0
            && self.ends[pair(before, last)] & length_bit(word) != 0
    }
}

/// The first two bytes of a word and its last two; zeros for those that it does not have.
#[inline(always)]
fn ends(word: &[u8]) -> [u8; 4] {
    match word {
        [first, second, ..] => {
            let (before, last) = (word[word.len() - 2], word[word.len() - 1]);
            [*first, *second, before, last]
        }
        [only] => [*only, 0, 0, *only],
        [] => [0; 4],
    }
}

/// The place of two bytes of a word in the tables of a [`Filter`].
#[inline(always)]
fn pair(first: u8, second: u8) -> usize {
    let low_bits = |byte: u8| usize::from(FOLDED[usize::from(byte)] & 31);
    low_bits(first) << 5 | low_bits(second)
}

/// The bit of a word's length in the tables of a [`Filter`].
#[inline(always)]
fn length_bit(word: &[u8]) -> u32 {
    1 << word.len().min(31)
}

/// FNV-1a, byte by byte: words are short and just written, so that wider reads would wait. Only the operator adds words, so collisions by attackers
/// are no concern.
struct WordHasher(u64);

impl Default for WordHasher {
    fn default() -> WordHasher {
        WordHasher(0xCBF2_9CE4_8422_2325)
    }
}

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        }
    }

    fn write_usize(&mut self, _: usize) {} // the length of a word
}
