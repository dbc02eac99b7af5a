//! A bag of words: the terms of a text, with their corrections, completions and synonyms.

use tantivy::postings::SegmentPostings;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet as _, TERMINATED, Term};
use weir_text::{Language, QueryCompound, QueryTerm, QueryTerms};

use super::compile::{Compiler, SpellingCorrection, TermPostings, once};
use super::explain::ScoredPart;
use super::near_terms;

/// Maximum number of distinct terms of a query, in the order of the text.
pub(super) const QUERY_TERMS_MAX: usize = 64;
/// Maximum number of synonyms, each a term or a sequence of terms.
const SYNONYMS_MAX: usize = 64;
/// Maximum number of terms that replace a misspelt word.
const REPLACEMENTS_MAX: usize = 3;
/// Maximum number of compounds whose order counts.
const COMPOUNDS_MAX: usize = 8;
/// Shorter last words are not completed: they begin too many.
const BEGINNING_CHARS_MIN: usize = 2;
/// Maximum number of terms that complete an unfinished word.
const COMPLETIONS_MAX: usize = 16;
/// Chunks per segment in which a completion is looked for, to bound the cost. With a mandatory filter all own chunks are: how many of them
/// are in one segment depends on hidden ones.
const COMPLETION_CHUNKS_CHECKED: usize = 16;

/// The terms of a text, any of which a chunk may contain.
#[derive(Default)]
pub(super) struct Bag {
    pub(super) terms: Vec<TermPostings>,
    /// Compounds whose parts are all among `terms`.
    pub(super) compounds: Vec<QueryCompound>,
    /// Synonyms of several words.
    pub(super) phrases: Vec<QueryCompound>,
}

impl Bag {
    /// The indexes of the parts of a compound in `terms`, in order; empty if one is missing.
    pub(super) fn parts_of(&self, compound: &QueryCompound) -> Vec<usize> {
        let part = |part: &String| self.terms.iter().position(|known| known.term.text == *part);
        compound.terms.iter().map(part).collect::<Option<_>>().unwrap_or_default()
    }
}

impl Compiler<'_> {
    /// The terms of a text, with their synonyms; a term that occurs in no chunk is replaced by similar ones.
    pub(super) fn words(&mut self, text: &str, field: Field) -> tantivy::Result<Bag> {
        let language = self.view.language;
        let QueryTerms { mut terms, forms, compounds } = self.settings.query_terms(text, language);
        terms.truncate(QUERY_TERMS_MAX);
        let expansion = self.settings.expand(text, language);
        let mut bag = Bag { terms: Vec::with_capacity(terms.len()), ..Bag::default() };
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
                let other = QueryTerm { text: other, weight: term.weight };
                bag.terms.push(self.postings_of(field, other)?);
                words.push(word);
            }
            let typed = weir_text::word_with_term(text, language, &term.text);
            self.corrections
                .push(SpellingCorrection { word: typed.unwrap_or(term.text), replacements: words });
        }
        for form in forms.into_iter().take(QUERY_TERMS_MAX) {
            let found = self.postings_of(field, form)?;
            if found.chunks > 0 {
                bag.terms.push(found);
            }
        }
        for compound in compounds.into_iter().take(COMPOUNDS_MAX) {
            if compound.weight > 0.0 && !bag.parts_of(&compound).is_empty() {
                bag.compounds.push(compound);
            }
        }
        self.terms.extend(bag.terms.iter().map(|term_postings| term_postings.term.clone()));
        for alternative in expansion.alternatives.into_iter().take(SYNONYMS_MAX) {
            self.synonyms.push(alternative.join(" "));
            match <[String; 1]>::try_from(alternative) {
                Ok([term]) if bag.terms.iter().any(|known| known.term.text == term) => {}
                Ok([term]) => bag.terms.push(self.postings_of(field, once(term))?),
                Err(terms) => bag.phrases.push(QueryCompound { terms, weight: 1.0 }),
            }
        }
        let terms = bag.terms.iter().map(|postings| ScoredPart::of_term(field, &postings.term));
        let adjacent = bag.compounds.iter().chain(&bag.phrases).map(|phrase| ScoredPart::of(field, phrase));
        self.scored.extend(terms.chain(adjacent));
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

    /// The terms of a text whose last word may be unfinished: it is searched as itself and as the most frequent terms that begin with it.
    pub(super) fn unfinished(&mut self, text: &str, field: Field) -> tantivy::Result<Bag> {
        let mut last = None;
        weir_text::analyse(text, Language::None, |token| {
            if token.is_word {
                last = Some((token.start, token.text.to_owned()));
            }
        });
        let Some((start, beginning)) = last.filter(|(_, last)| last.chars().count() >= BEGINNING_CHARS_MIN)
        else {
            return self.words(text, field);
        };
        if text.ends_with(char::is_whitespace) {
            return self.words(text, field);
        }
        let completions = near_terms::expand_prefix(self.existing, field, &beginning, self.expansion)?.terms;
        let mut terms = Vec::new();
        for completion in &completions {
            if terms.len() < COMPLETIONS_MAX && self.adds_chunks(field, completion, &completions)? {
                terms.push(completion.clone());
            }
        }
        if terms.is_empty() {
            // as a whole word it is perhaps known, or misspelt
            return self.words(text, field);
        }
        weir_text::analyse(&text[start..], self.view.language, |token| terms.push(token.text.to_owned()));
        terms.sort_unstable();
        terms.dedup();
        let before = self.settings.query_terms(&text[..start], self.view.language).terms;
        terms.retain(|term| before.iter().all(|known| known.text != *term));
        let mut bag = self.words(&text[..start], field)?;
        for term in terms {
            let found = self.postings_of(field, once(term))?;
            self.terms.push(found.term.clone());
            self.scored.push(ScoredPart::of_term(field, &found.term));
            bag.terms.push(found);
        }
        Ok(bag)
    }

    /// Whether a completion is in an existing chunk without any shorter completion that is its prefix. Wholes of compounds are not: `pyth`
    /// is completed to `python`: `pythonnumerical` of `python-numerical` adds no chunk, and would outweigh it because it is rare.
    fn adds_chunks(&self, field: Field, completion: &str, all: &[String]) -> tantivy::Result<bool> {
        let shorter =
            all.iter().filter(|other| other.len() < completion.len() && completion.starts_with(*other));
        let shorter: Vec<Term> = shorter.map(|other| Term::from_field_text(field, other)).collect();
        if shorter.is_empty() {
            return Ok(true);
        }
        let completion = Term::from_field_text(field, completion);
        for segment in self.view.searcher.segment_readers() {
            let index = segment.inverted_index(field)?;
            let read = |term: &Term| index.read_postings(term, IndexRecordOption::Basic);
            let Some(mut postings) = read(&completion)? else { continue };
            let others = shorter.iter().map(read).collect::<std::io::Result<Vec<_>>>()?;
            let mut others: Vec<_> = others.into_iter().flatten().collect();
            let chunk_ids = self.view.chunk_ids.get(segment).unwrap_or_default();
            let mut unchecked = match self.existing.is_restricted() {
                true => usize::MAX,
                false => COMPLETION_CHUNKS_CHECKED,
            };
            while unchecked > 0 && postings.doc() != TERMINATED {
                let entry = postings.doc();
                if !self.existing.has(segment, chunk_ids, entry) {
                    postings.advance();
                    continue;
                }
                unchecked -= 1;
                let has_entry = |other: &mut SegmentPostings| {
                    let at = if other.doc() < entry { other.seek(entry) } else { other.doc() };
                    at == entry
                };
                if !others.iter_mut().any(has_entry) {
                    return Ok(true);
                }
                postings.advance();
            }
        }
        Ok(false)
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
