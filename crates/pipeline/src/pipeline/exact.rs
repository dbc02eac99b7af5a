//! Hits that a rare word of the query, or a rare beginning of a name, points out: their relevance does not depend on cosines.

use weir_lexical::RareChunk;
use weir_ranking::relevance::{Exactness, RARE_DOCUMENTS_MAX};

use super::candidates::Candidate;
use super::{Retriever, Search};
use crate::Result;

impl<R: Retriever> Search<'_, R> {
    /// Marks the candidates that the query names.
    pub(super) fn mark_exact(&self, candidates: &mut [Candidate]) {
        let by_name = self.units_with_rare_name();
        for candidate in candidates {
            let is_rare = self.exact_units.contains(&candidate.unit) || by_name.contains(&candidate.unit);
            if is_rare && candidate.exactness == Exactness::Similar {
                candidate.exactness = Exactness::Rare;
            }
        }
    }

    /// The units that contain all words of the query, if few documents contain the rarest of them.
    pub(super) async fn units_with_rare_word(&self) -> Result<Vec<u32>> {
        if self.retriever.words().is_none() || self.request.name().is_none() {
            return Ok(Vec::new());
        }
        let chunks = self.retriever.rare_chunks().await?;
        let document_of = |chunk: &RareChunk| self.retriever.document_of(chunk.chunk_id);
        if !are_rare(chunks.iter().filter_map(document_of).collect()) {
            return Ok(Vec::new());
        }
        Ok(chunks
            .iter()
            .filter(|chunk| chunk.has_all)
            .filter_map(|chunk| self.unit_of(chunk.chunk_id))
            .collect())
    }

    /// The units whose names begin with the query, if few do.
    fn units_with_rare_name(&self) -> Vec<u32> {
        let named = self.retriever.named().iter();
        let units: Vec<u32> = named.filter_map(|named| self.unit_of(named.chunk_id)).collect();
        if are_rare(units.clone()) { units } else { Vec::new() }
    }
}

/// Whether the numbers are of few documents.
fn are_rare(mut documents: Vec<u32>) -> bool {
    documents.sort_unstable();
    documents.dedup();
    documents.len() <= RARE_DOCUMENTS_MAX
}
