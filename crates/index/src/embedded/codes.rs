//! The codes of all rows of the dense leg, in memory: what a scan reads of every row.
//!
//! They follow from the int8 rows and are made again when a folder is opened, so no file holds them.

use std::sync::Arc;

use rayon::iter::{IntoParallelIterator, ParallelIterator};
use weir_kernels::{
    AlignedVec, CODE_ROWS, CodeQuery, Kernels, code_block_bytes, prefetch, view, write_codes,
};

use super::codebook::{Codebook, Coded};
use super::files::MappedVectors;
use super::threads;

/// Rows of a segment. The last one is copied by every commit that adds to it.
const SEGMENT_ROWS: usize = 4096;
/// Of fewer rows no codes are made: comparing all of them in int8 takes no longer than choosing among them.
const ROWS_MIN: usize = 2048;
/// So many blocks before one is compared it is asked for: a scan of many rows waits for memory.
const BLOCKS_AHEAD: usize = 4;
/// The codebook is learned from so many rows that are spread evenly over all.
const LEARNED_FROM: usize = 4096;
/// It is learned again when there are so many times as many rows.
const GROWTH: usize = 8;

/// All rows, in segments that snapshots share.
#[derive(Clone, Default)]
pub(crate) struct Codes {
    rows: usize,
    segments: Vec<Arc<Segment>>,
    /// What the codes mean, and of how many rows it was learned; `None` below [`ROWS_MIN`].
    codebook: Option<(Arc<Codebook>, usize)>,
}

#[derive(Clone)]
struct Segment {
    rows: usize,
    /// Blocks of [`CODE_ROWS`] rows.
    blocks: AlignedVec<u8>,
    /// For each row of the blocks [`Coded::factor`], NaN where there is none yet.
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

impl Codes {
    /// Adds what `vectors` have beyond the rows that are here.
    pub(crate) fn extend(&mut self, vectors: &MappedVectors, dimension: usize) {
        let rows =
            Rows { values: view::as_i8(&vectors.i8), scales: view::as_f32(&vectors.scales), dimension };
        let count = rows.scales.len();
        if count < ROWS_MIN {
            return;
        }
        let must_learn = self.codebook.as_ref().is_none_or(|(_, learned_of)| count >= learned_of * GROWTH);
        if must_learn || count - self.rows > SEGMENT_ROWS {
            threads::aside(|| self.add(rows, count));
        } else {
            self.add(rows, count);
        }
    }

    fn add(&mut self, rows: Rows<'_>, count: usize) {
        let codebook = match &self.codebook {
            Some((codebook, learned_of)) if count < learned_of * GROWTH => Arc::clone(codebook),
            Some(_) | None => {
                let codebook = Arc::new(Codebook::learn(&rows.sample(), rows.dimension));
                *self = Codes { codebook: Some((Arc::clone(&codebook), count)), ..Codes::default() };
                codebook
            }
        };
        if let Some(last) = self.segments.last_mut().filter(|last| last.rows < SEGMENT_ROWS) {
            let first = self.rows - last.rows;
            Arc::make_mut(last).extend(&codebook, rows, self.rows..count.min(first + SEGMENT_ROWS));
        }
        let made = (self.segments.len()..count.div_ceil(SEGMENT_ROWS)).into_par_iter().map(|segment| {
            let first = segment * SEGMENT_ROWS;
            let mut made = Segment { rows: 0, blocks: AlignedVec::zeroed(0), factors: Vec::new() };
            made.extend(&codebook, rows, first..count.min(first + SEGMENT_ROWS));
            Arc::new(made)
        });
        self.segments.extend(made.collect::<Vec<_>>());
        self.rows = count;
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// A query, which is in int8 as rows are, made ready for [`scan`](Self::scan); `None` when there are no codes.
    pub(crate) fn query(&self, kernels: &Kernels, query: &[i8]) -> Option<CodeQuery> {
        self.codebook.as_ref().map(|(codebook, _)| codebook.query(kernels, query))
    }

    /// Estimates the product of the query with every row of one of so many equal parts, in order, and hands those above the
    /// threshold to `found`, which returns the threshold for the next. What is estimated is the product but for a factor that is the
    /// same for all rows.
    pub(crate) fn scan(
        &self,
        kernels: &Kernels,
        query: &CodeQuery,
        (part, parts): (usize, usize),
        mut threshold: f32,
        mut found: impl FnMut(u32, f32) -> f32,
    ) {
        let Some((codebook, _)) = &self.codebook else { return };
        let block_bytes = code_block_bytes(codebook.groups());
        let mut scores = [0.0; CODE_ROWS];
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
                let first = first + (number * CODE_ROWS) as u32;
                let mut above = query.scan(kernels, block, factors, threshold, &mut scores);
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
    /// Adds the rows of a range, which follow those that are here.
    fn extend(&mut self, codebook: &Codebook, rows: Rows<'_>, range: std::ops::Range<usize>) {
        let kernels = Kernels::current();
        let block_bytes = code_block_bytes(codebook.groups());
        let blocks = (self.rows + range.len()).div_ceil(CODE_ROWS);
        self.blocks.grow(blocks * block_bytes);
        self.factors.resize(blocks * CODE_ROWS, f32::NAN);
        let mut coder = codebook.coder();
        for row in range {
            let (values, scale) = rows.get(row);
            let Coded { codes, factor } = coder.code(kernels, values, scale);
            let start = self.rows / CODE_ROWS * block_bytes;
            write_codes(&mut self.blocks[start..start + block_bytes], self.rows % CODE_ROWS, codes);
            self.factors[self.rows] = factor;
            self.rows += 1;
        }
    }
}
