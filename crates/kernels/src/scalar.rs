//! The reference: each kernel as its formula, in plain Rust. Slow and simple; the other tables are tested against it.

use crate::int8::{MatmulInt8, QuantizedRows, RowRange};
use crate::lanes::{GELU_BOUND, GELU_COEFFICIENTS};
use crate::layout::{AttentionShape, Epilogue, Matmul, Packing};
use crate::pq4::{PQ4_BLOCK_ROWS, PQ4_CENTROIDS, Pq4Block};
use crate::size::{span, times};
use crate::{Isa, Kernels};

pub(crate) static TABLE: Kernels = Kernels {
    isa: Isa::Scalar,
    packing: Packing { panel: PANEL, unit: 1 },
    packing_int8: PACKING_INT8,
    code_bytes: 1,
    matmul,
    matmul_bf16,
    quantize,
    matmul_int8,
    attention,
    layer_norm,
    bf16: None,
    dot,
    dot_f16,
    dot_i8_rows,
    scan_pq4,
};

const PANEL: usize = 16;
const PACKING_INT8: Packing = Packing { panel: PANEL, unit: 4 };

fn matmul(args: Matmul<'_, f32>) {
    matmul_of(args, |weight| weight);
}

fn matmul_bf16(args: Matmul<'_, u16>) {
    matmul_of(args, bf16_to_f32);
}

fn matmul_of<T: Copy>(args: Matmul<'_, T>, widen: impl Fn(T) -> f32) {
    args.check(TABLE.packing);
    let Matmul { rows, a, a_stride, b, bias, epilogue, out, out_stride } = args;
    for (p, panel) in b.data.chunks_exact(b.depth * PANEL).enumerate() {
        let first = p * PANEL;
        for row in 0..rows {
            let mut sums = [0.0f32; PANEL];
            for (x, weights) in a[row * a_stride..][..b.depth].iter().zip(panel.chunks_exact(PANEL)) {
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum += x * widen(*weight);
                }
            }
            for (column, sum) in (first..).zip(sums) {
                let value = sum + bias[column];
                let target = &mut out[row * out_stride + column];
                match epilogue {
                    Epilogue::Store => *target = value,
                    Epilogue::Gelu => *target = gelu(value),
                    Epilogue::Add => *target += value,
                }
            }
        }
    }
}

fn quantize(rows: &[f32], stride: usize, to: &mut QuantizedRows) {
    let (width, row_bytes, group) = (to.width(), to.row_bytes(), to.group());
    let (bytes, params) = to.check(rows, stride, 1);
    for (i, params) in params.iter_mut().enumerate() {
        let row = &rows[i * stride..][..width];
        *params = RowRange::of(row, group).quant_params(group);
        let inverse = params.inverse();
        for (x, to) in row.iter().zip(&mut bytes[i * row_bytes..]) {
            *to = ((x - params.base) * inverse).round_ties_even() as u8;
        }
    }
}

fn matmul_int8(args: MatmulInt8<'_>) {
    args.check(PACKING_INT8, 1);
    let MatmulInt8 { a, b, bias, epilogue, out, out_stride } = args;
    let Packing { panel, unit } = PACKING_INT8;
    let depth = b.panels.depth;
    let panel_len = panel * depth.next_multiple_of(unit);
    for (row, params) in a.params().iter().enumerate() {
        let codes = &a.bytes()[row * a.row_bytes()..][..depth];
        for column in 0..b.panels.padded_columns() {
            let weights = &b.panels.data[column / panel * panel_len..];
            let weight = |k: usize| weights[k / unit * panel * unit + column % panel * unit + k % unit];
            let sum: i32 =
                codes.iter().enumerate().map(|(k, code)| i32::from(*code) * i32::from(weight(k))).sum();
            let offset = params.base.mul_add(b.sum[column], bias[column]);
            let value = (sum as f32).mul_add(params.scale * b.scale[column], offset);
            let target = &mut out[row * out_stride + column];
            match epilogue {
                Epilogue::Store => *target = value,
                Epilogue::Gelu => *target = gelu_polynomial(value),
                Epilogue::Add => *target += value,
            }
        }
    }
}

/// See [`crate::lanes::gelu_polynomial`].
pub(crate) fn gelu_polynomial(x: f32) -> f32 {
    let c = x.clamp(-GELU_BOUND, GELU_BOUND);
    let p = GELU_COEFFICIENTS.iter().fold(0.0f32, |p, coefficient| p.mul_add(c * c, *coefficient));
    x * p.mul_add(c, 0.5)
}

/// GELU: `x/2 · (1 + erf(x/√2))`.
pub(crate) fn gelu(x: f32) -> f32 {
    0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2))
}

/// The error function, to 1.5e-7. Source: Abramowitz and Stegun, formula 7.1.26.
fn erf(x: f32) -> f32 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x.abs());
    let poly = ((((1.061_405_4 * t - 1.453_152) * t + 1.421_413_8) * t - 0.284_496_74) * t + 0.254_829_6) * t;
    (1.0 - poly * (-x * x).exp()).copysign(x)
}

fn attention(shape: &AttentionShape, qkv: &[f32], scratch: &mut [f32], out: &mut [f32]) {
    shape.check(qkv, scratch, out);
    let AttentionShape { tokens, heads, head_dim, qkv_stride, out_stride } = *shape;
    let part = |token: usize, which: usize, head: usize| {
        &qkv[token * qkv_stride + (which * heads + head) * head_dim..][..head_dim]
    };
    let scores = &mut scratch[..tokens];
    for head in 0..heads {
        for query in 0..tokens {
            for (key, score) in scores.iter_mut().enumerate() {
                *score = dot(part(query, 0, head), part(key, 1, head));
            }
            softmax(scores);
            let context = &mut out[query * out_stride + head * head_dim..][..head_dim];
            context.fill(0.0);
            for (key, weight) in scores.iter().enumerate() {
                for (sum, value) in context.iter_mut().zip(part(key, 2, head)) {
                    *sum += weight * value;
                }
            }
        }
    }
}

fn softmax(row: &mut [f32]) {
    let max = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter_mut().for_each(|x| *x = (*x - max).exp());
    let sum: f32 = row.iter().sum();
    row.iter_mut().for_each(|x| *x /= sum);
}

fn layer_norm(rows: &mut [f32], stride: usize, gamma: &[f32], beta: &[f32], epsilon: f32) {
    let width = gamma.len();
    assert!(stride >= width && beta.len() == width, "layer_norm: shapes differ");
    for row in rows.chunks_mut(stride).filter(|row| row.len() >= width) {
        let row = &mut row[..width];
        let mean = row.iter().sum::<f32>() / width as f32;
        let variance = row.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / width as f32;
        let scale = 1.0 / (variance + epsilon).sqrt();
        for ((x, g), b) in row.iter_mut().zip(gamma).zip(beta) {
            *x = (*x - mean) * scale * g + b;
        }
    }
    debug_assert!(rows.is_empty() || rows.len() >= span(1, stride, width));
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "dot: lengths differ");
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn dot_f16(a: &[f32], b: &[u16]) -> f32 {
    assert_eq!(a.len(), b.len(), "dot_f16: lengths differ");
    a.iter().zip(b).map(|(x, y)| x * half_to_f32(*y)).sum()
}

/// The value of an IEEE 754 half-precision float given as bits. Exact.
pub fn half_to_f32(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let exponent = i32::from(bits >> 10 & 0x1f);
    let fraction = f32::from(bits & 0x3ff);
    sign * match exponent {
        0 => fraction * 2f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (fraction + 1024.0) * 2f32.powi(exponent - 25),
    }
}

/// The value of a bf16 number given as bits. Exact.
pub fn bf16_to_f32(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// The bits of the nearest bf16 number, ties to even.
pub fn f32_to_bf16(x: f32) -> u16 {
    if x.is_nan() {
        return 0x7fc0;
    }
    let bits = x.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

fn dot_i8_rows(query: &[i8], rows: &[i8], out: &mut [i32]) {
    assert_eq!(rows.len(), times(out.len(), query.len()), "dot_i8_rows: shapes differ");
    for (row, out) in rows.chunks_exact(query.len()).zip(out) {
        *out = query.iter().zip(row).map(|(q, x)| i32::from(*q) * i32::from(*x)).sum();
    }
}

fn scan_pq4(block: &Pq4Block<'_>, scores: &mut [f32; PQ4_BLOCK_ROWS]) -> u32 {
    block.check();
    let mut sums = [0; PQ4_BLOCK_ROWS];
    let (first, second) = sums.split_at_mut(PQ4_BLOCK_ROWS / 2);
    let groups = block.tables.chunks_exact(PQ4_CENTROIDS).zip(block.codes.chunks_exact(PQ4_BLOCK_ROWS / 2));
    for (table, codes) in groups {
        for ((byte, low), high) in codes.iter().zip(&mut *first).zip(&mut *second) {
            *low += u16::from(table[usize::from(byte & 15)]);
            *high += u16::from(table[usize::from(byte >> 4)]);
        }
    }
    block.score(&sums, scores)
}
