//! The dense leg: every row is compared with the query, roughly, and the best again, ever more exactly.
//!
//! The scan compares codes of four bits, fewer bits than embeddings have values, because what a scan costs is what it reads. The best by
//! that are compared in int8, a row of which stands for `value * scale` with `scale = max|x| / 127` of that row, and the best of
//! those from their IEEE halves, so that the head of the ranking is that of an exact comparison in all but ties beyond the precision
//! of a half.

use half::f16;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;
use weir_kernels::{AlignedVec, Kernels, prefetch, view};

use super::codes::{Codes, Part};
use super::files::{AppendVectors, MappedVectors};
use super::ranking::ScoredSlot;
use super::selection::Visible;
use super::threads;
use crate::IndexError;

/// For every chunk that is asked for, so many are compared in int8, and at least so many are.
const COMPARED: (usize, usize) = (3, 300);
/// Of every so many rows one is compared in int8 at least: among more rows, codes tell less about the best.
const COMPARED_SHARE: usize = 1000;
/// Of those that are asked for so large a part is scored again in half precision, and at least so many are: rounding to int8 may exchange
/// neighbours, which matters little further down.
const RESCORED_SHARE: (usize, usize) = (2, 5);
const RESCORED_MIN: usize = 40;
/// When a filter lets fewer than one of so many rows through, comparing those costs less than the scan of all.
const SELECTED_SHARE: usize = 20;
/// A scan that is shared has parts of about so many rows: several for each thread, since some threads are late.
const ROWS_PER_PART: usize = 50_000;
/// About so many rows, from everywhere, are scanned first, to learn which scores are among the best.
const SAMPLED_ROWS: usize = 2048;
/// Twice as many rows as are wanted get above the score that is taken, and as many more as this many of the sample stand for: hardly ever
/// too few do.
const SAMPLED_MIN: usize = 10;
/// So many candidates are compared by one thread at a time.
const COMPARED_PER_PART: usize = 128;
/// So many candidates before a row is read it is asked for.
const FETCHED_AHEAD: usize = 8;
/// The largest size of a value in an embedding: that of an IEEE half.
const VALUE_MAX: f32 = 65504.0;

/// Checks that an embedding has `dimension` values which all files can hold.
pub(crate) fn check(embedding: &[f32], dimension: usize) -> Result<(), IndexError> {
    if embedding.len() != dimension {
        return Err(IndexError::EmbeddingLength { expected: dimension, actual: embedding.len() });
    }
    // A NaN is not smaller either.
    if embedding.iter().all(|value| value.abs() <= VALUE_MAX) {
        Ok(())
    } else {
        Err(IndexError::EmbeddingNotFinite)
    }
}

/// Appends one row to all vector files.
pub(crate) fn append(files: &mut AppendVectors, embedding: &[f32]) -> Result<(), IndexError> {
    let (values, scale) = quantise(embedding);
    let halves = embedding.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes());
    files.i8.append(&values.iter().map(|value| value.cast_unsigned()).collect::<Vec<u8>>())?;
    files.scales.append(&scale.to_le_bytes())?;
    files.f16.append(&halves.collect::<Vec<u8>>())
}

/// The visible rows closest to `query`, best first, `depth` of them or all. `None` when a file does not hold them.
///
/// # Panics
/// When the files do not have rows of the query's length (their sizes are checked when they are opened).
pub(crate) fn search(
    vectors: &MappedVectors,
    codes: &Codes,
    query: &[f32],
    visible: Visible<'_>,
    depth: usize,
) -> Option<Vec<ScoredSlot>> {
    let kernels = Kernels::current();
    let (quantised, scale) = quantise(query);
    let at_least = |(factor, least): (usize, usize)| depth.saturating_mul(factor).max(least);
    let live = |slots: &mut dyn Iterator<Item = u32>| {
        let live = slots.filter(|&slot| visible.tombstones.is_live(slot));
        live.map(|slot| ScoredSlot { slot, score: 0.0 }).collect()
    };
    let mut candidates = match visible.selection {
        Some(selection) if (selection.count() as usize) < codes.rows() / SELECTED_SHARE => {
            live(&mut selection.slots())
        }
        Some(selection) if codes.rows() == 0 => live(&mut selection.slots()),
        None if codes.rows() == 0 => live(&mut (0..visible.tombstones.slots())),
        Some(_) | None => {
            let compared = at_least(COMPARED).max(codes.rows() / COMPARED_SHARE);
            scan(kernels, codes, &quantised, visible, compared)
        }
    };
    let kept = depth.max(RESCORED_MIN);
    let mut rescored = candidates.len();
    if candidates.len() > kept {
        compare(kernels, vectors, (&quantised, scale), &mut candidates, kept);
        rescored = (kept * RESCORED_SHARE.0 / RESCORED_SHARE.1).max(RESCORED_MIN);
        candidates.select_nth_unstable_by(rescored - 1, ScoredSlot::by_rank);
    }
    rescore(kernels, vectors, query, &mut candidates[..rescored])?;
    candidates.sort_unstable_by(ScoredSlot::by_rank);
    Some(candidates)
}

/// Scores the candidates from their halves; `None` when the file does not hold them.
fn rescore(
    kernels: &Kernels,
    vectors: &MappedVectors,
    query: &[f32],
    candidates: &mut [ScoredSlot],
) -> Option<()> {
    let row_bytes = 2 * query.len();
    if let Some(halves) = vectors.f16.mapped() {
        let row = |slot: u32| halves.get(slot as usize * row_bytes..)?.get(..row_bytes);
        for i in 0..candidates.len() {
            if let Some(later) = candidates.get(i + FETCHED_AHEAD) {
                prefetch(row(later.slot)?);
            }
            candidates[i].score = (kernels.dot_f16)(query, view::as_u16(row(candidates[i].slot)?));
        }
        return Some(());
    }
    let mut row: AlignedVec<u8> = AlignedVec::zeroed(row_bytes);
    for candidate in candidates {
        vectors.f16.read_into(u64::from(candidate.slot) * row_bytes as u64, &mut row)?;
        candidate.score = (kernels.dot_f16)(query, view::as_u16(&row));
    }
    Some(())
}

/// The cosine of the angle between two embeddings; 0 when one is all zeros.
pub(crate) fn cosine(a: &[f32], b: &[f32]) -> f32 {
    let dot = Kernels::current().dot;
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
}

/// The `count` visible rows that score best by their codes, in no order. Many rows are shared among threads.
fn scan(
    kernels: &Kernels,
    codes: &Codes,
    query: &[i8],
    visible: Visible<'_>,
    count: usize,
) -> Vec<ScoredSlot> {
    let Some(query) = codes.query(kernels, query) else { return Vec::new() };
    let scan_part = |part: Part, threshold: f32| {
        let mut found = Vec::new();
        codes.scan(kernels, &query, part, threshold, |slot, score| {
            if visible.holds(slot) {
                found.push(ScoredSlot { slot, score });
            }
        });
        found
    };
    let scan_all = |threshold: f32| match codes.rows() / ROWS_PER_PART {
        parts if parts > 1 && threads::share(codes.rows()) => {
            let parts = (0..parts).into_par_iter().map(|part| scan_part(Part::Run(part, parts), threshold));
            parts.collect::<Vec<Vec<_>>>().concat()
        }
        _ => scan_part(Part::Run(0, 1), threshold),
    };
    // most rows need not be looked at: a sample tells about which scores are among the best
    let one_of = (codes.rows() / SAMPLED_ROWS).max(1);
    let mut sample = scan_part(Part::Sample(one_of), f32::NEG_INFINITY);
    let rank = (count / one_of).saturating_mul(2).saturating_add(SAMPLED_MIN);
    let threshold = match sample.len() > rank {
        true => sample.select_nth_unstable_by(rank, ScoredSlot::by_rank).1.score,
        false => f32::NEG_INFINITY,
    };
    let mut found = scan_all(threshold);
    if found.len() < count && threshold > f32::NEG_INFINITY {
        // the sample was not like the rest
        found = scan_all(f32::NEG_INFINITY);
    }
    if found.len() > count {
        found.select_nth_unstable_by(count - 1, ScoredSlot::by_rank);
        found.truncate(count);
    }
    found
}

/// Scores the candidates in int8, by several threads when the index is large, and keeps the best `count`, which are fewer.
fn compare(
    kernels: &Kernels,
    vectors: &MappedVectors,
    (query, scale): (&[i8], f32),
    candidates: &mut Vec<ScoredSlot>,
    count: usize,
) {
    let (rows, scales) = (view::as_i8(&vectors.i8), view::as_f32(&vectors.scales));
    let row = |slot: u32| &rows[slot as usize * query.len()..][..query.len()];
    // in the order of the file, as memory likes it
    if threads::share(scales.len()) {
        candidates.sort_unstable_by_key(|candidate| candidate.slot);
    }
    let compare_part = |candidates: &mut [ScoredSlot]| {
        for i in 0..candidates.len() {
            // rows lie anywhere in memory: later ones are fetched meanwhile
            if let Some(later) = candidates.get(i + FETCHED_AHEAD) {
                prefetch(row(later.slot));
                prefetch(&scales[later.slot as usize..][..1]);
            }
            let candidate = &mut candidates[i];
            let mut product = [0];
            (kernels.dot_i8_rows)(query, row(candidate.slot), &mut product);
            candidate.score = product[0] as f32 * scale * scales[candidate.slot as usize];
        }
    };
    if threads::share(scales.len()) {
        candidates.par_chunks_mut(COMPARED_PER_PART).for_each(compare_part);
    } else {
        compare_part(candidates);
    }
    candidates.select_nth_unstable_by(count, ScoredSlot::by_rank);
    candidates.truncate(count);
}

/// Symmetric int8 with one scale for the whole row: `value ≈ quantised * scale`, quantised in -127..=127.
pub(super) fn quantise(values: &[f32]) -> (Vec<i8>, f32) {
    let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    let scale = largest / 127.0;
    if scale == 0.0 {
        return (vec![0; values.len()], 0.0);
    }
    (values.iter().map(|value| (value / scale).round().clamp(-127.0, 127.0) as i8).collect(), scale)
}

#[cfg(test)]
mod tests {
    use weir_kernels::CODE_ROWS;

    use super::*;
    use crate::embedded::best::BestSlots;
    use crate::embedded::codes::tests::{codes_of, made_up};
    use crate::embedded::tombstones::Tombstones;

    #[test]
    fn quantising_keeps_the_largest_value_and_the_sign() {
        assert_eq!(quantise(&[1.27, -2.54, 0.0]), (vec![64, -127, 0], 2.54 / 127.0));
        assert_eq!(quantise(&[0.0, -0.0]), (vec![0, 0], 0.0));
        assert_eq!(quantise(&[f32::MIN_POSITIVE]).0.len(), 1);
    }

    #[test]
    fn embeddings_of_wrong_length_or_with_odd_values_are_refused() {
        assert!(matches!(check(&[1.0], 2), Err(IndexError::EmbeddingLength { expected: 2, actual: 1 })));
        for odd in [f32::NAN, f32::INFINITY, 65505.0] {
            assert!(matches!(check(&[0.0, odd], 2), Err(IndexError::EmbeddingNotFinite)), "{odd}");
        }
        check(&[-65504.0, 0.0], 2).unwrap();
    }

    #[test]
    fn the_best_by_codes_are_found_also_where_the_sample_is_unlike_the_rest() {
        let (rows, count) = (40 * SAMPLED_ROWS, 300);
        let query = [90, -80, 70, -60, 50, -40, 30, -20];
        let one_of = rows / SAMPLED_ROWS;
        let is_sampled = |row: usize| (row / CODE_ROWS).is_multiple_of(one_of);
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
            tombstones.kill(0, 1000);
            let visible = Visible { tombstones: &tombstones, selection: None };
            let kernels = Kernels::current();
            let mut best = BestSlots::new(wanted);
            codes.scan(
                kernels,
                &codes.query(kernels, &query).unwrap(),
                Part::Run(0, 1),
                f32::MIN,
                |slot, score| {
                    if visible.holds(slot) {
                        best.push(ScoredSlot { slot, score });
                    }
                },
            );
            let mut found = scan(kernels, &codes, &query, visible, wanted);
            found.sort_unstable_by(ScoredSlot::by_rank);
            assert_eq!(found, best.into_sorted());
        }
    }
}
