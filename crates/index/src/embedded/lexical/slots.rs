//! From slots to the entries of a segment, and a query for those of a selection.

use std::fmt;
use std::sync::Arc;

use tantivy::columnar::ColumnValues;
use tantivy::query::{BitSetDocSet, ConstScorer, EnableScoring, Explanation, Query, Scorer, Weight};
use tantivy::{BitSet, DocId, Score, SegmentReader};

use super::SLOT;
use crate::embedded::selection::Selection;

/// The slot of each entry of a segment.
#[derive(Clone)]
pub(super) struct SegmentSlots {
    pub(super) column: Arc<dyn ColumnValues<u64>>,
}

impl SegmentSlots {
    pub(super) fn open(segment: &SegmentReader) -> tantivy::Result<SegmentSlots> {
        Ok(SegmentSlots { column: segment.fast_fields().u64(SLOT)?.first_or_default_col(u64::MAX) })
    }

    /// The slot of an entry.
    #[inline]
    pub(super) fn of(&self, entry: DocId) -> u32 {
        self.column.get_val(entry) as u32
    }
}

/// The entries of selected slots. It gives no score.
#[derive(Clone)]
pub(super) struct SlotsQuery(pub(super) Arc<Selection>);

impl fmt::Debug for SlotsQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SlotsQuery({} slots)", self.0.count())
    }
}

impl Query for SlotsQuery {
    fn weight(&self, _: EnableScoring<'_>) -> tantivy::Result<Box<dyn Weight>> {
        Ok(Box::new(self.clone()))
    }
}

impl Weight for SlotsQuery {
    fn scorer(&self, segment: &SegmentReader, _: Score) -> tantivy::Result<Box<dyn Scorer>> {
        let slots = SegmentSlots::open(segment)?;
        let mut entries = BitSet::with_max_value(segment.max_doc());
        for entry in 0..segment.max_doc() {
            if self.0.contains(slots.of(entry)) {
                entries.insert(entry);
            }
        }
        Ok(Box::new(ConstScorer::new(BitSetDocSet::from(entries), 0.0)))
    }

    fn explain(&self, _: &SegmentReader, _: DocId) -> tantivy::Result<Explanation> {
        Ok(Explanation::new("a selected slot", 0.0))
    }
}
