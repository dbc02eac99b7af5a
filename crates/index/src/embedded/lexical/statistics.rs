//! What BM25 needs to know of the index, each thing looked up once.

use std::collections::HashMap;

use tantivy::query::{Bm25StatisticsProvider, Bm25Weight};
use tantivy::schema::Field;
use tantivy::{Searcher, Term};

/// In how many chunks each term of a query is, as far as segments know.
pub(super) type DocumentFrequencies = HashMap<Term, u64>;

/// Sums over all segments of one commit.
pub(super) struct CollectionTotals {
    entries: u64,
    tokens: Vec<(Field, u64)>,
}

impl CollectionTotals {
    pub(super) fn of(searcher: &Searcher, fields: &[Field]) -> tantivy::Result<CollectionTotals> {
        let tokens = fields.iter().map(|&field| Ok((field, searcher.total_num_tokens(field)?)));
        Ok(CollectionTotals {
            entries: searcher.total_num_docs()?,
            tokens: tokens.collect::<tantivy::Result<_>>()?,
        })
    }
}

impl CollectionTotals {
    /// What BM25 makes of a term of the field that so many chunks hold.
    pub(super) fn weight(&self, field: Field, chunks: u64) -> Bm25Weight {
        let mean_length = self.tokens(field).unwrap_or_default() as f32 / self.entries as f32;
        Bm25Weight::for_one_term_without_explain(chunks, self.entries, mean_length)
    }

    fn tokens(&self, field: Field) -> Option<u64> {
        self.tokens.iter().find(|(of, _)| *of == field).map(|(_, tokens)| *tokens)
    }
}

/// The same numbers as the searcher gives, without asking each segment for each.
pub(super) struct Bm25Statistics<'a> {
    pub(super) searcher: &'a Searcher,
    pub(super) totals: &'a CollectionTotals,
    pub(super) frequencies: &'a DocumentFrequencies,
}

impl Bm25StatisticsProvider for Bm25Statistics<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        match self.totals.tokens(field) {
            Some(tokens) => Ok(tokens),
            None => self.searcher.total_num_tokens(field),
        }
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.totals.entries)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        match self.frequencies.get(term) {
            Some(chunks) => Ok(*chunks),
            None => self.searcher.doc_freq(term),
        }
    }
}
