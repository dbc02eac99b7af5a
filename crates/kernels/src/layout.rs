//! Arguments of kernels: aligned memory, packed matrices, and the shapes of products and of attention.

use std::marker::PhantomData;
use std::ops::Range;

use crate::size::{plus, round_up, span, times};

/// Numbers in memory aligned to 64 bytes, a cache line and the widest register.
#[derive(Clone)]
pub struct AlignedVec<T> {
    lines: Vec<CacheLine>,
    len: usize,
    number: PhantomData<T>,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([u8; CACHE_LINE]);

/// Bytes of a cache line.
pub(crate) const CACHE_LINE: usize = 64;
const _: () = assert!(
    size_of::<CacheLine>() == CACHE_LINE && align_of::<CacheLine>() == CACHE_LINE,
    "numbers fill lines without padding"
);

/// Numbers for which all bit patterns are valid and zero bytes mean zero.
pub trait Pod: Copy + private::Sealed {}
impl Pod for f32 {}
impl Pod for u16 {}
impl Pod for i8 {}
impl Pod for u8 {}

mod private {
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for u16 {}
    impl Sealed for i8 {}
    impl Sealed for u8 {}
}

impl<T: Pod> Default for AlignedVec<T> {
    fn default() -> AlignedVec<T> {
        AlignedVec::zeroed(0)
    }
}

impl<T: Pod> AlignedVec<T> {
    /// `len` zeros.
    ///
    /// # Panics
    /// When the size in bytes overflows `usize`.
    pub fn zeroed(len: usize) -> AlignedVec<T> {
        let lines = times(len, size_of::<T>()).div_ceil(CACHE_LINE);
        AlignedVec { lines: vec![CacheLine([0; CACHE_LINE]); lines], len, number: PhantomData }
    }

    /// Grows to at least `len` numbers; existing ones are kept, new ones are zero. Never shrinks.
    ///
    /// # Panics
    /// As [`AlignedVec::zeroed`].
    pub fn grow(&mut self, len: usize) {
        if len > self.len {
            let lines = times(len, size_of::<T>()).div_ceil(CACHE_LINE);
            self.lines.reserve_exact(lines - self.lines.len());
            self.lines.resize(lines, CacheLine([0; CACHE_LINE]));
            self.len = len;
        }
    }

    /// Bytes of allocated memory.
    pub fn memory_bytes(&self) -> usize {
        self.lines.capacity() * CACHE_LINE
    }
}

impl<T: Pod> std::ops::Deref for AlignedVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: the lines hold at least `len` numbers without padding, aligned to 64 bytes; all bit patterns are valid.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl<T: Pod> std::ops::DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

/// The right-hand matrix of a product, `[depth, columns]`, cut into panels of [`Packing::panel`] columns.
///
/// A panel is laid out as `[depth / unit][panel][unit]`: [`Packing::unit`] consecutive values of one column, then those of the next
/// column, so that kernels read memory sequentially. Panels and units are padded with zeros.
#[derive(Clone, Copy)]
pub struct Panels<'a, T> {
    /// Rows of the matrix: the length of the dot products.
    pub depth: usize,
    /// Columns of the matrix, without padding.
    pub columns: usize,
    /// How the values are laid out.
    pub packing: Packing,
    /// All panels, one after the other.
    pub data: &'a [T],
}

/// The layout of a kernel's right-hand matrix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// Columns of one panel.
    pub panel: usize,
    /// Consecutive values of one column that are adjacent in memory.
    pub unit: usize,
}

impl Packing {
    /// Columns rounded up to whole panels: the length of a row of the output.
    pub fn padded_columns(&self, columns: usize) -> usize {
        round_up(columns, self.panel)
    }

    /// Number of values of a packed matrix of that shape.
    pub fn packed_len(&self, columns: usize, depth: usize) -> usize {
        times(self.padded_columns(columns), round_up(depth, self.unit))
    }

    /// Packs a weight matrix in the layout of checkpoints: `[columns, depth]`, a row for each output.
    ///
    /// # Panics
    /// When `weight` does not have `columns * depth` values.
    pub fn pack<T: Pod>(&self, weight: &[T], columns: usize, depth: usize) -> AlignedVec<T> {
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
    /// A range of columns.
    ///
    /// # Panics
    /// When the range does not start and end at panel boundaries or at the last column.
    pub fn columns(self, columns: Range<usize>) -> Panels<'a, T> {
        let panel = self.packing.panel;
        let is_boundary = |column: usize| column.is_multiple_of(panel) || column == self.columns;
        assert!(is_boundary(columns.start) && is_boundary(columns.end), "columns: a panel would be cut");
        let start = |column| self.packing.packed_len(column, self.depth);
        let data = &self.data[start(columns.start)..start(columns.end)];
        Panels { columns: columns.len(), data, ..self }
    }

    /// Columns rounded up to whole panels: the length of a row of the output.
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

/// Operation on a product before it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Epilogue {
    /// `out = a·b + bias`
    Store,
    /// `out = gelu(a·b + bias)`, the exact GELU by the error function.
    Gelu,
    /// `out += a·b + bias`, for residual connections.
    Add,
}

/// Arguments of a matrix product: `out[rows, columns] = a[rows, depth] · b[depth, columns]`, then the epilogue.
pub struct Matmul<'a, T, L = f32> {
    /// Number of rows of `a` and `out`.
    pub rows: usize,
    /// The left-hand matrix, row after row, each padded with zeros to whole units of `b`'s packing.
    pub a: &'a [L],
    /// Numbers from one row of `a` to the next, at least `b.depth` rounded up to whole units.
    pub a_stride: usize,
    /// The right-hand matrix.
    pub b: Panels<'a, T>,
    /// Added to every row; [`Panels::padded_columns`] floats.
    pub bias: &'a [f32],
    /// Applied before the result is stored.
    pub epilogue: Epilogue,
    /// The result, row after row. The padding columns of the last panel are written too.
    pub out: &'a mut [f32],
    /// Floats from one row of `out` to the next, at least [`Panels::padded_columns`].
    pub out_stride: usize,
}

impl<T, L> Matmul<'_, T, L> {
    /// Panics unless every slice is long enough for the shapes. Every kernel calls it before it touches memory.
    pub(crate) fn check(&self, packing: Packing) {
        let (padded, width) = (self.b.padded_columns(), round_up(self.b.depth, packing.unit));
        self.b.check(packing);
        assert!(self.a_stride >= width, "matmul: rows of a overlap");
        assert!(self.out_stride >= padded, "matmul: rows of out are shorter than whole panels");
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

/// The widest panel of any table. Every panel divides it: rows and scratch memory padded to it fit every table.
pub const PANEL_MAX: usize = 32;

impl AttentionShape {
    /// Floats of scratch memory that attention needs for this shape with any instruction set.
    ///
    /// # Panics
    /// When they overflow `usize`.
    pub fn scratch_len(&self) -> usize {
        // keys and values of a head; queries, context and scores of a panel
        let keys_and_values = times(times(2, self.tokens), self.head_dim);
        plus(keys_and_values, times(plus(times(2, self.head_dim), self.tokens), PANEL_MAX))
    }

    /// Panics unless every slice is long enough for the shape.
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
