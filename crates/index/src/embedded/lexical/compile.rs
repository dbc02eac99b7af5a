//! Compiler: from a parsed query to queries that Tantivy executes.

use std::sync::Arc;

use tantivy::postings::TermInfo;
use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, EmptyQuery, Occur, PhraseQuery, Query as Matcher, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet as _, TERMINATED, Term};
use weir_text::{Language, QueryTerm};

use super::statistics::DocumentFrequencies;
use super::{LexicalView, TITLE, near_terms};
use crate::RetrievalMode;
use crate::embedded::selection::{Selection, Visible};
use crate::query::Query;
use crate::search::SpellingCorrection;
use weir_filter::{Filter, Test, Value};

/// Maximum number of distinct terms of a query, in the order of the text.
const QUERY_TERMS_MAX: usize = 64;

/// Maximum number of query words that are corrected.
const CORRECTIONS_MAX: usize = 8;
/// Maximum number of terms that replace a misspelt word.
const REPLACEMENTS_MAX: usize = 3;
/// Shorter last words are not completed: they begin too many.
const BEGINNING_CHARS_MIN: usize = 2;
/// Maximum number of terms that complete an unfinished word.
const COMPLETIONS_MAX: usize = 16;

/// A compiled query.
pub(crate) struct LexicalQuery {
    /// The scoring part; `None` without a term.
    pub(super) ranking: Option<ScoringQuery>,
    /// The condition on chunks of both retrievers; `None` if the query sets none.
    pub(super) condition: Option<Condition>,
    /// The scoring terms, including those that occur in no document.
    pub(crate) terms: Vec<QueryTerm>,
    /// The corrected words.
    pub(crate) corrections: Vec<SpellingCorrection>,
    /// Of the terms looked up so far.
    pub(super) frequencies: DocumentFrequencies,
}

/// The scoring part of a query.
pub(super) enum ScoringQuery {
    /// A bag of words, as most queries are.
    AnyOf(Vec<TermPostings>),
    Matcher(Box<dyn Matcher>),
}

/// A term and its postings.
pub(super) struct TermPostings {
    pub(super) term: QueryTerm,
    /// Location of the postings in each segment, in the order of the searcher.
    pub(super) postings: Vec<Option<TermInfo>>,
}

impl TermPostings {
    /// Number of chunks that contain it, deleted ones included until they are merged away.
    pub(super) fn chunks(&self) -> u64 {
        self.postings.iter().flatten().map(|postings| u64::from(postings.doc_freq)).sum()
    }
}

impl ScoringQuery {
    /// The equivalent Tantivy query.
    pub(super) fn matcher(&self, field: Field) -> Box<dyn Matcher> {
        match self {
            ScoringQuery::AnyOf(term_postings) => {
                let mut terms =
                    term_postings.iter().map(|term_postings| term_query(field, &term_postings.term));
                match term_postings.len() {
                    1 => terms.next().unwrap_or_else(|| Box::new(EmptyQuery)),
                    _ => Box::new(BooleanQuery::union(terms.collect())),
                }
            }
            ScoringQuery::Matcher(matcher) => matcher.box_clone(),
        }
    }
}

/// The condition that a query sets.
pub(super) struct Condition {
    /// Must match; everything if `None`.
    pub(super) needed: Option<Box<dyn Matcher>>,
    /// Must not match.
    pub(super) excluded: Option<Box<dyn Matcher>>,
}

impl Condition {
    fn needs(matcher: Box<dyn Matcher>) -> Condition {
        Condition { needed: Some(matcher), excluded: None }
    }

    fn into_matcher(self) -> Box<dyn Matcher> {
        let needed = self.needed.unwrap_or_else(|| Box::new(AllQuery));
        match self.excluded {
            Some(excluded) => {
                Box::new(BooleanQuery::new(vec![(Occur::Must, needed), (Occur::MustNot, excluded)]))
            }
            None => needed,
        }
    }
}

impl LexicalView {
    /// Compiles a query whose fields are all known.
    pub(crate) fn compile(&self, query: &Query, context: QueryContext<'_>) -> tantivy::Result<LexicalQuery> {
        let QueryContext { mode, existing, is_unfinished, select, text_of } = context;
        let corrections_max = if mode == RetrievalMode::Dense { 0 } else { CORRECTIONS_MAX };
        let mut compiler = Compiler {
            view: self,
            select,
            text_of,
            existing,
            corrections_max,
            terms: Vec::new(),
            corrections: Vec::new(),
            frequencies: DocumentFrequencies::new(),
        };
        let ranking = match query {
            Query::Words(text) => {
                let field = self.fields.text;
                let term_postings = match is_unfinished {
                    true => compiler.unfinished(text, field)?,
                    false => compiler.words(text, field)?,
                };
                (!term_postings.is_empty()).then_some(ScoringQuery::AnyOf(term_postings))
            }
            Query::Phrase(_) | Query::Prefix(_) | Query::Field { .. } | Query::Boolean { .. } => {
                compiler.ranking(query)?.map(ScoringQuery::Matcher)
            }
        };
        compiler.corrections_max = CORRECTIONS_MAX;
        // terms and corrections of the condition would be counted twice
        let (terms, corrections) = (compiler.terms.clone(), std::mem::take(&mut compiler.corrections));
        let condition = compiler.condition(query)?;
        Ok(LexicalQuery { ranking, condition, terms, corrections, frequencies: compiler.frequencies })
    }
}

/// What a query is compiled for.
#[derive(Clone, Copy)]
pub(crate) struct QueryContext<'a> {
    /// In dense mode only words in conditions are corrected.
    pub(crate) mode: RetrievalMode,
    /// The chunks that exist for the caller: words are corrected to theirs.
    pub(crate) existing: Visible<'a>,
    /// Whether the last word may be the beginning of one.
    pub(crate) is_unfinished: bool,
    /// The chunks of the documents that pass a filter.
    pub(crate) select: &'a dyn Fn(&Filter) -> Arc<Selection>,
    /// Title and text of a chunk.
    pub(crate) text_of: &'a dyn Fn(u32) -> Option<String>,
}

struct Compiler<'a> {
    view: &'a LexicalView,
    select: &'a dyn Fn(&Filter) -> Arc<Selection>,
    text_of: &'a dyn Fn(u32) -> Option<String>,
    existing: Visible<'a>,
    corrections_max: usize,
    terms: Vec<QueryTerm>,
    corrections: Vec<SpellingCorrection>,
    frequencies: DocumentFrequencies,
}

impl Compiler<'_> {
    /// The scoring query; `None` if analysis leaves no term.
    fn ranking(&mut self, query: &Query) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        self.in_field(query, self.view.fields.text)
    }

    fn in_field(&mut self, query: &Query, field: Field) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        match query {
            Query::Words(text) => {
                let term_postings = self.words(text, field)?;
                Ok((!term_postings.is_empty()).then(|| ScoringQuery::AnyOf(term_postings).matcher(field)))
            }
            Query::Phrase(text) => Ok(self.phrase(text, field)),
            Query::Prefix(text) => self.prefix(text, field),
            Query::Field { name, value, .. } if name == TITLE => self.in_field(value, self.view.fields.title),
            Query::Field { name, value, .. } => {
                Ok(Some(Box::new(self.view.chunk_ids_query((self.select)(&field_filter(name, value))))))
            }
            Query::Boolean { must, should, must_not } => self.boolean(must, should, must_not),
        }
    }

    /// The terms of a text; a term that occurs in no chunk is replaced by similar ones.
    fn words(&mut self, text: &str, field: Field) -> tantivy::Result<Vec<TermPostings>> {
        let mut terms = weir_text::query_terms(text, self.view.language);
        terms.truncate(QUERY_TERMS_MAX);
        let mut term_postings = Vec::with_capacity(terms.len());
        for term in terms {
            let found = self.postings_of(field, term)?;
            if found.chunks() > 0 {
                term_postings.push(found);
                continue;
            }
            let term = found.term;
            let replacements = match self.corrections.len() < self.corrections_max {
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
                term_postings.push(self.postings_of(field, other)?);
                words.push(word);
            }
            let typed = weir_text::word_with_term(text, self.view.language, &term.text);
            self.corrections
                .push(SpellingCorrection { word: typed.unwrap_or(term.text), replacements: words });
        }
        self.terms.extend(term_postings.iter().map(|term_postings| term_postings.term.clone()));
        Ok(term_postings)
    }

    /// Looks up the postings of a term, and remembers its document frequency.
    fn postings_of(&mut self, field: Field, term: QueryTerm) -> tantivy::Result<TermPostings> {
        let key = Term::from_field_text(field, &term.text);
        let segments = self.view.searcher.segment_readers().iter();
        let postings = segments
            .map(|segment| Ok(segment.inverted_index(field)?.get_term_info(&key)?))
            .collect::<tantivy::Result<Vec<_>>>()?;
        let term_postings = TermPostings { term, postings };
        self.frequencies.insert(key, term_postings.chunks());
        Ok(term_postings)
    }

    /// The terms of a text whose last word may be unfinished: it stands for itself and for the most frequent terms that it begins.
    fn unfinished(&mut self, text: &str, field: Field) -> tantivy::Result<Vec<TermPostings>> {
        let mut last = None;
        weir_text::analyse(text, Language::None, |token| last = Some((token.start, token.text.to_owned())));
        let Some((start, beginning)) = last.filter(|(_, last)| last.chars().count() >= BEGINNING_CHARS_MIN)
        else {
            return self.words(text, field);
        };
        if text.ends_with(char::is_whitespace) {
            return self.words(text, field);
        }
        let mut terms = near_terms::expand_prefix(&self.view.searcher, field, &beginning)?;
        terms.truncate(COMPLETIONS_MAX);
        if terms.is_empty() {
            // as a whole word it is perhaps known, or misspelt
            return self.words(text, field);
        }
        let whole = weir_text::query_terms(&text[start..], self.view.language);
        terms.extend(whole.into_iter().map(|term| term.text));
        terms.sort_unstable();
        terms.dedup();
        let before = weir_text::query_terms(&text[..start], self.view.language);
        terms.retain(|term| before.iter().all(|known| known.text != *term));
        let mut term_postings = self.words(&text[..start], field)?;
        for term in terms {
            let found = self.postings_of(field, once(term))?;
            self.terms.push(found.term.clone());
            term_postings.push(found);
        }
        Ok(term_postings)
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
        let mut replacements = Vec::new();
        for other in near_terms::correct_spelling(&self.view.words, &word, term, stems) {
            // the spelling index also has words of titles and of deleted documents
            if let Some(chunk_id) = self.existing_chunk(field, &other)? {
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

    /// A chunk that exists for the caller and contains the term. Reads postings up to the first such chunk.
    fn existing_chunk(&self, field: Field, term: &str) -> tantivy::Result<Option<u32>> {
        let term = Term::from_field_text(field, term);
        for segment in self.view.searcher.segment_readers() {
            let chunk_ids = self.view.chunk_ids.get(segment).unwrap_or_default();
            let index = segment.inverted_index(field)?;
            let Some(mut postings) = index.read_postings(&term, IndexRecordOption::Basic)? else { continue };
            while postings.doc() != TERMINATED {
                let entry = postings.doc();
                let chunk_id = chunk_ids[entry as usize];
                if !segment.is_deleted(entry) && self.existing.contains(chunk_id) {
                    return Ok(Some(chunk_id));
                }
                postings.advance();
            }
        }
        Ok(None)
    }

    fn any_of(&mut self, terms: Vec<QueryTerm>, field: Field) -> Option<Box<dyn Matcher>> {
        let mut queries: Vec<Box<dyn Matcher>> = terms.iter().map(|term| term_query(field, term)).collect();
        self.terms.extend(terms);
        match queries.len() {
            0 => None,
            1 => queries.pop(),
            _ => Some(Box::new(BooleanQuery::union(queries))),
        }
    }

    /// Adjacent terms. Includes stop words, which documents keep.
    fn phrase(&mut self, text: &str, field: Field) -> Option<Box<dyn Matcher>> {
        let mut terms = tokens(text, self.view.language);
        terms.truncate(QUERY_TERMS_MAX);
        if terms.len() < 2 {
            return self.any_of(terms.into_iter().map(once).collect(), field);
        }
        let query = PhraseQuery::new(terms.iter().map(|term| Term::from_field_text(field, term)).collect());
        self.terms.extend(terms.into_iter().map(once));
        Some(Box::new(query))
    }

    /// All words but the last as they are, and the last as a prefix.
    fn prefix(&mut self, text: &str, field: Field) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        // terms are stems, which are shorter than their words: `running*` also matches the stem `run`
        let mut whole = tokens(text, self.view.language);
        let Some(stem) = whole.pop() else { return Ok(None) };
        let beginning = tokens(text, Language::None).pop().unwrap_or_default();
        let mut terms = near_terms::expand_prefix(&self.view.searcher, field, &beginning)?;
        if !terms.contains(&stem) {
            terms.push(stem);
        }
        let last = self.any_of(terms.into_iter().map(once).collect(), field);
        if whole.is_empty() {
            return Ok(last);
        }
        let words =
            whole.into_iter().filter_map(|term| self.any_of(vec![once(term)], field)).collect::<Vec<_>>();
        Ok(Some(Box::new(BooleanQuery::intersection(words.into_iter().chain(last).collect()))))
    }

    fn boolean(
        &mut self,
        must: &[Query],
        should: &[Query],
        must_not: &[Query],
    ) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        let mut clauses = Vec::new();
        for (occur, queries) in [(Occur::Must, must), (Occur::Should, should)] {
            for query in queries {
                clauses.extend(self.ranking(query)?.map(|query| (occur, query)));
            }
        }
        if clauses.is_empty() {
            return Ok(None);
        }
        clauses.extend(self.excluded(must_not)?.map(|excluded| (Occur::MustNot, excluded)));
        match <[(Occur, Box<dyn Matcher>); 1]>::try_from(clauses) {
            Ok([(_, only)]) => Ok(Some(only)),
            Err(clauses) => Ok(Some(Box::new(BooleanQuery::new(clauses)))),
        }
    }

    /// Excluded parts neither score nor are corrected.
    fn excluded(&mut self, must_not: &[Query]) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        let (terms, corrections) = (self.terms.len(), self.corrections.len());
        let mut excluded = Vec::new();
        for query in must_not {
            excluded.extend(self.ranking(query)?);
        }
        self.terms.truncate(terms);
        self.corrections.truncate(corrections);
        if excluded.is_empty() {
            return Ok(None);
        }
        let excluded = BooleanQuery::union(excluded);
        if must_not.iter().all(|query| matches!(query, Query::Words(_))) {
            return Ok(Some(Box::new(excluded)));
        }
        // Tantivy seeks excluded queries backwards, which phrases do not support
        let chunk_ids = self.view.matching(&excluded, self.existing.tombstones.len())?;
        Ok(Some(Box::new(self.view.chunk_ids_query(Arc::new(chunk_ids)))))
    }

    /// The condition on chunks of both retrievers: fields, required and excluded parts, and a phrase that is the whole query.
    /// Words and prefixes side by side only score.
    fn condition(&mut self, query: &Query) -> tantivy::Result<Option<Condition>> {
        match query {
            Query::Words(_) | Query::Prefix(_) => Ok(None),
            Query::Phrase(_) | Query::Field { .. } => Ok(Some(Condition::needs(self.needed(query)?))),
            Query::Boolean { must, should, must_not } => {
                let mut needed = Vec::new();
                for query in must {
                    needed.push(self.needed(query)?);
                }
                if must.is_empty() {
                    let conditions = should
                        .iter()
                        .map(|query| self.condition(query))
                        .collect::<tantivy::Result<Vec<_>>>()?;
                    // an alternative without a condition admits everything
                    if let Some(conditions) = conditions.into_iter().collect::<Option<Vec<_>>>() {
                        let alternatives = conditions.into_iter().map(Condition::into_matcher).collect();
                        needed.push(Box::new(BooleanQuery::union(alternatives)));
                    }
                }
                let excluded = self.excluded(must_not)?;
                if needed.is_empty() && excluded.is_none() {
                    return Ok(None);
                }
                let needed = (!needed.is_empty())
                    .then(|| Box::new(BooleanQuery::intersection(needed)) as Box<dyn Matcher>);
                Ok(Some(Condition { needed, excluded }))
            }
        }
    }

    /// The query for a required part. A part without a term is ignored.
    fn needed(&mut self, query: &Query) -> tantivy::Result<Box<dyn Matcher>> {
        if is_without_terms(query, self.view.language) {
            return Ok(Box::new(AllQuery));
        }
        // the word occurs in no document, nor does a similar one
        Ok(self.ranking(query)?.unwrap_or_else(|| Box::new(EmptyQuery)))
    }
}

fn is_without_terms(query: &Query, language: Language) -> bool {
    match query {
        Query::Words(text) | Query::Phrase(text) | Query::Prefix(text) => tokens(text, language).is_empty(),
        Query::Field { name, value, .. } => name == TITLE && is_without_terms(value, language),
        Query::Boolean { must, should, .. } => {
            must.iter().chain(should).all(|query| is_without_terms(query, language))
        }
    }
}

/// A term is weighted by its count in the query.
fn term_query(field: Field, term: &QueryTerm) -> Box<dyn Matcher> {
    let query = TermQuery::new(Term::from_field_text(field, &term.text), IndexRecordOption::WithFreqs);
    match term.count {
        1 => Box::new(query),
        count => Box::new(BoostQuery::new(Box::new(query), count as f32)),
    }
}

fn once(text: String) -> QueryTerm {
    QueryTerm { text, count: 1 }
}

fn tokens(text: &str, language: Language) -> Vec<String> {
    let mut terms = Vec::new();
    weir_text::analyse(text, language, |token| terms.push(token.text.to_owned()));
    terms
}

/// The meaning of `name:value` for metadata: a string, or the number, boolean or date with this spelling.
fn field_filter(name: &str, value: &Query) -> Filter {
    let condition = |test| Filter::Condition { path: name.to_owned(), test };
    match value {
        Query::Prefix(text) => condition(Test::StartsWith(text.clone())),
        Query::Words(text) | Query::Phrase(text) => {
            let mut values = vec![Value::String(text.clone())];
            values.extend(serde_json::from_str(text).ok().as_ref().and_then(Value::from_json));
            condition(Test::In(values))
        }
        Query::Field { .. } | Query::Boolean { .. } => Filter::Or(Vec::new()),
    }
}
