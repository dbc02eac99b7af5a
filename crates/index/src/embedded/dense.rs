//! The dense retriever: a scan of all rows in three stages of increasing precision.
//!
//! 1. The scan compares 4-bit codes, because its cost is the number of bytes that it reads.
//! 2. The best candidates are compared in int8: a row represents `value * scale`, with `scale = max|x| / 127` of the row.
//! 3. The best of those are compared in half precision, so that the top of the ranking equals that of an exact comparison, except
//!    for ties beyond the precision of a half.

use half::f16;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use weir_kernels::{AlignedVec, Kernels, prefetch, view};
use weir_quantization::quantise;
use weir_ranking::{BestChunk, ScoredChunk, Visible};

use super::files::{AppendVectors, MappedVectors};
use super::pq4::{Pq4Codes, ScanPart};
use super::threads;
use crate::Result;

/// Candidates re-scored in int8: `3 × k`, at least 300.
const INT8_CANDIDATES: (usize, usize) = (3, 300);
/// At least one in this many rows is re-scored in int8: among more rows, codes are less discriminating.
const INT8_ROWS_DIVISOR: usize = 1000;
/// Candidates re-scored in half precision: two fifths of `k`, at least [`F16_CANDIDATES_MIN`]. Rounding to int8 may swap
/// neighbours, which matters little further down.
const F16_SHARE: (usize, usize) = (2, 5);
const F16_CANDIDATES_MIN: usize = 40;
/// If a filter passes fewer than one in this many rows, comparing those in int8 is cheaper than the scan.
const SELECTED_SHARE: usize = 20;
/// Up to as many rows are compared in int8 where a mandatory filter hides others: what the scan finds depends on all rows.
const RESTRICTED_ROWS: usize = 50_000;
/// Rows per task of a parallel scan: several tasks per thread, since some threads start late.
const ROWS_PER_TASK: usize = 50_000;
/// Rows in the sample that estimates the score threshold before the scan.
const SAMPLE_ROWS: usize = 2048;
/// The sampled threshold admits about `2k` rows plus the equivalent of 10 sample rows, so that a scan rarely returns too few.
const SAMPLE_RANK_MARGIN: usize = 10;
/// Candidates per task of the parallel comparison in int8.
const INT8_CANDIDATES_PER_TASK: usize = 128;
/// Rows to prefetch ahead of the comparison.
const PREFETCH_DISTANCE: usize = 8;
/// Appends a row to all vector files.
pub(crate) fn append(files: &mut AppendVectors, embedding: &[f32]) -> Result<()> {
    let (values, scale) = quantise(embedding);
    let halves = embedding.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes());
    files.i8.append(&values.iter().map(|value| value.cast_unsigned()).collect::<Vec<u8>>())?;
    files.scales.append(&scale.to_le_bytes())?;
    files.f16.append(&halves.collect::<Vec<u8>>())
}

/// The visible rows closest to `query`, best first, at most `depth`. `None` if a file lacks a row. `is_restricted`: whether a mandatory
/// filter hides others.
///
/// # Panics
/// If the rows in the files differ in length from the query (opening checks their sizes).
pub(crate) fn search(
    vectors: &MappedVectors,
    codes: &Pq4Codes,
    query: &[f32],
    visible: Visible<'_>,
    depth: usize,
    is_restricted: bool,
) -> Option<Vec<ScoredChunk>> {
    let compared_max = (codes.rows() / SELECTED_SHARE).max(if is_restricted { RESTRICTED_ROWS } else { 0 });
    let kernels = Kernels::current();
    let (quantised, scale) = quantise(query);
    let at_least = |(factor, least): (usize, usize)| depth.saturating_mul(factor).max(least);
    let live = |chunk_ids: &mut dyn Iterator<Item = u32>| {
        let live = chunk_ids.filter(|&chunk_id| visible.tombstones.is_live(chunk_id));
        live.map(|chunk_id| ScoredChunk { chunk_id, score: 0.0 }).collect()
    };
    let mut candidates = match visible.selection {
        Some(selection) if (selection.count() as usize) < compared_max => live(&mut selection.chunk_ids()),
        Some(selection) if codes.rows() == 0 => live(&mut selection.chunk_ids()),
        None if codes.rows() == 0 => live(&mut (0..visible.tombstones.len())),
        Some(_) | None => {
            let compared = at_least(INT8_CANDIDATES).max(codes.rows() / INT8_ROWS_DIVISOR);
            scan(kernels, codes, &quantised, visible, compared)
        }
    };
    let kept = depth.max(F16_CANDIDATES_MIN);
    let mut rescored = candidates.len();
    if candidates.len() > kept {
        score_int8(kernels, vectors, (&quantised, scale), &mut candidates, kept);
        rescored = (kept * F16_SHARE.0 / F16_SHARE.1).max(F16_CANDIDATES_MIN);
        candidates.select_nth_unstable_by(rescored - 1, ScoredChunk::by_rank);
    }
    score_f16(kernels, vectors, query, &mut candidates[..rescored])?;
    candidates.sort_unstable_by(ScoredChunk::by_rank);
    Some(candidates)
}

/// Scores the rows in int8.
fn score_rows(
    kernels: &Kernels,
    vectors: &MappedVectors,
    (query, scale): (&[i8], f32),
    candidates: &mut [ScoredChunk],
) {
    let (rows, scales) = (view::as_i8(&vectors.i8), view::as_f32(&vectors.scales));
    let row = |chunk_id: u32| &rows[chunk_id as usize * query.len()..][..query.len()];
    for i in 0..candidates.len() {
        // rows are scattered in memory: prefetch later ones
        if let Some(later) = candidates.get(i + PREFETCH_DISTANCE) {
            prefetch(row(later.chunk_id));
            prefetch(&scales[later.chunk_id as usize..][..1]);
        }
        let candidate = &mut candidates[i];
        let mut product = [0];
        (kernels.dot_i8_rows)(query, row(candidate.chunk_id), &mut product);
        candidate.score = product[0] as f32 * scale * scales[candidate.chunk_id as usize];
    }
}

/// Scores the rows of `chunks` in int8, and the best row of each document in half precision. Returns the best row of each document;
/// the rows of a document must be adjacent. `None` if a file lacks a row.
pub(crate) fn best_of_documents(
    vectors: &MappedVectors,
    query: &[f32],
    mut chunks: Vec<ScoredChunk>,
    document_of: impl Fn(u32) -> Option<u32>,
) -> Option<Vec<BestChunk>> {
    let kernels = Kernels::current();
    let (quantised, scale) = quantise(query);
    score_rows(kernels, vectors, (&quantised, scale), &mut chunks);
    let mut documents: Vec<u32> = Vec::new();
    let mut best: Vec<ScoredChunk> = Vec::new();
    for chunk in chunks {
        let document = document_of(chunk.chunk_id)?;
        match best.last_mut().filter(|_| documents.last() == Some(&document)) {
            Some(best) if chunk.score > best.score => *best = chunk,
            Some(_) => {}
            None => {
                documents.push(document);
                best.push(chunk);
            }
        }
    }
    score_f16(kernels, vectors, query, &mut best)?;
    let best = documents.into_iter().zip(best);
    Some(
        best.map(|(document, ScoredChunk { chunk_id, score })| BestChunk { document, chunk_id, score })
            .collect(),
    )
}

/// The int8 values of rows, one after the other; `None` if the file lacks a row.
pub(crate) fn int8_rows(
    vectors: &MappedVectors,
    dimension: usize,
    chunk_ids: impl ExactSizeIterator<Item = u32> + Clone,
) -> Option<Vec<i8>> {
    let all = view::as_i8(&vectors.i8);
    let row = |chunk_id: u32| all.get(chunk_id as usize * dimension..)?.get(..dimension);
    chunk_ids.clone().filter_map(row).for_each(prefetch);
    let mut rows = Vec::with_capacity(chunk_ids.len() * dimension);
    for chunk_id in chunk_ids {
        rows.extend_from_slice(row(chunk_id)?);
    }
    Some(rows)
}

/// Scores the candidates in half precision; `None` if the file lacks a row.
fn score_f16(
    kernels: &Kernels,
    vectors: &MappedVectors,
    query: &[f32],
    candidates: &mut [ScoredChunk],
) -> Option<()> {
    let row_bytes = 2 * query.len();
    if let Some(halves) = vectors.f16.mapped() {
        let row = |chunk_id: u32| halves.get(chunk_id as usize * row_bytes..)?.get(..row_bytes);
        for i in 0..candidates.len() {
            if let Some(later) = candidates.get(i + PREFETCH_DISTANCE) {
                prefetch(row(later.chunk_id)?);
            }
            candidates[i].score = (kernels.dot_f16)(query, view::as_u16(row(candidates[i].chunk_id)?));
        }
        return Some(());
    }
    let mut row: AlignedVec<u8> = AlignedVec::zeroed(row_bytes);
    for candidate in candidates {
        vectors.f16.read_into(u64::from(candidate.chunk_id) * row_bytes as u64, &mut row)?;
        candidate.score = (kernels.dot_f16)(query, view::as_u16(&row));
    }
    Some(())
}

/// The `count` visible rows with the best scores by 4-bit codes, unordered. Parallel for many rows.
fn scan(
    kernels: &Kernels,
    codes: &Pq4Codes,
    query: &[i8],
    visible: Visible<'_>,
    count: usize,
) -> Vec<ScoredChunk> {
    let Some(query) = codes.query(kernels, query) else { return Vec::new() };
    let scan_part = |part: ScanPart, threshold: f32| {
        let mut found = Vec::new();
        codes.scan(kernels, &query, part, threshold, |chunk_id, score| {
            if visible.contains(chunk_id) {
                found.push(ScoredChunk { chunk_id, score });
            }
        });
        found
    };
    let scan_all = |threshold: f32| match codes.rows() / ROWS_PER_TASK {
        parts if parts > 1 && threads::use_threads(codes.rows()) => {
            let parts =
                (0..parts).into_par_iter().map(|part| scan_part(ScanPart::Run(part, parts), threshold));
            parts.collect::<Vec<Vec<_>>>().concat()
        }
        _ => scan_part(ScanPart::Run(0, 1), threshold),
    };
    // a sample estimates the threshold, so that most rows need not be collected
    let one_of = (codes.rows() / SAMPLE_ROWS).max(1);
    let mut sample = scan_part(ScanPart::Sample(one_of), f32::NEG_INFINITY);
    let rank = (count / one_of).saturating_mul(2).saturating_add(SAMPLE_RANK_MARGIN);
    let threshold = match sample.len() > rank {
        true => sample.select_nth_unstable_by(rank, ScoredChunk::by_rank).1.score,
        false => f32::NEG_INFINITY,
    };
    let mut found = scan_all(threshold);
    if found.len() < count && threshold > f32::NEG_INFINITY {
        // the sample was not representative
        found = scan_all(f32::NEG_INFINITY);
    }
    if found.len() > count {
        found.select_nth_unstable_by(count - 1, ScoredChunk::by_rank);
        found.truncate(count);
    }
    found
}

/// Scores the candidates in int8, in parallel for large indexes, and keeps the best `count`.
fn score_int8(
    kernels: &Kernels,
    vectors: &MappedVectors,
    (query, scale): (&[i8], f32),
    candidates: &mut Vec<ScoredChunk>,
    count: usize,
) {
    let rows = vectors.scales.len() / size_of::<f32>();
    let score_part = |part: &mut [ScoredChunk]| score_rows(kernels, vectors, (query, scale), part);
    // in the order of the file, for the sake of memory access
    if threads::use_threads(rows) {
        candidates.sort_unstable_by_key(|candidate| candidate.chunk_id);
        candidates.par_chunks_mut(INT8_CANDIDATES_PER_TASK).for_each(score_part);
    } else {
        score_part(candidates);
    }
    candidates.select_nth_unstable_by(count, ScoredChunk::by_rank);
    candidates.truncate(count);
}

#[cfg(test)]
mod tests {
    use weir_kernels::PQ4_BLOCK_ROWS;
    use weir_ranking::{Tombstones, TopK};

    use super::*;
    use crate::embedded::pq4::tests::{codes_of, made_up};

    #[test]
    fn the_scan_finds_the_best_also_after_an_unrepresentative_sample() {
        let (rows, count) = (40 * SAMPLE_ROWS, 300);
        let query = [90, -80, 70, -60, 50, -40, 30, -20];
        let one_of = rows / SAMPLE_ROWS;
        let is_sampled = |row: usize| (row / PQ4_BLOCK_ROWS).is_multiple_of(one_of);
        let mut misleading = made_up(rows);
        for (row, values) in misleading.chunks_exact_mut(query.len()).enumerate() {
            if is_sampled(row) && row % 2 == 0 {
                values.copy_from_slice(&query);
                values[row % 8] -= (row % 64) as i8;
            }
        }
        for (values, wanted) in [(made_up(rows), count), (misleading, 1900)] {
            let codes = codes_of(&values, &[rows]);
            let mut tombstones = Tombstones::default();
            tombstones.grow(rows as u32);
            tombstones.delete(0, 1000);
            let visible = Visible { tombstones: &tombstones, selection: None };
            let kernels = Kernels::current();
            let mut best = TopK::new(wanted);
            codes.scan(
                kernels,
                &codes.query(kernels, &query).unwrap(),
                ScanPart::Run(0, 1),
                f32::MIN,
                |chunk_id, score| {
                    if visible.contains(chunk_id) {
                        best.push(ScoredChunk { chunk_id, score });
                    }
                },
            );
            let mut found = scan(kernels, &codes, &query, visible, wanted);
            found.sort_unstable_by(ScoredChunk::by_rank);
            assert_eq!(found, best.into_sorted());
        }
    }
}
