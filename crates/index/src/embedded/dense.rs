//! The dense leg: every row is compared with the query, in int8, and the best again in half precision.
//!
//! A row of int8 values stands for `value * scale`, with `scale = max|x| / 127` of that row. One integer dot product
//! per row gives an approximate score; the best few hundred rows are scored again from their IEEE halves, so that the
//! ranking is that of an exact comparison in all but ties beyond the precision of a half.

use half::f16;
use weir_kernels::{Kernels, view};

use super::files::{AppendVectors, MappedVectors};
use super::ranking::ScoredSlot;
use super::tombstones::Tombstones;
use crate::IndexError;

/// Rows that one call of the kernel scores; their results stay in the first-level cache.
const BLOCK_ROWS: usize = 256;
/// For every chunk that is asked for, so many are scored again in half precision.
const RESCORED_PER_RESULT: usize = 2;
/// At least so many are.
const RESCORED_MIN: usize = 40;
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

/// The live rows closest to `query`, best first, `depth` of them or all.
///
/// # Panics
/// When the files do not have rows of the query's length (their sizes are checked when they are opened).
pub(crate) fn search(
    vectors: &MappedVectors,
    query: &[f32],
    tombstones: &Tombstones,
    depth: usize,
) -> Vec<ScoredSlot> {
    if vectors.scales.is_empty() {
        return Vec::new();
    }
    let kernels = Kernels::current();
    let candidates = depth.saturating_mul(RESCORED_PER_RESULT).max(RESCORED_MIN);
    let mut best = scan(kernels, vectors, query, tombstones, candidates);
    let halves = view::as_u16(&vectors.f16);
    for candidate in &mut best {
        let start = candidate.slot as usize * query.len();
        candidate.score = (kernels.dot_f16)(query, &halves[start..start + query.len()]);
    }
    best.sort_unstable_by(ScoredSlot::by_rank);
    best
}

/// The `candidates` live rows with the best int8 scores, in no order.
fn scan(
    kernels: &Kernels,
    vectors: &MappedVectors,
    query: &[f32],
    tombstones: &Tombstones,
    candidates: usize,
) -> Vec<ScoredSlot> {
    let (query, _) = quantise(query);
    let scales = view::as_f32(&vectors.scales);
    let rows = view::as_i8(&vectors.i8);
    let mut best = TopSlots::new(candidates);
    let mut products = [0; BLOCK_ROWS];
    let blocks = rows.chunks(BLOCK_ROWS * query.len()).zip(scales.chunks(BLOCK_ROWS));
    for (block, (rows, scales)) in blocks.enumerate() {
        let products = &mut products[..scales.len()];
        (kernels.dot_i8_rows)(&query, rows, products);
        let first = (block * BLOCK_ROWS) as u32;
        for (row, (&product, &scale)) in (first..).zip(products.iter().zip(scales)) {
            let score = product as f32 * scale;
            if score > best.threshold && tombstones.is_live(row) {
                best.push(ScoredSlot { slot: row, score });
            }
        }
    }
    best.into_kept()
}

/// Symmetric int8 with one scale for the whole row: `value ≈ quantised * scale`, quantised in -127..=127.
fn quantise(values: &[f32]) -> (Vec<i8>, f32) {
    let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    let scale = largest / 127.0;
    if scale == 0.0 {
        return (vec![0; values.len()], 0.0);
    }
    (values.iter().map(|value| (value / scale).round().clamp(-127.0, 127.0) as i8).collect(), scale)
}

/// The best of many, collected in twice the room and cut by selection: constant time per row.
struct TopSlots {
    kept: Vec<ScoredSlot>,
    capacity: usize,
    /// Rows at or below it cannot be among the best any more, if they come in the order of their slots.
    threshold: f32,
}

impl TopSlots {
    fn new(capacity: usize) -> TopSlots {
        TopSlots { kept: Vec::new(), capacity, threshold: f32::NEG_INFINITY }
    }

    fn push(&mut self, scored: ScoredSlot) {
        self.kept.push(scored);
        if self.kept.len() >= self.capacity.saturating_mul(2) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.kept.len() > self.capacity {
            let (_, last, _) = self.kept.select_nth_unstable_by(self.capacity - 1, ScoredSlot::by_rank);
            self.threshold = last.score;
            self.kept.truncate(self.capacity);
        }
    }

    fn into_kept(mut self) -> Vec<ScoredSlot> {
        self.cut();
        self.kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_best_are_kept_and_of_equal_ones_the_first() {
        let mut top = TopSlots::new(3);
        for (slot, score) in [1.0, 5.0, 2.0, 5.0, 4.0, 4.0, 9.0, 4.0].into_iter().enumerate() {
            if score > top.threshold {
                top.push(ScoredSlot { slot: slot as u32, score });
            }
        }
        let mut kept = top.into_kept();
        kept.sort_by(ScoredSlot::by_rank);
        assert_eq!(kept.iter().map(|kept| kept.slot).collect::<Vec<_>>(), [6, 1, 3]);
    }
}
