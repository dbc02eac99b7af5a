//! The chunks that exist for a caller: all of them, or those that pass the caller's mandatory filter.
//!
//! Statistics of the index that a query uses beyond its hits are counted here: which words exist, how frequent they are, how long chunks
//! are. With a mandatory filter, hidden chunks count nowhere, so that they change no reply. Without one, the numbers of the term
//! dictionary are used, which no posting has to be read for.

use std::sync::Arc;

use tantivy::postings::{BlockSegmentPostings, TermInfo};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet as _, InvertedIndexReader, SegmentReader, TERMINATED, Term};
use weir_ranking::Visible;

use super::LexicalView;
use super::statistics::CollectionTotals;
use crate::{LexicalError, Result};

/// Postings per block.
const BLOCK: usize = 128;

/// The chunks of a view that exist for a caller.
#[derive(Clone, Copy)]
pub(super) struct Existing<'a> {
    pub(super) view: &'a LexicalView,
    /// Its selection is the mandatory filter's; `None` if every chunk exists.
    pub(super) visible: Visible<'a>,
}

impl Existing<'_> {
    /// Whether a mandatory filter may hide chunks.
    pub(super) fn is_restricted(&self) -> bool {
        self.visible.selection.is_some()
    }

    /// Counts the chunks of terms in a segment; `index` is that of their field.
    pub(super) fn counter<'b>(
        &'b self,
        segment: &'b SegmentReader,
        index: &'b InvertedIndexReader,
    ) -> ChunkCounter<'b> {
        let chunk_ids = self.view.chunk_ids.get(segment).unwrap_or_default();
        ChunkCounter { existing: *self, segment, chunk_ids, index, postings: None }
    }

    /// Number of chunks that contain the term, as [`ChunkCounter::count`].
    pub(super) fn count_of(&self, term: &Term) -> tantivy::Result<u64> {
        let mut count = 0;
        for segment in self.view.searcher.segment_readers() {
            let index = segment.inverted_index(term.field())?;
            if let Some(info) = index.get_term_info(term)? {
                count += self.counter(segment, &index).count(&info)?;
            }
        }
        Ok(count)
    }

    /// A chunk that contains the term and is not deleted: of the first in each segment, the one with the lowest id. Reads the postings
    /// of each segment up to that chunk.
    pub(super) fn first_of(&self, term: &Term) -> tantivy::Result<Option<u32>> {
        let mut first = None;
        for segment in self.view.searcher.segment_readers() {
            let chunk_ids = self.view.chunk_ids.get(segment).unwrap_or_default();
            let index = segment.inverted_index(term.field())?;
            let Some(mut postings) = index.read_postings(term, IndexRecordOption::Basic)? else { continue };
            while postings.doc() != TERMINATED {
                let entry = postings.doc();
                if self.has(segment, chunk_ids, entry) {
                    let chunk_id = chunk_ids[entry as usize];
                    first = Some(first.map_or(chunk_id, |known: u32| known.min(chunk_id)));
                    break;
                }
                postings.advance();
            }
        }
        Ok(first)
    }

    /// Whether the chunk of an entry exists.
    pub(super) fn has(&self, segment: &SegmentReader, chunk_ids: &[u32], entry: DocId) -> bool {
        self.visible.contains(chunk_ids[entry as usize]) && !segment.is_deleted(entry)
    }

    /// Sums over the chunks that exist. Lengths are those of BM25, which are rounded.
    fn totals(&self) -> tantivy::Result<CollectionTotals> {
        let (mut entries, mut tokens) = (0, 0);
        for segment in self.view.searcher.segment_readers() {
            let chunk_ids = self.view.chunk_ids.get(segment).unwrap_or_default();
            let norms = segment.get_fieldnorms_reader(self.view.fields.text)?;
            for entry in (0..segment.max_doc()).filter(|&entry| self.has(segment, chunk_ids, entry)) {
                entries += 1;
                tokens += u64::from(norms.fieldnorm(entry));
            }
        }
        Ok(CollectionTotals::of_existing(entries, tokens, self.view.fields))
    }
}

/// Counts the chunks of terms in a segment.
pub(super) struct ChunkCounter<'a> {
    existing: Existing<'a>,
    segment: &'a SegmentReader,
    chunk_ids: &'a [u32],
    index: &'a InvertedIndexReader,
    /// Of the term before; reused.
    postings: Option<BlockSegmentPostings>,
}

impl ChunkCounter<'_> {
    /// Number of chunks that exist and contain the term at `term`. Where all chunks exist, deleted ones count until they are merged away,
    /// and nothing is read.
    pub(super) fn count(&mut self, term: &TermInfo) -> tantivy::Result<u64> {
        if !self.existing.is_restricted() {
            return Ok(term.doc_freq.into());
        }
        let postings = match &mut self.postings {
            Some(postings) => {
                self.index.reset_block_postings_from_terminfo(term, postings)?;
                postings
            }
            none => {
                none.insert(self.index.read_block_postings_from_terminfo(term, IndexRecordOption::Basic)?)
            }
        };
        let mut count = 0;
        loop {
            let entries = postings.docs();
            let exists = |entry: &&DocId| self.existing.has(self.segment, self.chunk_ids, **entry);
            count += entries.iter().filter(exists).count() as u64;
            if entries.len() < BLOCK {
                return Ok(count);
            }
            postings.advance();
        }
    }
}

impl LexicalView {
    /// Sums over the chunks that exist for a caller with a mandatory filter. Reads the length of every chunk: keep the result.
    ///
    /// # Errors
    /// [`LexicalError::Tantivy`] if a segment cannot be read.
    pub fn totals_of(&self, existing: Visible<'_>) -> Result<Arc<CollectionTotals>> {
        let totals = Existing { view: self, visible: existing }.totals();
        totals.map(Arc::new).map_err(LexicalError::during("read the lengths of chunks"))
    }
}
