//! The terms of the index that are near a word: those that begin with it, and those a typo or two away.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use levenshtein_automata::{DFA, Distance, LevenshteinAutomatonBuilder};
use tantivy::schema::Field;
use tantivy::{Searcher, Term};
use tantivy_fst::Automaton;

/// Terms that a prefix stands for, those of most chunks.
const PREFIX_TERMS_MAX: usize = 64;
/// Terms that are searched in place of a word that no document holds.
const CORRECTIONS_MAX: usize = 3;
/// Of the terms of a segment so many are looked at, so that no prefix or typo costs more.
const TERMS_SEEN_MAX: usize = 20_000;
/// Words of so many characters may have an edit, and of so many two.
const EDITS_FROM_CHARS: [usize; 2] = [5, 9];

/// Endings are looked for among so many last letters.
const ENDING_CHARS: usize = 5;

/// Made once: the tables of an automaton's states take a millisecond.
static ONE_EDIT: LazyLock<LevenshteinAutomatonBuilder> =
    LazyLock::new(|| LevenshteinAutomatonBuilder::new(1, true));
static TWO_EDITS: LazyLock<LevenshteinAutomatonBuilder> =
    LazyLock::new(|| LevenshteinAutomatonBuilder::new(2, true));

/// The terms that begin with `prefix`, those of most chunks first.
pub(super) fn beginning_with(
    searcher: &Searcher,
    field: Field,
    prefix: &str,
) -> tantivy::Result<Vec<String>> {
    let mut found = HashMap::new();
    for segment in searcher.segment_readers() {
        let index = segment.inverted_index(field)?;
        let mut terms = index.terms().range().ge(prefix).into_stream()?;
        let mut seen = 0;
        while seen < TERMS_SEEN_MAX && terms.advance() && terms.key().starts_with(prefix.as_bytes()) {
            seen += 1;
            count(&mut found, terms.key(), terms.value().doc_freq);
        }
    }
    Ok(most_frequent(found, PREFIX_TERMS_MAX, |_| 0))
}

/// The terms that differ from `word`, a stem, by as many edits as a word of its length may have (a swap of neighbours is one),
/// the nearest first and then those of most chunks. None for short words, nor for those with a digit: a number or a name
/// that is made of one is not another one misspelt.
///
/// Where nothing that begins as the word does is near, one edit is looked for where that search is blind: at the first letter,
/// because terms of all letters are ten times as many to look through, and in the ending, which a mistake keeps from being
/// taken off. `stem` takes it off.
pub(super) fn misspelt(
    searcher: &Searcher,
    field: Field,
    word: &str,
    stem: impl Fn(&str) -> Option<String>,
) -> tantivy::Result<Vec<String>> {
    let chars = word.chars().count();
    let edits = EDITS_FROM_CHARS.iter().filter(|&&from| chars >= from).count() as u8;
    if edits == 0 || word.chars().any(char::is_numeric) {
        return Ok(Vec::new());
    }
    let builder = if edits == 1 { &ONE_EDIT } else { &TWO_EDITS };
    let automaton = builder.build_dfa(word);
    let found = near(searcher, field, &automaton, word)?;
    if !found.is_empty() {
        return Ok(most_frequent(found, CORRECTIONS_MAX, |term| match automaton.eval(term) {
            Distance::Exact(edits) | Distance::AtLeast(edits) => edits,
        }));
    }
    let endings = other_endings(word).into_iter().filter_map(|other| stem(&other));
    let others: BTreeSet<String> = other_beginnings(word).into_iter().chain(endings).collect();
    let mut found = HashMap::new();
    for term in others {
        let chunks = chunks_with(searcher, field, &term)?;
        if chunks > 0 {
            found.insert(term, chunks);
        }
    }
    Ok(most_frequent(found, CORRECTIONS_MAX, |_| 1))
}

/// The terms that the automaton accepts and that begin with the letter that `word` begins with.
fn near(
    searcher: &Searcher,
    field: Field,
    automaton: &DFA,
    word: &str,
) -> tantivy::Result<HashMap<String, u64>> {
    let first = &word[..word.chars().next().map_or(0, char::len_utf8)];
    let mut end = first.as_bytes().to_vec();
    // no text has this byte
    end.push(0xFF);
    let mut found = HashMap::new();
    for segment in searcher.segment_readers() {
        let index = segment.inverted_index(field)?;
        let mut terms = index.terms().search(Near(automaton)).ge(first).lt(&end).into_stream()?;
        let mut seen = 0;
        while seen < TERMS_SEEN_MAX && terms.advance() {
            seen += 1;
            count(&mut found, terms.key(), terms.value().doc_freq);
        }
    }
    Ok(found)
}

/// What `word` is when an edit made its beginning: without its first letter, with another one, with one in front, or with its
/// first two the other way round. Letters are those from a to z.
fn other_beginnings(word: &str) -> Vec<String> {
    let mut letters = word.chars();
    let Some(first) = letters.next() else { return Vec::new() };
    let rest = letters.as_str();
    let mut words = vec![rest.to_owned()];
    if let Some(second) = letters.next() {
        words.push(format!("{second}{first}{}", letters.as_str()));
    }
    for letter in 'a'..='z' {
        words.push(format!("{letter}{rest}"));
        words.push(format!("{letter}{word}"));
    }
    words
}

/// What `word` is when an edit was made among its last letters: without one, with another one, with one more, or with two the
/// other way round. Letters are those from a to z.
fn other_endings(word: &str) -> Vec<String> {
    let letters: Vec<char> = word.chars().collect();
    let from = letters.len().saturating_sub(ENDING_CHARS).max(1);
    let mut words = Vec::new();
    for place in from..=letters.len() {
        let (before, after) = letters.split_at(place);
        let mut put = |middle: &[char], after: &[char]| {
            words.push(before.iter().chain(middle).chain(after).collect::<String>());
        };
        if let [first, rest @ ..] = after {
            put(&[], rest);
            if let [second, rest @ ..] = rest {
                put(&[*second, *first], rest);
            }
        }
        for letter in 'a'..='z' {
            put(&[letter], after);
            if !after.is_empty() {
                put(&[letter], &after[1..]);
            }
        }
    }
    words
}

/// Chunks that hold the term, as far as segments know: those of removed documents count until they are merged away.
pub(super) fn chunks_with(searcher: &Searcher, field: Field, term: &str) -> tantivy::Result<u64> {
    searcher.doc_freq(&Term::from_field_text(field, term))
}

fn count(found: &mut HashMap<String, u64>, term: &[u8], chunks: u32) {
    if let Ok(term) = std::str::from_utf8(term) {
        *found.entry(term.to_owned()).or_default() += u64::from(chunks);
    }
}

fn most_frequent(found: HashMap<String, u64>, limit: usize, class: impl Fn(&str) -> u8) -> Vec<String> {
    let mut terms: Vec<(u8, u64, String)> =
        found.into_iter().map(|(term, chunks)| (class(&term), chunks, term)).collect();
    terms.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then_with(|| a.2.cmp(&b.2)));
    terms.truncate(limit);
    terms.into_iter().map(|(_, _, term)| term).collect()
}

/// Follows the automaton over the bytes of terms.
struct Near<'a>(&'a DFA);

impl Automaton for Near<'_> {
    type State = u32;

    fn start(&self) -> u32 {
        self.0.initial_state()
    }

    fn is_match(&self, state: &u32) -> bool {
        matches!(self.0.distance(*state), Distance::Exact(_))
    }

    fn can_match(&self, state: &u32) -> bool {
        *state != levenshtein_automata::SINK_STATE
    }

    fn accept(&self, state: &u32, byte: u8) -> u32 {
        self.0.transition(*state, byte)
    }
}
