//! A query's terms, and the words that say nothing in one.

use crate::fold::{fold, normalise};
use crate::{Analyser, Language};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The English stop words of Lucene's `EnglishAnalyzer`, for short queries keep their meaning without them.
const ENGLISH: &str = "a an and are as at be but by for if in into is it no not of on or such that the their \
                       then there these they this to was will with";

/// Languages whose list in the crate `stop-words` (feature `nltk`) is the Snowball project's.
const LISTED: [Language; 12] = [
    Language::Danish,
    Language::Dutch,
    Language::Finnish,
    Language::French,
    Language::German,
    Language::Hungarian,
    Language::Italian,
    Language::Norwegian,
    Language::Portuguese,
    Language::Russian,
    Language::Spanish,
    Language::Swedish,
];

static STOP_WORDS: LazyLock<HashMap<Language, HashSet<String>>> = LazyLock::new(|| {
    let english = ENGLISH.split_whitespace().map(str::to_owned).collect();
    let listed = LISTED.into_iter().map(|language| {
        let words = language.code().and_then(stop_words::lookup).unwrap_or_default();
        (language, words.iter().map(|word| plain(word)).collect())
    });
    listed.chain([(Language::English, english)]).collect()
});

/// The distinct terms of a query, in order of first appearance, as [`crate::analyse`] makes them of a document.
///
/// Stop words are dropped, unless the query has nothing else ("to be or not to be"). Empty when the query has
/// no letter and no digit.
pub fn query_terms(text: &str, language: Language) -> Vec<String> {
    let mut terms = Terms::default();
    let mut stop_terms = Terms::default();
    Analyser::new(language).analyse_words(text, &mut |token, word| {
        if is_stop_word(word, language) { stop_terms.add(token.text) } else { terms.add(token.text) }
    });
    if terms.in_order.is_empty() { stop_terms.in_order } else { terms.in_order }
}

/// Whether a word, before stemming, is too common in its language to say anything in a query.
///
/// Case and accents do not matter. Languages without a list have no stop words.
pub fn is_stop_word(word: &str, language: Language) -> bool {
    STOP_WORDS.get(&language).is_some_and(|words| words.contains(&plain(word)))
}

#[derive(Default)]
struct Terms {
    in_order: Vec<String>,
    seen: HashSet<String>,
}

impl Terms {
    fn add(&mut self, term: &str) {
        if self.seen.insert(term.to_owned()) {
            self.in_order.push(term.to_owned());
        }
    }
}

fn plain(word: &str) -> String {
    let (mut normalised, mut folded) = (String::new(), String::new());
    normalise(word, false, &mut normalised);
    fold(&normalised, &mut folded);
    folded
}

#[cfg(test)]
mod tests {
    use super::{LISTED, STOP_WORDS, is_stop_word, query_terms};
    use crate::Language;

    #[test]
    fn a_query_is_its_distinct_terms_without_stop_words() {
        assert_eq!(query_terms("The runner and the running Runner", Language::English), ["runner", "run"]);
        assert_eq!(query_terms("l'été des étudiantes", Language::French), ["etudi"]);
    }

    #[test]
    fn a_query_of_stop_words_alone_keeps_them() {
        assert_eq!(query_terms("to be or not to be", Language::English), ["to", "be", "or", "not"]);
    }

    #[test]
    fn a_query_without_a_word_has_no_terms() {
        assert_eq!(query_terms("?! …", Language::English), [""; 0]);
    }

    #[test]
    fn without_a_language_every_word_counts() {
        assert_eq!(query_terms("the who", Language::None), ["the", "who"]);
    }

    #[test]
    fn stop_words_are_known_in_any_case_and_with_or_without_accents() {
        assert!(is_stop_word("The", Language::English));
        assert!(is_stop_word("même", Language::French) && is_stop_word("meme", Language::French));
        assert!(!is_stop_word("vitamin", Language::English));
        assert_eq!(STOP_WORDS[&Language::English].len(), 33);
    }

    #[test]
    fn every_listed_language_has_its_list() {
        for language in LISTED {
            let count = STOP_WORDS[&language].len();
            assert!((90..=320).contains(&count), "{}: {count}", language.name());
        }
    }
}
