//! The terms of the index that are near a word: those that begin with it, and those a typo or two away.

use std::collections::HashMap;

use tantivy::Searcher;
use tantivy::schema::Field;

use super::by_segment::BySegment;
use super::spelling_index::{self, SpellingIndex};

/// Terms that a prefix stands for, those of most chunks.
const PREFIX_TERMS_MAX: usize = 64;
/// Of the terms of a segment so many are looked at, so that no prefix costs more.
const TERMS_SCANNED_MAX: usize = 20_000;
/// Words of so many characters may have an edit, and of so many two.
const EDIT_LENGTHS: [usize; 2] = [5, 9];
/// Longer words are not corrected.
const CHARS_MAX: usize = 64;
/// Endings are looked for among so many last letters.
const SUFFIX_CHARS: usize = 5;

/// The terms that begin with `prefix`, those of most chunks first.
pub(super) fn expand_prefix(searcher: &Searcher, field: Field, prefix: &str) -> tantivy::Result<Vec<String>> {
    let mut found = HashMap::new();
    for segment in searcher.segment_readers() {
        let index = segment.inverted_index(field)?;
        let mut terms = index.terms().range().ge(prefix).into_stream()?;
        let mut seen = 0;
        while seen < TERMS_SCANNED_MAX && terms.advance() && terms.key().starts_with(prefix.as_bytes()) {
            seen += 1;
            if let Ok(term) = std::str::from_utf8(terms.key()) {
                found.entry(term.to_owned()).or_insert((0, 0)).1 += u64::from(terms.value().doc_freq);
            }
        }
    }
    let mut terms = nearest(found);
    terms.truncate(PREFIX_TERMS_MAX);
    Ok(terms)
}

/// The terms that differ from `word`, a stem, by as many edits as a word of its length may have (a swap of neighbours is one),
/// the nearest first and then those of most chunks. None for short words, nor for those with a digit: a number or a name
/// that is made of one is not another one misspelt.
///
/// Where nothing that begins as the word does is near, one edit is looked for where that search is blind: at the first letter,
/// because terms of all letters are ten times as many to look through, and in the ending, which a mistake keeps from being
/// taken off. `stems` takes it off each word of a text.
pub(super) fn correct_spelling(
    segments: &BySegment<SpellingIndex>,
    word: &str,
    stems: impl Fn(&str, &mut dyn FnMut(&str)),
) -> Vec<String> {
    let chars: Vec<char> = word.chars().collect();
    let edits = EDIT_LENGTHS.iter().filter(|&&from| chars.len() >= from).count();
    if edits == 0 || chars.len() > CHARS_MAX || word.contains(char::is_numeric) {
        return Vec::new();
    }
    let found = near(segments, &chars, word, edits);
    if !found.is_empty() {
        return nearest(found);
    }
    let mut found = HashMap::new();
    let mut postings_of = |other: &str| {
        let hash = spelling_index::hash(other);
        let chunks = segments.iter().map(|words| u64::from(words.chunks_with(other, hash))).sum();
        if chunks > 0 {
            found.insert(other.to_owned(), (1, chunks));
        }
    };
    prefix_edits(word).split(' ').for_each(&mut postings_of);
    let before: String = chars[..suffix_start(&chars)].iter().collect();
    if segments.iter().any(|words| words.has_beginning(&before)) {
        stems(&suffix_edits(&chars), &mut postings_of);
    }
    nearest(found)
}

/// The terms that begin with the letter that `word` begins with and are so many edits away or fewer: how many, and how many chunks hold
/// each.
fn near(
    segments: &BySegment<SpellingIndex>,
    chars: &[char],
    word: &str,
    edits: usize,
) -> HashMap<String, (usize, u64)> {
    let mut found = HashMap::new();
    for words in segments.iter() {
        words.for_each_near(word, edits, |term, chunks| {
            if let Some(distance) = distance(chars, term, edits) {
                found.entry(term.to_owned()).or_insert((distance, 0)).1 += u64::from(chunks);
            }
        });
    }
    found
}

/// The number of edits from one word to the other, when it is not above `max`. A swap of neighbours is one edit (optimal string
/// alignment: Boytsov, "Indexing methods for approximate dictionary searching", 2011).
fn distance(word: &[char], other: &str, max: usize) -> Option<usize> {
    // the two rows before the one that is made, each for 0 to all characters of `word`
    let mut rows = [[0; CHARS_MAX + 1]; 3];
    let width = word.len();
    for (at, edits) in rows[1][..=width].iter_mut().enumerate() {
        *edits = at;
    }
    let mut last = None;
    for (row, char) in other.chars().enumerate() {
        let [before, above, edits] = &mut rows;
        edits[0] = row + 1;
        let mut least = edits[0];
        for at in 0..width {
            let replaced = above[at] + usize::from(word[at] != char);
            let mut fewest = replaced.min(above[at + 1] + 1).min(edits[at] + 1);
            if at > 0 && word[at - 1] == char && last == Some(word[at]) {
                fewest = fewest.min(before[at - 1] + 1);
            }
            edits[at + 1] = fewest;
            least = least.min(fewest);
        }
        if least > max {
            return None;
        }
        last = Some(char);
        rows.rotate_left(1);
    }
    Some(rows[1][width]).filter(|edits| *edits <= max)
}

/// What `word` is when an edit made its beginning: without its first letter, with another one, with one in front, or with its
/// first two the other way round; each behind a space. Letters are those from a to z.
fn prefix_edits(word: &str) -> String {
    let mut letters = word.chars();
    let Some(first) = letters.next() else { return String::new() };
    let rest = letters.as_str();
    let mut words = format!(" {rest}");
    if let Some(second) = letters.next() {
        words.extend([' ', second, first]);
        words.push_str(letters.as_str());
    }
    for letter in 'a'..='z' {
        for behind in [rest, word] {
            words.extend([' ', letter]);
            words.push_str(behind);
        }
    }
    words
}

/// What `word` is when an edit was made among its last letters: without one, with another one, with one more, or with two the
/// other way round; each behind a space. Letters are those from a to z.
fn suffix_edits(letters: &[char]) -> String {
    let mut words = String::new();
    for place in suffix_start(letters)..=letters.len() {
        let (before, after) = letters.split_at(place);
        let mut put = |middle: &[char], after: &[char]| {
            words.push(' ');
            words.extend(before.iter().chain(middle).chain(after));
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

/// Where the last letters begin, among which endings are looked for.
fn suffix_start(letters: &[char]) -> usize {
    letters.len().saturating_sub(SUFFIX_CHARS).max(1)
}

/// The terms, the nearest first and of those as near the ones that most chunks hold.
fn nearest(found: HashMap<String, (usize, u64)>) -> Vec<String> {
    let mut terms: Vec<(usize, u64, String)> =
        found.into_iter().map(|(term, (edits, chunks))| (edits, chunks, term)).collect();
    terms.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(&a.1)).then_with(|| a.2.cmp(&b.2)));
    terms.into_iter().map(|(_, _, term)| term).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distance_counts_edits_and_swaps_of_neighbours_up_to_the_most() {
        let of = |a: &str, b, max| distance(&a.chars().collect::<Vec<_>>(), b, max);
        for (a, b, edits) in [
            ("yellow", "yellow", 0),
            ("yellow", "yelow", 1),
            ("yellow", "yellows", 1),
            ("yellow", "yollow", 1),
            ("yellow", "eyllow", 1),
            ("yellow", "yelolw", 1),
            ("yellow", "elolw", 2),
            ("größe", "grösse", 2),
            ("", "ab", 2),
            // each character takes part in one edit at most
            ("ca", "abc", 3),
        ] {
            assert_eq!((of(a, b, edits), of(b, a, edits)), (Some(edits), Some(edits)), "{a} {b}");
            assert_eq!(edits.checked_sub(1).and_then(|max| of(a, b, max)), None, "{a} {b}");
        }
    }
}
