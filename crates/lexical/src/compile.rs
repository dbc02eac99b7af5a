//! Compiler: from a parsed query to queries that Tantivy executes.

use std::sync::Arc;

use tantivy::Term;
use tantivy::postings::TermInfo;
use tantivy::query::{
    AllQuery, BooleanQuery, BoostQuery, EmptyQuery, Occur, PhraseQuery, Query as Matcher, TermQuery,
};
use tantivy::schema::{Field, IndexRecordOption};
use weir_filter::{Filter, Test, Value};
use weir_query::Query;
use weir_ranking::{RetrievalMode, Selection, Visible};
use weir_text::{Language, QueryCompound, QueryTerm, TokenKind, sequence, words};

use super::bag::{Bag, QUERY_TERMS_MAX};
use super::existing::Existing;
use super::expansion::ExpansionLimit;
use super::explain::ScoredPart;
use super::statistics::{CollectionTotals, DocumentFrequencies};
use super::{LexicalView, TITLE, near_terms, wildcard};
use crate::{LexicalError, LexicalSettings, Result};

/// Maximum number of query words that are corrected.
const CORRECTIONS_MAX: usize = 8;

/// A query word that occurs in no document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpellingCorrection {
    /// The word of the query, in lower case.
    pub word: String,
    /// The words searched instead, as in a document, nearest first, then most frequent.
    pub replacements: Vec<String>,
}

/// A compiled query.
pub struct LexicalQuery {
    /// The scoring part; `None` without a term.
    pub(super) ranking: Option<ScoringQuery>,
    /// The condition on chunks of both retrievers; `None` if the query sets none.
    pub(super) condition: Option<Condition>,
    /// The scoring terms, including those that occur in no document.
    pub terms: Vec<QueryTerm>,
    /// The corrected words.
    pub corrections: Vec<SpellingCorrection>,
    /// The terms, and sequences of terms, that are searched beside the query.
    pub synonyms: Vec<String>,
    /// The scored parts.
    pub(super) scored: Vec<ScoredPart>,
    /// Whether each prefix and wildcard is expanded to all terms that it matches: else chunks match that are not found.
    pub is_complete: bool,
    /// How often a term in the title counts.
    pub(super) title_weight: f32,
    /// Of the terms looked up so far; of all, if there are `totals`.
    pub(super) frequencies: DocumentFrequencies,
    /// Sums over the chunks that exist for a caller with a mandatory filter: scores are computed from these.
    pub(super) totals: Option<Arc<CollectionTotals>>,
}

/// The scoring part of a query.
pub(super) enum ScoringQuery {
    /// A bag of words, as most queries are, some of which count more if they are adjacent.
    AnyOf(Bag),
    Matcher(Box<dyn Matcher>),
}

/// A term and its postings.
#[derive(Clone)]
pub(super) struct TermPostings {
    pub(super) term: QueryTerm,
    /// Location of the postings in each segment, in the order of the searcher.
    pub(super) postings: Vec<Option<TermInfo>>,
    /// Number of chunks that exist and contain it, see [`ChunkCounter::count`](super::existing::ChunkCounter::count).
    pub(super) chunks: u64,
}

impl ScoringQuery {
    /// The equivalent Tantivy query.
    pub(super) fn matcher(&self, field: Field) -> Box<dyn Matcher> {
        self.matcher_with(field, true)
    }

    /// A query that finds the same chunks with other scores: a chunk with a compound has its parts.
    pub(super) fn unscored_matcher(&self, field: Field) -> Box<dyn Matcher> {
        self.matcher_with(field, false)
    }

    fn matcher_with(&self, field: Field, has_compounds: bool) -> Box<dyn Matcher> {
        match self {
            ScoringQuery::AnyOf(bag) => {
                let terms = bag.terms.iter().map(|postings| term_query(field, &postings.term));
                let compounds = bag.compounds.iter().filter(|_| has_compounds);
                let adjacent = compounds.chain(&bag.phrases).map(|phrase| boosted_phrase(field, phrase));
                union(terms.chain(adjacent).collect()).unwrap_or_else(|| Box::new(EmptyQuery))
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
    ///
    /// # Errors
    /// [`LexicalError::Tantivy`] if terms cannot be read.
    pub fn compile(&self, query: &Query, context: QueryContext<'_>) -> Result<LexicalQuery> {
        self.compiled(query, context).map_err(LexicalError::during("search"))
    }

    fn compiled(&self, query: &Query, context: QueryContext<'_>) -> tantivy::Result<LexicalQuery> {
        let QueryContext { mode, existing, totals, is_unfinished, expanded_terms_max, .. } = context;
        let QueryContext { settings, select, text_of, .. } = context;
        let existing = Existing { view: self, visible: existing };
        let corrections_max = if mode == RetrievalMode::Dense { 0 } else { CORRECTIONS_MAX };
        let mut compiler = Compiler {
            view: self,
            select,
            text_of,
            existing,
            settings,
            corrections_max,
            expansion: ExpansionLimit::of(query, expanded_terms_max),
            terms: Vec::new(),
            corrections: Vec::new(),
            synonyms: Vec::new(),
            scored: Vec::new(),
            is_complete: true,
            frequencies: DocumentFrequencies::new(),
        };
        let ranking = match query {
            Query::Words(text) => {
                let field = self.fields.text;
                let bag = match is_unfinished {
                    true => compiler.unfinished(text, field)?,
                    false => compiler.words(text, field)?,
                };
                match settings.title_weight == 1.0 {
                    true if bag.terms.is_empty() && bag.phrases.is_empty() => None,
                    true => Some(ScoringQuery::AnyOf(bag)),
                    false => compiler.any_of_bag(&bag, field).map(ScoringQuery::Matcher),
                }
            }
            Query::Phrase(_)
            | Query::Prefix(_)
            | Query::Wildcard(_)
            | Query::Field { .. }
            | Query::Boolean { .. } => compiler.ranking(query)?.map(ScoringQuery::Matcher),
        };
        compiler.corrections_max = CORRECTIONS_MAX;
        // terms and corrections of the condition would be counted twice
        let (terms, corrections) = (compiler.terms.clone(), std::mem::take(&mut compiler.corrections));
        let (synonyms, scored) =
            (std::mem::take(&mut compiler.synonyms), std::mem::take(&mut compiler.scored));
        let condition = compiler.condition(query)?;
        if let Some(ranking) = ranking.as_ref().filter(|_| existing.is_restricted()) {
            compiler.look_up_all(ranking, &terms)?;
        }
        Ok(LexicalQuery {
            ranking,
            condition,
            terms,
            corrections,
            synonyms,
            scored,
            is_complete: compiler.is_complete,
            title_weight: settings.title_weight,
            frequencies: compiler.frequencies,
            totals: totals.cloned(),
        })
    }
}

/// The context for which a query is compiled.
#[derive(Clone, Copy)]
pub struct QueryContext<'a> {
    /// In dense mode only words in conditions are corrected.
    pub mode: RetrievalMode,
    /// The chunks that exist for the caller: words are corrected to theirs, and prefixes expand to theirs.
    pub existing: Visible<'a>,
    /// [`LexicalView::totals_of`] these chunks, if a mandatory filter selects them.
    pub totals: Option<&'a Arc<CollectionTotals>>,
    /// Whether the last word may be the beginning of one.
    pub is_unfinished: bool,
    /// Maximum number of terms that all prefixes and wildcards together expand to.
    pub expanded_terms_max: usize,
    /// Synonyms, stop words and weights.
    pub settings: &'a LexicalSettings,
    /// The chunks of the documents that pass a filter.
    pub select: &'a dyn Fn(&Filter) -> Arc<Selection>,
    /// Title and text of a chunk.
    pub text_of: &'a dyn Fn(u32) -> Option<String>,
}

pub(super) struct Compiler<'a> {
    pub(super) view: &'a LexicalView,
    select: &'a dyn Fn(&Filter) -> Arc<Selection>,
    pub(super) text_of: &'a dyn Fn(u32) -> Option<String>,
    pub(super) existing: Existing<'a>,
    pub(super) settings: &'a LexicalSettings,
    pub(super) corrections_max: usize,
    pub(super) expansion: ExpansionLimit,
    pub(super) terms: Vec<QueryTerm>,
    pub(super) corrections: Vec<SpellingCorrection>,
    pub(super) synonyms: Vec<String>,
    /// The scored parts so far.
    pub(super) scored: Vec<ScoredPart>,
    /// Whether each prefix and wildcard so far is expanded to all terms that it matches.
    is_complete: bool,
    pub(super) frequencies: DocumentFrequencies,
}

impl Compiler<'_> {
    /// The scoring query; `None` if analysis leaves no term.
    fn ranking(&mut self, query: &Query) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        self.in_field(query, self.view.fields.text)
    }

    fn in_field(&mut self, query: &Query, field: Field) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        match query {
            Query::Words(text) => {
                let bag = self.words(text, field)?;
                Ok(self.any_of_bag(&bag, field))
            }
            Query::Phrase(text) => Ok(self.phrase(text, field)),
            Query::Prefix(text) => self.prefix(text, field),
            Query::Wildcard(pattern) => self.wildcard(pattern, field),
            Query::Field { name, value, .. } if name == TITLE => self.in_field(value, self.view.fields.title),
            Query::Field { name, value, .. } => {
                Ok(Some(Box::new(self.view.chunk_ids_query((self.select)(&field_filter(name, value))))))
            }
            Query::Boolean { must, should, must_not } => self.boolean(must, should, must_not),
        }
    }

    fn any_of(&mut self, terms: Vec<QueryTerm>, field: Field) -> Option<Box<dyn Matcher>> {
        let queries =
            terms.iter().map(|term| self.weighted(field, |field| term_query(field, term))).collect();
        self.scored.extend(terms.iter().map(|term| ScoredPart::of_term(field, term)));
        self.terms.extend(terms);
        union(queries)
    }

    /// The query for the terms and phrases of a bag, any of which may match.
    fn any_of_bag(&self, bag: &Bag, field: Field) -> Option<Box<dyn Matcher>> {
        let terms =
            bag.terms.iter().map(|postings| self.weighted(field, |field| term_query(field, &postings.term)));
        let adjacent = bag.compounds.iter().chain(&bag.phrases);
        let adjacent = adjacent.map(|phrase| self.weighted(field, |field| boosted_phrase(field, phrase)));
        union(terms.chain(adjacent).collect())
    }

    /// A query for the combined field, to which the weight of titles is applied, or for another field.
    fn weighted(&self, field: Field, query: impl Fn(Field) -> Box<dyn Matcher>) -> Box<dyn Matcher> {
        let more = self.settings.title_weight - 1.0;
        if field != self.view.fields.text || more <= 0.0 {
            return query(field);
        }
        let title = Box::new(BoostQuery::new(query(self.view.fields.title), more));
        Box::new(BooleanQuery::union(vec![query(field), title]))
    }

    /// Counts the chunks of every term by which `ranking` scores, and of `terms`.
    fn look_up_all(&mut self, ranking: &ScoringQuery, terms: &[QueryTerm]) -> tantivy::Result<()> {
        let field = self.view.fields.text;
        let mut all: Vec<Term> = terms.iter().map(|term| Term::from_field_text(field, &term.text)).collect();
        ranking.matcher(field).query_terms(&mut |term, _| all.push(term.clone()));
        for term in all {
            if !self.frequencies.contains_key(&term) {
                let chunks = self.existing.count_of(&term)?;
                self.frequencies.insert(term, chunks);
            }
        }
        Ok(())
    }

    /// The terms that match a pattern.
    fn wildcard(&mut self, pattern: &str, field: Field) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        let expansion = wildcard::expand(self.existing, field, pattern, self.expansion)?;
        self.is_complete &= expansion.is_complete;
        Ok(self.any_of(expansion.terms.into_iter().map(once).collect(), field))
    }

    /// Adjacent terms. Includes stop words, which documents keep. A single compound also matches as one term.
    fn phrase(&mut self, text: &str, field: Field) -> Option<Box<dyn Matcher>> {
        let mut terms = sequence(text, self.view.language);
        terms.truncate(QUERY_TERMS_MAX);
        if terms.len() < 2 {
            return self.any_of(terms.into_iter().map(once).collect(), field);
        }
        let phrase = self.weighted(field, |field| phrase_query(field, &terms));
        let whole =
            self.any_of(whole_compound(text, self.view.language).map(once).into_iter().collect(), field);
        self.scored.push(ScoredPart::of(field, &QueryCompound { terms: terms.clone(), weight: 1.0 }));
        self.terms.extend(terms.into_iter().map(once));
        union(whole.into_iter().chain([phrase]).collect())
    }

    /// All words but the last as they are, and the last as a prefix.
    fn prefix(&mut self, text: &str, field: Field) -> tantivy::Result<Option<Box<dyn Matcher>>> {
        // terms are stems, which are shorter than their words: `running*` also matches the stem `run`
        let mut whole = words(text, self.view.language);
        let Some(stem) = whole.pop() else { return Ok(None) };
        let beginning = words(text, Language::None).pop().unwrap_or_default();
        let expansion = near_terms::expand_prefix(self.existing, field, &beginning, self.expansion)?;
        self.is_complete &= expansion.is_complete;
        let mut terms = expansion.terms;
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
        let scored = self.scored.len();
        let mut excluded = Vec::new();
        for query in must_not {
            excluded.extend(self.ranking(query)?);
        }
        self.terms.truncate(terms);
        self.corrections.truncate(corrections);
        self.scored.truncate(scored);
        if excluded.is_empty() {
            return Ok(None);
        }
        let excluded = BooleanQuery::union(excluded);
        if must_not.iter().all(|query| matches!(query, Query::Words(_))) {
            return Ok(Some(Box::new(excluded)));
        }
        // Tantivy seeks excluded queries backwards, which phrases do not support
        let chunk_ids = self.view.matching(&excluded, self.existing.visible.tombstones.len())?;
        Ok(Some(Box::new(self.view.chunk_ids_query(Arc::new(chunk_ids)))))
    }

    /// The condition on chunks of both retrievers: fields, required and excluded parts, and a phrase that is the whole query.
    /// Words and prefixes side by side only score.
    fn condition(&mut self, query: &Query) -> tantivy::Result<Option<Condition>> {
        match query {
            Query::Words(_) | Query::Prefix(_) | Query::Wildcard(_) => Ok(None),
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
        Query::Words(text) | Query::Phrase(text) | Query::Prefix(text) => sequence(text, language).is_empty(),
        Query::Wildcard(_) => false,
        Query::Field { name, value, .. } => name == TITLE && is_without_terms(value, language),
        Query::Boolean { must, should, .. } => {
            must.iter().chain(should).all(|query| is_without_terms(query, language))
        }
    }
}

/// A term has its weight in the query.
pub(super) fn term_query(field: Field, term: &QueryTerm) -> Box<dyn Matcher> {
    let query = TermQuery::new(Term::from_field_text(field, &term.text), IndexRecordOption::WithFreqs);
    match term.weight {
        1.0 => Box::new(query),
        weight => Box::new(BoostQuery::new(Box::new(query), weight)),
    }
}

/// The term for the whole of a text that is one compound without symbols.
fn whole_compound(text: &str, language: Language) -> Option<String> {
    let mut whole = None;
    let mut is_one = true;
    weir_text::analyse(text, language, |token| {
        // the whole comes first
        let (_, compound) = whole.get_or_insert_with(|| (token.text.to_owned(), token.compound));
        let has_symbols = token.kind == TokenKind::Form && token.in_sequence;
        is_one &= token.compound.is_some() && token.compound == *compound && !has_symbols;
    });
    whole.filter(|_| is_one).map(|(term, _)| term)
}

/// Adjacent terms that are a part of a bag.
pub(super) fn boosted_phrase(field: Field, phrase: &QueryCompound) -> Box<dyn Matcher> {
    Box::new(BoostQuery::new(phrase_query(field, &phrase.terms), phrase.weight))
}

fn phrase_query(field: Field, terms: &[String]) -> Box<dyn Matcher> {
    Box::new(PhraseQuery::new(terms.iter().map(|term| Term::from_field_text(field, term)).collect()))
}

fn union(mut queries: Vec<Box<dyn Matcher>>) -> Option<Box<dyn Matcher>> {
    match queries.len() {
        0 => None,
        1 => queries.pop(),
        _ => Some(Box::new(BooleanQuery::union(queries))),
    }
}

pub(super) fn once(text: String) -> QueryTerm {
    QueryTerm { text, weight: 1.0 }
}

/// The meaning of `name:value` for metadata: a string, or the number, boolean or date with this spelling.
fn field_filter(name: &str, value: &Query) -> Filter {
    let condition = |test| Filter::Condition { path: name.to_owned(), test };
    match value {
        Query::Prefix(text) => condition(Test::StartsWith(text.clone())),
        // no wildcards in metadata: the pattern is the value
        Query::Words(text) | Query::Phrase(text) | Query::Wildcard(text) => {
            let mut values = vec![Value::String(text.clone())];
            values.extend(serde_json::from_str(text).ok().as_ref().and_then(Value::from_json));
            condition(Test::In(values))
        }
        Query::Field { .. } | Query::Boolean { .. } => Filter::Or(Vec::new()),
    }
}
