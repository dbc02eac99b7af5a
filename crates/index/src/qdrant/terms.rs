//! The terms of a query.

use weir_qdrant::term_index;
use weir_query::Query;
use weir_text::QueryTerm;

use super::Shared;
use crate::IndexQuery;

/// Terms of a query that are searched; of longer ones the first.
const TERMS_MAX: usize = 64;

/// A term of the query.
#[derive(Debug, Clone)]
pub(super) struct Term {
    pub(super) term: QueryTerm,
    /// Its number in sparse vectors.
    pub(super) index: u32,
}

/// The words of the query, and all terms that are searched.
pub(super) fn terms_of(request: &IndexQuery, engine: &Shared) -> (Option<Vec<QueryTerm>>, Vec<Term>) {
    let Some(Query::Words(text)) = &request.query else { return (None, Vec::new()) };
    let found = weir_text::query_terms(text, engine.settings.language, None);
    let mut words = found.terms;
    words.truncate(TERMS_MAX);
    let mut terms: Vec<Term> = Vec::new();
    for term in words.iter().chain(&found.forms).take(TERMS_MAX) {
        let index = term_index(&term.text);
        // a vector has each number once
        if terms.iter().all(|known| known.index != index) {
            terms.push(Term { term: term.clone(), index });
        }
    }
    (Some(words), terms)
}
