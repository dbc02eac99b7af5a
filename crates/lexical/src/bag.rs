//! A bag of words: the terms of a text, with those that correct, complete and stand for them.

use tantivy::Term;
use tantivy::schema::Field;
use weir_text::{Language, QueryTerm};

use super::compile::{Compiler, SpellingCorrection, TermPostings, once};
use super::near_terms;
use crate::settings::terms as terms_of;

/// Maximum number of distinct terms of a query, in the order of the text.
pub(super) const QUERY_TERMS_MAX: usize = 64;
/// Maximum number of synonyms, each a term or a sequence of terms.
const SYNONYMS_MAX: usize = 64;
/// Maximum number of terms that replace a misspelt word.
const REPLACEMENTS_MAX: usize = 3;
/// Shorter last words are not completed: they begin too many.
const BEGINNING_CHARS_MIN: usize = 2;
/// Maximum number of terms that complete an unfinished word.
const COMPLETIONS_MAX: usize = 16;

/// The terms of a text, any of which a chunk may contain.
#[derive(Default)]
pub(super) struct Bag {
    pub(super) terms: Vec<TermPostings>,
    /// Synonyms of several words.
    pub(super) phrases: Vec<Vec<String>>,
}

impl Compiler<'_> {
    /// The terms of a text, with their synonyms; a term that occurs in no chunk is replaced by similar ones.
    pub(super) fn words(&mut self, text: &str, field: Field) -> tantivy::Result<Bag> {
        let language = self.view.language;
        let mut terms = self.settings.query_terms(text, language);
        terms.truncate(QUERY_TERMS_MAX);
        let expansion = self.settings.expand(text, language);
        let mut bag = Bag { terms: Vec::with_capacity(terms.len()), phrases: Vec::new() };
        for term in terms {
            let found = self.postings_of(field, term)?;
            if found.chunks > 0 {
                bag.terms.push(found);
                continue;
            }
            let term = found.term;
            let is_known = expansion.expanded.contains(&term.text);
            let replacements = match self.corrections.len() < self.corrections_max && !is_known {
                true => self.correct_spelling(text, &term.text, field)?,
                false => Vec::new(),
            };
            if replacements.is_empty() {
                self.terms.push(term);
                continue;
            }
            let mut words = Vec::new();
            for (other, word) in replacements {
                let other = QueryTerm { text: other, count: term.count };
                bag.terms.push(self.postings_of(field, other)?);
                words.push(word);
            }
            let typed = weir_text::word_with_term(text, language, &term.text);
            self.corrections
                .push(SpellingCorrection { word: typed.unwrap_or(term.text), replacements: words });
        }
        self.terms.extend(bag.terms.iter().map(|term_postings| term_postings.term.clone()));
        for alternative in expansion.alternatives.into_iter().take(SYNONYMS_MAX) {
            self.synonyms.push(alternative.join(" "));
            match <[String; 1]>::try_from(alternative) {
                Ok([term]) if bag.terms.iter().any(|known| known.term.text == term) => {}
                Ok([term]) => bag.terms.push(self.postings_of(field, once(term))?),
                Err(terms) => bag.phrases.push(terms),
            }
        }
        Ok(bag)
    }

    /// Looks up the postings of a term, and remembers its document frequency.
    pub(super) fn postings_of(&mut self, field: Field, term: QueryTerm) -> tantivy::Result<TermPostings> {
        let key = Term::from_field_text(field, &term.text);
        let segments = self.view.searcher.segment_readers();
        let (mut postings, mut chunks) = (Vec::with_capacity(segments.len()), 0);
        for segment in segments {
            let index = segment.inverted_index(field)?;
            let found = index.get_term_info(&key)?;
            if let Some(found) = &found {
                chunks += self.existing.counter(segment, &index).count(found)?;
            }
            postings.push(found);
        }
        self.frequencies.insert(key, chunks);
        Ok(TermPostings { term, postings, chunks })
    }

    /// The terms of a text whose last word may be unfinished: it stands for itself and for the most frequent terms that it begins.
    pub(super) fn unfinished(&mut self, text: &str, field: Field) -> tantivy::Result<Bag> {
        let mut last = None;
        weir_text::analyse(text, Language::None, |token| last = Some((token.start, token.text.to_owned())));
        let Some((start, beginning)) = last.filter(|(_, last)| last.chars().count() >= BEGINNING_CHARS_MIN)
        else {
            return self.words(text, field);
        };
        if text.ends_with(char::is_whitespace) {
            return self.words(text, field);
        }
        let mut terms = near_terms::expand_prefix(self.existing, field, &beginning, self.expansion)?.terms;
        terms.truncate(COMPLETIONS_MAX);
        if terms.is_empty() {
            // as a whole word it is perhaps known, or misspelt
            return self.words(text, field);
        }
        terms.extend(terms_of(&text[start..], self.view.language));
        terms.sort_unstable();
        terms.dedup();
        let before = self.settings.query_terms(&text[..start], self.view.language);
        terms.retain(|term| before.iter().all(|known| known.text != *term));
        let mut bag = self.words(&text[..start], field)?;
        for term in terms {
            let found = self.postings_of(field, once(term))?;
            self.terms.push(found.term.clone());
            bag.terms.push(found);
        }
        Ok(bag)
    }

    /// Terms that replace that of a misspelt word of `text`, each with a word of a chunk: terms of similar words that occur in existing
    /// chunks.
    fn correct_spelling(
        &self,
        text: &str,
        term: &str,
        field: Field,
    ) -> tantivy::Result<Vec<(String, String)>> {
        let language = self.view.language;
        let stems = |words: &str, visit: &mut dyn FnMut(&str)| {
            weir_text::analyse(words, language, |token| visit(token.text));
        };
        let Some(word) = weir_text::word_with_term(text, language, term) else { return Ok(Vec::new()) };
        let count = |term: &str| self.existing.count_of(&Term::from_field_text(field, term));
        let count = self.existing.is_restricted().then_some(&count as &dyn Fn(&str) -> _);
        let mut replacements = Vec::new();
        for other in near_terms::correct_spelling(&self.view.words, &word, term, stems, count)? {
            // the spelling index also has words of titles and of deleted documents
            if let Some(chunk_id) = self.existing.first_of(&Term::from_field_text(field, &other))? {
                let shown = (self.text_of)(chunk_id);
                let word = shown.and_then(|text| weir_text::word_with_term(&text, language, &other));
                replacements.push((other.clone(), word.unwrap_or(other)));
            }
            if replacements.len() == REPLACEMENTS_MAX {
                break;
            }
        }
        Ok(replacements)
    }
}
