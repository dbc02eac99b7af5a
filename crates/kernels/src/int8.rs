//! Matrices and rows of eight-bit numbers.
//!
//! Weights are symmetric: `w ≈ scale · code` with codes of -127..=127, a scale for each output. Activations are asymmetric:
//! `x ≈ base + scale · code` with codes of 0..=255, a scale and a base for each row, so that a row's product does not
//! depend on the rows beside it. The base stays a float; there is no integer zero point. Then
//!
//! `Σ x·w ≈ scale_row · scale_column · Σ codes + base_row · (scale_column · Σ weight codes)`
//!
//! where the first sum is exact in 32-bit integers, the same with every instruction set, and the second is computed when weights are packed.
//!
//! AVX2 multiplies bytes by `vpmaddubsw`, which adds two products in 16 bits and saturates. **The codes of a [`Group`] therefore never
//! sum to more than [`GROUP_MAX`]**: with weights of at most 127 the sum of their products fits 16 bits, and the product is
//! exact. To that end, codes count from the row's minimum upwards or from its maximum downwards (with a negative scale), whichever gives
//! smaller sums, and the scale is coarser where sums would still be too large: by a third on average for pairs, since both values
//! of a pair are rarely extreme. All instruction sets do the same, so that embeddings do not depend on them.

use std::ops::Range;

use crate::layout::{AlignedVec, CACHE_LINE, Epilogue, Packing, Panels};
use crate::size::{plus, round_up, span, times};

/// Converts the codes of a row to floats: `base + scale · code`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct QuantParams {
    pub(crate) scale: f32,
    pub(crate) base: f32,
}

/// Values of a row whose codes have a limited sum, [`GROUP_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// Values `2k` and `2k + 1`.
    Pair,
    /// A pair of the first half of the row and the pair at the same index of the second half: faster on AVX2, and coarser unless few
    /// values of the row are extreme. Rows whose width is not a multiple of [`QUAD_WIDTH`] have pairs instead.
    Quad,
}

/// The width of rows with quads is a multiple of this: both halves are then whole registers and units with every instruction set.
pub const QUAD_WIDTH: usize = 32;

/// The smallest and largest value of a row, and of the sums of its groups.
#[derive(Clone, Copy)]
pub(crate) struct RowRange {
    pub(crate) min: f32,
    pub(crate) max: f32,
    pub(crate) group_min: f32,
    pub(crate) group_max: f32,
}

/// The largest code of a row.
pub(crate) const CODE_MAX: f32 = 255.0;

/// The largest sum of the codes of a group: `258 · 127` is the largest multiple of 127 that fits 16 bits with a sign.
pub(crate) const GROUP_MAX: f32 = 258.0;

/// Sums of products of at most `255 · 127` fit 32 bits up to this depth.
const DEPTH_MAX: usize = 1 << 16;

/// Rows of eight-bit codes, the left-hand side of a [`MatmulInt8`]. Reuses its memory.
pub struct QuantizedRows {
    bytes: AlignedVec<u8>,
    params: Vec<QuantParams>,
    width: usize,
    group: Group,
    code_bytes: usize,
    /// Bytes from one row to the next: whole cache lines, and so whole registers and units.
    row_bytes: usize,
}

impl RowRange {
    /// The range of `values`, which start at an even index of the row.
    pub(crate) fn of(values: &[f32], group: Group) -> RowRange {
        let mut range = RowRange {
            min: f32::INFINITY,
            max: f32::NEG_INFINITY,
            group_min: f32::INFINITY,
            group_max: f32::NEG_INFINITY,
        };
        for x in values {
            (range.min, range.max) = (range.min.min(*x), range.max.max(*x));
        }
        let mut sum = |sum| {
            (range.group_min, range.group_max) = (range.group_min.min(sum), range.group_max.max(sum));
        };
        match group {
            Group::Pair => values.as_chunks().0.iter().for_each(|[x, y]| sum(x + y)),
            Group::Quad => {
                let (first, second) = values.split_at(values.len() / 2);
                let pairs = first.as_chunks().0.iter().zip(second.as_chunks().0);
                pairs.for_each(|([a, b], [c, d])| sum((a + b) + (c + d)));
            }
        }
        range
    }

    /// The range of the values of both.
    pub(crate) fn union(self, other: RowRange) -> RowRange {
        RowRange {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            group_min: self.group_min.min(other.group_min),
            group_max: self.group_max.max(other.group_max),
        }
    }

    /// The finest scale that keeps codes and sums of groups within their limits.
    ///
    /// Rounding adds at most half a step to each code. The rounded codes of a pair exceed the limit only if their exact sum reaches it
    /// (`m + ½` and `n + ½` with `m + n + 1 = limit`), those of a quad only if it reaches one less.
    pub(crate) fn quant_params(self, group: Group) -> QuantParams {
        let RowRange { min, max, group_min, group_max } = self;
        let (count, limit) = match group {
            Group::Pair => (2.0, GROUP_MAX),
            Group::Quad => (4.0, GROUP_MAX - 1.0),
        };
        if min == max {
            return QuantParams { scale: 0.0, base: min };
        }
        let limit = limit - 0.01; // rounding errors of codes before they become integers
        let inexact = count * f32::EPSILON * min.abs().max(max.abs()); // rounding errors of the sums
        let (group_min, group_max) = (group_min - inexact, group_max + inexact);
        let single = (max - min) / CODE_MAX;
        let rising = (group_max - count * min) / limit;
        let falling = (count * max - group_min) / limit;
        if falling < rising {
            QuantParams { scale: -single.max(falling), base: max }
        } else {
            QuantParams { scale: single.max(rising), base: min }
        }
    }
}

impl QuantParams {
    /// `1 / scale`; zero for a row of equal values.
    pub(crate) fn inverse(self) -> f32 {
        if self.scale.abs() >= f32::MIN_POSITIVE { 1.0 / self.scale } else { 0.0 }
    }
}

impl QuantizedRows {
    /// No rows.
    pub fn new() -> QuantizedRows {
        QuantizedRows {
            bytes: AlignedVec::zeroed(0),
            params: Vec::new(),
            width: 0,
            group: Group::Pair,
            code_bytes: 1,
            row_bytes: 0,
        }
    }

    /// Sets the number of rows, their width and grouping, for a table with these [`crate::Kernels::code_bytes`]. Contents are unspecified
    /// until a table's `quantize` has written them.
    ///
    /// # Panics
    /// When the size overflows `usize`; `self` is then unchanged.
    pub fn resize(&mut self, rows: usize, width: usize, group: Group, code_bytes: usize) {
        let row_bytes = QuantizedRows::row_bytes_for(width, code_bytes);
        // a panic must leave the old shape: kernels rely on memory for all rows
        self.bytes.grow(times(rows, row_bytes));
        self.params.resize(rows, QuantParams::default());
        (self.width, self.code_bytes, self.row_bytes) = (width, code_bytes, row_bytes);
        self.group = if width.is_multiple_of(QUAD_WIDTH) { group } else { Group::Pair };
    }

    /// Bytes of allocated memory.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.memory_bytes() + self.params.capacity() * size_of::<QuantParams>()
    }

    /// The most bytes that `rows` rows of `width` values take.
    pub fn bytes_for(rows: usize, width: usize, code_bytes: usize) -> usize {
        // a vector may have grown to twice its length
        times(rows, plus(QuantizedRows::row_bytes_for(width, code_bytes), 2 * size_of::<QuantParams>()))
    }

    fn row_bytes_for(width: usize, code_bytes: usize) -> usize {
        round_up(times(width, code_bytes), CACHE_LINE)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.params.len()
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The groups whose sums are limited.
    pub(crate) fn group(&self) -> Group {
        self.group
    }

    /// Bytes from one row to the next.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(crate) fn params(&self) -> &[QuantParams] {
        &self.params
    }

    /// Panics unless `rows` holds [`QuantizedRows::rows`] rows; returns the bytes and parameters of all rows.
    pub(crate) fn check(
        &mut self,
        rows: &[f32],
        stride: usize,
        code_bytes: usize,
    ) -> (&mut [u8], &mut [QuantParams]) {
        assert_eq!(self.code_bytes, code_bytes, "quantize: `to` was resized for another instruction set");
        assert!(stride >= self.width, "quantize: rows overlap");
        assert!(rows.len() >= span(self.rows(), stride, self.width), "quantize: rows are too short");
        (&mut self.bytes, &mut self.params)
    }
}

impl Default for QuantizedRows {
    fn default() -> QuantizedRows {
        QuantizedRows::new()
    }
}

/// A quantized weight matrix, not yet packed.
pub struct QuantizedWeight {
    /// `[columns, depth]`, values of -127..=127.
    pub codes: Vec<i8>,
    /// The scale of each column.
    pub scale: Vec<f32>,
    /// The sum of each column's quantized weights.
    pub sum: Vec<f32>,
}

impl QuantizedWeight {
    /// Quantizes a weight matrix in the layout of checkpoints, `[columns, depth]`. Each column gets the scale with the smallest squared
    /// error among those that clip up to a quarter of its range.
    ///
    /// # Panics
    /// When the length of `weight` is not a multiple of `depth`.
    pub fn new(weight: &[f32], depth: usize) -> QuantizedWeight {
        assert!(weight.len().is_multiple_of(depth), "quantize: weight has the wrong length");
        let mut all = QuantizedWeight { codes: Vec::with_capacity(weight.len()), scale: vec![], sum: vec![] };
        for row in weight.chunks_exact(depth) {
            let scale = best_scale(row);
            let first = all.codes.len();
            let inverse = inverse_of(scale);
            all.codes.extend(row.iter().map(|x| code(*x, inverse) as i8));
            let sum: i32 = all.codes[first..].iter().map(|c| i32::from(*c)).sum();
            all.scale.push(scale);
            all.sum.push(scale * sum as f32);
        }
        all
    }
}

/// Adding and subtracting this number rounds a small number to the nearest integer, ties to even, since the sum has no bits for a
/// fraction. Unlike `round_ties_even`, additions become vector instructions with every instruction set.
const ROUNDING_OFFSET: f32 = 12_582_912.0;

/// The code of `x` as a float; `inverse` is one over the scale.
fn code(x: f32, inverse: f32) -> f32 {
    (x * inverse + ROUNDING_OFFSET - ROUNDING_OFFSET).clamp(-127.0, 127.0)
}

fn inverse_of(scale: f32) -> f32 {
    if scale > 0.0 { 1.0 / scale } else { 0.0 }
}

fn best_scale(row: &[f32]) -> f32 {
    const STEPS: usize = 25;
    let largest = row.iter().fold(0.0f32, |max, x| max.max(x.abs()));
    (0..=STEPS)
        .map(|step| largest / 127.0 * (1.0 - step as f32 / 100.0))
        .map(|scale| (squared_error(row, scale), scale))
        .min_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(0.0, |(_, scale)| scale)
}

fn squared_error(row: &[f32], scale: f32) -> f32 {
    const LANES: usize = 8;
    let inverse = inverse_of(scale);
    let error = |x: f32| (x - scale * code(x, inverse)).powi(2);
    let (parts, tail) = row.as_chunks::<LANES>();
    let mut sums = [0.0f32; LANES];
    for part in parts {
        sums = std::array::from_fn(|lane| sums[lane] + error(part[lane]));
    }
    sums.iter().sum::<f32>() + tail.iter().map(|x| error(*x)).sum::<f32>()
}

/// A packed int8 weight.
#[derive(Clone, Copy)]
pub struct Int8Matrix<'a> {
    /// The codes.
    pub panels: Panels<'a, i8>,
    /// [`QuantizedWeight::scale`], [`Panels::padded_columns`] floats.
    pub scale: &'a [f32],
    /// [`QuantizedWeight::sum`], [`Panels::padded_columns`] floats.
    pub sum: &'a [f32],
}

impl<'a> Int8Matrix<'a> {
    /// As [`Panels::columns`].
    pub fn columns(self, columns: Range<usize>) -> Int8Matrix<'a> {
        let (scale, sum) = (&self.scale[columns.start..], &self.sum[columns.start..]);
        Int8Matrix { panels: self.panels.columns(columns), scale, sum }
    }
}

/// Arguments of a product of quantized rows with an int8 weight: `out[rows, columns] = a[rows, depth] · b[depth, columns]`, then the
/// epilogue, whose GELU is a polynomial here (error below 2e-4, far below a step of the codes).
pub struct MatmulInt8<'a> {
    /// The left-hand matrix.
    pub a: &'a QuantizedRows,
    /// The right-hand matrix.
    pub b: Int8Matrix<'a>,
    /// Added to every row; [`Panels::padded_columns`] floats.
    pub bias: &'a [f32],
    /// Applied before the result is stored.
    pub epilogue: Epilogue,
    /// The result, row after row. The padding columns of the last panel are written too.
    pub out: &'a mut [f32],
    /// Floats from one row of `out` to the next, at least [`Panels::padded_columns`].
    pub out_stride: usize,
}

impl MatmulInt8<'_> {
    /// Panics unless every slice is long enough for the shapes. Every kernel calls it before it touches memory.
    pub(crate) fn check(&self, packing: Packing, code_bytes: usize) {
        let padded = self.b.panels.padded_columns();
        self.b.panels.check(packing);
        assert_eq!(self.a.code_bytes, code_bytes, "matmul: a was quantized for another instruction set");
        assert_eq!(self.a.width, self.b.panels.depth, "matmul: rows of a are not as long as columns of b");
        assert!(self.a.width <= DEPTH_MAX, "matmul: sums over more than {DEPTH_MAX} products may overflow");
        assert!(self.out_stride >= padded, "matmul: rows of out are shorter than whole panels");
        let fits = |x: &[f32]| x.len() >= padded;
        assert!(
            fits(self.bias) && fits(self.b.scale) && fits(self.b.sum),
            "matmul: scale, sum or bias is shorter than the columns"
        );
        assert!(self.out.len() >= span(self.a.rows(), self.out_stride, padded), "matmul: out is too short");
    }
}
