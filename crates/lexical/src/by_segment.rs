//! Data in memory for each segment. Segments are immutable.

use std::collections::HashMap;
use std::sync::Arc;

use tantivy::index::SegmentId;
use tantivy::{Searcher, SegmentReader};

/// One `T` per segment of a commit, shared with later commits that have the same segment.
pub(super) struct BySegment<T: ?Sized>(Arc<HashMap<SegmentId, Arc<T>>>);

impl<T: ?Sized> BySegment<T> {
    /// Reads the data of segments that `known` lacks.
    pub(super) fn of(
        searcher: &Searcher,
        known: &BySegment<T>,
        read: impl Fn(&SegmentReader) -> tantivy::Result<Arc<T>>,
    ) -> tantivy::Result<BySegment<T>> {
        let all = searcher.segment_readers().iter().map(|segment| {
            let id = segment.segment_id();
            let one = match known.0.get(&id) {
                Some(one) => Arc::clone(one),
                None => read(segment)?,
            };
            Ok((id, one))
        });
        Ok(BySegment(Arc::new(all.collect::<tantivy::Result<_>>()?)))
    }

    /// The data of a segment; `None` if it is of another commit.
    pub(super) fn get(&self, segment: &SegmentReader) -> Option<&T> {
        self.0.get(&segment.segment_id()).map(|one| &**one)
    }

    /// The data of all segments.
    pub(super) fn iter(&self) -> impl Iterator<Item = &T> {
        self.0.values().map(|one| &**one)
    }
}

impl<T: ?Sized> Clone for BySegment<T> {
    fn clone(&self) -> BySegment<T> {
        BySegment(Arc::clone(&self.0))
    }
}

impl<T: ?Sized> Default for BySegment<T> {
    fn default() -> BySegment<T> {
        BySegment(Arc::default())
    }
}
