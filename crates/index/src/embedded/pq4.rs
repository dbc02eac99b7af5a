//! The codes of all rows of the dense leg, in memory: what a scan reads of every row.
//!
//! They follow from the int8 rows and are made again when a folder is opened, so no file holds them.

use std::ops::Range;
use std::sync::Arc;

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSlice;
use weir_kernels::{
    AlignedVec, Kernels, PQ4_BLOCK_ROWS, Pq4Query, pq4_block_bytes, pq4_write_row, prefetch, view,
};
use weir_mapped::{LARGE_PAGE_BYTES, LargePages};

use super::codebook::{Codebook, EncodedRow};
use super::files::MappedVectors;
use super::threads;

/// Rows of a segment. The last one is copied by every commit that adds to it.
const SEGMENT_ROWS: usize = 4096;
/// As many full segments as fit so many bytes become a slab.
const SLAB_BYTES: usize = 2 * LARGE_PAGE_BYTES;
/// Of fewer rows no codes are made: comparing all of them in int8 takes no longer than choosing among them.
const ROWS_MIN: usize = 2048;
/// So many blocks before one is compared it is asked for: a scan of many rows waits for memory.
const PREFETCH_BLOCKS: usize = 4;
/// The codebook is learned from so many rows that are spread evenly over all.
const TRAINING_ROWS: usize = 4096;
/// It is learned again when there are so many times as many rows.
const RETRAIN_GROWTH: usize = 8;

/// All rows, in slabs and segments that snapshots share.
#[derive(Clone, Default)]
pub(crate) struct Pq4Codes {
    rows: usize,
    /// The first rows: a scan of many megabytes in small pages waits for page tables too.
    slabs: Vec<Arc<LargePages>>,
    /// The rows behind those of the slabs.
    segments: Vec<Arc<Segment>>,
    /// What the codes mean, and of how many rows it was learned; `None` below [`ROWS_MIN`].
    codebook: Option<(Arc<Codebook>, usize)>,
}

/// Rows in blocks of [`PQ4_BLOCK_ROWS`]: their codes, then for each [`EncodedRow::factor`], NaN where there is no row yet.
#[derive(Clone)]
struct Segment {
    rows: usize,
    blocks: AlignedVec<u8>,
}

/// Which rows are scanned.
#[derive(Clone, Copy)]
pub(crate) enum ScanPart {
    /// The one with this number of so many equal parts.
    Run(usize, usize),
    /// One of so many blocks, everywhere.
    Sample(usize),
}

/// Bytes of a block of a segment.
fn block_bytes(codebook: &Codebook) -> usize {
    pq4_block_bytes(codebook.groups()) + PQ4_BLOCK_ROWS * size_of::<f32>()
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
        let count = self.scales.len().min(TRAINING_ROWS);
        let rows = (0..count).map(|place| self.get(place * self.scales.len() / count));
        rows.map(|(row, scale)| row.iter().map(|&value| f32::from(value) * scale).collect()).collect()
    }
}

impl Pq4Codes {
    /// Adds what `vectors` have beyond the rows that are here.
    pub(crate) fn extend(&mut self, vectors: &MappedVectors, dimension: usize) {
        let rows =
            Rows { values: view::as_i8(&vectors.i8), scales: view::as_f32(&vectors.scales), dimension };
        let count = rows.scales.len();
        if count < ROWS_MIN {
            return;
        }
        let must_train =
            self.codebook.as_ref().is_none_or(|(_, trained_rows)| count >= trained_rows * RETRAIN_GROWTH);
        if must_train || count - self.rows > SEGMENT_ROWS {
            threads::on_temporary_pool(|| self.add(rows, count));
        } else {
            self.add(rows, count);
        }
    }

    fn add(&mut self, rows: Rows<'_>, count: usize) {
        let codebook = match &self.codebook {
            Some((codebook, trained_rows)) if count < trained_rows * RETRAIN_GROWTH => Arc::clone(codebook),
            Some(_) | None => {
                let codebook = Arc::new(Codebook::train(&rows.sample(), rows.dimension));
                *self = Pq4Codes { codebook: Some((Arc::clone(&codebook), count)), ..Pq4Codes::default() };
                codebook
            }
        };
        if let Some(last) = self.segments.last_mut().filter(|last| last.rows < SEGMENT_ROWS) {
            let added = self.rows..count.min(self.rows - last.rows + SEGMENT_ROWS);
            self.rows = added.end;
            Arc::make_mut(last).extend(&codebook, rows, added);
        }
        let firsts = (self.rows..count).into_par_iter().step_by(SEGMENT_ROWS);
        let made = firsts.map(|first| {
            let mut made = Segment { rows: 0, blocks: AlignedVec::zeroed(0) };
            made.extend(&codebook, rows, first..count.min(first + SEGMENT_ROWS));
            Arc::new(made)
        });
        self.segments.extend(made.collect::<Vec<_>>());
        self.rows = count;
        let segment_bytes = SEGMENT_ROWS / PQ4_BLOCK_ROWS * block_bytes(&codebook);
        self.pack_slabs(segment_bytes, (SLAB_BYTES / segment_bytes).max(1));
    }

    /// Makes slabs of so many full segments each, while there are enough of them.
    fn pack_slabs(&mut self, segment_bytes: usize, of_slab: usize) {
        let full = self.segments.iter().filter(|segment| segment.rows == SEGMENT_ROWS).count();
        let settled = full / of_slab * of_slab;
        let slabs = self.segments[..settled].par_chunks(of_slab).map(|segments| {
            let mut slab = LargePages::zeroed(of_slab * segment_bytes)?;
            for (bytes, segment) in slab.chunks_exact_mut(segment_bytes).zip(segments) {
                bytes.copy_from_slice(&segment.blocks);
            }
            Ok(Arc::new(slab))
        });
        // if the system has no memory for them, segments do as well
        let slabs: std::io::Result<Vec<_>> = slabs.collect();
        if let Ok(slabs) = slabs {
            self.slabs.extend(slabs);
            self.segments.drain(..settled);
        }
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// A query, which is in int8 as rows are, made ready for [`scan`](Self::scan); `None` when there are no codes.
    pub(crate) fn query(&self, kernels: &Kernels, query: &[i8]) -> Option<Pq4Query> {
        self.codebook.as_ref().map(|(codebook, _)| codebook.query(kernels, query))
    }

    /// Estimates the product of the query with every row of a part, in order, and hands those above the threshold to `found`. What is
    /// estimated is the product but for a factor that is the same for all rows.
    pub(crate) fn scan(
        &self,
        kernels: &Kernels,
        query: &Pq4Query,
        part: ScanPart,
        threshold: f32,
        mut found: impl FnMut(u32, f32),
    ) {
        let Some((codebook, _)) = &self.codebook else { return };
        let (block_bytes, code_bytes) = (block_bytes(codebook), pq4_block_bytes(codebook.groups()));
        let count = self.rows.div_ceil(PQ4_BLOCK_ROWS);
        let (wanted, step) = match part {
            ScanPart::Run(part, parts) => (part * count / parts..(part + 1) * count / parts, 1),
            ScanPart::Sample(step) => (0..count, step),
        };
        let mut scores = [0.0; PQ4_BLOCK_ROWS];
        for (first, blocks) in self.runs(wanted, block_bytes) {
            let numbered = (first..).zip(blocks.chunks_exact(block_bytes));
            for (number, block) in numbered.step_by(step) {
                let later = (number - first + PREFETCH_BLOCKS * step) * block_bytes;
                if let Some(later) = blocks.get(later..later + block_bytes) {
                    prefetch(later);
                }
                let (codes, factors) = block.split_at(code_bytes);
                let Some(factors) = view::as_f32(factors).first_chunk() else { continue };
                let mut above = query.scan(kernels, codes, factors, threshold, &mut scores);
                while above != 0 {
                    let row = above.trailing_zeros();
                    above &= above - 1;
                    found((number * PQ4_BLOCK_ROWS) as u32 + row, scores[row as usize]);
                }
            }
        }
    }

    /// A range of blocks: the number of the first, and it and the next ones, as they lie in memory.
    fn runs(&self, wanted: Range<usize>, block_bytes: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let slabs = self.slabs.iter().map(|slab| &slab[..]);
        let segments = self.segments.iter().map(|segment| &segment.blocks[..]);
        let mut next = 0;
        slabs.chain(segments).filter_map(move |blocks| {
            let first = next;
            next += blocks.len() / block_bytes;
            let (from, to) = (wanted.start.max(first), wanted.end.min(next));
            (from < to).then(|| (from, &blocks[(from - first) * block_bytes..(to - first) * block_bytes]))
        })
    }
}

impl Segment {
    /// Adds the rows of a range, which follow those that are here.
    fn extend(&mut self, codebook: &Codebook, rows: Rows<'_>, range: Range<usize>) {
        let kernels = Kernels::current();
        let (block_bytes, code_bytes) = (block_bytes(codebook), pq4_block_bytes(codebook.groups()));
        let present = self.blocks.len();
        self.blocks.grow((self.rows + range.len()).div_ceil(PQ4_BLOCK_ROWS) * block_bytes);
        for block in self.blocks[present..].chunks_exact_mut(block_bytes) {
            block[code_bytes..].as_chunks_mut().0.fill(f32::NAN.to_le_bytes());
        }
        let mut coder = codebook.coder();
        for row in range {
            let (values, scale) = rows.get(row);
            let EncodedRow { codes, factor } = coder.code(kernels, values, scale);
            let block = &mut self.blocks[self.rows / PQ4_BLOCK_ROWS * block_bytes..][..block_bytes];
            let (of_codes, of_factors) = block.split_at_mut(code_bytes);
            pq4_write_row(of_codes, self.rows % PQ4_BLOCK_ROWS, codes);
            of_factors.as_chunks_mut().0[self.rows % PQ4_BLOCK_ROWS] = factor.to_le_bytes();
            self.rows += 1;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const DIMENSION: usize = 8;

    /// Codes of rows of eight values, added in batches that reach so many rows.
    pub(crate) fn codes_of(values: &[i8], batches: &[usize]) -> Pq4Codes {
        let scales = vec![1.0 / 127.0; values.len() / DIMENSION];
        let mut codes = Pq4Codes::default();
        for &count in batches {
            let rows =
                Rows { values: &values[..count * DIMENSION], scales: &scales[..count], dimension: DIMENSION };
            codes.add(rows, count);
        }
        codes
    }

    /// So many rows, all unlike.
    pub(crate) fn made_up(rows: usize) -> Vec<i8> {
        (0..rows * DIMENSION)
            .map(|i| ((i * 7919 + i / 5 * 31) % 251) as u8 as i8)
            .map(|x| x.max(-127))
            .collect()
    }

    fn scanned(codes: &Pq4Codes, part: ScanPart) -> Vec<(u32, f32)> {
        let kernels = Kernels::current();
        let query = codes.query(kernels, &[90, -80, 70, -60, 50, -40, 30, -20]).unwrap();
        let mut found = Vec::new();
        codes.scan(kernels, &query, part, f32::NEG_INFINITY, |chunk_id, score| found.push((chunk_id, score)));
        found
    }

    #[test]
    fn every_row_is_scanned_once_and_in_order_whether_it_is_in_a_slab_or_not() {
        let rows = 3 * SEGMENT_ROWS + 1000;
        let mut codes = codes_of(&made_up(rows), &[2 * SEGMENT_ROWS - 5, rows - 7, rows]);
        let before = scanned(&codes, ScanPart::Run(0, 1));
        assert_eq!(
            before.iter().map(|found| found.0).collect::<Vec<_>>(),
            (0..rows as u32).collect::<Vec<_>>()
        );
        assert_eq!((codes.slabs.len(), codes.segments.len()), (0, 4));

        let segment_bytes = codes.segments[0].blocks.len();
        codes.pack_slabs(segment_bytes, 2);
        assert_eq!((codes.slabs.len(), codes.segments.len()), (1, 2), "the last is not full");
        assert_eq!(scanned(&codes, ScanPart::Run(0, 1)), before);
        let parts = [0, 1, 2].map(|part| scanned(&codes, ScanPart::Run(part, 3)));
        assert_eq!(parts.concat(), before, "of any part");
        assert!(parts.iter().all(|part| part.len().abs_diff(rows / 3) < 2 * PQ4_BLOCK_ROWS));
    }

    #[test]
    fn a_sample_has_one_of_so_many_blocks_wherever_they_are() {
        let rows = 2 * SEGMENT_ROWS + 100;
        let mut codes = codes_of(&made_up(rows), &[rows]);
        codes.pack_slabs(codes.segments[0].blocks.len(), 1);
        let sample = scanned(&codes, ScanPart::Sample(10));
        assert!(sample.len().abs_diff(rows / 10) <= 3 * PQ4_BLOCK_ROWS, "{}", sample.len());
        let all = scanned(&codes, ScanPart::Run(0, 1));
        assert!(sample.iter().all(|found| all[found.0 as usize] == *found));
        assert!(sample.iter().any(|found| found.0 as usize >= 2 * SEGMENT_ROWS));
    }
}
