//! The signs of all rows of the dense leg, in memory: what a scan reads of every row.
//!
//! They follow from the int8 rows and are made again when a folder is opened, so no file holds them.

use std::sync::Arc;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use weir_kernels::{
    AlignedVec, Kernels, SIGN_ROWS, SignQuery, prefetch, sign_block_bytes, view, write_signs,
};

use super::basis::Basis;
use super::files::MappedVectors;
use super::threads;

/// Rows of a segment. The last one is copied by every commit that adds to it.
const SEGMENT_ROWS: usize = 4096;
/// Of fewer rows no signs are made: comparing all of them in int8 takes no longer than choosing among them.
const ROWS_MIN: usize = 2048;
/// So many blocks before one is compared it is asked for: a scan of many rows waits for memory.
const BLOCKS_AHEAD: usize = 4;
/// The basis is learned from so many rows that are spread evenly over all.
const LEARNED_FROM: usize = 4096;
/// It is learned again when there are so many times as many rows.
const GROWTH: usize = 8;

/// All rows, in segments that snapshots share.
#[derive(Clone, Default)]
pub(crate) struct Signs {
    rows: usize,
    segments: Vec<Arc<Segment>>,
    /// What signs are taken in, and of how many rows it was learned; `None` below [`ROWS_MIN`].
    basis: Option<(Arc<Basis>, usize)>,
}

#[derive(Clone)]
struct Segment {
    rows: usize,
    /// Blocks of [`SIGN_ROWS`] rows.
    blocks: AlignedVec<u8>,
    /// For each row of the blocks, NaN where there is none yet, what the product of a query with its signs is multiplied by to estimate that with the row:
    /// `|x|² / sum|x|`, which is exact when the query is the row (RaBitQ, Gao and Long, 2024).
    factors: Vec<f32>,
}

/// The int8 rows of `vectors`.
#[derive(Clone, Copy)]
struct Rows<'a> {
    values: &'a [i8],
    scales: &'a [f32],
    dimension: usize,
}

impl<'a> Rows<'a> {
    fn get(&self, row: usize) -> (&'a [i8], f32) {
        (&self.values[row * self.dimension..][..self.dimension], self.scales[row])
    }

    fn sample(&self) -> Vec<Vec<f32>> {
        let count = self.scales.len().min(LEARNED_FROM);
        let rows = (0..count).map(|place| self.get(place * self.scales.len() / count));
        rows.map(|(row, scale)| row.iter().map(|&value| f32::from(value) * scale).collect()).collect()
    }
}

impl Signs {
    /// Adds what `vectors` have beyond the rows that are here.
    pub(crate) fn extend(&mut self, vectors: &MappedVectors, dimension: usize) {
        let rows =
            Rows { values: view::as_i8(&vectors.i8), scales: view::as_f32(&vectors.scales), dimension };
        let count = rows.scales.len();
        if count < ROWS_MIN {
            return;
        }
        let must_learn = self.basis.as_ref().is_none_or(|(_, learned_of)| count >= learned_of * GROWTH);
        if must_learn || count - self.rows > SEGMENT_ROWS {
            threads::aside(|| self.add(rows, count));
        } else {
            self.add(rows, count);
        }
    }

    fn add(&mut self, rows: Rows<'_>, count: usize) {
        let basis = match &self.basis {
            Some((basis, learned_of)) if count < learned_of * GROWTH => Arc::clone(basis),
            Some(_) | None => {
                let basis = Arc::new(Basis::learn(&rows.sample(), rows.dimension));
                *self = Signs { basis: Some((Arc::clone(&basis), count)), ..Signs::default() };
                basis
            }
        };
        if let Some(last) = self.segments.last_mut().filter(|last| last.rows < SEGMENT_ROWS) {
            let first = self.rows - last.rows;
            Arc::make_mut(last).extend(&basis, rows, self.rows..count.min(first + SEGMENT_ROWS));
        }
        let made = (self.segments.len()..count.div_ceil(SEGMENT_ROWS)).into_par_iter().map(|segment| {
            let first = segment * SEGMENT_ROWS;
            let mut made = Segment { rows: 0, blocks: AlignedVec::zeroed(0), factors: Vec::new() };
            made.extend(&basis, rows, first..count.min(first + SEGMENT_ROWS));
            Arc::new(made)
        });
        self.segments.extend(made.collect::<Vec<_>>());
        self.rows = count;
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Estimates the product of `query`, which is as rows are, with every row of one of so many equal parts, in order, and
    /// hands those above the threshold to `found`, which returns the threshold for the next. What is
    /// estimated is the product but for a factor that is the same for all rows.
    pub(crate) fn scan(
        &self,
        kernels: &Kernels,
        query: &[i8],
        (part, parts): (usize, usize),
        mut threshold: f32,
        mut found: impl FnMut(u32, f32) -> f32,
    ) {
        let Some((basis, _)) = &self.basis else { return };
        let mut projected = vec![0; basis.len()];
        basis.project(kernels, query, &mut projected);
        let projected: Vec<f32> = projected.into_iter().map(|product| product as f32).collect();
        let signs = SignQuery::new(&projected);
        let block_bytes = sign_block_bytes(basis.len());
        let mut scores = [0.0; SIGN_ROWS];
        let border = |part: usize| part * self.segments.len() / parts;
        let segments = border(part)..border(part + 1);
        let first_slots = (segments.start as u32 * SEGMENT_ROWS as u32..).step_by(SEGMENT_ROWS);
        for (segment, first) in self.segments[segments].iter().zip(first_slots) {
            let blocks = segment.blocks.chunks_exact(block_bytes);
            let factors = segment.factors.as_chunks().0;
            for (number, (block, factors)) in blocks.zip(factors).enumerate() {
                let later = (number + BLOCKS_AHEAD) * block_bytes;
                if let Some(later) = segment.blocks.get(later..later + block_bytes) {
                    prefetch(later);
                }
                let first = first + (number * SIGN_ROWS) as u32;
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

impl Segment {
    fn extend(&mut self, basis: &Basis, rows: Rows<'_>, range: std::ops::Range<usize>) {
        let kernels = Kernels::current();
        let mut projected = vec![0; basis.len()];
        for row in range {
            let (values, scale) = rows.get(row);
            basis.project(kernels, values, &mut projected);
            self.push(&projected, scale);
        }
    }

    fn push(&mut self, projected: &[i32], scale: f32) {
        let block = sign_block_bytes(projected.len());
        let start = self.rows / SIGN_ROWS * block;
        if self.rows.is_multiple_of(SIGN_ROWS) {
            self.blocks.grow(start + block);
            self.factors.extend([f32::NAN; SIGN_ROWS]);
        }
        write_signs(&mut self.blocks[start..start + block], self.rows % SIGN_ROWS, projected);
        self.factors[self.rows] = factor(projected) * scale;
        self.rows += 1;
    }
}

fn factor(projected: &[i32]) -> f32 {
    let (mut sizes, mut squares) = (0.0f32, 0.0f32);
    for &value in projected {
        let value = value as f32;
        sizes += value.abs();
        squares += value * value;
    }
    if sizes == 0.0 { 0.0 } else { squares / sizes }
}
