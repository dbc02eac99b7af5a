//! Chunks that a rare word of the query points out.

use std::borrow::Cow;

use tantivy::query::Bm25StatisticsProvider as _;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet as _, TERMINATED, Term};
use weir_ranking::Visible;
use weir_text::QueryTerm;

use super::bag::Bag;
use super::compile::{ScoringQuery, TermPostings};
use super::{LexicalQuery, LexicalView};
use crate::{LexicalError, Result};

/// Longer queries name nothing by a single word.
const TERMS_MAX: usize = 8;
/// A word in more chunks is not rare, however few documents they belong to.
const CHUNKS_MAX: u64 = 64;

/// A chunk that contains the rarest word of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RareChunk {
    /// The chunk.
    pub chunk_id: u32,
    /// Whether it contains the other words of the query too.
    pub has_all: bool,
}

impl LexicalView {
    /// The visible chunks that contain the rarest word of the query, in no particular order. None if a word of the query occurs nowhere, if
    /// the query has many words, or if even the rarest is in many chunks.
    pub fn rare(&self, query: &LexicalQuery, visible: Visible<'_>) -> Result<Vec<RareChunk>> {
        self.with_rarest(query, visible).map_err(LexicalError::during("search"))
    }

    fn with_rarest(&self, query: &LexicalQuery, visible: Visible<'_>) -> tantivy::Result<Vec<RareChunk>> {
        if query.terms.is_empty() || query.terms.len() > TERMS_MAX || !query.corrections.is_empty() {
            return Ok(Vec::new());
        }
        let mut terms =
            query.terms.iter().map(|term| self.found(query, term)).collect::<tantivy::Result<Vec<_>>>()?;
        terms.sort_unstable_by_key(|term| term.chunks);
        let Some((rarest, others)) = terms.split_first() else { return Ok(Vec::new()) };
        if !(1..=CHUNKS_MAX).contains(&rarest.chunks) {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for (number, segment) in self.searcher.segment_readers().iter().enumerate() {
            let Some(info) = rarest.postings.get(number).and_then(Option::as_ref) else { continue };
            let index = segment.inverted_index(self.fields.text)?;
            let chunk_ids = self.chunk_ids.get(segment).unwrap_or_default();
            let mut postings = index.read_postings_from_terminfo(info, IndexRecordOption::Basic)?;
            let mut entries = Vec::new();
            while postings.doc() != TERMINATED {
                let chunk_id = chunk_ids[postings.doc() as usize];
                if !segment.is_deleted(postings.doc()) && visible.contains(chunk_id) {
                    entries.push((postings.doc(), RareChunk { chunk_id, has_all: true }));
                }
                postings.advance();
            }
            for other in others {
                let Some(info) = other.postings.get(number).and_then(Option::as_ref) else {
                    entries.iter_mut().for_each(|(_, chunk)| chunk.has_all = false);
                    continue;
                };
                let mut postings = index.read_postings_from_terminfo(info, IndexRecordOption::Basic)?;
                for (entry, chunk) in &mut entries {
                    chunk.has_all &= postings.doc() == *entry
                        || postings.doc() < *entry && postings.seek(*entry) == *entry;
                }
            }
            found.extend(entries.into_iter().map(|(_, chunk)| chunk));
        }
        Ok(found)
    }

    /// The postings of a term of the query, which the ranking of a bag of words has already.
    fn found<'a>(
        &self,
        query: &'a LexicalQuery,
        term: &'a QueryTerm,
    ) -> tantivy::Result<Cow<'a, TermPostings>> {
        if let Some(ScoringQuery::AnyOf(Bag { terms, .. })) = &query.ranking
            && let Some(found) = terms.iter().find(|found| found.term.text == term.text)
        {
            return Ok(Cow::Borrowed(found));
        }
        let key = Term::from_field_text(self.fields.text, &term.text);
        let segments = self.searcher.segment_readers().iter();
        let postings =
            segments.map(|segment| Ok(segment.inverted_index(self.fields.text)?.get_term_info(&key)?));
        let postings = postings.collect::<tantivy::Result<Vec<_>>>()?;
        let chunks = self.statistics(query).doc_freq(&key)?;
        Ok(Cow::Owned(TermPostings { term: term.clone(), postings, chunks }))
    }
}
