//! From entries to slots, and a query for the entries of a selection.

use std::fmt;
use std::sync::Arc;

use tantivy::query::{BitSetDocSet, ConstScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{BitSet, DocId, Score, SegmentReader};

use super::CHUNK_ID;
use super::by_segment::BySegment;
use crate::embedded::selection::Selection;

/// The slot of each entry, by segment: in memory, because every match is asked for its slot.
pub(super) type ChunkIds = BySegment<[u32]>;

/// Those of the segment's entries.
pub(super) fn read(segment: &SegmentReader) -> tantivy::Result<Arc<[u32]>> {
    let column = segment.fast_fields().u64(CHUNK_ID)?.first_or_default_col(u64::MAX);
    let chunk_id = |entry| u32::try_from(column.get_val(entry)).unwrap_or(u32::MAX);
    Ok((0..segment.max_doc()).map(chunk_id).collect())
}

/// The entries of selected slots. It gives no score.
#[derive(Clone)]
pub(super) struct ChunkIdsQuery {
    pub(super) selection: Arc<Selection>,
    pub(super) chunk_ids: ChunkIds,
}

impl fmt::Debug for ChunkIdsQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotsQuery({} slots)", self.selection.count())
    }
}

impl Query for ChunkIdsQuery {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for ChunkIdsQuery {
    fn scorer(&self, segment: &SegmentReader, _: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let mut entries = BitSet::with_max_value(segment.max_doc());
        for (entry, &chunk_id) in (0..).zip(self.chunk_ids.get(segment).unwrap_or_default()) {
            if self.selection.contains(chunk_id) {
                entries.insert(entry);
            }
        }
        Ok(Box::new(ConstScorer::new(BitSetDocSet::from(entries), 0.0)))
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        Ok(Explanation::new("a selected slot", 0.0))
    }
}
