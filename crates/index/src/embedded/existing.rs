//! Statistics of the documents that exist for callers with a mandatory filter.

use std::sync::{Arc, Mutex, OnceLock};

use weir_filter::Filter;
use weir_lexical::CollectionTotals;
use weir_ranking::relevance::CorpusStatistics;
use weir_ranking::{Selection, Visible};

use super::lock;
use super::relevance::sample_of;
use super::snapshot::Snapshot;
use crate::Result;

/// Mandatory filters of which [`Existing`] is kept: one bit per chunk and one embedding each.
const EXISTING_MAX: usize = 64;

/// Statistics for the latest mandatory filters, the most recently used last. Locked briefly.
#[derive(Default)]
pub(super) struct KnownExisting(Mutex<Vec<Existing>>);

impl KnownExisting {
    /// The documents that exist for a caller with the mandatory filter `filter`.
    pub(super) fn of(&self, snapshot: &Snapshot, filter: &Arc<Filter>) -> Result<Existing> {
        let state = (snapshot.fields.documents_bytes(), snapshot.tombstones.deleted());
        {
            let mut all = lock(&self.0);
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
        let mut all = lock(&self.0);
        if all.len() >= EXISTING_MAX {
            all.remove(0);
        }
        all.push(existing.clone());
        Ok(existing)
    }
}

/// The documents that exist for callers with one mandatory filter, and statistics of these documents alone.
#[derive(Clone)]
pub(super) struct Existing {
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
            CorpusStatistics::fit(&sample_of(snapshot, chunk_ids.filter(is_live), live))
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
