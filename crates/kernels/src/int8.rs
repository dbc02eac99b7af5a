//! Matrices and rows of eight-bit numbers.
//!
//! Weights are symmetric: `w ≈ scale · code` with codes of -127..=127, a scale for each output. Activations are asymmetric:
//! `x ≈ base + scale · code` with codes of 0..=255, a scale and a base for each row, so that a row's product does not
//! depend on the rows beside it. The base stays a float; there is no integer zero point. Then
//!
//! `Σ x·w ≈ scale_row · scale_column · Σ codes + base_row · (scale_column · Σ weight codes)`
//!
//! where the first sum is exact in 32-bit integers, on every instruction set the same, and the second is known beforehand.
//!
//! AVX2 multiplies bytes by `vpmaddubsw`, which adds two products in 16 bits and saturates. **The codes of a [`Group`] are
//! therefore never more than [`GROUP_MAX`] together**: with weights of at most 127 no sum of their products leaves 16 bits,
//! and the product is exact. To hold that, a row counts from its minimum upwards or from its maximum downwards (then its
//! scale is negative), whichever leaves smaller groups, and takes a coarser scale where they would still be too large: by a
//! third in the mean for pairs, since both values of a pair are rarely far out. All instruction sets do so, to give the same
//! embeddings.

use std::ops::Range;

use crate::layout::{AlignedVec, Epilogue, LINE, Packing, Panels};
use crate::size::{plus, round_up, span, times};

/// What turns the codes of a row back into floats: `base + scale · code`.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct RowFactor {
    pub(crate) scale: f32,
    pub(crate) base: f32,
}

/// Values of a row whose codes have a common limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Group {
    /// `2k` and `2k + 1`.
    Pair,
    /// A pair of the first half of the row and the one at the same place of the second half: faster on AVX2, and coarser,
    /// but for rows where few values are far out. Rows that are no multiple of [`QUAD_WIDTH`] long have pairs instead.
    Quad,
}

/// What the width of rows with quads is a multiple of: both halves are whole registers and units everywhere.
pub const QUAD_WIDTH: usize = 32;

/// The smallest and the largest value of a row, and of the sums of its groups.
#[derive(Clone, Copy)]
pub(crate) struct RowRange {
    pub(crate) min: f32,
    pub(crate) max: f32,
    pub(crate) group_min: f32,
    pub(crate) group_max: f32,
}

/// The largest code of a row.
pub(crate) const CODE_MAX: f32 = 255.0;

/// The largest sum of the codes of a group: `258 · 127` is the last that 16 bits hold.
pub(crate) const GROUP_MAX: f32 = 258.0;

/// Sums of `255 · 127` stay in 32 bits up to this depth.
const DEPTH_MAX: usize = 1 << 16;

/// Rows as codes, the left-hand side of a [`MatmulInt8`]. Memory that is used again.
pub struct Codes {
    bytes: AlignedVec<u8>,
    factors: Vec<RowFactor>,
    width: usize,
    group: Group,
    code_bytes: usize,
    /// Bytes from one row to the next: whole cache lines, and so whole registers and units.
    row_bytes: usize,
}

impl RowRange {
    /// The range of these values, of which the first stands at an even place.
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

    /// The range of both.
    pub(crate) fn and(self, other: RowRange) -> RowRange {
        RowRange {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
            group_min: self.group_min.min(other.group_min),
            group_max: self.group_max.max(other.group_max),
        }
    }

    /// The finest factor that keeps codes and sums of groups within their limits.
    ///
    /// Rounding may add half a step to each value of a group. The codes are integers, so that those of a pair exceed their limit only from there on
    /// (with `m + ½` and `n + ½`, where `m + n + 1` is the limit), and those of a quad from one less.
    pub(crate) fn factor(self, group: Group) -> RowFactor {
        let RowRange { min, max, group_min, group_max } = self;
        let (count, limit) = match group {
            Group::Pair => (2.0, GROUP_MAX),
            Group::Quad => (4.0, GROUP_MAX - 1.0),
        };
        if min == max {
            return RowFactor { scale: 0.0, base: min };
        }
        let limit = limit - 0.01; // what floats make of the codes before they are rounded
        let inexact = count * f32::EPSILON * min.abs().max(max.abs()); // what they made of the sums
        let (group_min, group_max) = (group_min - inexact, group_max + inexact);
        let single = (max - min) / CODE_MAX;
        let rising = (group_max - count * min) / limit;
        let falling = (count * max - group_min) / limit;
        if falling < rising {
            RowFactor { scale: -single.max(falling), base: max }
        } else {
            RowFactor { scale: single.max(rising), base: min }
        }
    }
}

impl RowFactor {
    /// What values less the base are multiplied by; zero for a row without spread.
    pub(crate) fn inverse(self) -> f32 {
        if self.scale.abs() >= f32::MIN_POSITIVE { 1.0 / self.scale } else { 0.0 }
    }
}

impl Codes {
    /// No rows.
    pub fn new() -> Codes {
        Codes {
            bytes: AlignedVec::zeroed(0),
            factors: Vec::new(),
            width: 0,
            group: Group::Pair,
            code_bytes: 1,
            row_bytes: 0,
        }
    }

    /// Makes room for exactly `rows` rows of `width` values for a table with these [`crate::Kernels::code_bytes`].
    ///
    /// # Panics
    /// When so many bytes overflow `usize`; the rows are then those of before.
    pub fn fit(&mut self, rows: usize, width: usize, group: Group, code_bytes: usize) {
        let row_bytes = Codes::row_bytes_for(width, code_bytes);
        // what may panic comes first: kernels rely on the bytes of all rows being there
        self.bytes.grow(times(rows, row_bytes));
        self.factors.resize(rows, RowFactor::default());
        (self.width, self.code_bytes, self.row_bytes) = (width, code_bytes, row_bytes);
        self.group = if width.is_multiple_of(QUAD_WIDTH) { group } else { Group::Pair };
    }

    /// Bytes that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.memory_bytes() + self.factors.capacity() * size_of::<RowFactor>()
    }

    /// Bytes that `rows` rows of `width` values take, at most.
    pub fn bytes_for(rows: usize, width: usize, code_bytes: usize) -> usize {
        // the list of factors may have grown to twice what it needs
        times(rows, plus(Codes::row_bytes_for(width, code_bytes), 2 * size_of::<RowFactor>()))
    }

    fn row_bytes_for(width: usize, code_bytes: usize) -> usize {
        round_up(times(width, code_bytes), LINE)
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.factors.len()
    }

    /// Values of a row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Which codes have a common limit.
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

    pub(crate) fn factors(&self) -> &[RowFactor] {
        &self.factors
    }

    /// Panics unless the rows are as long as the room says; gives bytes and factors of every row.
    pub(crate) fn check(
        &mut self,
        rows: &[f32],
        stride: usize,
        code_bytes: usize,
    ) -> (&mut [u8], &mut [RowFactor]) {
        assert_eq!(self.code_bytes, code_bytes, "quantise: the room was made for another instruction set");
        assert!(stride >= self.width, "quantise: rows overlap");
        assert!(rows.len() >= span(self.rows(), stride, self.width), "quantise: rows are too short");
        (&mut self.bytes, &mut self.factors)
    }
}

impl Default for Codes {
    fn default() -> Codes {
        Codes::new()
    }
}

/// A weight as codes, not yet packed.
pub struct QuantisedWeight {
    /// `[columns, depth]`, values of -127..=127.
    pub codes: Vec<i8>,
    /// For each column, what a code stands for.
    pub scale: Vec<f32>,
    /// For each column, the sum of its weights as the codes say them.
    pub sum: Vec<f32>,
}

impl QuantisedWeight {
    /// Quantises a weight as checkpoints store it, `[columns, depth]`; each column gets the scale with the smallest squared
    /// error among those that cut off up to a quarter of its range.
    ///
    /// # Panics
    /// When `weight` is no multiple of `depth` long.
    pub fn new(weight: &[f32], depth: usize) -> QuantisedWeight {
        assert!(weight.len().is_multiple_of(depth), "quantise: weight has the wrong length");
        let mut all = QuantisedWeight { codes: Vec::with_capacity(weight.len()), scale: vec![], sum: vec![] };
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

/// The nearest integer, the even one of two, for small numbers: adding this number leaves no room for a fraction. Plain
/// additions, unlike `round_ties_even`, become vector instructions on every processor.
const NO_FRACTION: f32 = 12_582_912.0;

/// The code of `x` as a float; `inverse` is one over the scale.
fn code(x: f32, inverse: f32) -> f32 {
    (x * inverse + NO_FRACTION - NO_FRACTION).clamp(-127.0, 127.0)
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
        sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += error(*x));
    }
    sums.iter().sum::<f32>() + tail.iter().map(|x| error(*x)).sum::<f32>()
}

/// A packed int8 weight.
#[derive(Clone, Copy)]
pub struct Int8Matrix<'a> {
    /// The codes.
    pub panels: Panels<'a, i8>,
    /// [`QuantisedWeight::scale`], [`Panels::padded_columns`] floats.
    pub scale: &'a [f32],
    /// [`QuantisedWeight::sum`], [`Panels::padded_columns`] floats.
    pub sum: &'a [f32],
}

impl<'a> Int8Matrix<'a> {
    /// As [`Panels::columns`].
    pub fn columns(self, columns: Range<usize>) -> Int8Matrix<'a> {
        let (scale, sum) = (&self.scale[columns.start..], &self.sum[columns.start..]);
        Int8Matrix { panels: self.panels.columns(columns), scale, sum }
    }
}

/// Arguments of a product of codes with an int8 weight: `out[rows, columns] = a[rows, depth] · b[depth, columns]`, then the
/// epilogue, whose GELU is here a polynomial (error below 2e-4, far below a step of the codes).
pub struct MatmulInt8<'a> {
    /// The left-hand side, all its rows.
    pub a: &'a Codes,
    /// The right-hand matrix.
    pub b: Int8Matrix<'a>,
    /// Added to every row; [`Panels::padded_columns`] floats.
    pub bias: &'a [f32],
    /// What happens before the result is stored.
    pub epilogue: Epilogue,
    /// The result, row after row. The filling columns of the last panel are written too.
    pub out: &'a mut [f32],
    /// Floats from one row of `out` to the next, at least [`Panels::padded_columns`].
    pub out_stride: usize,
}

impl MatmulInt8<'_> {
    /// Panics unless every slice is as long as the shapes say. Every kernel calls it before it touches memory.
    pub(crate) fn check(&self, packing: Packing, code_bytes: usize) {
        let padded = self.b.panels.padded_columns();
        self.b.panels.check(packing);
        assert_eq!(self.a.code_bytes, code_bytes, "matmul: the codes are of another instruction set");
        assert_eq!(
            self.a.width, self.b.panels.depth,
            "matmul: rows of a have another length than columns of b"
        );
        assert!(self.a.width <= DEPTH_MAX, "matmul: sums over more than {DEPTH_MAX} products may overflow");
        assert!(self.out_stride >= padded, "matmul: rows of out have no room for whole panels");
        let fits = |x: &[f32]| x.len() >= padded;
        assert!(
            fits(self.bias) && fits(self.b.scale) && fits(self.b.sum),
            "matmul: a factor for each column"
        );
        assert!(self.out.len() >= span(self.a.rows(), self.out_stride, padded), "matmul: out is too short");
    }
}
