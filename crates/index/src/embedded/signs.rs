//! The signs of all rows of the dense leg, in memory: what a scan reads of every row.
//!
//! They follow from the int8 rows and are made again when a folder is opened, so no file holds them.

use std::sync::Arc;

use weir_kernels::{AlignedVec, Kernels, SIGN_ROWS, SignQuery, sign_block_bytes, view, write_signs};

use super::files::MappedVectors;

/// Rows of a segment. The last one is copied by every commit that adds to it.
const SEGMENT_ROWS: usize = 4096;

/// All rows, in segments that snapshots share.
#[derive(Clone, Default)]
pub(crate) struct Signs {
    rows: usize,
    segments: Vec<Arc<Segment>>,
}

#[derive(Clone)]
struct Segment {
    /// Blocks of [`SIGN_ROWS`] rows.
    blocks: AlignedVec<u8>,
    /// For each row of the blocks, NaN where there is none yet, what the product of a query with its signs is multiplied by to estimate that with the row:
    /// `|x|² / sum|x|`, which is exact when the query is the row (RaBitQ, Gao and Long, 2024).
    factors: Vec<f32>,
}

impl Signs {
    /// Adds what `vectors` have beyond the rows that are here.
    pub(crate) fn extend(&mut self, vectors: &MappedVectors, dimension: usize) {
        let (values, scales) = (view::as_i8(&vectors.i8), view::as_f32(&vectors.scales));
        for (row, scale) in values.chunks_exact(dimension).zip(scales).skip(self.rows) {
            self.push(row, *scale);
        }
    }

    fn push(&mut self, row: &[i8], scale: f32) {
        let place = self.rows % SEGMENT_ROWS;
        if place == 0 {
            self.segments.push(Arc::new(Segment { blocks: AlignedVec::zeroed(0), factors: Vec::new() }));
        }
        let Some(segment) = self.segments.last_mut().map(Arc::make_mut) else { return };
        let block = sign_block_bytes(row.len());
        let start = place / SIGN_ROWS * block;
        if place.is_multiple_of(SIGN_ROWS) {
            segment.blocks.grow(start + block);
            segment.factors.extend([f32::NAN; SIGN_ROWS]);
        }
        write_signs(&mut segment.blocks[start..start + block], place % SIGN_ROWS, row);
        segment.factors[place] = factor(row) * scale;
        self.rows += 1;
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Estimates the product of `query` with every row of one of `parts` equal parts, in order, and hands those above a
    /// threshold to `found`, which returns the threshold for the next; it starts below everything.
    pub(crate) fn scan(
        &self,
        kernels: &Kernels,
        query: &[f32],
        part: usize,
        parts: usize,
        mut found: impl FnMut(u32, f32) -> f32,
    ) {
        let signs = SignQuery::new(query);
        let mut threshold = f32::NEG_INFINITY;
        let mut scores = [0.0; SIGN_ROWS];
        let border = |part: usize| part * self.segments.len() / parts;
        let segments = border(part)..border(part + 1);
        let first_slots = (segments.start as u32 * SEGMENT_ROWS as u32..).step_by(SEGMENT_ROWS);
        for (segment, first) in self.segments[segments].iter().zip(first_slots) {
            let blocks = segment.blocks.chunks_exact(sign_block_bytes(query.len()));
            let factors = segment.factors.as_chunks().0;
            for ((block, factors), first) in blocks.zip(factors).zip((first..).step_by(SIGN_ROWS)) {
                let mut above = signs.scan(kernels, block, factors, threshold, &mut scores);
                while above != 0 {
                    let row = above.trailing_zeros();
                    above &= above - 1;
                    threshold = found(first + row, scores[row as usize]);
                }
            }
        }
    }
}

fn factor(row: &[i8]) -> f32 {
    let (mut sizes, mut squares) = (0u32, 0u32);
    for &value in row {
        sizes += u32::from(value.unsigned_abs());
        squares += u32::from(value.unsigned_abs()).pow(2);
    }
    if sizes == 0 { 0.0 } else { squares as f32 / sizes as f32 }
}
