//! Contributions of terms and phrases to a chunk's BM25 score.

use tantivy::postings::Postings as _;
use tantivy::query::{Bm25StatisticsProvider as _, Query};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, SegmentReader, TERMINATED, Term};
use weir_text::{QueryCompound, QueryTerm};

use super::compile::{boosted_phrase, once, term_query};
use super::{CHUNK_ID, LexicalQuery, LexicalView};
use crate::{LexicalError, Result};

/// Contributions to a chunk's BM25 score, in the order of the query. Their sum is the score.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScoreParts {
    /// Those of terms that occur in the chunk or its title.
    pub terms: Vec<TermContribution>,
    /// Those of terms that are adjacent there.
    pub phrases: Vec<PhraseContribution>,
}

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

/// Contribution of adjacent terms to a chunk's BM25 score: of a phrase, a compound, or a synonym of several words.
#[derive(Debug, Clone, PartialEq)]
pub struct PhraseContribution {
    /// The terms, separated by spaces.
    pub phrase: String,
    /// Its part of the score.
    pub score: f32,
}

/// A part of a query that adds to scores: a term, or several that are adjacent.
#[derive(Clone)]
pub(super) struct ScoredPart {
    field: Field,
    terms: QueryCompound,
}

impl ScoredPart {
    pub(super) fn of(field: Field, terms: &QueryCompound) -> ScoredPart {
        ScoredPart { field, terms: terms.clone() }
    }

    pub(super) fn of_term(field: Field, term: &QueryTerm) -> ScoredPart {
        let terms = QueryCompound { terms: vec![term.text.clone()], weight: term.weight };
        ScoredPart { field, terms }
    }

    fn matcher(&self, field: Field) -> Box<dyn Query> {
        let QueryCompound { terms, weight } = &self.terms;
        match terms.as_slice() {
            [term] => term_query(field, &QueryTerm { weight: *weight, ..once(term.clone()) }),
            _ => boosted_phrase(field, &self.terms),
        }
    }
}

impl LexicalView {
    /// The contributions to the score of a chunk by the parts of the query that occur in it or its title.
    pub fn explain(&self, query: &LexicalQuery, chunk_id: u32) -> Result<ScoreParts> {
        self.contributions(query, chunk_id).map_err(LexicalError::during("explain a hit"))
    }

    fn contributions(&self, query: &LexicalQuery, chunk_id: u32) -> tantivy::Result<ScoreParts> {
        let mut parts = ScoreParts::default();
        let Some((segment, entry)) = self.entry_of(chunk_id)? else { return Ok(parts) };
        let segment = self.searcher.segment_reader(segment);
        for part in &query.scored {
            let score = self.score_of(part, query, segment, entry)?;
            if score == 0.0 {
                continue;
            }
            let phrase = part.terms.terms.join(" ");
            if part.terms.terms.len() > 1 {
                match parts.phrases.iter_mut().find(|known| known.phrase == phrase) {
                    Some(known) => known.score += score,
                    None => parts.phrases.push(PhraseContribution { phrase, score }),
                }
            } else if let Some(known) = parts.terms.iter_mut().find(|known| known.term == phrase) {
                known.score += score;
            } else {
                let term = Term::from_field_text(self.fields.text, &phrase);
                let chunks = self.statistics(query).doc_freq(&term)?;
                let frequency = frequency(segment, &term, entry)?;
                parts.terms.push(TermContribution { term: phrase, chunks, frequency, score });
            }
        }
        Ok(parts)
    }

    /// The contribution of a part to the score of an entry, in its field and, if titles count more, in the title.
    fn score_of(
        &self,
        part: &ScoredPart,
        query: &LexicalQuery,
        segment: &SegmentReader,
        entry: DocId,
    ) -> tantivy::Result<f32> {
        let statistics = self.statistics(query);
        let in_field = |field| -> tantivy::Result<f32> {
            let mut scorer = part.matcher(field).weight(self.scoring(&statistics))?.scorer(segment, 1.0)?;
            let contains = scorer.doc() <= entry && scorer.seek(entry) == entry;
            Ok(if contains { scorer.score() } else { 0.0 })
        };
        let more = query.title_weight - 1.0;
        let in_title = match part.field == self.fields.text && more > 0.0 {
            true => more * in_field(self.fields.title)?,
            false => 0.0,
        };
        Ok(in_field(part.field)? + in_title)
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

/// Occurrences of a term in an entry.
fn frequency(segment: &SegmentReader, term: &Term, entry: DocId) -> tantivy::Result<u32> {
    let index = segment.inverted_index(term.field())?;
    let Some(mut postings) = index.read_postings(term, IndexRecordOption::WithFreqs)? else { return Ok(0) };
    let contains = postings.doc() <= entry && postings.seek(entry) == entry;
    Ok(if contains { postings.term_freq() } else { 0 })
}
