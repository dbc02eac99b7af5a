//! Prompt injection: instructions that try to replace those of the application.
//!
//! Phrases are sequences of sets of words with gaps between them ([`phrases`]), and markers are the special tokens of chat templates. Each
//! has a weight. A phrase is a finding when its weight, and those of other phrases that began up to [`SPAN_BYTES`] before it, reach
//! [`THRESHOLD`]: so one strong phrase is enough, and weaker ones have to stand together. What comes later never changes an earlier
//! decision, which is why a stream gives the same findings.

mod phrases;

use std::collections::HashMap;

use crate::Origin;
use crate::text::Text;
use crate::words::{NO_WORD, Sets, Vocabulary, words};
use phrases::{MARKERS, NAMED_SETS, PHRASES};

/// The sum of weights that makes a finding.
pub(crate) const THRESHOLD: u32 = 100;
/// Bytes in which phrases have to begin for their weights to be added.
pub(crate) const SPAN_BYTES: isize = 512;
/// Longest phrase.
pub(crate) const PHRASE_BYTES_MAX: usize = 256;
/// Longest target of an image that is looked at.
const IMAGE_BYTES_MAX: usize = 256;
/// The weight of an image whose address has a query, which can carry text to another server.
const IMAGE_WEIGHT: u32 = 40;

/// A word of the vocabulary in a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word {
    pub(crate) start: usize,
    pub(crate) end: usize,
    /// How many words came before it, of any kind.
    pub(crate) index: u32,
    /// How many sentences ended before it.
    pub(crate) sentence: u32,
    /// Its number in the vocabulary.
    pub(crate) entry: u32,
    /// Its number among the words of deny lists.
    pub(crate) denied: u32,
}

/// The words of a text that are in the vocabulary, and where the known text ends.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pub(crate) words: Vec<Word>,
    /// Words seen.
    pub(crate) count: u32,
    /// Sentences ended.
    pub(crate) sentence: u32,
    /// Where the text ends of which the words are known.
    pub(crate) end: usize,
}

/// A phrase or marker in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Event {
    /// Its first byte; negative when the stream has moved on.
    pub(crate) start: isize,
    pub(crate) end: isize,
    /// Which phrase or marker: each counts once.
    pub(crate) id: u16,
    pub(crate) weight: u32,
}

/// The phrases, ready to be matched.
#[derive(Debug)]
pub(crate) struct Phrases {
    phrases: Vec<Phrase>,
    /// Phrases by the number of their first word in the vocabulary.
    by_first: Vec<Vec<u16>>,
}

#[derive(Debug)]
struct Phrase {
    /// Sets, and how many other words may stand before each.
    elements: Vec<(usize, u32)>,
    weight: u32,
}

impl Phrases {
    /// Adds the words of all phrases that count for this origin to a vocabulary.
    pub(crate) fn new(origin: Origin, vocabulary: &mut Vocabulary) -> Phrases {
        let mut sets: HashMap<&str, usize> = HashMap::new();
        let mut names = Vec::new();
        let mut phrases = Vec::new();
        for (weight, scope, text) in PHRASES {
            if scope == Origin::Document && origin == Origin::User {
                continue;
            }
            let mut elements = Vec::new();
            let mut gap = 0;
            for element in text.split_ascii_whitespace() {
                match element.strip_prefix('_') {
                    Some(count) => gap = count.parse().unwrap_or(0),
                    None => {
                        for word in split_alternatives(element) {
                            let next = sets.len();
                            let set = *sets.entry(word).or_insert(next);
                            if set == next {
                                set_words(word).for_each(|word| vocabulary.add_to_set(word, set));
                                names.push(word);
                            }
                            elements.push((set, gap));
                            gap = 0;
                        }
                    }
                }
            }
            phrases.push(Phrase { elements, weight });
        }
        let begins = |sets: &Sets, phrase: &Phrase| {
            let first = phrase.elements[0].0;
            sets[first / 64] & (1 << (first % 64)) != 0
        };
        let ids = |sets: &Sets| {
            let found = phrases.iter().enumerate().filter(|(_, phrase)| begins(sets, phrase));
            found.map(|(id, _)| id as u16).collect()
        };
        for phrase in &phrases {
            let reach = phrase.elements[1..].iter().map(|(_, gap)| gap + 1).sum();
            let first = names[phrase.elements[0].0];
            set_words(first).for_each(|word| vocabulary.begin(word, reach));
        }
        let by_first = vocabulary.entries().iter().map(|entry| ids(&entry.sets)).collect();
        Phrases { phrases, by_first }
    }

    /// Finds phrases, and returns the start of the first one that more text could complete.
    pub(crate) fn find(
        &self,
        text: &Text,
        words: &Words,
        vocabulary: &Vocabulary,
        events: &mut Vec<Event>,
    ) -> usize {
        let mut open = text.len();
        for (index, word) in words.words.iter().enumerate() {
            // Words of deny lists may have been added later.
            let ids = self.by_first.get(word.entry as usize).map_or(&[][..], Vec::as_slice);
            for id in ids {
                let phrase = &self.phrases[usize::from(*id)];
                let (start, weight) = (word.start as isize, phrase.weight);
                match phrase.end(text, words, vocabulary, index) {
                    Found::At(end) => events.push(Event { start, end: end as isize, id: *id, weight }),
                    Found::Open => open = open.min(word.start),
                    Found::No => {}
                }
            }
        }
        open
    }
}

enum Found {
    At(usize),
    Open,
    No,
}

impl Phrase {
    /// Where the phrase ends that begins with a word. The first word that fits is taken for each element.
    fn end(&self, text: &Text, words: &Words, vocabulary: &Vocabulary, first: usize) -> Found {
        let first_word = words.words[first];
        let (mut at, mut last) = (first, first_word);
        for &(set, gap) in &self.elements[1..] {
            let limit = last.index + 1 + gap;
            loop {
                at += 1;
                let Some(word) = words.words.get(at) else {
                    let may_continue = words.count <= limit
                        && words.sentence == first_word.sentence
                        && !text.is_final()
                        && words.end.saturating_sub(first_word.start) <= PHRASE_BYTES_MAX;
                    return if may_continue { Found::Open } else { Found::No };
                };
                if word.index > limit
                    || word.sentence != first_word.sentence
                    || word.end - first_word.start > PHRASE_BYTES_MAX
                {
                    return Found::No;
                }
                if vocabulary.entry(word.entry).sets[set / 64] & (1 << (set % 64)) != 0 {
                    last = *word;
                    break;
                }
            }
        }
        Found::At(last.end)
    }
}

/// An element of a phrase: a named set, alternatives, or a word of a script without spaces, which is a sequence of characters.
fn split_alternatives(element: &'static str) -> Vec<&'static str> {
    if element.starts_with('$') || element.contains('|') {
        return vec![element];
    }
    words(element).into_iter().map(|(_, word)| word).collect()
}

/// The words of an element.
fn set_words(element: &'static str) -> impl Iterator<Item = &'static str> {
    element.split('|').flat_map(|alternative| {
        let words = match alternative.strip_prefix('$') {
            Some(name) => NAMED_SETS.iter().find(|(known, _)| *known == name).map_or("", |(_, words)| words),
            None => alternative,
        };
        words.split_ascii_whitespace()
    })
}

/// The marker or image that begins at a sign: tokens of chat templates, and images that send text to another server.
pub(crate) fn marker(text: &Text, start: usize) -> Option<Event> {
    if text.bytes[start] == b'!' {
        return image(text, start);
    }
    let event = |(index, (weight, marker)): (usize, &(u32, &str))| Event {
        start: start as isize,
        end: (start + marker.len()) as isize,
        id: u16::MAX - index as u16,
        weight: *weight,
    };
    MARKERS.iter().enumerate().find(|(_, (_, marker))| text.has(start, marker.as_bytes())).map(event)
}

/// `![…](https://…?…)`.
fn image(text: &Text, start: usize) -> Option<Event> {
    if text.at(start + 1) != b'[' {
        return None;
    }
    let label = text.run(start + 2, IMAGE_BYTES_MAX, |byte| !matches!(byte, b']' | b'\n' | 0));
    if !text.has(label, b"](http") {
        return None;
    }
    let end = text.run(label + 6, IMAGE_BYTES_MAX, |byte| !matches!(byte, b')' | 0..=b' '));
    let has_query = text.bytes[label..end].contains(&b'?') || text.bytes[label..end].contains(&b'{');
    has_query.then_some(Event {
        start: start as isize,
        end: end as isize,
        id: u16::MAX / 2,
        weight: IMAGE_WEIGHT,
    })
}

/// Whether the phrase at `index` of phrases ordered by their start makes a finding, with those of `carried` before them.
pub(crate) fn is_finding(carried: &[Event], events: &[Event], index: usize) -> bool {
    let event = &events[index];
    if event.weight >= THRESHOLD {
        return true;
    }
    let mut counted: [u16; 16] = [event.id; 16];
    let (mut count, mut sum) = (1, event.weight);
    for other in events[..index].iter().rev().chain(carried.iter().rev()) {
        if event.start - other.start > SPAN_BYTES || count == counted.len() {
            break;
        }
        if !counted[..count].contains(&other.id) {
            counted[count] = other.id;
            (count, sum) = (count + 1, sum + other.weight);
        }
    }
    sum >= THRESHOLD
}

/// Phrases of deny lists: sequences of words.
#[derive(Debug, Default)]
pub(crate) struct DenyLists {
    /// Rule and words of each entry.
    entries: Vec<(usize, Vec<u32>)>,
    /// Entries by the number of their first word.
    by_first: Vec<Vec<u32>>,
}

/// Signs between two words of an entry, in bytes.
const BETWEEN_WORDS_BYTES_MAX: usize = 3;

impl DenyLists {
    /// Adds an entry of a rule.
    pub(crate) fn add(&mut self, rule: usize, entry: &str, vocabulary: &mut Vocabulary) {
        let entry = words(entry);
        let Some((_, first_word)) = entry.first().copied() else { return };
        let words: Vec<u32> = entry.into_iter().map(|(_, word)| vocabulary.add_denied(word)).collect();
        let first = words[0] as usize;
        if self.by_first.len() <= first {
            self.by_first.resize(first + 1, Vec::new());
        }
        self.by_first[first].push(self.entries.len() as u32);
        vocabulary.begin(first_word, words.len() as u32 - 1);
        self.entries.push((rule, words));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Finds entries, and returns the start of the first one that more text could complete.
    pub(crate) fn find(
        &self,
        text: &Text,
        words: &Words,
        mut found: impl FnMut(usize, usize, usize),
    ) -> usize {
        let mut open = text.len();
        for (index, word) in words.words.iter().enumerate() {
            let Some(entries) = self.by_first.get(word.denied as usize).filter(|_| word.denied != NO_WORD)
            else {
                continue;
            };
            for entry in entries {
                let (rule, expected) = &self.entries[*entry as usize];
                match end_of_sequence(text, words, index, expected) {
                    Found::At(end) => found(*rule, word.start, end),
                    Found::Open => open = open.min(word.start),
                    Found::No => {}
                }
            }
        }
        open
    }
}

fn end_of_sequence(text: &Text, words: &Words, first: usize, expected: &[u32]) -> Found {
    let mut last = words.words[first];
    for (offset, denied) in expected.iter().enumerate().skip(1) {
        match words.words.get(first + offset) {
            Some(word) => {
                let follows =
                    word.index == last.index + 1 && word.start - last.end <= BETWEEN_WORDS_BYTES_MAX;
                if word.denied != *denied || !follows {
                    return Found::No;
                }
                last = *word;
            }
            None => {
                let is_near = words.end.saturating_sub(last.end)
                    <= BETWEEN_WORDS_BYTES_MAX + crate::words::WORD_BYTES_MAX;
                let may_continue = words.count == last.index + 1 && is_near && !text.is_final();
                return if may_continue { Found::Open } else { Found::No };
            }
        }
    }
    Found::At(last.end)
}
