//! How much of the exact answer the dense leg finds.

use weir_kernels::{AlignedVec, Kernels, view};
use weir_policy::Caller;

use super::Embedded;
use super::best::BestSlots;
use super::dense;
use super::ranking::ScoredSlot;
use super::search::Search;
use crate::{IndexError, Recall, SearchRequest};

/// Rows that are read from the file at a time.
const ROWS_AT_ONCE: usize = 512;

impl Embedded {
    /// See [`crate::Engine::recall`]. Reads every row: a second for a million.
    pub fn recall(&self, caller: &Caller, request: &SearchRequest) -> Result<Option<Recall>, IndexError> {
        let request = &*self.for_caller(caller, request)?;
        let snapshot = self.snapshot();
        let (Some(query), Some(vectors)) = (&request.embedding, &snapshot.files.vectors) else {
            return Ok(None);
        };
        let search = Search::new(&snapshot, &snapshot, request, None, self)?;
        let visible = search.visible();
        let damaged = || IndexError::damaged(self.folder(), "file `vectors.f16` lacks a row");
        let found = dense::search(vectors, &snapshot.codes, query, visible, request.depth.max(1));
        let found = found.ok_or_else(damaged)?;

        let kernels = Kernels::current();
        let slots = snapshot.tombstones.slots();
        let mut best = BestSlots::new(request.limit.max(1));
        let mut rows: AlignedVec<u8> = AlignedVec::zeroed(ROWS_AT_ONCE * 2 * query.len());
        for first in (0..slots).step_by(ROWS_AT_ONCE) {
            let count = ROWS_AT_ONCE.min((slots - first) as usize);
            let bytes = &mut rows[..count * 2 * query.len()];
            vectors.f16.read_into(u64::from(first) * 2 * query.len() as u64, bytes).ok_or_else(damaged)?;
            for (slot, row) in (first..).zip(view::as_u16(bytes).chunks_exact(query.len())) {
                let score = (kernels.dot_f16)(query, row);
                if score > best.threshold() && visible.holds(slot) {
                    best.push(ScoredSlot { slot, score });
                }
            }
        }
        let exact = best.into_sorted();
        let is_found =
            |one: &&ScoredSlot| found.iter().take(request.limit).any(|other| other.slot == one.slot);
        let live = snapshot.chunks().max(1);
        let selected = search.selected().unwrap_or(live);
        Ok(Some(Recall {
            found: exact.iter().filter(is_found).count(),
            wanted: exact.len(),
            selectivity: f64::from(selected) / f64::from(live),
        }))
    }
}
