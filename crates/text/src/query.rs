//! The terms of a query, and stop words.

use crate::fold::{fold, normalise};
use crate::{Analyser, Language};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The English stop words of Lucene's `EnglishAnalyzer`, and further function words of questions: pronouns, question words
/// and the forms of be, have and do. Excludes `i` and `us`, which are also a numeral and a country.
const ENGLISH: &str = "a an and are as at be but by for if in into is it no not of on or such that the their \
                       then there these they this to was will with \
                       me my we our you your he him his she her its them \
                       what which who whom whose when where why how \
                       am were been being have has had having do does did";

/// The lists of the Snowball project, one word to a line.
const SNOWBALL_LISTS: [(Language, &str); 12] = [
    (Language::Danish, include_str!("stop_words/danish.txt")),
    (Language::Dutch, include_str!("stop_words/dutch.txt")),
    (Language::Finnish, include_str!("stop_words/finnish.txt")),
    (Language::French, include_str!("stop_words/french.txt")),
    (Language::German, include_str!("stop_words/german.txt")),
    (Language::Hungarian, include_str!("stop_words/hungarian.txt")),
    (Language::Italian, include_str!("stop_words/italian.txt")),
    (Language::Norwegian, include_str!("stop_words/norwegian.txt")),
    (Language::Portuguese, include_str!("stop_words/portuguese.txt")),
    (Language::Russian, include_str!("stop_words/russian.txt")),
    (Language::Spanish, include_str!("stop_words/spanish.txt")),
    (Language::Swedish, include_str!("stop_words/swedish.txt")),
];

static STOP_WORDS: LazyLock<HashMap<Language, HashSet<String>>> = LazyLock::new(|| {
    let lists = SNOWBALL_LISTS.into_iter().chain([(Language::English, ENGLISH)]);
    lists
        .map(|(language, list)| (language, list.split_whitespace().map(without_case_and_accents).collect()))
        .collect()
});

/// A term of a query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryTerm {
    /// The term, as produced by [`crate::analyse`].
    pub text: String,
    /// Occurrences in the query, by which the term is weighted.
    pub count: u32,
}

/// The distinct terms of a query, in order of first appearance.
///
/// Stop words are dropped, unless the query consists of stop words only ("to be or not to be"). Empty if the query
/// has no letter and no digit.
pub fn query_terms(text: &str, language: Language) -> Vec<QueryTerm> {
    terms_without(text, language, |word| is_stop_word(word, language))
}

/// The same with other stop words than those of the language.
pub fn query_terms_without(text: &str, language: Language, stop_words: &StopWords) -> Vec<QueryTerm> {
    terms_without(text, language, |word| stop_words.contains(word))
}

fn terms_without(text: &str, language: Language, is_stop_word: impl Fn(&str) -> bool) -> Vec<QueryTerm> {
    let mut terms = TermCounts::default();
    let mut stop_terms = TermCounts::default();
    Analyser::new(language).analyse_words(text, &mut |token, word| {
        if is_stop_word(word) { stop_terms.add(token.text) } else { terms.add(token.text) }
    });
    if terms.distinct.is_empty() { stop_terms.distinct } else { terms.distinct }
}

/// A list of stop words, compared without case and accents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StopWords(HashSet<String>);

impl StopWords {
    /// The list of these words.
    pub fn new<'a>(words: impl IntoIterator<Item = &'a str>) -> StopWords {
        StopWords(words.into_iter().map(without_case_and_accents).collect())
    }

    /// Whether a word, before stemming, is in the list.
    pub fn contains(&self, word: &str) -> bool {
        self.0.contains(&without_case_and_accents(word))
    }
}

/// The first word of `text` whose term is `term`, normalised as before stemming: lower case, composed.
pub fn word_with_term(text: &str, language: Language, term: &str) -> Option<String> {
    let mut found = None;
    Analyser::new(language).analyse_words(text, &mut |token, word| {
        if found.is_none() && token.text == term {
            found = Some(word.to_owned());
        }
    });
    found
}

/// Whether a word, before stemming, is a stop word of the language, ignoring case and accents.
///
/// Languages without a list have no stop words.
pub fn is_stop_word(word: &str, language: Language) -> bool {
    STOP_WORDS.get(&language).is_some_and(|words| words.contains(&without_case_and_accents(word)))
}

#[derive(Default)]
struct TermCounts {
    distinct: Vec<QueryTerm>,
    /// The index of each term in `distinct`.
    index_of: HashMap<String, usize>,
}

impl TermCounts {
    fn add(&mut self, term: &str) {
        if let Some(&index) = self.index_of.get(term) {
            self.distinct[index].count += 1;
        } else {
            self.index_of.insert(term.to_owned(), self.distinct.len());
            self.distinct.push(QueryTerm { text: term.to_owned(), count: 1 });
        }
    }
}

fn without_case_and_accents(word: &str) -> String {
    let (mut normalised, mut folded) = (String::new(), String::new());
    normalise(word, false, &mut normalised);
    fold(&normalised, &mut folded);
    folded
}

#[cfg(test)]
mod tests {
    use super::{SNOWBALL_LISTS, STOP_WORDS, is_stop_word, query_terms};
    use crate::Language;

    /// `expected`: the terms in order, separated by spaces, each followed by `*count` if it occurs more than once.
    fn check(text: &str, language: Language, expected: &str) {
        let terms = query_terms(text, language).into_iter().map(|term| match term.count {
            1 => term.text,
            count => format!("{}*{count}", term.text),
        });
        assert_eq!(terms.collect::<Vec<_>>().join(" "), expected, "{text:?}");
    }

    #[test]
    fn stop_words_and_repeated_terms_are_dropped() {
        check("The runner and the running man", Language::English, "runner run man");
        check("l'été des étudiantes", Language::French, "etudi");
    }

    #[test]
    fn function_words_of_a_question_are_dropped() {
        check("What does she have to do with our US law?", Language::English, "us law");
        check("Which type I errors were they?", Language::English, "type i error");
    }

    #[test]
    fn inflected_forms_count_as_one_term() {
        check("runs, parallel running, RUN in parallel; once", Language::English, "run*3 parallel*2 onc");
    }

    #[test]
    fn the_word_of_a_term_is_found() {
        let word = |text: &str, term: &str| super::word_with_term(text, Language::English, term);
        assert_eq!(word("Two Libraries, one library", "librari").as_deref(), Some("libraries"));
        assert_eq!(word("Two libraries", "library"), None);
    }

    #[test]
    fn a_query_of_stop_words_alone_keeps_them() {
        check("to be or not to be", Language::English, "to*2 be*2 or not");
    }

    #[test]
    fn punctuation_has_no_terms() {
        check("?! …", Language::English, "");
    }

    #[test]
    fn language_none_has_no_stop_words() {
        check("the who", Language::None, "the who");
    }

    #[test]
    fn stop_words_match_regardless_of_case_and_accents() {
        assert!(is_stop_word("The", Language::English));
        assert!(is_stop_word("même", Language::French) && is_stop_word("meme", Language::French));
        assert!(!is_stop_word("vitamin", Language::English));
        assert_eq!(STOP_WORDS[&Language::English].len(), 66);
    }

    #[test]
    fn every_snowball_list_is_found() {
        for (language, _) in SNOWBALL_LISTS {
            let count = STOP_WORDS[&language].len();
            assert!((90..=320).contains(&count), "{}: {count}", language.name());
        }
    }
}
