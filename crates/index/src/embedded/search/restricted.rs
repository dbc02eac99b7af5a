//! Queries restricted to the documents that their caller may see.

use std::sync::{Arc, OnceLock};

use weir_filter::Filter;
use weir_lexical::CollectionTotals;
use weir_policy::Caller;
use weir_ranking::relevance::CorpusStatistics;
use weir_ranking::{Selection, Visible};

use super::known_fields::KnownFields;
use crate::embedded::record::DocumentRecord;
use crate::embedded::relevance;
use crate::embedded::snapshot::Snapshot;
use crate::embedded::{Embedded, lock};
use crate::{IndexQuery, Result};

/// Mandatory filters of which [`Existing`] is kept: one bit per chunk and one embedding each.
const EXISTING_MAX: usize = 64;

/// A checked query of a caller. The only input that a search takes.
pub(crate) struct RestrictedQuery {
    /// Its filter includes the mandatory one.
    pub(crate) query: IndexQuery,
    /// The caller's mandatory filter: other documents do not exist for the caller.
    pub(super) mandatory: Option<Arc<Filter>>,
    /// The fields that the query names, of a caller with a mandatory filter: to be checked against the caller's documents.
    pub(super) named_fields: Vec<String>,
}

impl Embedded {
    /// Checks a query and restricts it to documents that pass the caller's mandatory filter.
    ///
    /// Only fields in the query itself must be known: a mandatory filter on a field that no document has had passes no document. Whether a
    /// restricted caller's documents have them is found out by the search, because that evaluates the filter.
    pub(crate) fn restrict(&self, caller: &Caller, query: IndexQuery) -> Result<RestrictedQuery> {
        self.check_parameters(&query)?;
        let mandatory = caller.filter.clone();
        let mut named_fields = Vec::new();
        match &mandatory {
            Some(_) => named_fields.extend(query.named_fields().map(str::to_owned)),
            None => KnownFields::new(&self.snapshot(), None).check(query.named_fields())?,
        }
        let filter = match (&mandatory, query.filter) {
            (Some(mandatory), Some(filter)) => Some(Filter::and((**mandatory).clone(), filter)),
            (Some(mandatory), None) => Some((**mandatory).clone()),
            (None, filter) => filter,
        };
        Ok(RestrictedQuery { query: IndexQuery { filter, ..query }, mandatory, named_fields })
    }

    /// The documents that exist for a caller with the mandatory filter `filter`.
    pub(super) fn existing(&self, snapshot: &Snapshot, filter: &Arc<Filter>) -> Result<Existing> {
        let state = (snapshot.fields.documents_bytes(), snapshot.tombstones.deleted());
        {
            let mut all = lock(&self.inner.existing);
            if let Some(place) = all.iter().position(|known| known.state == state && known.filter == *filter)
            {
                let known = all.remove(place);
                all.push(known.clone());
                return Ok(known);
            }
        }
        let selection = snapshot.fields.select(filter);
        let visible = Visible { tombstones: &snapshot.tombstones, selection: Some(&selection) };
        let totals = snapshot.lexical.totals_of(visible)?;
        let existing = Existing { filter: filter.clone(), state, selection, totals, corpus: Arc::default() };
        let mut all = lock(&self.inner.existing);
        if all.len() >= EXISTING_MAX {
            all.remove(0);
        }
        all.push(existing.clone());
        Ok(existing)
    }
}

/// The documents that exist for callers with one mandatory filter, and statistics of these documents alone.
#[derive(Clone)]
pub(crate) struct Existing {
    /// The mandatory filter.
    filter: Arc<Filter>,
    /// Identifies the documents of the index: bytes of all documents, and the number of deleted chunks. Both only grow.
    state: (u64, u32),
    /// Their chunks, maybe deleted ones.
    pub(super) selection: Arc<Selection>,
    /// For BM25.
    pub(super) totals: Arc<CollectionTotals>,
    /// Of a sample of their embeddings. Computed for the first search by an embedding.
    corpus: Arc<OnceLock<Option<CorpusStatistics>>>,
}

impl Existing {
    /// [`CorpusStatistics::topicality`] of an embedding among these documents; 0 without statistics.
    pub(super) fn topicality(&self, snapshot: &Snapshot, embedding: &[f32]) -> f32 {
        let corpus = self.corpus.get_or_init(|| {
            let live = self.selection.live(&snapshot.tombstones);
            let chunk_ids = self.selection.chunk_ids();
            let is_live = |chunk_id: &u32| snapshot.tombstones.is_live(*chunk_id);
            CorpusStatistics::fit(&relevance::sample_of(snapshot, chunk_ids.filter(is_live), live))
        });
        corpus.as_ref().map_or(0.0, |corpus| corpus.topicality(embedding))
    }

    /// The version of the last live document; 0 without one.
    pub(super) fn last_version(&self, snapshot: &Snapshot) -> u64 {
        let is_live = |chunk_id: &u32| snapshot.tombstones.is_live(*chunk_id);
        let last = self.selection.chunk_ids().filter(is_live).last();
        last.and_then(|chunk_id| snapshot.chunk(chunk_id)).map_or(0, |chunk| chunk.document.version)
    }
}

impl RestrictedQuery {
    /// Whether the document exists for the caller.
    pub(super) fn shows(&self, document: &DocumentRecord<'_>) -> bool {
        let metadata = || serde_json::from_str(document.metadata).unwrap_or_default();
        self.mandatory.as_ref().is_none_or(|filter| filter.evaluate(&metadata()))
    }
}
