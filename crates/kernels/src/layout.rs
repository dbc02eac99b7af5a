//! The shapes that kernels work on: aligned memory, matrices packed into panels, arguments of a product.

/// Floats in memory aligned to 64 bytes, a cache line and the widest register.
#[derive(Clone)]
pub struct AlignedVec {
    lines: Vec<Line>,
    len: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; 16]);

impl AlignedVec {
    /// `len` zeros.
    pub fn zeroed(len: usize) -> AlignedVec {
        AlignedVec { lines: vec![Line([0.0; 16]); len.div_ceil(16)], len }
    }

    /// Grows to at least `len` floats; what is there stays, what is new is zero. Never shrinks.
    pub fn grow(&mut self, len: usize) {
        if len > self.len {
            self.lines.resize(len.div_ceil(16), Line([0.0; 16]));
            self.len = len;
        }
    }
}

impl std::ops::Deref for AlignedVec {
    type Target = [f32];
    fn deref(&self) -> &[f32] {
        // SAFETY: `Line` is repr(C) over 16 floats without padding, and `len` is at most 16 floats a line.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl std::ops::DerefMut for AlignedVec {
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as in `deref`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

/// The right-hand matrix of a product, `[depth, columns]`, cut into panels of `panel` columns.
///
/// A panel stands row after row (`[depth][panel]`), so that the kernel reads it from front to back; the last one is
/// filled up with zeros.
#[derive(Clone)]
pub struct PackedMatrix {
    /// Rows of the matrix: the length of the dot products.
    pub depth: usize,
    /// Columns of the matrix, without the filling.
    pub columns: usize,
    /// Columns of one panel.
    pub panel: usize,
    data: AlignedVec,
}

impl PackedMatrix {
    /// Packs a weight as checkpoints store it: `[columns, depth]`, a row for each output.
    ///
    /// # Panics
    /// When `weight` has not `columns * depth` values.
    pub fn from_rows(weight: &[f32], columns: usize, depth: usize, panel: usize) -> PackedMatrix {
        assert_eq!(weight.len(), columns * depth, "pack: weight has the wrong length");
        let mut data = AlignedVec::zeroed(columns.div_ceil(panel) * panel * depth);
        for (column, row) in weight.chunks_exact(depth).enumerate() {
            let start = (column / panel) * panel * depth + column % panel;
            for (k, value) in row.iter().enumerate() {
                data[start + k * panel] = *value;
            }
        }
        PackedMatrix { depth, columns, panel, data }
    }

    /// Columns rounded up to whole panels: what a row of the output needs.
    pub fn padded_columns(&self) -> usize {
        self.columns.next_multiple_of(self.panel)
    }

    /// All panels, one after the other.
    pub fn data(&self) -> &[f32] {
        &self.data
    }

    /// Bytes in memory.
    pub fn size_bytes(&self) -> usize {
        self.data.len() * size_of::<f32>()
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
pub struct Matmul<'a> {
    /// Number of rows of `a` and `out`.
    pub rows: usize,
    /// The left-hand matrix, row after row.
    pub a: &'a [f32],
    /// Floats from one row of `a` to the next, at least `b.depth`.
    pub a_stride: usize,
    /// The right-hand matrix.
    pub b: &'a PackedMatrix,
    /// Added to every row; [`PackedMatrix::padded_columns`] floats.
    pub bias: &'a [f32],
    /// What happens before the result is stored.
    pub epilogue: Epilogue,
    /// The result, row after row. The filling columns of the last panel are written too.
    pub out: &'a mut [f32],
    /// Floats from one row of `out` to the next, at least [`PackedMatrix::padded_columns`].
    pub out_stride: usize,
}

impl Matmul<'_> {
    /// Panics unless every slice is as long as the shapes say. Every kernel calls it before it touches memory.
    pub(crate) fn check(&self, panel: usize) {
        let padded = self.b.padded_columns();
        assert_eq!(self.b.panel, panel, "matmul: the matrix was packed for another instruction set");
        assert!(self.a_stride >= self.b.depth, "matmul: rows of a overlap");
        assert!(self.out_stride >= padded, "matmul: rows of out have no room for whole panels");
        assert!(self.bias.len() >= padded, "matmul: bias is shorter than the columns");
        assert!(self.a.len() >= span(self.rows, self.a_stride, self.b.depth), "matmul: a is too short");
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

/// Query rows that attention works on at a time.
pub(crate) const ATTENTION_ROWS: usize = 48;

impl AttentionShape {
    /// Floats of scratch memory that attention needs for this shape, whatever the instruction set.
    pub fn scratch_len(&self) -> usize {
        let keys = self.tokens.next_multiple_of(PANEL_MAX);
        let dim = self.head_dim.next_multiple_of(PANEL_MAX);
        // keys and values in panels, scores and context of a block of rows, alignment
        keys * self.head_dim + self.tokens * dim + ATTENTION_ROWS * (keys + dim)
    }

    /// Panics unless every slice is as long as the shape says.
    pub(crate) fn check(&self, qkv: &[f32], scratch: &[f32], out: &[f32]) {
        let width = self.heads * self.head_dim;
        assert!(self.qkv_stride >= 3 * width, "attention: rows of qkv overlap");
        assert!(self.out_stride >= width, "attention: rows of out overlap");
        assert!(qkv.len() >= span(self.tokens, self.qkv_stride, 3 * width), "attention: qkv is too short");
        assert!(out.len() >= span(self.tokens, self.out_stride, width), "attention: out is too short");
        assert!(scratch.len() >= self.scratch_len(), "attention: scratch is too short");
    }
}

/// Floats that `rows` rows of `width` take when they start every `stride`.
pub(crate) fn span(rows: usize, stride: usize, width: usize) -> usize {
    if rows == 0 { 0 } else { (rows - 1) * stride + width }
}

/// Values of a packed four-bit group: 32 bytes hold the first 32 values in their lower and the next 32 in their upper
/// halves, so that a register is unpacked by a mask and a shift.
pub const U4_GROUP: usize = 64;

/// Packs values of 0..=15 as [`crate::Kernels::dot_u4_rows`] reads them.
///
/// # Panics
/// When the length is not a multiple of [`U4_GROUP`], or a value is above 15.
pub fn pack_u4(values: &[u8]) -> Vec<u8> {
    assert!(values.len().is_multiple_of(U4_GROUP), "pack_u4: the length is not a multiple of {U4_GROUP}");
    assert!(values.iter().all(|value| *value <= 15), "pack_u4: a value needs more than four bits");
    values
        .chunks_exact(U4_GROUP)
        .flat_map(|group| {
            group[..U4_GROUP / 2].iter().zip(&group[U4_GROUP / 2..]).map(|(low, high)| low | high << 4)
        })
        .collect()
}

/// Panics unless the slices of a four-bit scan fit each other.
pub(crate) fn check_u4(query: &[i8], rows: &[u8], out: &[i32]) {
    assert!(!query.is_empty() && query.len().is_multiple_of(U4_GROUP), "dot_u4_rows: the query's length");
    assert_eq!(rows.len(), out.len() * query.len() / 2, "dot_u4_rows: shapes differ");
}
