//! Recall of the dense retriever, measured against an exact comparison with every row.

use std::sync::Arc;

use weir_kernels::{AlignedVec, Kernels, view};
use weir_policy::Caller;
use weir_ranking::{ScoredChunk, Selection, TopK, Visible};

use super::Embedded;
use super::dense;
use super::search::SnapshotSearch;
use super::snapshot::Snapshot;
use crate::restricted::RestrictedQuery;
use crate::{IndexError, IndexQuery, Recall, Result};

/// Rows read from the file at a time.
const ROWS_PER_READ: u32 = 512;
/// Rows compared by one step, which takes about 16 ms.
const ROWS_PER_STEP: u32 = 1 << 14;

/// A measurement of recall, done in steps so that searches need not wait for all of it.
pub(crate) struct RecallProbe {
    engine: Embedded,
    snapshot: Arc<Snapshot>,
    selection: Option<Arc<Selection>>,
    /// The embedding of the query.
    query: Vec<f32>,
    /// The dense retriever's answer.
    found: Vec<ScoredChunk>,
    /// The best of the rows before `next_row`.
    exact: TopK,
    next_row: u32,
}

impl Embedded {
    /// See [`crate::Engine::recall`]. Reads every row: a second for a million.
    pub fn recall(&self, caller: &Caller, query: &IndexQuery) -> Result<Option<Recall>> {
        let Some(mut probe) = self.recall_probe(&self.restrict(caller, query.clone())?)? else {
            return Ok(None);
        };
        while probe.step()? {}
        Ok(Some(probe.finish()))
    }

    /// Runs the dense retriever for a restricted query. `None` without an embedding.
    pub(crate) fn recall_probe(&self, restricted: &RestrictedQuery) -> Result<Option<RecallProbe>> {
        let (snapshot, query) = (self.snapshot(), &restricted.query);
        let (Some(embedding), Some(vectors)) = (&query.embedding, &snapshot.files.vectors) else {
            return Ok(None);
        };
        let search = SnapshotSearch::new(self, &snapshot, &snapshot, restricted, None)?;
        let (visible, depth) = (search.visible(), query.depth.max(1));
        let found = dense::search(vectors, &snapshot.pq4, embedding, visible, depth, search.is_restricted());
        let limit = query.limit.max(1);
        let mut found = found.ok_or_else(|| self.missing_row())?;
        found.truncate(limit);
        Ok(Some(RecallProbe {
            engine: self.clone(),
            selection: search.selection.clone(),
            query: embedding.clone(),
            found,
            exact: TopK::new(limit),
            next_row: 0,
            snapshot: Arc::clone(&snapshot),
        }))
    }

    pub(super) fn missing_row(&self) -> IndexError {
        IndexError::damaged(self.folder(), "file `vectors.f16` lacks a row")
    }
}

impl RecallProbe {
    /// Compares the next rows; `false` when all have been compared.
    pub(crate) fn step(&mut self) -> Result<bool> {
        let snapshot = Arc::clone(&self.snapshot);
        let Some(vectors) = &snapshot.files.vectors else { return Ok(false) };
        let visible = Visible { tombstones: &snapshot.tombstones, selection: self.selection.as_deref() };
        let end = self.next_row.saturating_add(ROWS_PER_STEP).min(snapshot.tombstones.len());
        let (kernels, row_bytes) = (Kernels::current(), 2 * self.query.len());
        let mut rows: AlignedVec<u8> = AlignedVec::zeroed(ROWS_PER_READ as usize * row_bytes);
        for first in (self.next_row..end).step_by(ROWS_PER_READ as usize) {
            let bytes = &mut rows[..ROWS_PER_READ.min(end - first) as usize * row_bytes];
            let read = vectors.f16.read_into(u64::from(first) * row_bytes as u64, bytes);
            read.ok_or_else(|| self.engine.missing_row())?;
            for (chunk_id, row) in (first..).zip(view::as_u16(bytes).chunks_exact(self.query.len())) {
                let score = (kernels.dot_f16)(&self.query, row);
                if score > self.exact.threshold() && visible.contains(chunk_id) {
                    self.exact.push(ScoredChunk { chunk_id, score });
                }
            }
        }
        self.next_row = end;
        Ok(end < snapshot.tombstones.len())
    }

    /// The result, after all steps.
    pub(crate) fn finish(self) -> Recall {
        let exact = self.exact.into_sorted();
        let is_found = |one: &&ScoredChunk| self.found.iter().any(|other| other.chunk_id == one.chunk_id);
        let live = self.snapshot.live_chunks().max(1);
        let selected = self.selection.map_or(live, |selection| selection.live(&self.snapshot.tombstones));
        Recall {
            found: exact.iter().filter(is_found).count(),
            wanted: exact.len(),
            selectivity: f64::from(selected) / f64::from(live),
        }
    }
}
