//! Terms of the index that match a word with wildcards.

use std::collections::HashMap;

use tantivy::Term;
use tantivy::schema::Field;
use weir_text::Language;

use super::existing::Existing;
use super::expansion::{Expansion, ExpansionLimit};

/// Maximum number of terms scanned per query, to bound the cost of a pattern that begins with few letters.
const TERMS_SCANNED_MAX: usize = 200_000;
/// The same where a mandatory filter hides chunks: hidden terms must not end the scan.
const TERMS_READ_MAX: usize = 2_000_000;
/// Maximum number of `?` that are replaced by each letter of the alphabet, which gives 676 words to stem.
const LETTERS_REPLACED_MAX: usize = 2;

/// The existing terms that match a pattern of letters, digits, `*` (any letters) and `?` (one letter), the most frequent first.
///
/// Terms are stems. With `?` alone the words that the pattern may mean are stemmed; with `*` the stems themselves are compared.
pub(super) fn expand(
    existing: Existing<'_>,
    field: Field,
    pattern: &str,
    limit: ExpansionLimit,
) -> tantivy::Result<Expansion> {
    let scanned_max =
        limit.scanned(if existing.is_restricted() { TERMS_READ_MAX } else { TERMS_SCANNED_MAX });
    let found_max = limit.scanned(TERMS_SCANNED_MAX);
    let pattern = normalised(pattern);
    let mut found: HashMap<String, u64> = HashMap::new();
    for word in words_of(&pattern) {
        let Ok([stem]) = <[String; 1]>::try_from(weir_text::words(&word, existing.view.language)) else {
            continue;
        };
        let chunks = existing.count_of(&Term::from_field_text(field, &stem))?;
        if chunks > 0 {
            found.insert(stem, chunks);
        }
    }
    let pattern: Vec<char> = pattern.chars().collect();
    let beginning: String = pattern.iter().take_while(|c| !is_joker(**c)).collect();
    let mut scanned = 0;
    for segment in existing.view.searcher.segment_readers() {
        let index = segment.inverted_index(field)?;
        let mut counter = existing.counter(segment, &index);
        let mut terms = index.terms().range().ge(&beginning).into_stream()?;
        while scanned < scanned_max
            && found.len() < found_max
            && terms.advance()
            && terms.key().starts_with(beginning.as_bytes())
        {
            scanned += 1;
            let Ok(term) = std::str::from_utf8(terms.key()) else { continue };
            if matches(&pattern, term) {
                let chunks = counter.count(terms.value())?;
                if chunks > 0 {
                    *found.entry(term.to_owned()).or_default() += chunks;
                }
            }
        }
    }
    let mut terms: Vec<(u64, String)> = found.into_iter().map(|(term, chunks)| (chunks, term)).collect();
    terms.sort_unstable_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let is_scanned = scanned < scanned_max && terms.len() < found_max;
    Ok(limit.cut(terms.into_iter().map(|(_, term)| term).collect(), is_scanned))
}

fn is_joker(c: char) -> bool {
    matches!(c, '*' | '?')
}

/// The pattern with its letters in the form of terms: lower case, without accents where terms have none.
fn normalised(pattern: &str) -> String {
    let mut normalised = String::new();
    for part in pattern.split_inclusive(is_joker) {
        let (letters, joker) = match part.strip_suffix(is_joker) {
            Some(letters) => (letters, &part[letters.len()..]),
            None => (part, ""),
        };
        weir_text::words(letters, Language::None).iter().for_each(|word| normalised.push_str(word));
        normalised.push_str(joker);
    }
    normalised
}

/// The words that a pattern with few `?` and no `*` may mean; none for other patterns.
fn words_of(pattern: &str) -> Vec<String> {
    let jokers = pattern.chars().filter(|c| *c == '?').count();
    if pattern.contains('*') || jokers > LETTERS_REPLACED_MAX {
        return Vec::new();
    }
    let mut words = vec![pattern.to_owned()];
    for _ in 0..jokers {
        let replaced =
            |word: String| ('a'..='z').map(move |letter| word.replacen('?', &letter.to_string(), 1));
        words = words.into_iter().flat_map(replaced).collect();
    }
    words
}

/// Whether the whole term matches the pattern. Time at most the product of both lengths: of the `*` only the last one is retried.
fn matches(pattern: &[char], term: &str) -> bool {
    let term: Vec<char> = term.chars().collect();
    let (mut at, mut from) = (0, 0);
    // the place behind the last `*`, and the place of the term from which it is retried
    let mut last: Option<(usize, usize)> = None;
    while from < term.len() {
        match pattern.get(at) {
            Some('*') => {
                at += 1;
                last = Some((at, from));
            }
            Some(&c) if c == '?' || c == term[from] => {
                at += 1;
                from += 1;
            }
            _ => {
                let Some((behind, retried)) = last else { return false };
                at = behind;
                from = retried + 1;
                last = Some((behind, from));
            }
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_letters_and_a_question_mark_is_one() {
        let check = |pattern: &str, term, expected| {
            let pattern: Vec<char> = pattern.chars().collect();
            assert_eq!(matches(&pattern, term), expected, "{pattern:?} {term}");
        };
        for (pattern, term) in [
            ("wi*d", "wind"),
            ("wi*d", "wid"),
            ("w?r", "war"),
            ("a*b*c", "abxbc"),
            ("wi*", "wi"),
            ("w*?r", "weir"),
        ] {
            check(pattern, term, true);
        }
        for (pattern, term) in [
            ("wi*d", "winds"),
            ("w?r", "wr"),
            ("w?r", "weir"),
            ("a*b*c", "abxb"),
            ("?", ""),
            ("wi*d", "awind"),
        ] {
            check(pattern, term, false);
        }
    }

    #[test]
    fn hostile_patterns_take_little_time() {
        let pattern: Vec<char> = "a*".repeat(2_000).chars().chain(['b']).collect();
        assert!(!matches(&pattern, &"a".repeat(4_000)));
    }

    #[test]
    fn letters_are_normalised_and_jokers_kept() {
        assert_eq!(normalised("WI*Dé?"), normalised("wi*dé?"));
        assert_eq!(normalised("w?r"), "w?r");
    }

    #[test]
    fn the_words_of_a_pattern_are_those_with_every_letter() {
        assert_eq!(words_of("w?r").len(), 26);
        assert!(words_of("w?r").contains(&"wur".to_owned()));
        assert_eq!(words_of("?a?").len(), 676);
        assert_eq!((words_of("w*?").len(), words_of("???").len()), (0, 0));
    }
}
