//! Calls with arguments that do not fit each other, from a crate without unsafe code: each panics before it touches memory.

#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, reason = "a failure here is a failed test")]

use std::hint::black_box;
use std::panic::{AssertUnwindSafe, catch_unwind};

use weir_kernels::{AlignedVec, AttentionShape, PQ4_BLOCK_ROWS, Pq4Block, Pq4Query, QuantizedRows};
use weir_kernels::{Bf16Kernels, Epilogue, Group, Int8Matrix, Kernels, Matmul, MatmulInt8, Packing};
use weir_kernels::{Panels, QuantizedWeight, pq4_block_bytes, pq4_write_row, view};

/// Runs `call` and compares the start of the message that it panics with.
#[track_caller]
fn refused<T>(what: &str, message: &str, call: impl FnOnce() -> T) {
    let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(black_box(call())))) else {
        panic!("{what} was accepted")
    };
    let said = panic.downcast_ref::<String>().map(String::as_str);
    let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
    assert!(said.contains(message), "{what}: refused by `{said}`, not by `{message}`");
}

/// The message for sizes that `usize` can't hold.
const OVERFLOW: &str = "size overflows usize";

/// With a stride of `2^(64 - bit)`, the span of `2^bit + 1` rows wraps around to the width of one row.
fn wrapping_rows(bit: u32) -> usize {
    (1 << bit) + 1
}

#[test]
fn sizes_that_overflow_are_refused() {
    refused("zeroed", OVERFLOW, || AlignedVec::<f32>::zeroed(1 << 62));
    refused("grow", OVERFLOW, || AlignedVec::<u16>::zeroed(3).grow(1 << 63));
    let packing = Packing { panel: 16, unit: 4 };
    refused("a depth", OVERFLOW, || packing.packed_len(16, usize::MAX));
    refused("columns", OVERFLOW, || packing.padded_columns(usize::MAX));
    refused("both", OVERFLOW, || packing.packed_len(1 << 32, 1 << 32));
    refused("pack", OVERFLOW, || packing.pack::<f32>(&[], 1 << 32, 1 << 32));
    refused("groups", OVERFLOW, || pq4_block_bytes(usize::MAX));
    refused("groups", OVERFLOW, || pq4_block_bytes(1 << 60));
    refused("rows of codes", OVERFLOW, || QuantizedRows::new().resize(1 << 58, 64, Group::Pair, 1));
    refused("a row of codes", OVERFLOW, || QuantizedRows::new().resize(1, usize::MAX, Group::Pair, 1));
    refused("bytes of codes", OVERFLOW, || QuantizedRows::bytes_for(1 << 58, 64, 1));
}

/// Shapes whose slices would be tiny if sizes wrapped around, and the length of `qkv`.
fn attention_shapes() -> [(AttentionShape, usize); 3] {
    let shape = AttentionShape { tokens: 1, heads: 1 << 63, head_dim: 2, qkv_stride: 0, out_stride: 0 };
    let tokens = wrapping_rows(63);
    [
        (shape, 0),
        (AttentionShape { heads: 2, head_dim: 1 << 63, ..shape }, 0),
        (AttentionShape { tokens, heads: 1, head_dim: 1, qkv_stride: 4, out_stride: 2 }, 3),
    ]
}

type Attention = fn(&AttentionShape, &[f32], &mut [f32], &mut [f32]);

/// The attention of floats and, with instruction sets that have it, of bf16 values.
fn attentions(kernels: &Kernels) -> Vec<Attention> {
    [kernels.attention].into_iter().chain(kernels.bf16.map(|pairs| pairs.attention)).collect()
}

#[test]
fn attention_refuses_shapes_that_do_not_fit_its_slices() {
    let fits = AttentionShape { tokens: 3, heads: 2, head_dim: 5, qkv_stride: 30, out_stride: 10 };
    let scratch_len = fits.scratch_len();
    for attention in Kernels::available().into_iter().flat_map(attentions) {
        for (shape, len) in attention_shapes() {
            refused("a shape that wraps around", OVERFLOW, || {
                attention(&shape, &vec![0.0; len], &mut [0.0; 200], &mut vec![0.0; len.min(1)]);
            });
            refused("its scratch", OVERFLOW, || AttentionShape { tokens: 1 << 60, ..shape }.scratch_len());
        }
        let run = |shape: AttentionShape, qkv: usize, scratch: usize, out: usize| {
            attention(&shape, &vec![0.0; qkv], &mut vec![0.0; scratch], &mut vec![0.0; out]);
        };
        run(fits, 90, scratch_len, 30);
        let narrow = AttentionShape { qkv_stride: 29, ..fits };
        refused("qkv_stride", "rows of qkv overlap", || run(narrow, 90, scratch_len, 30));
        let narrow = AttentionShape { out_stride: 9, ..fits };
        refused("out_stride", "rows of out overlap", || run(narrow, 90, scratch_len, 30));
        refused("qkv", "qkv is too short", || run(fits, 89, scratch_len, 30));
        refused("out", "out is too short", || run(fits, 90, scratch_len, 29));
        refused("scratch", "scratch is too short", || run(fits, 90, scratch_len - 1, 30));
        let huge = AttentionShape { qkv_stride: 1 << 63, ..fits };
        refused("a huge stride", OVERFLOW, || run(huge, 90, scratch_len, 30));
        run(AttentionShape { tokens: 0, ..fits }, 0, AttentionShape { tokens: 0, ..fits }.scratch_len(), 0);
    }
}

/// The arguments of a product by their lengths, changed one at a time.
#[derive(Clone, Copy)]
struct Lengths {
    rows: usize,
    depth: usize,
    columns: usize,
    packing: Packing,
    a: usize,
    a_stride: usize,
    data: usize,
    bias: usize,
    out: usize,
    out_stride: usize,
}

impl Lengths {
    /// Three rows of seven numbers by one panel.
    fn fitting(packing: Packing) -> Lengths {
        let (panel, width) = (packing.panel, 7usize.next_multiple_of(packing.unit));
        let (data, a, out) = (panel * width, 3 * width, 3 * panel);
        Lengths {
            rows: 3,
            depth: 7,
            columns: panel,
            packing,
            a,
            a_stride: width,
            data,
            bias: panel,
            out,
            out_stride: panel,
        }
    }

    fn run<T: Copy + Default, L: Copy + Default>(self, matmul: fn(Matmul<'_, T, L>)) {
        let Lengths { rows, depth, columns, packing, a_stride, out_stride, .. } = self;
        let data = vec![T::default(); self.data];
        matmul(Matmul {
            rows,
            a: &vec![L::default(); self.a],
            a_stride,
            b: Panels { depth, columns, packing, data: &data },
            bias: &vec![0.0; self.bias],
            epilogue: Epilogue::Store,
            out: &mut vec![0.0; self.out],
            out_stride,
        });
    }
}

fn check_product<T: Copy + Default, L: Copy + Default>(matmul: fn(Matmul<'_, T, L>), packing: Packing) {
    let fits = Lengths::fitting(packing);
    let Packing { panel, unit } = packing;
    fits.run(matmul);
    Lengths { rows: 0, a: 0, out: 0, ..fits }.run(matmul);
    let check = |message: &str, lengths: Lengths| {
        refused(message, message, || lengths.run(matmul));
    };
    check("another instruction set", Lengths { packing: Packing { panel: panel + 1, unit }, ..fits });
    check("packed matrix has the wrong length", Lengths { data: fits.data - 1, ..fits });
    check("rows of a overlap", Lengths { a_stride: fits.a_stride - 1, ..fits });
    check("rows of out are shorter", Lengths { out_stride: panel - 1, ..fits });
    check("bias is shorter", Lengths { bias: panel - 1, ..fits });
    check("a is too short", Lengths { a: fits.a - 1, ..fits });
    check("out is too short", Lengths { out: fits.out - 1, ..fits });
    check(OVERFLOW, Lengths { a_stride: 1 << 63, ..fits });
    check(OVERFLOW, Lengths { out_stride: 1 << 63, ..fits });
    let (rows, a_stride, out_stride) = (wrapping_rows(58), 64, 64);
    check(OVERFLOW, Lengths { rows, a_stride, out_stride, ..fits });
    check(OVERFLOW, Lengths { columns: usize::MAX, ..fits });
    let no_data = Lengths { a: 0, a_stride: usize::MAX, data: 0, ..fits };
    check("", Lengths { depth: usize::MAX, rows: 1, ..no_data });
}

#[test]
fn products_refuse_slices_that_do_not_fit_their_shapes() {
    for kernels in Kernels::available() {
        check_product(kernels.matmul, kernels.packing);
        check_product(kernels.matmul_bf16, kernels.packing);
        if let Some(Bf16Kernels { packing, matmul, .. }) = kernels.bf16 {
            check_product(matmul, packing);
        }
    }
}

#[test]
fn packing_refuses_weights_and_columns_that_do_not_fit() {
    let packing = Packing { panel: 16, unit: 2 };
    refused("pack", "weight has the wrong length", || packing.pack(&[0.0f32; 5], 2, 3));
    refused("quantise", "weight has the wrong length", || QuantizedWeight::new(&[0.0; 5], 3));
    let data = packing.pack(&[0.0f32; 40], 20, 2);
    let panels = Panels { depth: 2, columns: 20, packing, data: &data };
    refused("the start", "a panel would be cut", || panels.columns(1..16).data);
    refused("the end", "a panel would be cut", || panels.columns(0..17).data);
    assert_eq!(panels.columns(16..20).data.len(), 32);
}

#[test]
fn int8_products_refuse_slices_that_do_not_fit_their_shapes() {
    for kernels in Kernels::available() {
        let (packing, bytes) = (kernels.packing_int8, kernels.code_bytes);
        let panel = packing.panel;
        let run = |depth: usize, lens: [usize; 4], out_stride: usize, code_bytes: usize, b_depth: usize| {
            let mut a = QuantizedRows::new();
            a.resize(3, depth, Group::Pair, code_bytes);
            let [scale, sum, bias, out] = lens.map(|len| vec![0.0; len]);
            let mut out = out;
            let data = vec![0; packing.packed_len(panel, b_depth)];
            (kernels.matmul_int8)(MatmulInt8 {
                a: &a,
                b: Int8Matrix {
                    panels: Panels { depth: b_depth, columns: panel, packing, data: &data },
                    scale: &scale,
                    sum: &sum,
                },
                bias: &bias,
                epilogue: Epilogue::Store,
                out: &mut out,
                out_stride,
            });
        };
        let lens = [panel, panel, panel, 3 * panel];
        run(7, lens, panel, bytes, 7);
        refused("code_bytes", "another instruction set", || run(7, lens, panel, 3 - bytes, 7));
        refused("depth", "not as long as columns of b", || run(7, lens, panel, bytes, 8));
        refused("depth", "may overflow", || run(65_537, lens, panel, bytes, 65_537));
        refused("out_stride", "shorter than whole panels", || run(7, lens, panel - 1, bytes, 7));
        for short in 0..3 {
            let mut lens = lens;
            lens[short] -= 1;
            refused("a factor", "is shorter than the columns", || run(7, lens, panel, bytes, 7));
        }
        let short = [panel, panel, panel, 3 * panel - 1];
        refused("out", "out is too short", || run(7, short, panel, bytes, 7));
        refused("a huge stride", OVERFLOW, || run(7, lens, 1 << 63, bytes, 7));
    }
}

#[test]
fn quantizing_refuses_rows_that_do_not_fit() {
    for kernels in Kernels::available() {
        let run = |count: usize, len: usize, stride: usize, code_bytes: usize| {
            let mut to = QuantizedRows::new();
            to.resize(count, 8, Group::Pair, code_bytes);
            (kernels.quantize)(&vec![1.0; len], stride, &mut to);
        };
        run(3, 28, 10, kernels.code_bytes);
        refused("code_bytes", "another instruction set", || run(3, 28, 10, 3 - kernels.code_bytes));
        refused("stride", "rows overlap", || run(3, 28, 7, kernels.code_bytes));
        refused("rows", "rows are too short", || run(3, 27, 10, kernels.code_bytes));
        refused("a huge stride", OVERFLOW, || run(5, 8, 1 << 62, kernels.code_bytes));
        run(1, 8, usize::MAX, kernels.code_bytes); // one row has no second
    }
}

#[test]
fn quantized_rows_keep_their_shape_when_a_size_is_refused() {
    for kernels in Kernels::available() {
        let mut a = QuantizedRows::new();
        a.resize(3, 8, Group::Pair, kernels.code_bytes);
        refused("rows", "", || a.resize(1 << 61, 1 << 16, Group::Pair, kernels.code_bytes));
        assert_eq!((a.rows(), a.width()), (3, 8));
        (kernels.quantize)(&[1.0; 24], 8, &mut a);
    }
}

#[test]
fn layer_norm_refuses_factors_that_do_not_fit_and_takes_any_stride() {
    for kernels in Kernels::available() {
        let run = |gamma: usize, beta: usize, stride: usize| {
            let mut row = [1.0, 2.0, 4.0, 8.0, 16.0];
            (kernels.layer_norm)(&mut row, stride, &vec![1.0; gamma], &vec![0.0; beta], 1e-5);
            row
        };
        refused("beta", "shapes differ", || run(5, 4, 5));
        refused("stride", "shapes differ", || run(5, 5, 4));
        assert_eq!(run(5, 5, usize::MAX), run(5, 5, 5));
        assert_ne!(run(5, 5, usize::MAX), [1.0, 2.0, 4.0, 8.0, 16.0]);
    }
}

#[test]
fn rounding_refuses_rows_that_do_not_fit() {
    for pairs in Kernels::available().into_iter().filter_map(|kernels| kernels.bf16) {
        let run = |stride: usize, width: usize, to: usize, to_stride: usize| {
            (pairs.round)(&[1.0; 30], stride, width, &mut vec![0; to], to_stride);
        };
        run(10, 10, 30, 10);
        refused("stride", "rows overlap", || run(9, 10, 30, 10));
        refused("to_stride", "rows overlap", || run(10, 10, 30, 9));
        refused("to", "too few rows to write", || run(10, 10, 29, 10));
        refused("a huge stride", OVERFLOW, || run(10, 10, 30, 1 << 63));
    }
}

#[test]
fn dot_products_refuse_lengths_that_differ() {
    for kernels in Kernels::available() {
        refused("dot", "lengths differ", || (kernels.dot)(&[0.0; 8], &[0.0; 9]));
        refused("dot_f16", "lengths differ", || (kernels.dot_f16)(&[0.0; 9], &[0; 8]));
        let rows = |query: usize, rows: usize| {
            (kernels.dot_i8_rows)(&vec![0; query], &vec![0; rows], &mut [0; 5]);
        };
        rows(33, 165);
        refused("rows", "shapes differ", || rows(33, 164));
        refused("a query", "shapes differ", || rows(32, 165));
    }
}

#[test]
fn pq4_scans_refuse_shapes_that_differ() {
    for kernels in Kernels::available() {
        let run = |tables: usize, codes: usize| {
            let block = Pq4Block {
                tables: &vec![0; tables],
                codes: &vec![0; codes],
                factors: &[1.0; PQ4_BLOCK_ROWS],
                step: 1.0,
                offset: 0.0,
                threshold: 0.0,
            };
            (kernels.scan_pq4)(&block, &mut [0.0; PQ4_BLOCK_ROWS]);
        };
        run(256, 256);
        refused("tables", "not whole registers", || run(255, 255));
        refused("codes", "shapes differ", || run(256, 128));
    }
    refused("a row", "shapes differ", || pq4_write_row(&mut [0; 128], PQ4_BLOCK_ROWS, &[0; 8]));
    refused("a block", "shapes differ", || pq4_write_row(&mut [0; 127], 0, &[0; 8]));
    refused("groups", "do not fit 16 bits", || Pq4Query::new(&[[0.0; 16]; 1041]));
}

#[test]
fn views_refuse_bytes_of_another_alignment_or_length() {
    let words = AlignedVec::<u8>::zeroed(64);
    refused("f32", "not aligned to 4", || view::as_f32(&words[2..6]));
    refused("u16", "not aligned to 2", || view::as_u16(&words[1..3]));
    refused("f32", "not a multiple of 4", || view::as_f32(&words[..6]));
    refused("u16", "not a multiple of 2", || view::as_u16(&words[..5]));
    assert_eq!(
        (view::as_f32(&words).len(), view::as_u16(&words).len(), view::as_i8(&words).len()),
        (16, 32, 64)
    );
}
