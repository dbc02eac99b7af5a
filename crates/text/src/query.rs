//! The terms of a query, and stop words.

use crate::fold::{fold, normalise};
use crate::{Analyser, Language, TokenKind};
use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

/// The English stop words of Lucene's `EnglishAnalyzer`, and further function words of questions: pronouns, question words
/// and the forms of be, have and do. Excludes `i` and `us`, which are also a numeral and a country.
const ENGLISH: &str = "a an and are as at be but by for if in into is it no not of on or such that the their \
                       then there these they this to was will with \
                       me my we our you your he him his she her its them \
                       what which who whom whose when where why how \
                       am were been being have has had having do does did";

/// Weight of the forms and the order of a compound beside its parts.
///
/// In identifiers they are more specific than the parts. Words joined as in prose are often written apart: measured over six sets, nDCG@10 of
/// lexical search has the mean 0.5872 with these weights, 0.5819 with those of identifiers for all, and 0.5877 with none at all.
struct CompoundWeights {
    /// A form, beside what a word counts.
    form: f32,
    /// The adjacency of the parts, beside what they count as words.
    order: f32,
}

impl CompoundWeights {
    const IDENTIFIER: CompoundWeights = CompoundWeights { form: 1.0, order: 0.5 };
    const PROSE: CompoundWeights = CompoundWeights { form: 0.3, order: 0.1 };

    /// The weights for a compound as it is written: `well-known`, `and/or` and `e.g.` are prose, all others identifiers.
    fn of(compound: &str) -> CompoundWeights {
        let is_connector = |c| matches!(c, '-' | '/' | '.' | '\u{2010}' | '\u{2011}');
        let is_prose = compound.starts_with(char::is_alphabetic)
            && compound.contains(is_connector)
            && compound.chars().all(|c| c.is_alphabetic() || is_connector(c));
        if is_prose { CompoundWeights::PROSE } else { CompoundWeights::IDENTIFIER }
    }
}

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
#[derive(Clone, Debug, PartialEq)]
pub struct QueryTerm {
    /// The term, as produced by [`crate::analyse`].
    pub text: String,
    /// The weight of an occurrence: occurrences in the query, and less for other forms of words.
    pub weight: f32,
}

/// The terms of a query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QueryTerms {
    /// The distinct words and parts of compounds, in order of first appearance.
    pub terms: Vec<QueryTerm>,
    /// Other forms of compounds and their parts (`email` of `e-mail`, `c++`). Texts that have them fit better; others lack nothing.
    pub forms: Vec<QueryTerm>,
    /// The compounds of several parts.
    pub compounds: Vec<QueryCompound>,
}

/// A compound of a query.
#[derive(Clone, Debug, PartialEq)]
pub struct QueryCompound {
    /// The terms of its parts, in order.
    pub terms: Vec<String>,
    /// Their weight where they are adjacent, as a share of their weight as words.
    pub weight: f32,
}

/// The terms of a query.
///
/// Stop words, those of the language unless others are given, are dropped, unless the query consists of stop words only ("to be or
/// not to be"). Parts of compounds are never dropped, nor are words in capitals ("AND", "WHO") where most words are not in capitals.
/// Empty if the query has no letter and no digit.
pub fn query_terms(text: &str, language: Language, stop_words: Option<&StopWords>) -> QueryTerms {
    let is_stop_word = |word: &str| match stop_words {
        Some(stop_words) => stop_words.contains(word),
        None => is_stop_word(word, language),
    };
    let capitals_matter = capitals_matter(text);
    let is_dropped =
        |word: &str, written: &str| is_stop_word(word) && !(capitals_matter && is_in_capitals(written));
    let (mut terms, mut forms, mut stop_terms) = <(TermCounts, TermCounts, TermCounts)>::default();
    let mut compounds: Vec<QueryCompound> = Vec::new();
    let mut last_start = None; // of the last of `compounds`
    Analyser::new(language).analyse_words(text, &mut |token, word| {
        match (token.kind, token.compound) {
            (TokenKind::Word, _) if is_dropped(word, &text[token.start..token.end]) => {
                stop_terms.add(token.text, 1.0);
            }
            (TokenKind::Word | TokenKind::Part, _) => terms.add(token.text, 1.0),
            // of bigrams, which are searched themselves
            (TokenKind::Form, None) => {}
            (TokenKind::Form, Some(_)) => {
                forms.add(token.text, CompoundWeights::of(&text[token.start..token.end]).form);
            }
        }
        let Some(start) = token.compound.filter(|_| token.in_sequence) else { return };
        if last_start != Some(start) {
            last_start = Some(start);
            compounds.push(QueryCompound { terms: Vec::new(), weight: 0.0 });
        }
        if let Some(compound) = compounds.last_mut() {
            compound.terms.push(token.text.to_owned());
            compound.weight = CompoundWeights::of(&text[start..token.end]).order;
        }
    });
    compounds.retain(|compound| compound.terms.len() > 1);
    let terms = if terms.distinct.is_empty() { stop_terms } else { terms };
    forms.distinct.retain(|form| !terms.index_of.contains_key(&form.text));
    QueryTerms { terms: terms.distinct, forms: forms.distinct, compounds }
}

/// Whether capitals distinguish words of the text: not if more words are in capitals than are not, as in a headline.
fn capitals_matter(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphabetic());
    let (mut in_capitals, mut others) = (0, 0);
    for word in words.filter(|word| word.chars().nth(1).is_some()) {
        *(if is_in_capitals(word) { &mut in_capitals } else { &mut others }) += 1;
    }
    in_capitals <= others
}

/// Whether a word of two letters or more has only capitals.
fn is_in_capitals(word: &str) -> bool {
    word.chars().nth(1).is_some() && word.chars().all(char::is_uppercase)
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
    fn add(&mut self, term: &str, weight: f32) {
        if let Some(&index) = self.index_of.get(term) {
            self.distinct[index].weight += weight;
        } else {
            self.index_of.insert(term.to_owned(), self.distinct.len());
            self.distinct.push(QueryTerm { text: term.to_owned(), weight });
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
    use crate::{Language, QueryTerm};

    /// `expected`: the terms in order, separated by spaces, each followed by `*count` if it occurs more than once.
    fn check(text: &str, language: Language, expected: &str) {
        assert_eq!(shown(query_terms(text, language, None).terms), expected, "{text:?}");
    }

    fn shown(terms: Vec<QueryTerm>) -> String {
        let terms = terms.into_iter().map(|term| match term.weight {
            1.0 => term.text,
            weight => format!("{}*{weight}", term.text),
        });
        terms.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_compound_has_its_parts_its_forms_and_its_order() {
        let check = |text: &str, terms: &str, forms: &str, compounds: &[&str]| {
            let found = query_terms(text, Language::English, None);
            let found_compounds: Vec<String> = found
                .compounds
                .iter()
                .map(|compound| format!("{}*{}", compound.terms.join(" "), compound.weight))
                .collect();
            assert_eq!((shown(found.terms).as_str(), shown(found.forms).as_str()), (terms, forms), "{text}");
            assert_eq!(found_compounds, compounds, "{text}");
        };
        check("what is IM_A_TEAPOT", "im a teapot", "imateapot", &["im a teapot*0.5"]);
        check("the e-mail or E-Mail", "e*2 mail*2", "email*0.6", &["e mail*0.1", "e mail*0.1"]);
        check("C++ and .NET", "c net", "c++ .net", &[]);
        check("grep -a --no-messages", "grep a no messag", "-a nomessag --no", &["--no messag*0.5"]);
        check("python3 3", "python 3*2", "python3", &["python 3*0.5"]);
        check("水的质量", "水的 的质 质量", "", &[]);
        check("水", "水", "", &[]);
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
    fn a_stop_word_in_capitals_is_a_term_unless_the_text_is_in_capitals() {
        let check = |text: &str, expected: &str| check(text, Language::English, expected);
        check("difference between AND and OR", "differ between and or");
        check("who is the director of the WHO", "director who");
        check("NOT NULL constraint failed: users.email", "not null constraint fail user email");
        check("jobs in IT and what A is", "job it");
        check("NEWS OF THE DAY", "news day");
        check("WHAT IS THE DIFFERENCE BETWEEN AND AND OR in sql", "differ between sql");
        check("THE WHO", "the who");
        assert_eq!(
            shown(query_terms("DER Name oder ÜBER die", Language::German, None).terms),
            "der nam uber"
        );
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
