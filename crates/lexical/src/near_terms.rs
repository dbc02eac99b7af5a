//! Terms of the index similar to a word: those with it as a prefix, and those one or two edits away.

use std::collections::HashMap;

use tantivy::schema::Field;

use super::by_segment::BySegment;
use super::existing::Existing;
use super::expansion::{Expansion, ExpansionLimit};
use super::spelling_index::{self, SpellingIndex};

/// Maximum number of terms scanned per segment, to bound the cost of a prefix: of those that exist for the caller.
const TERMS_SCANNED_MAX: usize = 20_000;
/// Maximum number of terms read per segment, hidden ones included.
const TERMS_READ_MAX: usize = 1_000_000;
/// Minimum lengths for one edit and for two.
const EDIT_LENGTHS: [usize; 2] = [5, 9];
/// Longer words are not corrected.
const CHARS_MAX: usize = 64;
/// Shorter words are not corrected.
const WORD_CHARS_MIN: usize = 4;

/// The existing terms with this prefix, most frequent first.
pub(super) fn expand_prefix(
    existing: Existing<'_>,
    field: Field,
    prefix: &str,
    limit: ExpansionLimit,
) -> tantivy::Result<Expansion> {
    let (scanned_max, read_max) = (limit.scanned(TERMS_SCANNED_MAX), limit.scanned(TERMS_READ_MAX));
    let mut found = HashMap::new();
    let mut is_scanned = true;
    for segment in existing.view.searcher.segment_readers() {
        let index = segment.inverted_index(field)?;
        let mut terms = index.terms().range().ge(prefix).into_stream()?;
        let mut counter = existing.counter(segment, &index);
        let (mut seen, mut read) = (0, 0);
        while seen < scanned_max
            && read < read_max
            && terms.advance()
            && terms.key().starts_with(prefix.as_bytes())
        {
            read += 1;
            let chunks = counter.count(terms.value())?;
            if chunks == 0 {
                continue;
            }
            seen += 1;
            if let Ok(term) = std::str::from_utf8(terms.key()) {
                found.entry(term.to_owned()).or_insert((0, 0)).1 += chunks;
            }
        }
        is_scanned &= seen < scanned_max && read < read_max;
    }
    Ok(limit.cut(nearest(found), is_scanned))
}

/// Counts the chunks with a term that exist for the caller.
type CountChunks<'a> = &'a dyn Fn(&str) -> tantivy::Result<u64>;

/// The terms that a misspelt word may mean: those of words one edit away (a transposition is one edit), or of stems two edits away
/// from its stem if there is none; nearest first, then most frequent. None for short words and for words with digits: another number or
/// product name is not a misspelling.
///
/// `word` is in lower case, `stem` is its term. Words are compared, not stems, because an edit may prevent stemming or change it. `stems`
/// calls back with the stem of each word of a text. `count` counts the chunks with a term that exist for the caller; `None` if all chunks do.
pub(super) fn correct_spelling(
    segments: &BySegment<SpellingIndex>,
    word: &str,
    stem: &str,
    stems: impl Fn(&str, &mut dyn FnMut(&str)),
    count: Option<CountChunks<'_>>,
) -> tantivy::Result<Vec<String>> {
    let letters: Vec<char> = word.chars().collect();
    if letters.len() < WORD_CHARS_MIN || letters.len() > CHARS_MAX || word.contains(char::is_numeric) {
        return Ok(Vec::new());
    }
    let mut found = HashMap::new();
    stems(&words_one_edit_away(&letters), &mut |other: &str| {
        let hash = spelling_index::hash(other);
        let chunks = segments.iter().map(|words| u64::from(words.chunks_with(other, hash))).sum();
        if chunks > 0 {
            found.insert(other.to_owned(), (1, chunks));
        }
    });
    keep_existing(&mut found, count)?;
    let chars: Vec<char> = stem.chars().collect();
    let edits = EDIT_LENGTHS.iter().filter(|&&from| chars.len() >= from).count();
    if found.is_empty() && edits > 0 {
        found = near(segments, &chars, stem, edits);
        keep_existing(&mut found, count)?;
    }
    Ok(nearest(found))
}

/// Replaces the number of chunks of each term by that of `count`, and removes the terms that then have none.
fn keep_existing(
    found: &mut HashMap<String, (usize, u64)>,
    count: Option<CountChunks<'_>>,
) -> tantivy::Result<()> {
    let Some(count) = count else { return Ok(()) };
    for (term, (_, chunks)) in &mut *found {
        *chunks = count(term)?;
    }
    found.retain(|_, (_, chunks)| *chunks > 0);
    Ok(())
}

/// The terms with the same first letter within `edits` edits, each with its distance and the number of chunks that contain it.
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

/// Edit distance of two words, if it is at most `max`. A transposition is one edit (optimal string alignment: Boytsov, "Indexing
/// methods for approximate dictionary searching", 2011).
fn distance(word: &[char], other: &str, max: usize) -> Option<usize> {
    // the current row and the two before it, each for the prefixes of `word`
    let mut rows = [[0; CHARS_MAX + 1]; 3];
    let width = word.len();
    for (index, edits) in rows[1][..=width].iter_mut().enumerate() {
        *edits = index;
    }
    let mut last = None;
    for (row, char) in other.chars().enumerate() {
        let [before, above, edits] = &mut rows;
        edits[0] = row + 1;
        let mut least = edits[0];
        for index in 0..width {
            let replaced = above[index] + usize::from(word[index] != char);
            let mut fewest = replaced.min(above[index + 1] + 1).min(edits[index] + 1);
            if index > 0 && word[index - 1] == char && last == Some(word[index]) {
                fewest = fewest.min(before[index - 1] + 1);
            }
            edits[index + 1] = fewest;
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

/// The words one edit away from a word: a letter removed, replaced or inserted, or two transposed; each preceded by a space. Letters are
/// a to z. In short words no letter is removed or replaced: too many other words are one such edit away.
fn words_one_edit_away(letters: &[char]) -> String {
    let mut words = String::new();
    let is_short = letters.len() < EDIT_LENGTHS[0];
    for place in 0..=letters.len() {
        let (before, after) = letters.split_at(place);
        let mut push = |middle: &[char], after: &[char]| {
            words.push(' ');
            words.extend(before.iter().chain(middle).chain(after));
        };
        if let [first, second, rest @ ..] = after {
            push(&[*second, *first], rest);
        }
        if let [_, rest @ ..] = after
            && !is_short
        {
            push(&[], rest);
        }
        for letter in 'a'..='z' {
            push(&[letter], after);
            if let [_, rest @ ..] = after
                && !is_short
            {
                push(&[letter], rest);
            }
        }
    }
    words
}

/// The terms, nearest first, then most frequent.
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
    fn edit_distance_counts_transpositions_and_stops_at_the_maximum() {
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
            // no substring is edited twice
            ("ca", "abc", 3),
        ] {
            assert_eq!((of(a, b, edits), of(b, a, edits)), (Some(edits), Some(edits)), "{a} {b}");
            assert_eq!(edits.checked_sub(1).and_then(|max| of(a, b, max)), None, "{a} {b}");
        }
    }
}
