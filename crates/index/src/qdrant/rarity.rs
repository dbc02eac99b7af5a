//! How many chunks contain a term of a query.

use std::time::Instant;

use hashbrown::HashMap;
use weir_qdrant::api::QueryPoints;
use weir_qdrant::{FoundPoint, SPARSE};
use weir_ranking::relevance::RARE_DOCUMENTS_MAX;
use weir_text::QueryTerm;

use super::COUNTED_FOR;
use super::points::DOCUMENT;
use super::search::QdrantSearch;
use super::terms::Term;
use crate::Result;
use crate::embedded::lock;

/// Terms whose rarity is kept.
const KEPT_MAX: usize = 10_000;

/// The cluster's statistics of a term.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Rarity {
    /// Chunks that exist for the caller and contain it.
    pub(super) holding: u64,
    /// Whether more than [`RARE_DOCUMENTS_MAX`] documents certainly do; `None` if that was not asked.
    pub(super) is_frequent: Option<bool>,
}

/// The rarity of terms among all documents, for as long as counts hold and nothing is applied.
#[derive(Debug, Default)]
pub(super) struct KnownRarity {
    applied_seq: u64,
    by_term: HashMap<u32, (Instant, Rarity)>,
}

impl KnownRarity {
    fn get(&self, term: u32, applied_seq: u64) -> Option<Rarity> {
        let (at, rarity) = self.by_term.get(&term).filter(|_| self.applied_seq == applied_seq)?;
        (at.elapsed() < COUNTED_FOR).then_some(*rarity)
    }

    fn put(&mut self, term: u32, applied_seq: u64, rarity: Rarity) {
        if self.applied_seq != applied_seq || self.by_term.len() >= KEPT_MAX {
            self.by_term.clear();
        }
        self.applied_seq = applied_seq;
        self.by_term.insert(term, (Instant::now(), rarity));
    }
}

impl QdrantSearch<'_> {
    /// The terms that have to be asked for, and what is applied now. What is known of the others is noted.
    pub(super) fn terms_of_unknown_rarity(&self) -> (Vec<Term>, u64) {
        let (seq, known) = (lock(&self.engine.state).applied_seq, lock(&self.engine.rarity));
        let mut noted = lock(&self.rarity);
        let is_unknown = |term: &&Term| {
            // documents that a caller may not see don't count
            let found = self.restricted.mandatory.is_none().then(|| known.get(term.index, seq)).flatten();
            let found = found.filter(|rarity| rarity.is_frequent.is_some() || !self.can_name_by_word());
            noted.extend(found.map(|rarity| (term.index, rarity)));
            found.is_none()
        };
        (self.terms.iter().filter(is_unknown).cloned().collect(), seq)
    }

    /// One term alone: the score of the best chunk, by what the chunk has of the term, is the rarity. Some more chunks show whether several
    /// documents have it.
    pub(super) fn rarity_query(&self, term: &Term) -> QueryPoints {
        let alone = Term { term: QueryTerm { weight: 1.0, ..term.term.clone() }, index: term.index };
        let limit = if self.can_name_by_word() { RARE_DOCUMENTS_MAX + 1 } else { 1 };
        let query = self.sparse_query(&[alone], self.existing.clone(), limit as u64);
        let (fields, vectors) = (vec![DOCUMENT], vec![SPARSE]);
        QueryPoints { with_payload: Some(fields.into()), with_vectors: Some(vectors.into()), ..query }
    }

    /// Computes how many chunks have each term from the scores of the terms alone.
    pub(super) async fn note_rarity(
        &self,
        (terms, seq): (&[Term], u64),
        answers: &[Vec<FoundPoint>],
    ) -> Result<()> {
        if terms.is_empty() {
            return Ok(());
        }
        let chunks = self.existing_chunks().await? as f32;
        let asks_for_several = self.can_name_by_word();
        let rarity = |term: &Term, found: &[FoundPoint]| {
            let best = found.first().and_then(|point| Some((point.score, point.share_of(term.index)?)));
            let holding = best.map_or(0, |(score, share)| {
                // the inverse of ln(1 + (chunks - held + 0.5) / (held + 0.5))
                let held = (chunks + 1.0) / (score / share).exp() - 0.5;
                (held.round() as u64).max(1)
            });
            let mut documents: Vec<&str> = found.iter().filter_map(|point| point.text(DOCUMENT)).collect();
            documents.sort_unstable();
            documents.dedup();
            let is_frequent = asks_for_several.then_some(documents.len() > RARE_DOCUMENTS_MAX);
            Rarity { holding, is_frequent }
        };
        let mut known = lock(&self.engine.rarity);
        for (term, found) in terms.iter().zip(answers) {
            let rarity = rarity(term, found);
            lock(&self.rarity).insert(term.index, rarity);
            if self.restricted.mandatory.is_none() {
                known.put(term.index, seq, rarity);
            }
        }
        Ok(())
    }
}
