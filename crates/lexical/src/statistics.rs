//! Statistics for BM25, each looked up once per view or query.

use std::collections::HashMap;

use tantivy::query::{Bm25StatisticsProvider, Bm25Weight};
use tantivy::schema::Field;
use tantivy::{Searcher, Term};

use super::Fields;

/// Number of chunks that contain each term of a query, deleted ones included until they are merged away.
pub(super) type DocumentFrequencies = HashMap<Term, u64>;

/// Sums over all segments of a commit, or over the chunks that exist for a caller.
#[derive(Debug, PartialEq)]
pub struct CollectionTotals {
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

    /// Those of `entries` chunks with `tokens` tokens of title and text. Titles alone have no lengths, so that each counts as one token.
    pub(super) fn of_existing(entries: u64, tokens: u64, fields: Fields) -> CollectionTotals {
        // without a chunk nothing is scored, but a mean length is computed
        let entries = entries.max(1);
        CollectionTotals { entries, tokens: vec![(fields.text, tokens.max(1)), (fields.title, entries)] }
    }

    /// Number of entries.
    pub(super) fn entries(&self) -> u64 {
        self.entries
    }

    /// The BM25 weight of a term that `chunks` chunks contain.
    pub(super) fn weight(&self, field: Field, chunks: u64) -> Bm25Weight {
        let mean_length = self.tokens(field).unwrap_or_default() as f32 / self.entries as f32;
        Bm25Weight::for_one_term_without_explain(chunks, self.entries, mean_length)
    }

    fn tokens(&self, field: Field) -> Option<u64> {
        self.tokens.iter().find(|(of, _)| *of == field).map(|(_, tokens)| *tokens)
    }
}

/// The numbers of the searcher, without asking each segment for each, or of the chunks that exist for a caller.
pub(super) struct Bm25Statistics<'a> {
    pub(super) searcher: &'a Searcher,
    pub(super) totals: &'a CollectionTotals,
    pub(super) frequencies: &'a DocumentFrequencies,
    /// Whether `totals` and `frequencies` are those of a caller with a mandatory filter, and the searcher's numbers are hidden.
    pub(super) is_restricted: bool,
}

impl Bm25StatisticsProvider for Bm25Statistics<'_> {
    fn total_num_tokens(&self, field: Field) -> tantivy::Result<u64> {
        match self.totals.tokens(field) {
            Some(tokens) => Ok(tokens),
            None if self.is_restricted => Ok(self.totals.entries),
            None => self.searcher.total_num_tokens(field),
        }
    }

    fn total_num_docs(&self) -> tantivy::Result<u64> {
        Ok(self.totals.entries)
    }

    fn doc_freq(&self, term: &Term) -> tantivy::Result<u64> {
        match self.frequencies.get(term) {
            Some(chunks) => Ok(*chunks),
            // compiling looks up every term of the query
            None if self.is_restricted => Ok(0),
            None => self.searcher.doc_freq(term),
        }
    }
}
