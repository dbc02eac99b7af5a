//! The shapes that kernels work on: aligned memory, matrices packed into panels, arguments of a product.

use std::marker::PhantomData;
use std::ops::Range;

use crate::size::{plus, round_up, span, times};

/// Numbers in memory aligned to 64 bytes, a cache line and the widest register.
#[derive(Clone)]
pub struct AlignedVec<T> {
    lines: Vec<Line>,
    len: usize,
    of: PhantomData<T>,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Bytes of a cache line.
pub(crate) const LINE: usize = 64;
const _: () =
    assert!(size_of::<Line>() == LINE && align_of::<Line>() == LINE, "numbers fill lines without padding");

/// Numbers for which all bit patterns are valid and zero bytes mean zero.
pub trait Plain: Copy + private::Sealed {}
impl Plain for f32 {}
impl Plain for u16 {}
impl Plain for i8 {}
impl Plain for u8 {}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for u16 {}
    impl Sealed for i8 {}
    impl Sealed for u8 {}
}

impl<T: Plain> Default for AlignedVec<T> {
    fn default() -> AlignedVec<T> {
        AlignedVec::zeroed(0)
    }
}

impl<T: Plain> AlignedVec<T> {
    /// `len` zeros.
    ///
    /// # Panics
    /// When so many bytes overflow `usize`.
    pub fn zeroed(len: usize) -> AlignedVec<T> {
        let lines = times(len, size_of::<T>()).div_ceil(LINE);
        AlignedVec { lines: vec![Line([0; LINE]); lines], len, of: PhantomData }
    }

    /// Grows to at least `len` numbers; what is there stays, what is new is zero. Never shrinks.
    ///
    /// # Panics
    /// As [`AlignedVec::zeroed`].
    pub fn grow(&mut self, len: usize) {
        if len > self.len {
            let lines = times(len, size_of::<T>()).div_ceil(LINE);
            self.lines.reserve_exact(lines - self.lines.len());
            self.lines.resize(lines, Line([0; LINE]));
            self.len = len;
        }
    }

    /// Bytes that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.lines.capacity() * LINE
    }
}

impl<T: Plain> std::ops::Deref for AlignedVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the lines hold at least `len` numbers without padding, aligned to 64 bytes; all bit patterns are valid.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl<T: Plain> std::ops::DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

/// The right-hand matrix of a product, `[depth, columns]`, cut into panels of [`Packing::panel`] columns.
///
/// Of a panel, [`Packing::unit`] values of each column stand together, then those of the next column
/// (`[depth / unit][panel][unit]`), so that the kernel reads it from front to back. What is missing to whole panels and
/// units is zero.
#[derive(Clone, Copy)]
pub struct Panels<'a, T> {
    /// Rows of the matrix: the length of the dot products.
    pub depth: usize,
    /// Columns of the matrix, without the filling.
    pub columns: usize,
    /// How the values are laid out.
    pub packing: Packing,
    /// All panels, one after the other.
    pub data: &'a [T],
}

/// The layout that a kernel wants its right-hand matrix in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// Columns of one panel.
    pub panel: usize,
    /// Consecutive values of one column that stand together.
    pub unit: usize,
}

impl Packing {
    /// Columns rounded up to whole panels: what a row of the output needs.
    pub fn padded_columns(&self, columns: usize) -> usize {
        round_up(columns, self.panel)
    }

    /// Values of a packed matrix of that shape.
    pub fn packed_len(&self, columns: usize, depth: usize) -> usize {
        times(self.padded_columns(columns), round_up(depth, self.unit))
    }

    /// Packs a weight as checkpoints store it: `[columns, depth]`, a row for each output.
    ///
    /// # Panics
    /// When `weight` has not `columns * depth` values.
    pub fn pack<T: Plain>(&self, weight: &[T], columns: usize, depth: usize) -> AlignedVec<T> {
        assert_eq!(weight.len(), times(columns, depth), "pack: weight has the wrong length");
        let Packing { panel, unit } = *self;
        let mut data = AlignedVec::zeroed(self.packed_len(columns, depth));
        for (column, row) in weight.chunks_exact(depth).enumerate() {
            let start = (column / panel) * panel * depth.next_multiple_of(unit) + column % panel * unit;
            for (k, value) in row.iter().enumerate() {
                data[start + k / unit * panel * unit + k % unit] = *value;
            }
        }
        data
    }
}

impl<'a, T> Panels<'a, T> {
    /// Some of the columns: whole panels, or up to the last column.
    ///
    /// # Panics
    /// When the range does not start and end at borders of panels.
    pub fn columns(self, columns: Range<usize>) -> Panels<'a, T> {
        let panel = self.packing.panel;
        let is_border = |column: usize| column.is_multiple_of(panel) || column == self.columns;
        assert!(is_border(columns.start) && is_border(columns.end), "columns: a panel would be cut");
        let start = |column| self.packing.packed_len(column, self.depth);
        let data = &self.data[start(columns.start)..start(columns.end)];
        Panels { columns: columns.len(), data, ..self }
    }

    /// Columns rounded up to whole panels: what a row of the output needs.
    pub fn padded_columns(&self) -> usize {
        self.packing.padded_columns(self.columns)
    }

    /// Panics unless the matrix is packed as `packing` and complete.
    pub(crate) fn check(&self, packing: Packing) {
        assert_eq!(self.packing, packing, "matmul: the matrix was packed for another instruction set");
        let len = packing.packed_len(self.columns, self.depth);
        assert_eq!(self.data.len(), len, "matmul: the packed matrix has the wrong length");
    }
}

/// What happens to a product before it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epilogue {
    /// `out = a·b + bias`
    Store,
    /// `out = gelu(a·b + bias)`, the exact GELU by the error function.
    Gelu,
    /// `out += a·b + bias`, for the residual connections.
    Add,
}

/// Arguments of a matrix product: `out[rows, columns] = a[rows, depth] · b[depth, columns]`, then the epilogue.
pub struct Matmul<'a, T, L = f32> {
    /// Number of rows of `a` and `out`.
    pub rows: usize,
    /// The left-hand matrix, row after row, each filled up with zeros to whole units of `b`'s packing.
    pub a: &'a [L],
    /// Numbers from one row of `a` to the next, at least `b.depth` in whole units.
    pub a_stride: usize,
    /// The right-hand matrix.
    pub b: Panels<'a, T>,
    /// Added to every row; [`Panels::padded_columns`] floats.
    pub bias: &'a [f32],
    /// What happens before the result is stored.
    pub epilogue: Epilogue,
    /// The result, row after row. The filling columns of the last panel are written too.
    pub out: &'a mut [f32],
    /// Floats from one row of `out` to the next, at least [`Panels::padded_columns`].
    pub out_stride: usize,
}

impl<T, L> Matmul<'_, T, L> {
    /// Panics unless every slice is as long as the shapes say. Every kernel calls it before it touches memory.
    pub(crate) fn check(&self, packing: Packing) {
        let (padded, width) = (self.b.padded_columns(), round_up(self.b.depth, packing.unit));
        self.b.check(packing);
        assert!(self.a_stride >= width, "matmul: rows of a overlap");
        assert!(self.out_stride >= padded, "matmul: rows of out have no room for whole panels");
        assert!(self.bias.len() >= padded, "matmul: bias is shorter than the columns");
        assert!(self.a.len() >= span(self.rows, self.a_stride, width), "matmul: a is too short");
        assert!(self.out.len() >= span(self.rows, self.out_stride, padded), "matmul: out is too short");
    }
}

/// Shape of the attention of one sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AttentionShape {
    /// Tokens of the sequence.
    pub tokens: usize,
    /// Number of heads.
    pub heads: usize,
    /// Floats of one head.
    pub head_dim: usize,
    /// Floats from one row of `qkv` to the next, at least `3 * heads * head_dim`.
    pub qkv_stride: usize,
    /// Floats from one row of `out` to the next, at least `heads * head_dim`.
    pub out_stride: usize,
}

/// The widest panel of any table; scratch lengths are computed with it, so that they fit every table.
pub(crate) const PANEL_MAX: usize = 32;

impl AttentionShape {
    /// Floats of scratch memory that attention needs for this shape, whatever the instruction set.
    pub fn scratch_len(&self) -> usize {
        // keys and values of a head; a panel of queries, its context, its scores
        let keys_and_values = times(times(2, self.tokens), self.head_dim);
        plus(keys_and_values, times(plus(times(2, self.head_dim), self.tokens), PANEL_MAX))
    }

    /// Panics unless every slice is as long as the shape says.
    pub(crate) fn check(&self, qkv: &[f32], scratch: &[f32], out: &[f32]) {
        let width = times(self.heads, self.head_dim);
        let qkv_width = times(3, width);
        assert!(self.qkv_stride >= qkv_width, "attention: rows of qkv overlap");
        assert!(self.out_stride >= width, "attention: rows of out overlap");
        assert!(qkv.len() >= span(self.tokens, self.qkv_stride, qkv_width), "attention: qkv is too short");
        assert!(out.len() >= span(self.tokens, self.out_stride, width), "attention: out is too short");
        assert!(scratch.len() >= self.scratch_len(), "attention: scratch is too short");
    }
}
