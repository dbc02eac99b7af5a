//! Settings of lexical retrieval that apply to queries, so that a change needs no new index.

use std::collections::{BTreeMap, HashMap, HashSet};

use weir_text::{Language, QueryTerms, StopWords, sequence};

/// Synonyms, stop words and the weight of titles in one collection.
#[derive(Debug, Clone, PartialEq)]
pub struct LexicalSettings {
    /// By the first term of the words that have the synonyms.
    synonyms: HashMap<String, Vec<Synonyms>>,
    /// Instead of those of the language.
    stop_words: Option<StopWords>,
    /// How often a term in the title counts: 1 is as in the text.
    pub(crate) title_weight: f32,
}

/// The synonyms of a sequence of terms.
#[derive(Debug, Clone, PartialEq)]
struct Synonyms {
    of: Vec<String>,
    alternatives: Vec<Vec<String>>,
}

/// The synonyms of a query.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Expansion {
    /// The terms that have synonyms.
    pub(crate) expanded: HashSet<String>,
    /// Terms, and sequences of terms, to be searched beside the query.
    pub(crate) alternatives: Vec<Vec<String>>,
}

impl Default for LexicalSettings {
    /// No synonyms, the stop words of the language, titles as texts.
    fn default() -> LexicalSettings {
        LexicalSettings { synonyms: HashMap::new(), stop_words: None, title_weight: 1.0 }
    }
}

impl LexicalSettings {
    /// Analyses the words and their synonyms, each of which may be several words. A synonym is no synonym of its synonyms: loops end
    /// after one step. Words without a letter or digit are ignored. `title_weight` is at least 1.
    pub fn new(
        language: Language,
        synonyms: &BTreeMap<String, Vec<String>>,
        stop_words: Option<&[String]>,
        title_weight: f32,
    ) -> LexicalSettings {
        let mut by_first: HashMap<String, Vec<Synonyms>> = HashMap::new();
        for (words, alternatives) in synonyms {
            let of = sequence(words, language);
            let Some(first) = of.first().cloned() else { continue };
            let alternatives = alternatives.iter().map(|words| sequence(words, language));
            let alternatives = alternatives.filter(|terms| !terms.is_empty() && *terms != of).collect();
            by_first.entry(first).or_default().push(Synonyms { of, alternatives });
        }
        LexicalSettings {
            synonyms: by_first,
            stop_words: stop_words.map(|words| StopWords::new(words.iter().map(String::as_str))),
            title_weight: title_weight.max(1.0),
        }
    }

    /// The terms of a query by which it is ranked.
    pub(crate) fn query_terms(&self, text: &str, language: Language) -> QueryTerms {
        weir_text::query_terms(text, language, self.stop_words.as_ref())
    }

    /// The synonyms of the words of a text.
    pub(crate) fn expand(&self, text: &str, language: Language) -> Expansion {
        let mut expansion = Expansion::default();
        if self.synonyms.is_empty() {
            return expansion;
        }
        let terms = sequence(text, language);
        for from in 0..terms.len() {
            for synonyms in self.synonyms.get(&terms[from]).into_iter().flatten() {
                if !terms[from..].starts_with(&synonyms.of) {
                    continue;
                }
                expansion.expanded.extend(synonyms.of.iter().cloned());
                for alternative in &synonyms.alternatives {
                    if !expansion.alternatives.contains(alternative) {
                        expansion.alternatives.push(alternative.clone());
                    }
                }
            }
        }
        expansion
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(synonyms: &[(&str, &[&str])]) -> LexicalSettings {
        let owned = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect();
        let synonyms = synonyms.iter().map(|(word, others)| ((*word).to_owned(), owned(others))).collect();
        LexicalSettings::new(Language::English, &synonyms, None, 1.0)
    }

    fn alternatives(settings: &LexicalSettings, query: &str) -> Vec<String> {
        let expansion = settings.expand(query, Language::English);
        expansion.alternatives.iter().map(|terms| terms.join(" ")).collect()
    }

    #[test]
    fn words_and_sequences_of_words_have_synonyms() {
        let settings = settings(&[("TV", &["television", "Tv set"]), ("new york city", &["NYC"])]);
        assert_eq!(alternatives(&settings, "repair of a TV"), ["televis", "tv set"]);
        assert_eq!(alternatives(&settings, "hotels in New York City"), ["nyc"]);
        assert_eq!(alternatives(&settings, "york city new"), [""; 0]);
        let symbols = self::settings(&[("C++", &["cpp"]), ("node.js", &["NodeJS"])]);
        assert_eq!(alternatives(&symbols, "C and node js"), ["node js"; 0]);
        assert_eq!(alternatives(&symbols, "c++"), ["cpp"]);
        let expanded = settings.expand("New York City hotels", Language::English).expanded;
        assert!(expanded.contains("york") && !expanded.contains("hotel"), "{expanded:?}");
    }

    #[test]
    fn loops_end_after_one_step_and_empty_words_are_ignored() {
        let settings = settings(&[("a1", &["b1", "a1", "!?"]), ("b1", &["c1", "a1"]), ("...", &["x"])]);
        assert_eq!(alternatives(&settings, "a1"), ["b1"]);
        assert_eq!(alternatives(&settings, "b1 ..."), ["c1", "a1"]);
        assert_eq!(alternatives(&settings, "a1 a1 b1"), ["b1", "c1", "a1"]);
    }

    #[test]
    fn own_stop_words_replace_those_of_the_language() {
        let with = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
            let settings = LexicalSettings::new(Language::English, &BTreeMap::new(), Some(&words), 1.0);
            let terms = settings.query_terms("the Résumé of a dam", Language::English);
            terms.terms.into_iter().map(|term| term.text).collect::<Vec<_>>()
        };
        assert_eq!(with(&[]), ["the", "resum", "of", "a", "dam"]);
        assert_eq!(with(&["resume", "DAM"]), ["the", "of", "a"]);
    }
}
