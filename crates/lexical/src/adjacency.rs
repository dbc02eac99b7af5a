//! The bonus of a compound whose parts are adjacent in a chunk.
//!
//! A chunk with a compound has all of its parts, which are searched as words. So adjacency is only looked up for chunks that it can lift
//! above the threshold, and the postings of the parts are not intersected.

use tantivy::fieldnorm::FieldNormReader;
use tantivy::postings::{Postings as _, SegmentPostings, TermInfo};
use tantivy::query::Bm25Weight;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet as _, InvertedIndexReader};

/// A compound and its weight.
pub(super) struct ScoredCompound<'a> {
    pub(super) weight: Bm25Weight,
    /// Location of the postings of each part, in order, in each segment.
    pub(super) parts: Vec<&'a [Option<TermInfo>]>,
    /// The part with the highest score, as an index of the scored terms.
    pub(super) best_part: usize,
}

/// The postings of a compound in one segment.
pub(super) struct Adjacency<'a> {
    weight: &'a Bm25Weight,
    /// In order. Repeated parts have postings of their own.
    parts: Vec<SegmentPostings>,
    /// Where the parts so far, and the next part, would begin their compound; reused.
    begun: Vec<u32>,
    continued: Vec<u32>,
}

impl<'a> Adjacency<'a> {
    /// Opens the postings; `None` if the segment lacks a part. `number` is the segment's index.
    pub(super) fn open(
        compound: &'a ScoredCompound<'a>,
        index: &InvertedIndexReader,
        number: usize,
    ) -> tantivy::Result<Option<Adjacency<'a>>> {
        let mut parts = Vec::with_capacity(compound.parts.len());
        for postings in &compound.parts {
            let Some(postings) = &postings[number] else { return Ok(None) };
            let option = IndexRecordOption::WithFreqsAndPositions;
            parts.push(index.read_postings_from_terminfo(postings, option)?);
        }
        let (begun, continued) = (Vec::new(), Vec::new());
        Ok(Some(Adjacency { weight: &compound.weight, parts, begun, continued }))
    }

    /// Upper bound of what it adds.
    pub(super) fn bound(&self) -> f32 {
        self.weight.max_score()
    }

    /// Its contribution to the score of an entry. Entries must be requested in ascending order.
    pub(super) fn score_of(&mut self, entry: DocId, norms: &FieldNormReader) -> f32 {
        let mut has_entry = |part: &mut SegmentPostings| {
            part.doc() == entry || (part.doc() < entry && part.seek(entry) == entry)
        };
        if !self.parts.iter_mut().all(&mut has_entry) {
            return 0.0;
        }
        match self.occurrences() {
            0 => 0.0,
            occurrences => self.weight.score(norms.fieldnorm_id(entry), occurrences),
        }
    }

    /// How often the parts are adjacent in the current entry.
    fn occurrences(&mut self) -> u32 {
        let last = self.parts.len().saturating_sub(1) as u32;
        for (before, part) in (0..).zip(&mut self.parts) {
            // positions are shifted such that those of one compound are equal
            part.positions_with_offset(last - before, &mut self.continued);
            if before == 0 {
                std::mem::swap(&mut self.begun, &mut self.continued);
                self.begun.dedup();
            } else {
                let mut at = self.continued.iter().peekable();
                self.begun.retain(|position| {
                    while at.next_if(|next| *next < position).is_some() {}
                    at.peek().is_some_and(|next| *next == position)
                });
            }
            if self.begun.is_empty() {
                return 0;
            }
        }
        self.begun.len() as u32
    }
}
