//! Compares every instruction set with the scalar reference, over every shape around the block sizes.
//!
//! Instruction sets that this machine does not support are tested with emulated registers of the same tile shape: only their
//! one-line wrappers of intrinsics stay untested. The supported sets are printed.

mod int8;

use crate::lanes::{Bf16Lanes, Bf16Pair, Int8Lanes, Lanes};
use crate::layout::AlignedVec;
use crate::{AttentionShape, Bf16Kernels, Epilogue, Isa, Kernels, Matmul, Packing, Panels, Pod};

/// A register of `W` floats in plain Rust. Its operations are calls: inlined, they take the compiler minutes.
#[derive(Clone, Copy)]
struct Emulated<const W: usize, const ROWS: usize>([f32; W]);

/// As `std::array::from_fn`, in far fewer steps for Miri.
fn from_fn<T: Copy + Default, const W: usize>(lane: impl Fn(usize) -> T) -> [T; W] {
    let (mut lanes, mut i) = ([T::default(); W], 0);
    while i < W {
        lanes[i] = lane(i);
        i += 1;
    }
    lanes
}

impl<const W: usize, const ROWS: usize> Emulated<W, ROWS> {
    #[inline(never)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Emulated(from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl<const W: usize, const R: usize> Lanes for Emulated<W, R> {
    const WIDTH: usize = W;
    const ROWS: usize = R;
    #[inline(never)]
    unsafe fn splat(value: f32) -> Self {
        Emulated([value; W])
    }
    #[inline(never)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller guarantees W floats.
        Emulated(unsafe { std::slice::from_raw_parts(from, W) }.try_into().unwrap())
    }
    #[inline(never)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: the caller guarantees W bf16 values.
        let halves = unsafe { std::slice::from_raw_parts(from, W) };
        Emulated(from_fn(|i| crate::bf16_to_f32(halves[i])))
    }
    #[inline(never)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller guarantees W floats.
        unsafe { std::slice::from_raw_parts_mut(to, W) }.copy_from_slice(&self.0);
    }
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }
    fn min(self, other: Self) -> Self {
        self.zip(other, f32::min)
    }
    fn max(self, other: Self) -> Self {
        self.zip(other, f32::max)
    }
    #[inline(never)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Emulated(from_fn(|i| self.0[i] * factor.0[i] + addend.0[i]))
    }
    #[inline(never)]
    fn round(self) -> Self {
        Emulated(self.0.map(f32::round_ties_even))
    }
    fn times_pow2(self, power: Self) -> Self {
        self.zip(power, |x, power| x * power.exp2())
    }
    #[inline(never)]
    fn sum(self) -> f32 {
        self.0.iter().sum()
    }
    #[inline(never)]
    fn reduce_min(self) -> f32 {
        self.0.iter().copied().fold(f32::INFINITY, f32::min)
    }
    #[inline(never)]
    fn reduce_max(self) -> f32 {
        self.0.iter().copied().fold(f32::NEG_INFINITY, f32::max)
    }
}

/// Four products per sum, as in dot-product instructions; the narrowest register shifts codes by -128 too.
impl<const W: usize, const R: usize> Int8Lanes for Emulated<W, R> {
    type Sums = [i32; W];
    type Weights = [[i8; 4]; W];
    type CodeRegister = [i32; 4];
    const INT8_ROWS: usize = R;
    const UNIT: usize = 4;
    const CODE_BYTES: usize = 1;
    const SHIFTS_CODES: bool = W == 4;

    #[inline(never)]
    unsafe fn zero_sums() -> [i32; W] {
        [0; W]
    }
    #[inline(never)]
    unsafe fn load_weights(from: *const i8) -> [[i8; 4]; W] {
        // SAFETY: the caller guarantees 4 * W bytes.
        unsafe { from.cast::<[[i8; 4]; W]>().read_unaligned() }
    }
    #[inline(never)]
    unsafe fn load_codes(from: *const u8) -> [i32; 4] {
        // SAFETY: the caller guarantees 4 bytes.
        let codes = unsafe { from.cast::<[u8; 4]>().read_unaligned() };
        codes.map(|code| i32::from(code) - if Self::SHIFTS_CODES { 128 } else { 0 })
    }
    #[inline(never)]
    unsafe fn multiply_add(codes: [i32; 4], weights: [[i8; 4]; W], sums: [i32; W]) -> [i32; W] {
        from_fn(|i| {
            let [a, b, c, d] = weights[i].map(i32::from);
            sums[i] + codes[0] * a + codes[1] * b + codes[2] * c + codes[3] * d
        })
    }
    #[inline(never)]
    unsafe fn zero_codes() -> [i32; 4] {
        [-128; 4]
    }
    #[inline(never)]
    unsafe fn subtract(sums: [i32; W], others: [i32; W]) -> [i32; W] {
        from_fn(|i| sums[i] - others[i])
    }
    #[inline(never)]
    unsafe fn to_floats(sums: [i32; W]) -> Self {
        Emulated(sums.map(|sum| sum as f32))
    }
    #[inline(never)]
    fn pair_sums(self, other: Self) -> Self {
        let pair = |lanes: [f32; W], k: usize| lanes[2 * k] + lanes[2 * k + 1];
        Emulated(from_fn(|i| if i < W / 2 { pair(self.0, i) } else { pair(other.0, i - W / 2) }))
    }
    #[inline(never)]
    unsafe fn store_codes(self, to: *mut u8) {
        // SAFETY: the caller guarantees W bytes.
        unsafe { to.cast::<[u8; W]>().write_unaligned(self.0.map(|x| x.round_ties_even() as u8)) }
    }
}

impl<const W: usize, const R: usize> Bf16Lanes for Emulated<W, R> {
    type Pairs = [[u16; 2]; W];

    #[inline(never)]
    unsafe fn splat_pair(from: *const u16) -> [[u16; 2]; W] {
        // SAFETY: the caller guarantees two bf16 values.
        [unsafe { from.cast::<[u16; 2]>().read() }; W]
    }
    #[inline(never)]
    unsafe fn load_pairs(from: *const u16) -> [[u16; 2]; W] {
        // SAFETY: the caller guarantees 2 * W bf16 values.
        unsafe { from.cast::<[[u16; 2]; W]>().read() }
    }
    #[inline(never)]
    unsafe fn store_pairs(pairs: [[u16; 2]; W], to: *mut u16) {
        // SAFETY: the caller guarantees the writable memory.
        unsafe { to.cast::<[[u16; 2]; W]>().write(pairs) }
    }
    #[inline(never)]
    fn pairs(first: Self, second: Self) -> [[u16; 2]; W] {
        from_fn(|i| [first.0[i], second.0[i]].map(crate::f32_to_bf16))
    }
    #[inline(never)]
    unsafe fn store_bf16(self, to: *mut u16) {
        // SAFETY: the caller guarantees the writable memory.
        unsafe { to.cast::<[u16; W]>().write(self.0.map(crate::f32_to_bf16)) }
    }
    #[inline(never)]
    fn add_products(self, a: [[u16; 2]; W], b: [[u16; 2]; W]) -> Self {
        let float = crate::bf16_to_f32;
        let products = |i: usize| (0..2).map(|k| float(a[i][k]) * float(b[i][k])).sum::<f32>();
        Emulated(from_fn(|i| self.0[i] + products(i)))
    }
}

/// A table of the generic algorithms over emulated registers.
const fn emulated<const W: usize, const R: usize, const C: usize>(isa: Isa) -> Kernels {
    // SAFETY of the blocks: emulated registers need no instruction set.
    #[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, given above")]
    Kernels {
        isa,
        packing: Packing { panel: W * C, unit: 1 },
        packing_int8: crate::generic_int8::packing::<Emulated<W, R>, C>(),
        code_bytes: 1,
        matmul: |args| unsafe { crate::generic::matmul::<Emulated<W, R>, f32, C>(args) },
        matmul_bf16: |args| unsafe { crate::generic::matmul::<Emulated<W, R>, u16, C>(args) },
        quantize: |rows, stride, to| unsafe {
            crate::generic_int8::quantize::<Emulated<W, R>>(rows, stride, to)
        },
        matmul_int8: |args| unsafe { crate::generic_int8::matmul::<Emulated<W, R>, C>(args) },
        attention: |shape, qkv, scratch, out| unsafe {
            crate::attention::attention::<Emulated<W, R>, f32, C>(shape, qkv, scratch, out)
        },
        bf16: Some(Bf16Kernels {
            packing: Packing { panel: W * C, unit: 2 },
            round: |rows, stride, width, to, to_stride| unsafe {
                crate::generic::round::<Emulated<W, R>>(rows, stride, width, to, to_stride)
            },
            matmul: |args| unsafe { crate::generic::matmul::<Emulated<W, R>, Bf16Pair, C>(args) },
            attention: |shape, qkv, scratch, out| unsafe {
                crate::attention::attention::<Emulated<W, R>, Bf16Pair, C>(shape, qkv, scratch, out)
            },
        }),
        layer_norm: |rows, stride, gamma, beta, epsilon| unsafe {
            crate::generic::layer_norm::<Emulated<W, R>>(rows, stride, gamma, beta, epsilon)
        },
        dot: |a, b| unsafe { crate::generic::dot::<Emulated<W, R>>(a, b) },
        dot_f16: |a, b| (Kernels::scalar().dot_f16)(a, b),
        dot_i8_rows: |query, rows, out| (Kernels::scalar().dot_i8_rows)(query, rows, out),
        scan_pq4: |block, scores| (Kernels::scalar().scan_pq4)(block, scores),
    }
}

// narrower under Miri and on emulated processors, where wide registers take minutes
static AVX512_SHAPE: Kernels = if cfg!(any(miri, not(target_arch = "x86_64"))) {
    emulated::<8, 5, 2>(Isa::Avx512Bf16)
} else {
    emulated::<16, 14, 2>(Isa::Avx512Bf16)
};
static NEON_SHAPE: Kernels = emulated::<4, 6, 4>(Isa::Neon);
static NEON_DOT_SHAPE: Kernels = emulated::<4, 4, 4>(Isa::NeonDot);

/// Every table to compare with the reference.
fn tables() -> Vec<(String, &'static Kernels)> {
    let real = Kernels::available();
    println!("instruction sets on this machine: {:?}", real.iter().map(|k| k.isa.name()).collect::<Vec<_>>());
    let mut all: Vec<_> = real.iter().map(|k| (k.isa.name().to_owned(), *k)).collect();
    for shape in [&AVX512_SHAPE, &NEON_SHAPE, &NEON_DOT_SHAPE] {
        if real.iter().all(|k| k.isa != shape.isa) {
            println!(
                "{} is not supported here: its tile shape runs with emulated registers",
                shape.isa.name()
            );
            all.push((format!("{} (emulated)", shape.isa.name()), shape));
        }
    }
    all
}

#[cfg(target_arch = "x86_64")]
#[test]
fn floats_are_used_where_products_of_bf16_values_are_slower() {
    let found = Kernels::available();
    let place = |isa| found.iter().position(|kernels| kernels.isa == isa);
    let (Some(floats), Some(pairs)) = (place(Isa::Avx512), place(Isa::Avx512Bf16)) else { return };
    let vendor = std::fs::read_to_string("/proc/cpuinfo").unwrap();
    assert_eq!(floats > pairs, vendor.contains("GenuineIntel"));
    assert_eq!(floats.max(pairs), found.len() - 1);
}

#[test]
fn weir_isa_selects_the_table() {
    #[allow(clippy::disallowed_methods, reason = "the tests are started with this variable")]
    let named = std::env::var("WEIR_ISA").ok().filter(|name| !name.is_empty());
    let best = tables().into_iter().rfind(|(name, _)| !name.ends_with("(emulated)")).unwrap().0;
    assert_eq!(Kernels::current().isa.name(), named.unwrap_or(best));
}

/// The sizes to test; under Miri, which is a thousand times slower, only `few`.
fn sizes<T: Clone>(all: impl IntoIterator<Item = T>, few: &[T]) -> Vec<T> {
    if cfg!(miri) { few.to_vec() } else { all.into_iter().collect() }
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
    let (a, b) = (left(rows, depth), numbers(2, columns * depth));
    product_of(kernels.matmul, kernels.packing, (&a, depth + 3), &b, (rows, depth, columns), epilogue)
}

fn product_bf16(
    kernels: &Kernels,
    a: &[f32],
    (rows, depth, columns): (usize, usize, usize),
    epilogue: Epilogue,
) -> Vec<f32> {
    let b = to_bf16(&numbers(2, columns * depth));
    product_of(kernels.matmul_bf16, kernels.packing, (a, depth + 3), &b, (rows, depth, columns), epilogue)
}

fn product_bf16_pairs(
    pairs: &Bf16Kernels,
    a: &[f32],
    (rows, depth, columns): (usize, usize, usize),
    epilogue: Epilogue,
) -> Vec<f32> {
    let stride = depth.next_multiple_of(2) + 2;
    let mut halves = vec![0x7fc0; rows * stride];
    (pairs.round)(a, depth + 3, depth, &mut halves, stride);
    for (row, halves) in a.chunks(depth + 3).zip(halves.chunks(stride)) {
        assert_eq!(halves[..depth], to_bf16(&row[..depth]));
        assert!(halves[depth..].iter().all(|filling| *filling == 0));
    }
    let b = to_bf16(&numbers(2, columns * depth));
    product_of(pairs.matmul, pairs.packing, (&halves, stride), &b, (rows, depth, columns), epilogue)
}

/// Rows of `depth` numbers, every `depth + 3`.
fn left(rows: usize, depth: usize) -> Vec<f32> {
    numbers(1, rows * (depth + 3))
}

fn to_bf16(floats: &[f32]) -> Vec<u16> {
    floats.iter().map(|x| crate::f32_to_bf16(*x)).collect()
}

fn through_bf16(floats: &[f32]) -> Vec<f32> {
    to_bf16(floats).into_iter().map(crate::bf16_to_f32).collect()
}

fn product_of<T: Pod, L>(
    matmul: fn(Matmul<'_, T, L>),
    packing: Packing,
    (a, a_stride): (&[L], usize),
    weight: &[T],
    (rows, depth, columns): (usize, usize, usize),
    epilogue: Epilogue,
) -> Vec<f32> {
    let data = packing.pack(weight, columns, depth);
    let b = Panels { depth, columns, packing, data: &data };
    let out_stride = b.padded_columns() + 5;
    let mut bias = numbers(3, columns);
    bias.resize(b.padded_columns(), 0.0);
    let mut out = vec![0.0; rows * out_stride];
    let start = numbers(4, rows * columns);
    for row in 0..rows {
        out[row * out_stride..][..columns].copy_from_slice(&start[row * columns..][..columns]);
    }
    matmul(Matmul { rows, a, a_stride, b, bias: &bias, epilogue, out: &mut out, out_stride });
    (0..rows).flat_map(|row| out[row * out_stride..][..columns].to_vec()).collect()
}

#[test]
fn every_matmul_agrees_with_the_reference_around_all_block_sizes() {
    for (name, kernels) in tables() {
        for rows in sizes((1..=15).chain([28, 29, 57]), &[1, 15]) {
            for depth in sizes([1, 2, 7, 32, 65], &[3]) {
                for columns in sizes([1, 15, 16, 17, 31, 32, 33, 96], &[33]) {
                    for epilogue in [Epilogue::Store, Epilogue::Gelu, Epilogue::Add] {
                        if cfg!(miri) && epilogue == Epilogue::Gelu && rows > 1 {
                            continue; // it takes minutes
                        }
                        let what = format!("{name} {rows}x{depth}x{columns} {epilogue:?}");
                        let got = product(kernels, rows, depth, columns, epilogue);
                        let want = product(Kernels::scalar(), rows, depth, columns, epilogue);
                        assert_close(&what, &got, &want, 2e-5);
                        let (a, shape) = (left(rows, depth), (rows, depth, columns));
                        let got = product_bf16(kernels, &a, shape, epilogue);
                        let want = product_bf16(Kernels::scalar(), &a, shape, epilogue);
                        assert_close(&format!("bf16 {what}"), &got, &want, 2e-5);
                        if let Some(pairs) = &kernels.bf16 {
                            let got = product_bf16_pairs(pairs, &a, shape, epilogue);
                            let want = product_bf16(Kernels::scalar(), &through_bf16(&a), shape, epilogue);
                            assert_close(&format!("pairs {what}"), &got, &want, 2e-5);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_of_a_product_does_not_depend_on_other_rows() {
    const DEPTH: usize = if cfg!(miri) { 2 } else { 64 };
    const ROWS: usize = if cfg!(miri) { 15 } else { 29 };
    const EPILOGUE: Epilogue = if cfg!(miri) { Epilogue::Store } else { Epilogue::Gelu };
    for (name, kernels) in tables() {
        let all = product(kernels, ROWS, DEPTH, 48, EPILOGUE);
        for rows in sizes(1..ROWS, &[4]) {
            let some = product(kernels, rows, DEPTH, 48, EPILOGUE);
            assert!(some.iter().zip(&all).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}: {rows} rows");
        }
        let Some(pairs) = &kernels.bf16 else { continue };
        let product = |rows| product_bf16_pairs(pairs, &left(rows, DEPTH), (rows, DEPTH, 48), EPILOGUE);
        let all = product(ROWS);
        for rows in sizes(1..ROWS, &[4]) {
            let some = product(rows);
            assert!(some.iter().zip(&all).all(|(a, b)| a.to_bits() == b.to_bits()), "{name}: {rows} rows");
        }
    }
}

type Attention = fn(&AttentionShape, &[f32], &mut [f32], &mut [f32]);

fn attend(attention: Attention, qkv: &[f32], tokens: usize, heads: usize, head_dim: usize) -> Vec<f32> {
    let width = heads * head_dim;
    let shape = AttentionShape { tokens, heads, head_dim, qkv_stride: 3 * width + 7, out_stride: width + 1 };
    let mut scratch = AlignedVec::zeroed(shape.scratch_len());
    scratch.fill(f32::NAN); // a read before a write shows in the result
    let mut out = vec![0.0; tokens * shape.out_stride];
    attention(&shape, &qkv[..tokens * shape.qkv_stride], &mut scratch, &mut out);
    assert!(out.iter().skip(width).step_by(shape.out_stride).all(|x| *x == 0.0), "written between the rows");
    (0..tokens).flat_map(|row| out[row * shape.out_stride..][..width].to_vec()).collect()
}

#[test]
fn every_attention_agrees_with_the_reference() {
    for (name, kernels) in tables() {
        for tokens in sizes((1..=18).chain([31, 32, 33, 47, 48, 49, 97, 130]), &[1, 17]) {
            for (heads, head_dim) in sizes([(1, 8), (2, 32), (3, 16), (1, 64), (2, 20), (1, 7)], &[(2, 5)]) {
                let qkv: Vec<f32> =
                    numbers(5, tokens * (3 * heads * head_dim + 7)).into_iter().map(|x| 3.0 * x).collect();
                let of = |attention, qkv: &[f32]| attend(attention, qkv, tokens, heads, head_dim);
                let reference = Kernels::scalar().attention;
                let what = format!("{name} {tokens} tokens, {heads}x{head_dim}");
                assert_close(&what, &of(kernels.attention, &qkv), &of(reference, &qkv), 5e-5);
                let Some(pairs) = &kernels.bf16 else { continue };
                // the weights are rounded as well
                let want = of(reference, &through_bf16(&qkv));
                assert_close(&format!("pairs {what}"), &of(pairs.attention, &qkv), &want, 4e-3);
            }
        }
    }
}

#[test]
fn every_layer_norm_agrees_with_the_reference() {
    for (name, kernels) in tables() {
        for width in sizes((1..=33).chain([384, 387]), &[1, 7, 16, 33]) {
            let (gamma, beta) = (numbers(6, width), numbers(7, width));
            let stride = width + 2;
            for count in sizes([1, 3, 4, 5, 8, 11], &[1, 5]) {
                let run = |kernels: &Kernels| {
                    let mut rows = numbers(8, count * stride - 2);
                    (kernels.layer_norm)(&mut rows, stride, &gamma, &beta, 1e-5);
                    rows
                };
                let what = format!("{name} {count} of {width}");
                assert_close(&what, &run(kernels), &run(Kernels::scalar()), 2e-4);
            }
        }
    }
}

#[test]
fn every_dot_product_agrees_with_the_reference_at_every_length_and_offset() {
    for (name, kernels) in tables() {
        for len in sizes((0..=70).chain([384, 1000]), &[0, 1, 31, 70]) {
            for offset in 0..3 {
                let (a, b) = (numbers(9, len + offset), numbers(10, len + offset));
                let (a, b) = (&a[offset..], &b[offset..]);
                let want = (Kernels::scalar().dot)(a, b);
                assert_close(&format!("{name} dot {len}+{offset}"), &[(kernels.dot)(a, b)], &[want], 1e-4);
                // covers all finite half-precision floats
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
        for dim in sizes((1..=70).chain([128, 384, 385]), &[1, 31, 64, 70]) {
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
fn every_pq4_scan_is_exact() {
    for (name, kernels) in tables() {
        for groups in sizes([8, 16, 64, 136, 1040], &[8, 24]) {
            let unsigned = |seed| bytes(seed, 16 * groups).into_iter().map(i8::cast_unsigned);
            let limit = crate::pq4::ENTRY_MAX;
            let mut entries: Vec<u8> = unsigned(13).map(|x| x & limit).collect();
            let codes: Vec<u8> = unsigned(14).collect();
            let mut factors = numbers(15, crate::PQ4_BLOCK_ROWS);
            factors[31] = f32::NAN;
            for extreme in [false, true] {
                if extreme {
                    entries.fill(limit);
                }
                let run = |kernels: &Kernels| {
                    let mut scores = [7.0; crate::PQ4_BLOCK_ROWS];
                    let block = crate::Pq4Block {
                        tables: &entries,
                        codes: &codes,
                        factors: (&*factors).try_into().unwrap(),
                        step: 0.37,
                        offset: -3.0,
                        threshold: 1.5,
                    };
                    let above = (kernels.scan_pq4)(&block, &mut scores);
                    let expected = (0..32).filter(|row| scores[*row] > 1.5).map(|row| 1 << row).sum::<u32>();
                    assert_eq!(above, expected, "{name} {groups} groups");
                    scores.map(f32::to_bits)[..31].to_vec()
                };
                assert_eq!(run(kernels), run(Kernels::scalar()), "{name} {groups} groups");
            }
        }
    }
}

#[test]
fn half_precision_floats_are_read_exactly() {
    let half = crate::scalar::half_to_f32;
    assert_eq!(
        [0x3c00, 0xc000, 0x3555, 0x0001, 0x03ff, 0x7bff].map(half),
        [1.0, -2.0, 0.333_251_95, 5.960_464_5e-8, 6.097_555e-5, 65504.0]
    );
    assert_eq!((half(0x7c00), half(0x8000).to_bits()), (f32::INFINITY, (-0.0f32).to_bits()));
    assert!(half(0x7e00).is_nan());
}

#[test]
fn bf16_values_are_rounded_to_the_nearest_with_ties_to_even() {
    let round = |x: f32| crate::bf16_to_f32(crate::f32_to_bf16(x));
    assert_eq!([1.0, -2.5, 0.0, f32::INFINITY].map(round), [1.0, -2.5, 0.0, f32::INFINITY]);
    assert_eq!([1.003_906_2, 1.011_718_8, 1.004].map(round), [1.0, 1.015_625, 1.007_812_5]);
    assert!(round(f32::NAN).is_nan());
}

#[test]
fn gelu_has_the_published_values() {
    let got = [-2.0, -0.5, 0.0, 1.0, 3.0].map(crate::scalar::gelu);
    assert_close("gelu", &got, &[-0.045_500_264, -0.154_268_77, 0.0, 0.841_344_8, 2.995_950_3], 1e-6);
    for i in sizes(-800..=800, &[-800, -399, 1, 400]) {
        let x = i as f32 / 100.0;
        let (got, want) = (crate::scalar::gelu_polynomial(x), crate::scalar::gelu(x));
        assert!((got - want).abs() < 3e-4, "at {x} got {got}, want {want}");
    }
}
