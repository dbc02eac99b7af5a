//! The 4-bit codes of all rows, in memory: what the scan of the dense retriever reads of every row, 36 bytes with the default
//! model.
//!
//! They are computed from the int8 rows. The file `codes` keeps them for the next start (see [`codes`](super::codes)).

use std::ops::Range;
use std::sync::Arc;

use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSlice;
use weir_kernels::{
    AlignedVec, Kernels, PQ4_BLOCK_ROWS, Pq4Query, pq4_block_bytes, pq4_write_row, prefetch, view,
};
use weir_mapped::{LARGE_PAGE_BYTES, LargePages};
use weir_quantization::{Codebook, EncodedRow};

use super::files::MappedVectors;
use super::threads;

/// Rows per segment. Every commit copies the last segment.
pub(crate) const SEGMENT_ROWS: usize = 4096;
/// Full segments are packed into slabs of about this size.
const SLAB_BYTES: usize = 2 * LARGE_PAGE_BYTES;
/// No codes are made for fewer rows: comparing all of them in int8 is as fast.
pub(crate) const ROWS_MIN: usize = 2048;
/// Blocks to prefetch ahead of the scan, which is bound by memory latency.
const PREFETCH_BLOCKS: usize = 4;
/// The codebook is trained on this many rows, evenly spaced.
const TRAINING_ROWS: usize = 4096;
/// Retrain the codebook when the row count has grown 8×.
const RETRAIN_GROWTH: usize = 8;

/// The codes of all rows, in slabs and segments that snapshots share.
#[derive(Clone, Default)]
pub(crate) struct Pq4Codes {
    rows: usize,
    /// The first rows, in large pages: scanning many megabytes in small pages waits for page tables.
    slabs: Vec<Arc<LargePages>>,
    /// The rows after those in slabs.
    segments: Vec<Arc<Segment>>,
    /// The codebook, and the row count when it was trained; `None` below [`ROWS_MIN`].
    codebook: Option<(Arc<Codebook>, usize)>,
}

/// Rows in blocks of [`PQ4_BLOCK_ROWS`]: their codes, then their [`EncodedRow::factor`]s, NaN for missing rows.
#[derive(Clone)]
struct Segment {
    rows: usize,
    blocks: AlignedVec<u8>,
}

/// The rows of a scan.
#[derive(Clone, Copy)]
pub(crate) enum ScanPart {
    /// The n-th of a number of equal, contiguous parts: `Run(n, parts)`.
    Run(usize, usize),
    /// Every n-th block.
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
    /// Adds the rows of `vectors` that are not encoded yet.
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
        let segments = firsts.map(|first| {
            let mut segment = Segment { rows: 0, blocks: AlignedVec::zeroed(0) };
            segment.extend(&codebook, rows, first..count.min(first + SEGMENT_ROWS));
            Arc::new(segment)
        });
        self.segments.extend(segments.collect::<Vec<_>>());
        self.rows = count;
        let segment_bytes = SEGMENT_ROWS / PQ4_BLOCK_ROWS * block_bytes(&codebook);
        self.pack_slabs(segment_bytes, (SLAB_BYTES / segment_bytes).max(1));
    }

    /// Packs full segments into slabs of `segments_per_slab` segments each.
    fn pack_slabs(&mut self, segment_bytes: usize, segments_per_slab: usize) {
        let full = self.segments.iter().filter(|segment| segment.rows == SEGMENT_ROWS).count();
        let packed = full / segments_per_slab * segments_per_slab;
        let slabs = self.segments[..packed].par_chunks(segments_per_slab).map(|segments| {
            let mut slab = LargePages::zeroed(segments_per_slab * segment_bytes)?;
            for (bytes, segment) in slab.chunks_exact_mut(segment_bytes).zip(segments) {
                bytes.copy_from_slice(&segment.blocks);
            }
            Ok(Arc::new(slab))
        });
        // without memory for slabs, segments stay
        let slabs: std::io::Result<Vec<_>> = slabs.collect();
        if let Ok(slabs) = slabs {
            self.slabs.extend(slabs);
            self.segments.drain(..packed);
        }
    }

    /// Reads stored codes: `read` fills memory with the bytes of [`blocks`](Self::blocks) from an offset on, and may return a
    /// result for each part; `None` if it does, or without memory. Parallel.
    pub(crate) fn read<T: Send>(
        codebook: Codebook,
        trained_rows: usize,
        rows: usize,
        read: impl Fn(usize, &mut [u8]) -> Option<T> + Sync,
    ) -> Option<(Pq4Codes, Vec<T>)> {
        let block_bytes = block_bytes(&codebook);
        let segment_bytes = SEGMENT_ROWS / PQ4_BLOCK_ROWS * block_bytes;
        let segments_per_slab = (SLAB_BYTES / segment_bytes).max(1);
        let (slab_rows, slab_bytes) = (segments_per_slab * SEGMENT_ROWS, segments_per_slab * segment_bytes);
        let slabs = (0..rows / slab_rows).into_par_iter().map(|number| {
            let mut slab = LargePages::zeroed(slab_bytes).ok()?;
            let result = read(number * slab_bytes, &mut slab)?;
            Some((Arc::new(slab), result))
        });
        let (slabs, mut results) = slabs.collect::<Option<(Vec<_>, Vec<_>)>>()?;
        let mut segments = Vec::new();
        for first in (slabs.len() * slab_rows..rows).step_by(SEGMENT_ROWS) {
            let rows = SEGMENT_ROWS.min(rows - first);
            let mut blocks = AlignedVec::zeroed(rows.div_ceil(PQ4_BLOCK_ROWS) * block_bytes);
            results.push(read(first / PQ4_BLOCK_ROWS * block_bytes, &mut blocks)?);
            segments.push(Arc::new(Segment { rows, blocks }));
        }
        let codebook = Some((Arc::new(codebook), trained_rows));
        Some((Pq4Codes { rows, slabs, segments, codebook }, results))
    }

    /// The bytes of all blocks, in order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &[u8]> {
        let slabs = self.slabs.iter().map(|slab| &slab[..]);
        slabs.chain(self.segments.iter().map(|segment| &segment.blocks[..]))
    }

    /// The codebook, and the number of rows when it was trained.
    pub(crate) fn codebook(&self) -> Option<(&Codebook, usize)> {
        self.codebook.as_ref().map(|(codebook, trained_rows)| (&**codebook, *trained_rows))
    }

    /// Number of rows.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Prepares an int8 query for [`scan`](Self::scan); `None` if there are no codes.
    pub(crate) fn query(&self, kernels: &Kernels, query: &[i8]) -> Option<Pq4Query> {
        self.codebook.as_ref().map(|(codebook, _)| codebook.query(kernels, query))
    }

    /// Estimates the product of the query with every row of `part`, in order, and calls `found` for rows above the threshold.
    /// Estimates are exact up to an error and a factor that is equal for all rows.
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
        let (blocks_wanted, step) = match part {
            ScanPart::Run(part, parts) => (part * count / parts..(part + 1) * count / parts, 1),
            ScanPart::Sample(step) => (0..count, step),
        };
        let mut scores = [0.0; PQ4_BLOCK_ROWS];
        for (first, blocks) in self.runs(blocks_wanted, block_bytes) {
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

    /// The wanted blocks as contiguous slices of memory, each with the number of its first block.
    fn runs(&self, blocks_wanted: Range<usize>, block_bytes: usize) -> impl Iterator<Item = (usize, &[u8])> {
        let mut next = 0;
        self.blocks().filter_map(move |blocks| {
            let first = next;
            next += blocks.len() / block_bytes;
            let (from, to) = (blocks_wanted.start.max(first), blocks_wanted.end.min(next));
            (from < to).then(|| (from, &blocks[(from - first) * block_bytes..(to - first) * block_bytes]))
        })
    }
}

impl Segment {
    /// Encodes the rows of a range, which follow those in the segment.
    fn extend(&mut self, codebook: &Codebook, rows: Rows<'_>, range: Range<usize>) {
        let kernels = Kernels::current();
        let (block_bytes, code_bytes) = (block_bytes(codebook), pq4_block_bytes(codebook.groups()));
        let present = self.blocks.len();
        self.blocks.grow((self.rows + range.len()).div_ceil(PQ4_BLOCK_ROWS) * block_bytes);
        for block in self.blocks[present..].chunks_exact_mut(block_bytes) {
            block[code_bytes..].as_chunks_mut().0.fill(f32::NAN.to_le_bytes());
        }
        let mut encoder = codebook.encoder();
        for row in range {
            let (values, scale) = rows.get(row);
            let EncodedRow { codes, factor } = encoder.encode(kernels, values, scale);
            let block = &mut self.blocks[self.rows / PQ4_BLOCK_ROWS * block_bytes..][..block_bytes];
            let (block_codes, block_factors) = block.split_at_mut(code_bytes);
            pq4_write_row(block_codes, self.rows % PQ4_BLOCK_ROWS, codes);
            block_factors.as_chunks_mut().0[self.rows % PQ4_BLOCK_ROWS] = factor.to_le_bytes();
            self.rows += 1;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const DIMENSION: usize = 8;

    /// Codes of rows of eight values, added in batches that end at these row counts.
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

    /// Distinct rows.
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
    fn every_row_is_scanned_once_and_in_order() {
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
    fn stored_blocks_are_read_into_slabs_and_segments_in_order() {
        let (codebook, trained_rows) = {
            let codes = codes_of(&made_up(ROWS_MIN), &[ROWS_MIN]);
            let (codebook, trained_rows) = codes.codebook().unwrap();
            (codebook.clone(), trained_rows)
        };
        let block_bytes = block_bytes(&codebook);
        let segment_bytes = SEGMENT_ROWS / PQ4_BLOCK_ROWS * block_bytes;
        let slab_rows = SLAB_BYTES / segment_bytes * SEGMENT_ROWS;
        let rows = slab_rows + SEGMENT_ROWS + 33;
        let stored: Vec<u8> =
            (0..rows.div_ceil(PQ4_BLOCK_ROWS) * block_bytes).map(|i| (i / 7 + i / 4099) as u8).collect();
        let read = |offset: usize, blocks: &mut [u8]| {
            blocks.copy_from_slice(stored.get(offset..offset + blocks.len())?);
            Some((offset, blocks.len()))
        };
        let (codes, parts) = Pq4Codes::read(codebook.clone(), trained_rows, rows, read).unwrap();
        assert_eq!((codes.rows(), codes.slabs.len(), codes.segments.len()), (rows, 1, 2));
        assert_eq!(codes.segments[1].rows, 33);
        assert!(codes.blocks().flatten().eq(&stored));
        let ends: Vec<usize> = parts.iter().map(|(offset, len)| offset + len).collect();
        assert_eq!(parts.iter().map(|part| part.0).collect::<Vec<_>>(), [&[0], &ends[..2]].concat());
        assert_eq!(ends[2], stored.len());
        let cut = |offset: usize, blocks: &mut [u8]| (offset + blocks.len() < stored.len()).then_some(());
        assert!(Pq4Codes::read(codebook, trained_rows, rows, cut).is_none());
    }

    #[test]
    fn a_sample_takes_every_nth_block_of_slabs_and_segments() {
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
