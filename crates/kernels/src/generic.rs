//! Each float algorithm once, over [`Lanes`]. `C` is the number of registers in a row of a panel.
//!
//! The product keeps a tile of `R` rows by one panel in registers and walks down the depth: two or more loads of
//! the panel, a broadcast from each row, `R * C` multiply-adds. Each element of the result is one chain of
//! multiply-adds over the depth, in order, whatever rows stand beside it: that is why an embedding does not depend
//! on its batch-mates, bit for bit.
//!
//! All functions are `unsafe` as in [`Lanes`]: they must run under the instruction set of `V`.

use crate::lanes::{Lanes, Weight, exp, gelu};
use crate::layout::{ATTENTION_ROWS, AttentionShape, Epilogue, Matmul, span};

/// See [`crate::Kernels::matmul`].
#[inline(always)]
pub(crate) unsafe fn matmul<V: Lanes, T: Weight, const C: usize>(args: Matmul<'_, T>) {
    let panel = V::WIDTH * C;
    args.check(panel);
    let Matmul { rows, a, a_stride, b, bias, epilogue, out, out_stride } = args;
    for p in 0..b.padded_columns() / panel {
        // SAFETY: `check` asserted that all rows and panels lie inside the slices.
        unsafe {
            let side = Side {
                panel: b.data.as_ptr().add(p * b.depth * panel),
                depth: b.depth,
                bias: Some(bias.as_ptr().add(p * panel)),
            };
            let out = out.as_mut_ptr().add(p * panel);
            column::<V, _, C>(rows, a.as_ptr(), a_stride, &side, epilogue, out, out_stride);
        }
    }
}

/// The right-hand side of one column of tiles: one panel and its bias.
struct Side<T> {
    panel: *const T,
    depth: usize,
    bias: Option<*const f32>,
}

/// All rows of one panel, in blocks of at most `V::ROWS` rows of nearly equal height.
#[inline(always)]
unsafe fn column<V: Lanes, T: Weight, const C: usize>(
    rows: usize,
    a: *const f32,
    a_stride: usize,
    side: &Side<T>,
    epilogue: Epilogue,
    out: *mut f32,
    out_stride: usize,
) {
    let blocks = rows.div_ceil(V::ROWS);
    let mut start = 0;
    for block in 0..blocks {
        let end = rows * (block + 1) / blocks;
        // SAFETY: rows start..end are among the caller's rows.
        unsafe {
            let a = a.add(start * a_stride);
            let out = out.add(start * out_stride);
            macro_rules! by_height {
                ($($height:literal)*) => {
                    match end - start {
                        $($height if $height <= V::ROWS => {
                            tile::<V, T, $height, C>(a, a_stride, side, epilogue, out, out_stride)
                        })*
                        height => unreachable!("a block of {height} rows"),
                    }
                };
            }
            by_height!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
        }
        start = end;
    }
}

#[inline(always)]
unsafe fn tile<V: Lanes, T: Weight, const R: usize, const C: usize>(
    a: *const f32,
    a_stride: usize,
    side: &Side<T>,
    epilogue: Epilogue,
    out: *mut f32,
    out_stride: usize,
) {
    // SAFETY: the caller vouches for R rows of a and out, and for `depth` rows of the panel.
    unsafe {
        let mut sums = [[V::splat(0.0); C]; R];
        let mut row = side.panel;
        for k in 0..side.depth {
            let mut weights = [V::splat(0.0); C];
            for (c, weight) in weights.iter_mut().enumerate() {
                *weight = T::load(row.add(c * V::WIDTH));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = V::splat(*a.add(r * a_stride + k));
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = x.mul_add(weight, *sum);
                }
            }
            row = row.add(C * V::WIDTH);
        }
        for (r, sums) in sums.into_iter().enumerate() {
            for (c, sum) in sums.into_iter().enumerate() {
                let target = out.add(r * out_stride + c * V::WIDTH);
                let value = match side.bias {
                    Some(bias) => sum.add(V::load(bias.add(c * V::WIDTH))),
                    None => sum,
                };
                let value = match epilogue {
                    Epilogue::Store => value,
                    Epilogue::Gelu => gelu(value),
                    Epilogue::Add => value.add(V::load(target)),
                };
                value.store(target);
            }
        }
    }
}

/// See [`crate::Kernels::attention`].
///
/// Keys and values of a head are packed into panels; then, for blocks of query rows, the scores are one product, the
/// softmax runs over rows that are still in the first-level cache, and the context is a second product.
#[inline(always)]
pub(crate) unsafe fn attention<V: Lanes, const C: usize>(
    shape: &AttentionShape,
    qkv: &[f32],
    scratch: &mut [f32],
    out: &mut [f32],
) {
    shape.check(qkv, scratch, out);
    let panel = V::WIDTH * C;
    let AttentionShape { tokens, heads, head_dim, qkv_stride, out_stride } = *shape;
    let (keys_padded, dim_padded) = (tokens.next_multiple_of(panel), head_dim.next_multiple_of(panel));
    let (keys, rest) = scratch.split_at_mut(keys_padded * head_dim);
    let (values, rest) = rest.split_at_mut(tokens * dim_padded);
    let (scores, context) = rest.split_at_mut(ATTENTION_ROWS * keys_padded);
    for head in 0..heads {
        let query = head * head_dim;
        // SAFETY: this function runs under the instruction set of V.
        unsafe {
            pack_keys::<V>(&qkv[(heads + head) * head_dim..], qkv_stride, tokens, head_dim, panel, keys);
        }
        pack_values(&qkv[(2 * heads + head) * head_dim..], qkv_stride, tokens, head_dim, panel, values);
        for first in (0..tokens).step_by(ATTENTION_ROWS) {
            let rows = ATTENTION_ROWS.min(tokens - first);
            // SAFETY: `check` asserted the lengths of qkv and scratch; the parts of scratch were cut to fit.
            unsafe {
                let q = qkv.as_ptr().add(first * qkv_stride + query);
                for p in 0..keys_padded / panel {
                    let panel_start = keys.as_ptr().add(p * panel * head_dim);
                    let side = Side { panel: panel_start, depth: head_dim, bias: None };
                    let to = scores.as_mut_ptr().add(p * panel);
                    column::<V, _, C>(rows, q, qkv_stride, &side, Epilogue::Store, to, keys_padded);
                }
                for row in scores.chunks_exact_mut(keys_padded).take(rows) {
                    softmax::<V>(row, tokens);
                }
                for p in 0..dim_padded / panel {
                    let panel_start = values.as_ptr().add(p * panel * tokens);
                    let side = Side { panel: panel_start, depth: tokens, bias: None };
                    let to = context.as_mut_ptr().add(p * panel);
                    column::<V, _, C>(
                        rows,
                        scores.as_ptr(),
                        keys_padded,
                        &side,
                        Epilogue::Store,
                        to,
                        dim_padded,
                    );
                }
            }
            for (row, context) in (first..first + rows).zip(context.chunks_exact(dim_padded)) {
                out[row * out_stride + query..][..head_dim].copy_from_slice(&context[..head_dim]);
            }
        }
    }
}

/// Keys `[tokens, dim]` into panels of `panel` keys, each `[dim][panel]`; missing keys are zero.
#[inline(always)]
unsafe fn pack_keys<V: Lanes>(
    keys: &[f32],
    stride: usize,
    tokens: usize,
    dim: usize,
    panel: usize,
    to: &mut [f32],
) {
    let whole = dim - dim % V::WIDTH;
    for (p, to) in to.chunks_exact_mut(panel * dim).enumerate() {
        for lane in (0..panel).step_by(V::WIDTH) {
            let first = p * panel + lane;
            let is_whole = first + V::WIDTH <= tokens;
            let turned = if is_whole { whole } else { 0 };
            for d in (0..turned).step_by(V::WIDTH) {
                let square = &keys[first * stride + d..][..span(V::WIDTH, stride, V::WIDTH)];
                let to = &mut to[d * panel + lane..][..span(V::WIDTH, panel, V::WIDTH)];
                // SAFETY: both slices hold WIDTH rows of WIDTH floats.
                unsafe { V::transpose(square.as_ptr(), stride, to.as_mut_ptr(), panel) };
            }
            for (key, lane) in (first..first + V::WIDTH).zip(lane..) {
                for d in turned..dim {
                    to[d * panel + lane] = if key < tokens { keys[key * stride + d] } else { 0.0 };
                }
            }
        }
    }
}

/// Values `[tokens, dim]` into panels of `panel` dimensions, each `[tokens][panel]`; missing dimensions are zero.
fn pack_values(values: &[f32], stride: usize, tokens: usize, dim: usize, panel: usize, to: &mut [f32]) {
    for (p, to) in to.chunks_exact_mut(panel * tokens).enumerate() {
        let first = p * panel;
        let width = panel.min(dim - first);
        for (token, to) in to.chunks_exact_mut(panel).enumerate() {
            to[..width].copy_from_slice(&values[token * stride + first..][..width]);
            to[width..].fill(0.0);
        }
    }
}

/// Softmax of the first `len` floats of a row that is padded to whole registers.
#[inline(always)]
unsafe fn softmax<V: Lanes>(row: &mut [f32], len: usize) {
    row[len..].fill(f32::NEG_INFINITY);
    // SAFETY: the row is a multiple of WIDTH long, as panels are.
    unsafe {
        let registers = row.len() / V::WIDTH;
        let start = row.as_mut_ptr();
        let mut max = V::splat(f32::NEG_INFINITY);
        for i in 0..registers {
            max = max.max(V::load(start.add(i * V::WIDTH)));
        }
        let max = V::splat(max.largest());
        let mut sum = V::splat(0.0);
        for i in 0..registers {
            let at = start.add(i * V::WIDTH);
            let e = exp(V::load(at).sub(max));
            e.store(at);
            sum = sum.add(e);
        }
        let scale = V::splat(1.0 / sum.sum());
        for i in 0..registers {
            let at = start.add(i * V::WIDTH);
            V::load(at).mul(scale).store(at);
        }
    }
}

/// See [`crate::Kernels::layer_norm`].
#[inline(always)]
pub(crate) unsafe fn layer_norm<V: Lanes>(
    rows: &mut [f32],
    stride: usize,
    gamma: &[f32],
    beta: &[f32],
    epsilon: f32,
) {
    let width = gamma.len();
    assert!(stride >= width && beta.len() == width, "layer_norm: shapes differ");
    for row in rows.chunks_mut(stride).filter(|row| row.len() >= width) {
        // SAFETY: all three slices have `width` floats.
        unsafe { normalise_row::<V>(&mut row[..width], gamma, beta, epsilon) }
    }
}

#[inline(always)]
unsafe fn normalise_row<V: Lanes>(row: &mut [f32], gamma: &[f32], beta: &[f32], epsilon: f32) {
    let width = row.len();
    let whole = width - width % V::WIDTH;
    // SAFETY: loads and stores stay below `whole`, which is at most the length of all three slices.
    unsafe {
        let mut sum = V::splat(0.0);
        for i in (0..whole).step_by(V::WIDTH) {
            sum = sum.add(V::load(row.as_ptr().add(i)));
        }
        let mean = (sum.sum() + row[whole..].iter().sum::<f32>()) / width as f32;
        let means = V::splat(mean);
        let mut squares = V::splat(0.0);
        for i in (0..whole).step_by(V::WIDTH) {
            let x = V::load(row.as_ptr().add(i)).sub(means);
            squares = x.mul_add(x, squares);
        }
        let tail: f32 = row[whole..].iter().map(|x| (x - mean) * (x - mean)).sum();
        let scale = 1.0 / ((squares.sum() + tail) / width as f32 + epsilon).sqrt();
        let scales = V::splat(scale);
        for i in (0..whole).step_by(V::WIDTH) {
            let x = V::load(row.as_ptr().add(i)).sub(means).mul(scales);
            let y = x.mul_add(V::load(gamma.as_ptr().add(i)), V::load(beta.as_ptr().add(i)));
            y.store(row.as_mut_ptr().add(i));
        }
        for i in whole..width {
            row[i] = (row[i] - mean) * scale * gamma[i] + beta[i];
        }
    }
}

/// See [`crate::Kernels::dot`].
#[inline(always)]
pub(crate) unsafe fn dot<V: Lanes>(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "dot: lengths differ");
    let whole = a.len() - a.len() % (2 * V::WIDTH);
    // SAFETY: loads stay below `whole`, which is at most both lengths.
    let sum = unsafe {
        let mut even = V::splat(0.0);
        let mut odd = V::splat(0.0);
        for i in (0..whole).step_by(2 * V::WIDTH) {
            even = V::load(a.as_ptr().add(i)).mul_add(V::load(b.as_ptr().add(i)), even);
            let i = i + V::WIDTH;
            odd = V::load(a.as_ptr().add(i)).mul_add(V::load(b.as_ptr().add(i)), odd);
        }
        even.add(odd).sum()
    };
    sum + a[whole..].iter().zip(&b[whole..]).map(|(x, y)| x * y).sum::<f32>()
}

/// Makes the `TABLE` of an instruction set: wrappers that enter the generic functions under its features.
///
/// `dot_f16`, `dot_i8_rows` and `scan_codes` are functions of the calling module, already marked with the features.
macro_rules! table {
    ($isa:expr, $features:literal, $lanes:ty, $registers:literal) => {
        pub(crate) static TABLE: crate::Kernels = crate::Kernels {
            isa: $isa,
            packing: crate::Packing { panel: <$lanes as crate::lanes::Lanes>::WIDTH * $registers, unit: 1 },
            packing_int8: crate::generic_int8::packing::<$lanes, $registers>(),
            code_bytes: <$lanes as crate::lanes::Int8Lanes>::CODE_BYTES,
            matmul: table::matmul,
            matmul_bf16: table::matmul_bf16,
            quantise: table::quantise,
            matmul_int8: table::matmul_int8,
            attention: table::attention,
            layer_norm: table::layer_norm,
            dot: table::dot,
            dot_f16: table::dot_f16,
            dot_i8_rows: table::dot_i8_rows,
            scan_codes: table::scan_codes,
        };

        /// What the table points at. Each function enters its twin under the instruction set.
        mod table {
            use crate::int8::{Codes, MatmulInt8};
            use crate::layout::{AttentionShape, Matmul};

            crate::generic::entry!($features, matmul(
                args: Matmul<'_, f32>
            ) => crate::generic::matmul::<$lanes, f32, $registers>);
            crate::generic::entry!($features, matmul_bf16(
                args: Matmul<'_, u16>
            ) => crate::generic::matmul::<$lanes, u16, $registers>);
            crate::generic::entry!($features, quantise(
                rows: &[f32], stride: usize, to: &mut Codes
            ) => crate::generic_int8::quantise::<$lanes>);
            crate::generic::entry!($features, matmul_int8(
                args: MatmulInt8<'_>
            ) => crate::generic_int8::matmul::<$lanes, $registers>);
            crate::generic::entry!($features, attention(
                shape: &AttentionShape, qkv: &[f32], scratch: &mut [f32], out: &mut [f32]
            ) => crate::generic::attention::<$lanes, $registers>);
            crate::generic::entry!($features, layer_norm(
                rows: &mut [f32], stride: usize, gamma: &[f32], beta: &[f32], epsilon: f32
            ) => crate::generic::layer_norm::<$lanes>);
            crate::generic::entry!($features, dot(a: &[f32], b: &[f32]) -> f32 => crate::generic::dot::<$lanes>);
            crate::generic::entry!($features, dot_f16(a: &[f32], b: &[u16]) -> f32 => super::dot_f16);
            crate::generic::entry!($features, dot_i8_rows(query: &[i8], rows: &[i8], out: &mut [i32]) => super::dot_i8_rows);
            crate::generic::entry!($features, scan_codes(
                block: &crate::CodeBlock<'_>, scores: &mut [f32; crate::CODE_ROWS]
            ) -> u32 => super::scan_codes);
        }
    };
}

macro_rules! entry {
    ($features:literal, $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? => $body:expr) => {
        pub(super) fn $name($($arg: $type),*) $(-> $result)? {
            #[target_feature(enable = $features)]
            fn under_features($($arg: $type),*) $(-> $result)? {
                // SAFETY: this function runs under the features that the body needs.
                #[allow(unused_unsafe, reason = "some bodies are safe under the features")]
                unsafe { $body($($arg),*) }
            }
            // SAFETY: the table is only handed out after the processor was asked for these features.
            unsafe { under_features($($arg),*) }
        }
    };
}

pub(crate) use {entry, table};
