//! A query's terms, and the words that say nothing in one.

use crate::fold::{fold, normalise};
use crate::{Analyser, Language};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The English stop words of Lucene's `EnglishAnalyzer`, and what else makes a question of key words: pronouns, question
/// words and the forms of be, have and do. Not among them are `i` and `us`, which are a numeral and a country too.
const ENGLISH: &str = "a an and are as at be but by for if in into is it no not of on or such that the their \
                       then there these they this to was will with \
                       me my we our you your he him his she her its them \
                       what which who whom whose when where why how \
                       am were been being have has had having do does did";

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

/// A term of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTerm {
    /// The term, as [`crate::analyse`] makes it of a document.
    pub text: String,
    /// How often it stands in the query; what is said twice counts double.
    pub count: u32,
}

/// The distinct terms of a query, in order of first appearance.
///
/// Stop words are dropped, unless the query has nothing else ("to be or not to be"). Empty when the query has
/// no letter and no digit.
pub fn query_terms(text: &str, language: Language) -> Vec<QueryTerm> {
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
    in_order: Vec<QueryTerm>,
    /// Where each term stands in `in_order`.
    places: HashMap<String, usize>,
}

impl Terms {
    fn add(&mut self, term: &str) {
        if let Some(&place) = self.places.get(term) {
            self.in_order[place].count += 1;
        } else {
            self.places.insert(term.to_owned(), self.in_order.len());
            self.in_order.push(QueryTerm { text: term.to_owned(), count: 1 });
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

    /// `expected`: the terms in order, separated by space, with `*count` behind those that stand there more than once.
    fn check(text: &str, language: Language, expected: &str) {
        let terms = query_terms(text, language).into_iter().map(|term| match term.count {
            1 => term.text,
            count => format!("{}*{count}", term.text),
        });
        assert_eq!(terms.collect::<Vec<_>>().join(" "), expected, "{text:?}");
    }

    #[test]
    fn a_query_is_its_distinct_terms_without_stop_words() {
        check("The runner and the running man", Language::English, "runner run man");
        check("l'été des étudiantes", Language::French, "etudi");
    }

    #[test]
    fn a_question_is_its_key_words() {
        check("What does she have to do with our US law?", Language::English, "us law");
        check("Which type I errors were they?", Language::English, "type i error");
    }

    #[test]
    fn terms_are_counted_over_all_forms_of_their_word() {
        check("runs, parallel running, RUN in parallel; once", Language::English, "run*3 parallel*2 onc");
    }

    #[test]
    fn a_query_of_stop_words_alone_keeps_them() {
        check("to be or not to be", Language::English, "to*2 be*2 or not");
    }

    #[test]
    fn a_query_without_a_word_has_no_terms() {
        check("?! …", Language::English, "");
    }

    #[test]
    fn without_a_language_every_word_counts() {
        check("the who", Language::None, "the who");
    }

    #[test]
    fn stop_words_are_known_in_any_case_and_with_or_without_accents() {
        assert!(is_stop_word("The", Language::English));
        assert!(is_stop_word("même", Language::French) && is_stop_word("meme", Language::French));
        assert!(!is_stop_word("vitamin", Language::English));
        assert_eq!(STOP_WORDS[&Language::English].len(), 66);
    }

    #[test]
    fn every_listed_language_has_its_list() {
        for language in LISTED {
            let count = STOP_WORDS[&language].len();
            assert!((90..=320).contains(&count), "{}: {count}", language.name());
        }
    }
}
