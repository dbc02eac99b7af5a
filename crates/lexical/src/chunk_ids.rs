//! Mapping of Tantivy's entries to chunk ids, and a query for selected chunks.

use std::fmt;
use std::sync::Arc;

use tantivy::query::{BitSetDocSet, ConstScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{BitSet, DocId, Score, SegmentReader};

use super::CHUNK_ID;
use super::by_segment::BySegment;
use weir_ranking::Selection;

/// The chunk id of each entry, by segment. In memory, because every match needs it.
pub(super) type ChunkIds = BySegment<[u32]>;

/// Reads the chunk ids of a segment's entries.
pub(super) fn read(segment: &SegmentReader) -> tantivy::Result<Arc<[u32]>> {
    let column = segment.fast_fields().u64(CHUNK_ID)?.first_or_default_col(u64::MAX);
    let chunk_id = |entry| u32::try_from(column.get_val(entry)).unwrap_or(u32::MAX);
    Ok((0..segment.max_doc()).map(chunk_id).collect())
}

/// Matches the entries of selected chunks, with score 0.
#[derive(Clone)]
pub(super) struct ChunkIdsQuery {
    pub(super) selection: Arc<Selection>,
    pub(super) chunk_ids: ChunkIds,
}

impl fmt::Debug for ChunkIdsQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ChunkIdsQuery({} chunks)", self.selection.count())
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
        Ok(Explanation::new("a selected chunk", 0.0))
    }
}
