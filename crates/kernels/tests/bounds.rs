//! Runs every kernel on slices between two unmapped pages: an access outside of a slice terminates the process (SIGSEGV).
//!
//! Each shape runs with slices that end at an unmapped page and with slices that start after one. With `--nocapture` the last
//! printed line names the kernel that failed. Miri checks every access itself, and runs fewer shapes with plain memory.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test; the last line printed names the kernel that faulted"
)]
#![cfg(unix)]
#![allow(unsafe_code, reason = "maps memory between unmapped pages")]

use std::ops::{Deref, DerefMut};

#[cfg(not(miri))]
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use weir_kernels::{AttentionShape, Bf16Kernels, Epilogue, Group, Int8Matrix, Kernels, Matmul, MatmulInt8};
use weir_kernels::{PQ4_BLOCK_ROWS, Packing, Panels, Pod, Pq4Block, QuantizedRows};

/// The edge of its pages that a slice touches.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Edge {
    Start,
    End,
}

/// Memory of exactly this length.
#[cfg(miri)]
struct Guarded<T>(Vec<T>);

#[cfg(miri)]
impl<T: Pod + Default> Guarded<T> {
    fn new(_: Edge, len: usize, value: impl Fn(usize) -> T) -> Guarded<T> {
        Guarded((0..len).map(value).collect())
    }
}

#[cfg(miri)]
impl<T> Deref for Guarded<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

#[cfg(miri)]
impl<T> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

/// A slice in pages of its own, with an unmapped page before and after them.
#[cfg(not(miri))]
struct Guarded<T> {
    mapping: *mut std::ffi::c_void,
    mapping_bytes: usize,
    data: *mut T,
    len: usize,
}

#[cfg(not(miri))]
impl<T: Pod + Default> Guarded<T> {
    /// `len` numbers that `value` computes from their index.
    fn new(edge: Edge, len: usize, value: impl Fn(usize) -> T) -> Guarded<T> {
        let page = rustix::param::page_size();
        let bytes = len * size_of::<T>();
        let inner = bytes.next_multiple_of(page).max(page);
        let mapping_bytes = inner + 2 * page;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address that the system chooses, whose first and last page are then protected.
        let mapping = unsafe {
            let mapping =
                mmap_anonymous(std::ptr::null_mut(), mapping_bytes, protection, MapFlags::PRIVATE).unwrap();
            mprotect(mapping, page, MprotectFlags::empty()).unwrap();
            mprotect(mapping.byte_add(page + inner), page, MprotectFlags::empty()).unwrap();
            mapping
        };
        let start = if edge == Edge::Start { page } else { page + inner - bytes };
        let mut guarded =
            Guarded { mapping, mapping_bytes, data: mapping.wrapping_byte_add(start).cast(), len };
        guarded.iter_mut().enumerate().for_each(|(i, number)| *number = value(i));
        guarded
    }
}

#[cfg(not(miri))]
impl<T> Deref for Guarded<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        // SAFETY: `len` initialised numbers (zeros at first) inside the readable pages, aligned because a page and the length are.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

#[cfg(not(miri))]
impl<T> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, writable, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.data, self.len) }
    }
}

#[cfg(not(miri))]
impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is this slice's own, and no borrow of it is left.
        unsafe { munmap(self.mapping, self.mapping_bytes).unwrap() };
    }
}

fn floats(edge: Edge, len: usize) -> Guarded<f32> {
    Guarded::new(edge, len, |i| (i * 37 % 101) as f32 / 50.0 - 1.0)
}

/// Runs `test` with every table and at both edges.
fn on_every_table(kernel: &str, test: impl Fn(&Kernels, Edge)) {
    for kernels in Kernels::available() {
        // without guard pages the edge makes no difference
        for edge in sizes(&[Edge::Start, Edge::End], &[Edge::End]) {
            println!("{kernel} with {} at {edge:?}", kernels.isa.name());
            test(kernels, edge);
        }
    }
}

/// The length of `rows` rows of `width` that start every `stride`.
fn span(rows: usize, stride: usize, width: usize) -> usize {
    (rows - 1) * stride + width
}

/// `all`, but `few` under Miri, which is a thousand times slower.
fn sizes<T: Copy>(all: &[T], few: &[T]) -> Vec<T> {
    if cfg!(miri) { few } else { all }.to_vec()
}

/// `sizes` of a range and of larger numbers.
fn sizes_to(end: usize, larger: &[usize], few: &[usize]) -> Vec<usize> {
    sizes(&[(1..=end).collect(), larger.to_vec()].concat(), few)
}

const EPILOGUES: [Epilogue; 3] = [Epilogue::Store, Epilogue::Gelu, Epilogue::Add];

/// Rows, depth, columns and padding between rows.
fn products() -> Vec<(usize, usize, usize, usize)> {
    let mut shapes = Vec::new();
    for rows in sizes(&[1, 2, 4, 5, 6, 7, 14, 15], &[1, 7]) {
        for depth in sizes(&[1, 2, 3, 7, 32, 33], &[3, 32]) {
            for columns in sizes(&[1, 15, 33, 64], &[1, 33]) {
                shapes
                    .extend(sizes(&[0, 3], &[0]).into_iter().map(|padding| (rows, depth, columns, padding)));
            }
        }
    }
    shapes
}

fn multiply<T: Pod + Default, L: Pod + Default>(edge: Edge, packing: Packing, matmul: fn(Matmul<'_, T, L>)) {
    for (rows, depth, columns, padding) in products() {
        let width = depth.next_multiple_of(packing.unit);
        let padded = packing.padded_columns(columns);
        let (a_stride, out_stride) = (width + padding, padded + padding);
        let a = Guarded::new(edge, span(rows, a_stride, width), |_| L::default());
        let data = Guarded::new(edge, packing.packed_len(columns, depth), |_| T::default());
        let bias = floats(edge, padded);
        let mut out = floats(edge, span(rows, out_stride, padded));
        for epilogue in EPILOGUES {
            let b = Panels { depth, columns, packing, data: &data };
            matmul(Matmul { rows, a: &a, a_stride, b, bias: &bias, epilogue, out: &mut out, out_stride });
        }
    }
}

#[test]
fn products_stay_inside_their_slices() {
    on_every_table("matmul", |kernels, edge| {
        multiply(edge, kernels.packing, kernels.matmul);
        multiply(edge, kernels.packing, kernels.matmul_bf16);
        if let Some(Bf16Kernels { packing, matmul, .. }) = kernels.bf16 {
            multiply(edge, packing, matmul);
        }
    });
}

#[test]
fn int8_products_stay_inside_their_slices() {
    on_every_table("matmul_int8", |kernels, edge| {
        for (rows, depth, columns, padding) in products() {
            let packing = kernels.packing_int8;
            let padded = packing.padded_columns(columns);
            let (stride, out_stride) = (depth + padding, padded + padding);
            let values = floats(edge, span(rows, stride, depth));
            let data = Guarded::new(edge, packing.packed_len(columns, depth), |i| (i % 255) as i8);
            let (scale, sum, bias) = (floats(edge, padded), floats(edge, padded), floats(edge, padded));
            let mut out = floats(edge, span(rows, out_stride, padded));
            for group in [Group::Pair, Group::Quad] {
                let mut a = QuantizedRows::new();
                a.resize(rows, depth, group, kernels.code_bytes);
                (kernels.quantize)(&values, stride, &mut a);
                for epilogue in EPILOGUES {
                    let panels = Panels { depth, columns, packing, data: &data };
                    let b = Int8Matrix { panels, scale: &scale, sum: &sum };
                    (kernels.matmul_int8)(MatmulInt8 {
                        a: &a,
                        b,
                        bias: &bias,
                        epilogue,
                        out: &mut out,
                        out_stride,
                    });
                }
            }
        }
    });
}

#[test]
fn attention_stays_inside_its_slices() {
    on_every_table("attention", |kernels, edge| {
        for tokens in sizes_to(18, &[31, 32, 33, 48, 49], &[1, 9, 33]) {
            for (heads, head_dim) in
                sizes(&[(1, 1), (1, 8), (2, 20), (1, 7), (3, 16), (1, 33)], &[(1, 1), (2, 20)])
            {
                let width = heads * head_dim;
                let (qkv_stride, out_stride) = (3 * width + 1, width + 2);
                let shape = AttentionShape { tokens, heads, head_dim, qkv_stride, out_stride };
                let qkv = floats(edge, span(tokens, qkv_stride, 3 * width));
                let mut scratch = floats(edge, shape.scratch_len());
                let mut out = floats(edge, span(tokens, out_stride, width));
                (kernels.attention)(&shape, &qkv, &mut scratch, &mut out);
                if let Some(bf16) = kernels.bf16 {
                    (bf16.attention)(&shape, &qkv, &mut scratch, &mut out);
                }
            }
        }
    });
}

#[test]
fn kernels_on_rows_stay_inside_their_slices() {
    on_every_table("layer_norm", |kernels, edge| {
        for width in sizes_to(33, &[64, 387], &[1, 8, 33]) {
            let (gamma, beta) = (floats(edge, width), floats(edge, width));
            for count in [1, 3, 4, 5, 9] {
                let mut rows = floats(edge, span(count, width + 2, width));
                (kernels.layer_norm)(&mut rows, width + 2, &gamma, &beta, 1e-5);
                let Some(bf16) = kernels.bf16 else { continue };
                let rows = floats(edge, count * width);
                let mut to = Guarded::new(edge, count * width, |_| 0u16);
                (bf16.round)(&rows, width, width, &mut to, width);
            }
        }
    });
}

#[test]
fn dot_products_stay_inside_their_slices() {
    on_every_table("dot", |kernels, edge| {
        for len in [vec![0], sizes_to(70, &[384, 1000], &[1, 8, 33, 70])].concat() {
            let (a, b) = (floats(edge, len), floats(edge, len));
            let (half, bytes) =
                (Guarded::new(edge, len, |_| 0x3c00u16), Guarded::new(edge, len, |i| i as i8));
            assert!((kernels.dot)(&a, &b).is_finite() && (kernels.dot_f16)(&a, &half).is_finite());
            for count in [1, 3, 4, 5, 9].into_iter().filter(|_| len > 0) {
                let rows = Guarded::new(edge, count * len, |i| (i % 127) as i8);
                let mut out = vec![0; count];
                (kernels.dot_i8_rows)(&bytes, &rows, &mut out);
            }
        }
    });
}

#[test]
fn pq4_scans_stay_inside_their_slices() {
    on_every_table("scan_pq4", |kernels, edge| {
        for groups in sizes(&[8, 16, 24, 64, 136, 1040], &[8, 24]) {
            let tables = Guarded::new(edge, 16 * groups, |i| (i % 64) as u8);
            let codes = Guarded::new(edge, 16 * groups, |i| (i % 251) as u8);
            let (factors, mut scores) = (floats(edge, PQ4_BLOCK_ROWS), floats(edge, PQ4_BLOCK_ROWS));
            let factors = factors.first_chunk().unwrap();
            let block =
                Pq4Block { tables: &tables, codes: &codes, factors, step: 0.5, offset: 1.0, threshold: 0.0 };
            (kernels.scan_pq4)(&block, scores.first_chunk_mut().unwrap());
        }
    });
}
