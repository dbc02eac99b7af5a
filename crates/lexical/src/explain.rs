//! Contributions of terms to a chunk's BM25 score.

use tantivy::postings::Postings as _;
use tantivy::query::{Bm25StatisticsProvider as _, Query as _, TermQuery};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED, Term};

use weir_text::QueryTerm;

use super::{CHUNK_ID, LexicalQuery, LexicalView};
use crate::{LexicalError, Result};

/// Contribution of one term to a chunk's BM25 score.
#[derive(Debug, Clone, PartialEq)]
pub struct TermContribution {
    /// The term.
    pub term: String,
    /// Chunks that exist for the caller and contain it.
    pub chunks: u64,
    /// Occurrences in this chunk and its title.
    pub frequency: u32,
    /// Its part of the score.
    pub score: f32,
}

impl LexicalView {
    /// The query's terms that occur in the chunk or its title, in the order of the query.
    pub fn explain(&self, query: &LexicalQuery, chunk_id: u32) -> Result<Vec<TermContribution>> {
        self.contributions(query, chunk_id).map_err(LexicalError::during("explain a hit"))
    }

    fn contributions(&self, query: &LexicalQuery, chunk_id: u32) -> tantivy::Result<Vec<TermContribution>> {
        let Some((segment, entry)) = self.entry_of(chunk_id)? else { return Ok(Vec::new()) };
        let segment = self.searcher.segment_reader(segment);
        let field = self.fields.text;
        let mut contributions: Vec<TermContribution> = Vec::new();
        let synonyms = query.synonyms.iter().map(|term| QueryTerm { text: term.clone(), weight: 1.0 });
        for QueryTerm { text, weight } in query.terms.iter().cloned().chain(synonyms) {
            if contributions.iter().any(|contribution| contribution.term == text) {
                continue;
            }
            let term = Term::from_field_text(field, &text);
            let index = segment.inverted_index(field)?;
            let Some(mut postings) = index.read_postings(&term, IndexRecordOption::WithFreqs)? else {
                continue;
            };
            if postings.doc() > entry || postings.seek(entry) != entry {
                continue;
            }
            let statistics = self.statistics(query);
            let chunks = statistics.doc_freq(&term)?;
            let in_field = |term: Term| -> tantivy::Result<f32> {
                let query = TermQuery::new(term, IndexRecordOption::WithFreqs);
                let mut scorer = query.weight(self.scoring(&statistics))?.scorer(segment, weight)?;
                let contains = scorer.doc() <= entry && scorer.seek(entry) == entry;
                Ok(if contains { scorer.score() } else { 0.0 })
            };
            let mut score = in_field(term)?;
            if query.title_weight > 1.0 {
                let title = Term::from_field_text(self.fields.title, &text);
                score += (query.title_weight - 1.0) * in_field(title)?;
            }
            contributions.push(TermContribution {
                term: text,
                chunks,
                frequency: postings.term_freq(),
                score,
            });
        }
        Ok(contributions)
    }

    /// The segment and entry of a chunk.
    fn entry_of(&self, chunk_id: u32) -> tantivy::Result<Option<(u32, u32)>> {
        let field = self.searcher.schema().get_field(CHUNK_ID)?;
        let term = Term::from_field_u64(field, chunk_id.into());
        for (number, segment) in (0..).zip(self.searcher.segment_readers()) {
            let index = segment.inverted_index(field)?;
            let Some(mut postings) = index.read_postings(&term, IndexRecordOption::Basic)? else { continue };
            while postings.doc() != TERMINATED {
                if !segment.is_deleted(postings.doc()) {
                    return Ok(Some((number, postings.doc())));
                }
                postings.advance();
            }
        }
        Ok(None)
    }
}
