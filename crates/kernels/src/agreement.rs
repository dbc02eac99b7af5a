//! One test body for every instruction set and every shape around the block sizes, against the scalar reference.
//!
//! The tile shapes of instruction sets that this machine lacks are run with an emulated register, so that only their
//! one-line wrappers of intrinsics stay untested here; which sets were there is printed.

use crate::lanes::Lanes;
use crate::layout::AlignedVec;
use crate::{AttentionShape, Epilogue, Isa, Kernels, Matmul, PackedMatrix};

/// A register of `W` floats in plain Rust, for tile shapes that this machine lacks.
#[derive(Clone, Copy)]
struct Emulated<const W: usize, const ROWS: usize>([f32; W]);

impl<const W: usize, const ROWS: usize> Emulated<W, ROWS> {
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Emulated(std::array::from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl<const W: usize, const R: usize> Lanes for Emulated<W, R> {
    const WIDTH: usize = W;
    const ROWS: usize = R;
    unsafe fn splat(value: f32) -> Self {
        Emulated([value; W])
    }
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller vouches for W floats.
        Emulated(unsafe { std::slice::from_raw_parts(from, W) }.try_into().unwrap())
    }
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller vouches for W floats.
        unsafe { std::slice::from_raw_parts_mut(to, W) }.copy_from_slice(&self.0);
    }
    unsafe fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    unsafe fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
    unsafe fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    unsafe fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }
    unsafe fn max(self, other: Self) -> Self {
        self.zip(other, f32::max)
    }
    unsafe fn mul_add(self, factor: Self, addend: Self) -> Self {
        Emulated(std::array::from_fn(|i| self.0[i] * factor.0[i] + addend.0[i]))
    }
    unsafe fn round(self) -> Self {
        Emulated(self.0.map(f32::round_ties_even))
    }
    unsafe fn pow2(self) -> Self {
        Emulated(self.0.map(f32::exp2))
    }
    unsafe fn sum(self) -> f32 {
        self.0.iter().sum()
    }
    unsafe fn largest(self) -> f32 {
        self.0.iter().copied().fold(f32::NEG_INFINITY, f32::max)
    }
}

/// A table made of the generic algorithms over emulated registers: same code, same tile shape, no intrinsics.
const fn emulated<const W: usize, const R: usize, const C: usize>(isa: Isa) -> Kernels {
    // SAFETY of the four blocks: emulated registers need no instruction set.
    #[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, given above")]
    Kernels {
        isa,
        panel: W * C,
        matmul: |args| unsafe { crate::generic::matmul::<Emulated<W, R>, C>(args) },
        attention: |shape, qkv, scratch, out| unsafe {
            crate::generic::attention::<Emulated<W, R>, C>(shape, qkv, scratch, out)
        },
        layer_norm: |rows, stride, gamma, beta, epsilon| unsafe {
            crate::generic::layer_norm::<Emulated<W, R>>(rows, stride, gamma, beta, epsilon)
        },
        dot: |a, b| unsafe { crate::generic::dot::<Emulated<W, R>>(a, b) },
        dot_f16: |a, b| (Kernels::scalar().dot_f16)(a, b),
        dot_i8_rows: |query, rows, out| (Kernels::scalar().dot_i8_rows)(query, rows, out),
        dot_u4_rows: |query, rows, out| (Kernels::scalar().dot_u4_rows)(query, rows, out),
    }
}

static AVX512_SHAPE: Kernels = emulated::<16, 14, 2>(Isa::Avx512);
static NEON_SHAPE: Kernels = emulated::<4, 6, 4>(Isa::Neon);

/// Every table to hold against the reference.
fn tables() -> Vec<(String, &'static Kernels)> {
    let real = Kernels::available();
    println!("instruction sets on this machine: {:?}", real.iter().map(|k| k.isa.name()).collect::<Vec<_>>());
    let mut all: Vec<_> = real.iter().map(|k| (k.isa.name().to_owned(), *k)).collect();
    for shape in [&AVX512_SHAPE, &NEON_SHAPE] {
        if real.iter().all(|k| k.isa != shape.isa) {
            println!("{} is missing here: its tile shape runs with emulated registers", shape.isa.name());
            all.push((format!("{} (emulated)", shape.isa.name()), shape));
        }
    }
    all
}

/// Reproducible numbers in -1..1.
fn numbers(seed: u64, len: usize) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    };
    (0..len).map(|_| next()).collect()
}

fn bytes(seed: u64, len: usize) -> Vec<i8> {
    numbers(seed, len).into_iter().map(|x| (x * 127.0).round() as i8).collect()
}

#[track_caller]
fn assert_close(name: &str, got: &[f32], want: &[f32], tolerance: f32) {
    assert_eq!(got.len(), want.len(), "{name}: lengths differ");
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= tolerance * (1.0 + w.abs()), "{name}: at {i} got {g}, want {w}");
    }
}

fn product(kernels: &Kernels, rows: usize, depth: usize, columns: usize, epilogue: Epilogue) -> Vec<f32> {
    let b = PackedMatrix::from_rows(&numbers(2, columns * depth), columns, depth, kernels.panel);
    let (a_stride, out_stride) = (depth + 3, b.padded_columns() + 5);
    let a = numbers(1, rows * a_stride);
    let mut bias = numbers(3, columns);
    bias.resize(b.padded_columns(), 0.0);
    let mut out = vec![0.0; rows * out_stride];
    let start = numbers(4, rows * columns);
    for row in 0..rows {
        out[row * out_stride..][..columns].copy_from_slice(&start[row * columns..][..columns]);
    }
    (kernels.matmul)(Matmul {
        rows,
        a: &a,
        a_stride,
        b: &b,
        bias: &bias,
        epilogue,
        out: &mut out,
        out_stride,
    });
    (0..rows).flat_map(|row| out[row * out_stride..][..columns].to_vec()).collect()
}

#[test]
fn every_matmul_agrees_with_the_reference_around_all_block_sizes() {
    for (name, kernels) in tables() {
        for rows in (1..=15).chain([28, 29, 57]) {
            for depth in [1, 2, 7, 32, 65] {
                for columns in [1, 15, 16, 17, 31, 32, 33, 96] {
                    for epilogue in [Epilogue::Store, Epilogue::Gelu, Epilogue::Add] {
                        let got = product(kernels, rows, depth, columns, epilogue);
                        let want = product(Kernels::scalar(), rows, depth, columns, epilogue);
                        let what = format!("{name} {rows}x{depth}x{columns} {epilogue:?}");
                        assert_close(&what, &got, &want, 2e-5);
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_of_a_product_does_not_depend_on_the_rows_beside_it() {
    for (name, kernels) in tables() {
        let all = product(kernels, 29, 64, 48, Epilogue::Gelu);
        for rows in 1..29 {
            let some = product(kernels, rows, 64, 48, Epilogue::Gelu);
            assert!(some.iter().zip(&all).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}: {rows} rows");
        }
    }
}

fn attend(kernels: &Kernels, tokens: usize, heads: usize, head_dim: usize) -> Vec<f32> {
    let width = heads * head_dim;
    let shape = AttentionShape { tokens, heads, head_dim, qkv_stride: 3 * width + 7, out_stride: width + 1 };
    let mut qkv = numbers(5, tokens * shape.qkv_stride);
    qkv.iter_mut().for_each(|x| *x *= 3.0);
    let mut scratch = AlignedVec::zeroed(shape.scratch_len());
    scratch.fill(f32::NAN); // nothing may be read before it is written
    let mut out = vec![0.0; tokens * shape.out_stride];
    (kernels.attention)(&shape, &qkv, &mut scratch, &mut out);
    (0..tokens).flat_map(|row| out[row * shape.out_stride..][..width].to_vec()).collect()
}

#[test]
fn every_attention_agrees_with_the_reference() {
    for (name, kernels) in tables() {
        for tokens in (1..=18).chain([31, 32, 33, 47, 48, 49, 97, 130]) {
            for (heads, head_dim) in [(1, 8), (2, 32), (3, 16), (1, 64), (2, 20)] {
                let got = attend(kernels, tokens, heads, head_dim);
                let want = attend(Kernels::scalar(), tokens, heads, head_dim);
                assert_close(&format!("{name} {tokens} tokens, {heads}x{head_dim}"), &got, &want, 5e-5);
            }
        }
    }
}

#[test]
fn every_layer_norm_agrees_with_the_reference() {
    for (name, kernels) in tables() {
        for width in (1..=33).chain([384, 387]) {
            let (gamma, beta) = (numbers(6, width), numbers(7, width));
            let stride = width + 2;
            let run = |kernels: &Kernels| {
                let mut rows = numbers(8, 3 * stride);
                (kernels.layer_norm)(&mut rows, stride, &gamma, &beta, 1e-12_f32.max(1e-5));
                rows
            };
            assert_close(&format!("{name} {width}"), &run(kernels), &run(Kernels::scalar()), 2e-4);
        }
    }
}

#[test]
fn every_dot_product_agrees_with_the_reference_at_every_length_and_offset() {
    for (name, kernels) in tables() {
        for len in (0..=70).chain([384, 1000]) {
            for offset in 0..3 {
                let (a, b) = (numbers(9, len + offset), numbers(10, len + offset));
                let (a, b) = (&a[offset..], &b[offset..]);
                let want = (Kernels::scalar().dot)(a, b);
                assert_close(&format!("{name} dot {len}+{offset}"), &[(kernels.dot)(a, b)], &[want], 1e-4);
                // all finite half floats come by
                let half: Vec<u16> =
                    (0..len).map(|i| ((i * 977 + offset * 13) % 0x7c00) as u16 & !0x4000).collect();
                let want = (Kernels::scalar().dot_f16)(a, &half);
                assert_close(
                    &format!("{name} dot_f16 {len}+{offset}"),
                    &[(kernels.dot_f16)(a, &half)],
                    &[want],
                    1e-4,
                );
            }
        }
    }
}

#[test]
fn every_int8_scan_is_exact() {
    for (name, kernels) in tables() {
        for dim in (1..=70).chain([128, 384, 385]) {
            for rows in [0, 1, 3, 4, 5, 9] {
                let mut query = bytes(11, dim);
                let mut data = bytes(12, dim * rows);
                // the largest products of all, where 16-bit sums would saturate
                query[..dim / 2].fill(-127);
                data.iter_mut().step_by(3).for_each(|x| *x = 127);
                let run = |kernels: &Kernels| {
                    let mut out = vec![0; rows];
                    (kernels.dot_i8_rows)(&query, &data, &mut out);
                    out
                };
                assert_eq!(run(kernels), run(Kernels::scalar()), "{name} {rows}x{dim}");
            }
        }
    }
}

#[test]
fn every_four_bit_scan_is_exact() {
    for (name, kernels) in tables() {
        for dim in [64, 128, 384, 512, 576, 1024, 1088] {
            for rows in [0, 1, 3, 8] {
                let mut query = bytes(13, dim);
                let mut values: Vec<u8> =
                    bytes(14, dim * rows).into_iter().map(|x| (x.cast_unsigned()) & 15).collect();
                // the largest sums of all, where 16 bits would overflow
                query[..dim / 2].fill(127);
                values.iter_mut().step_by(3).for_each(|x| *x = 15);
                if rows > 1 {
                    query.fill(-127);
                    values[..dim].fill(15);
                }
                let expected: Vec<i32> = values
                    .chunks_exact(dim)
                    .map(|row| row.iter().zip(&query).map(|(x, q)| i32::from(*x) * i32::from(*q)).sum())
                    .collect();
                let packed: Vec<u8> = values.chunks_exact(dim).flat_map(crate::pack_u4).collect();
                let mut out = vec![0; rows];
                (kernels.dot_u4_rows)(&query, &packed, &mut out);
                assert_eq!(out, expected, "{name} {rows}x{dim}");
            }
        }
    }
}

#[test]
fn half_floats_are_read_exactly() {
    let half = crate::scalar::half_to_f32;
    assert_eq!(
        [0x3c00, 0xc000, 0x3555, 0x0001, 0x03ff, 0x7bff].map(half),
        [1.0, -2.0, 0.333_251_95, 5.960_464_5e-8, 6.097_555e-5, 65504.0]
    );
    assert_eq!((half(0x7c00), half(0x8000).to_bits()), (f32::INFINITY, (-0.0f32).to_bits()));
    assert!(half(0x7e00).is_nan());
}

#[test]
fn gelu_has_the_published_values() {
    let got = [-2.0, -0.5, 0.0, 1.0, 3.0].map(crate::scalar::gelu);
    assert_close("gelu", &got, &[-0.045_500_264, -0.154_268_77, 0.0, 0.841_344_8, 2.995_950_3], 1e-6);
}
