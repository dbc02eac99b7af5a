//! Statistics for BM25, each looked up once per view or query.

use std::collections::HashMap;

use tantivy::query::{Bm25StatisticsProvider, Bm25Weight};
use tantivy::schema::Field;
use tantivy::{Searcher, Term};

/// Number of chunks that contain each term of a query, deleted ones included until they are merged away.
pub(super) type DocumentFrequencies = HashMap<Term, u64>;

/// Sums over all segments of a commit.
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
    /// The BM25 weight of a term that `chunks` chunks contain.
    pub(super) fn weight(&self, field: Field, chunks: u64) -> Bm25Weight {
        let mean_length = self.tokens(field).unwrap_or_default() as f32 / self.entries as f32;
        Bm25Weight::for_one_term_without_explain(chunks, self.entries, mean_length)
    }

    fn tokens(&self, field: Field) -> Option<u64> {
        self.tokens.iter().find(|(of, _)| *of == field).map(|(_, tokens)| *tokens)
    }
}

/// The numbers of the searcher, without asking each segment for each.
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
