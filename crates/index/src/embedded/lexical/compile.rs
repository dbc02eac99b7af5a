//! From a parsed query to what Tantivy runs.

use std::sync::Arc;

use tantivy::postings::TermInfo;
use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, EmptyQuery, Occur, PhraseQuery, Query as Matcher, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet as _, TERMINATED, Term};
use weir_text::{Language, QueryTerm};

use super::statistics::Frequencies;
use super::{LexicalView, TITLE, similar};
use crate::Mode;
use crate::embedded::selection::Selection;
use crate::embedded::tombstones::Tombstones;
use crate::query::Query;
use crate::search::Correction;
use weir_filter::{Filter, Test, Value};

/// A query looks for no more distinct terms than this, in the order of the text.
const QUERY_TERMS_MAX: usize = 64;

/// So many words of a query are looked up among those like them.
const CORRECTIONS_MAX: usize = 8;
/// Terms that are searched in place of a word that no document holds.
const INSTEAD_MAX: usize = 3;

/// A query as the lexical leg runs it.
pub(crate) struct LexicalQuery {
    /// What ranks chunks; `None` without a term.
    pub(super) ranking: Option<Ranking>,
    /// What chunks have to satisfy to be found by either leg; `None` when the query sets no condition.
    pub(super) condition: Option<Condition>,
    /// The terms that rank, and those that would if a document held them.
    pub(crate) terms: Vec<QueryTerm>,
    /// Words that no document holds.
    pub(crate) corrections: Vec<Correction>,
    /// Of the terms that were looked up.
    pub(super) frequencies: Frequencies,
}

/// What ranks chunks.
pub(super) enum Ranking {
    /// Words side by side, which most queries are.
    AnyOf(Vec<Searched>),
    Matcher(Box<dyn Matcher>),
}

/// A term of which chunks hold it.
pub(super) struct Searched {
    pub(super) term: QueryTerm,
    /// Where each segment has its postings, in the order of the searcher.
    pub(super) postings: Vec<Option<TermInfo>>,
}

impl Searched {
    /// Number of chunks that hold it, as far as segments know.
    pub(super) fn chunks(&self) -> u64 {
        self.postings.iter().flatten().map(|postings| u64::from(postings.doc_freq)).sum()
    }
}

impl Ranking {
    /// The same for Tantivy.
    pub(super) fn matcher(&self, field: Field) -> Box<dyn Matcher> {
        match self {
            Ranking::AnyOf(searched) => {
                let mut terms = searched.iter().map(|searched| term_query(field, &searched.term));
                match searched.len() {
                    1 => terms.next().unwrap_or_else(|| Box::new(EmptyQuery)),
                    _ => Box::new(BooleanQuery::union(terms.collect())),
                }
            }
            Ranking::Matcher(matcher) => matcher.box_clone(),
        }
    }
}

/// What a query sets as a condition.
pub(super) struct Condition {
    /// What has to match; everything does without it.
    pub(super) needed: Option<Box<dyn Matcher>>,
    /// What must not.
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
    /// Compiles a query of which every field is known, for a snapshot with these slots. `select` gives the slots of the documents that pass a filter. Where the
    /// dense leg alone ranks, only words that are needed are corrected.
    pub(crate) fn compile(
        &self,
        query: &Query,
        mode: Mode,
        tombstones: &Tombstones,
        select: impl Fn(&Filter) -> Arc<Selection>,
    ) -> tantivy::Result<LexicalQuery> {
        let corrections_max = if mode == Mode::Dense { 0 } else { CORRECTIONS_MAX };
        let mut compiler = Compiler {
            view: self,
            select: &select,
            tombstones,
            corrections_max,
            terms: Vec::new(),
            corrections: Vec::new(),
            frequencies: Frequencies::new(),
        };
        let ranking = match query {
            Query::Words(text) => {
                let searched = compiler.words(text, self.fields.text)?;
                (!searched.is_empty()).then_some(Ranking::AnyOf(searched))
            }
            Query::Phrase(_) | Query::Prefix(_) | Query::Field { .. } | Query::Boolean { .. } => {
                compiler.ranking(query)?.map(Ranking::Matcher)
            }
        };
        compiler.corrections_max = CORRECTIONS_MAX;
        // what the condition adds to them would count double
        let (terms, corrections) = (compiler.terms.clone(), std::mem::take(&mut compiler.corrections));
        let condition = compiler.condition(query)?;
        Ok(LexicalQuery { ranking, condition, terms, corrections, frequencies: compiler.frequencies })
    }
}

struct Compiler<'a> {
    view: &'a LexicalView,
    select: &'a dyn Fn(&Filter) -> Arc<Selection>,
    tombstones: &'a Tombstones,
    corrections_max: usize,
    terms: Vec<QueryTerm>,
    corrections: Vec<Correction>,
    frequencies: Frequencies,
}

impl Compiler<'_> {
    /// What matches and scores; `None` for what analysis leaves without a term.
    fn ranking(&mut self, query: &Query) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        self.in_field(query, self.view.fields.text)
    }

    fn in_field(&mut self, query: &Query, field: Field) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        match query {
            Query::Words(text) => {
                let searched = self.words(text, field)?;
                Ok((!searched.is_empty()).then(|| Ranking::AnyOf(searched).matcher(field)))
            }
            Query::Phrase(text) => Ok(self.phrase(text, field)),
            Query::Prefix(text) => self.prefix(text, field),
            Query::Field { name, value, .. } if name == TITLE => self.in_field(value, self.view.fields.title),
            Query::Field { name, value, .. } => {
                Ok(Some(Box::new(self.view.slots_query((self.select)(&field_filter(name, value))))))
            }
            Query::Boolean { must, should, must_not } => self.boolean(must, should, must_not),
        }
    }

    /// The terms of a text that chunks hold, or others in place of those that none holds.
    fn words(&mut self, text: &str, field: Field) -> tantivy::Result<Vec<Searched>> {
        let mut terms = weir_text::query_terms(text, self.view.language);
        terms.truncate(QUERY_TERMS_MAX);
        let mut searched = Vec::with_capacity(terms.len());
        for term in terms {
            let found = self.look_up(field, term)?;
            if found.chunks() > 0 {
                searched.push(found);
                continue;
            }
            let term = found.term;
            let may_correct = self.corrections.len() < self.corrections_max;
            let instead = match may_correct {
                true => self.misspelt(&term.text, field)?,
                false => Vec::new(),
            };
            if instead.is_empty() {
                self.terms.push(term);
                continue;
            }
            for other in &instead {
                let other = QueryTerm { text: other.clone(), count: term.count };
                searched.push(self.look_up(field, other)?);
            }
            self.corrections.push(Correction { term: term.text, instead });
        }
        self.terms.extend(searched.iter().map(|searched| searched.term.clone()));
        Ok(searched)
    }

    /// Where the postings of a term are. In how many chunks it is will not be looked up again.
    fn look_up(&mut self, field: Field, term: QueryTerm) -> tantivy::Result<Searched> {
        let key = Term::from_field_text(field, &term.text);
        let segments = self.view.searcher.segment_readers().iter();
        let postings = segments
            .map(|segment| Ok(segment.inverted_index(field)?.get_term_info(&key)?))
            .collect::<tantivy::Result<Vec<_>>>()?;
        let searched = Searched { term, postings };
        self.frequencies.insert(key, searched.chunks());
        Ok(searched)
    }

    /// The terms of the field that are searched in place of a word that no document holds: such as a document holds.
    fn misspelt(&self, word: &str, field: Field) -> tantivy::Result<Vec<String>> {
        let stems = |words: &str, visit: &mut dyn FnMut(&str)| {
            weir_text::analyse(words, self.view.language, |token| visit(token.text));
        };
        let mut instead = Vec::new();
        for term in similar::misspelt(&self.view.words, word, stems) {
            // words are those of texts with their titles, and of removed documents too
            if self.is_held(field, &term)? {
                instead.push(term);
            }
            if instead.len() == INSTEAD_MAX {
                break;
            }
        }
        Ok(instead)
    }

    /// Whether a chunk that is there holds the term. Postings are read up to the first such chunk.
    fn is_held(&self, field: Field, term: &str) -> tantivy::Result<bool> {
        let term = Term::from_field_text(field, term);
        for segment in self.view.searcher.segment_readers() {
            let slots = self.view.slots.get(segment).unwrap_or_default();
            let index = segment.inverted_index(field)?;
            let Some(mut postings) = index.read_postings(&term, IndexRecordOption::Basic)? else { continue };
            while postings.doc() != TERMINATED {
                let entry = postings.doc();
                if !segment.is_deleted(entry) && self.tombstones.is_live(slots[entry as usize]) {
                    return Ok(true);
                }
                postings.advance();
            }
        }
        Ok(false)
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

    /// The terms next to each other. Stop words count, as documents keep theirs.
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

    /// Every word but the last as it stands, and the last as the beginning of one.
    fn prefix(&mut self, text: &str, field: Field) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        // Terms are stems, which words are longer than: `running*` means the stem `run` too.
        let mut whole = tokens(text, self.view.language);
        let Some(stem) = whole.pop() else { return Ok(None) };
        let beginning = tokens(text, Language::None).pop().unwrap_or_default();
        let mut terms = similar::beginning_with(&self.view.searcher, field, &beginning)?;
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

    /// What is excluded neither ranks nor is corrected.
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
        // Tantivy asks what is excluded for entries behind the one that it stands at, which phrases don't allow
        let slots = self.view.matching(&excluded, self.tombstones.slots())?;
        Ok(Some(Box::new(self.view.slots_query(Arc::new(slots)))))
    }

    /// What a chunk has to satisfy whichever leg finds it: fields, what is needed and what is excluded, and a phrase that is the
    /// whole query. Words and prefixes side by side only rank.
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
                    // one alternative without a condition lets everything through
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

    /// What matches a query that is needed. One without a term is left out.
    fn needed(&mut self, query: &Query) -> tantivy::Result<Box<dyn Matcher>> {
        if is_without_terms(query, self.view.language) {
            return Ok(Box::new(AllQuery));
        }
        // a word that no document holds, nor one like it
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

/// A term counts as often as it was said.
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

/// What `name:value` means of metadata: a string, or the number, boolean or date that is written so.
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
