//! Compares every instruction set with the scalar reference, over every shape around the block sizes.
//!
//! On x86-64, instruction sets that this machine does not support are tested with emulated registers of the same tile shape: only
//! their one-line wrappers of intrinsics stay untested. The supported sets are printed.

mod attention;
// This code does not depend on the processor, and takes an emulated one minutes.
#[cfg(any(miri, target_arch = "x86_64"))]
mod emulated;
mod int8;

use crate::{Bf16Kernels, Epilogue, Isa, Kernels, Matmul, Packing, Panels, Pod};

/// Every table to compare with the reference.
fn tables() -> Vec<(String, &'static Kernels)> {
    let real = Kernels::available();
    println!("instruction sets on this machine: {:?}", real.iter().map(|k| k.isa.name()).collect::<Vec<_>>());
    #[cfg_attr(not(any(miri, target_arch = "x86_64")), allow(unused_mut, reason = "nothing is added there"))]
    let mut all: Vec<_> = real.iter().map(|k| (k.isa.name().to_owned(), *k)).collect();
    #[cfg(any(miri, target_arch = "x86_64"))]
    for shape in &emulated::SHAPES {
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

/// The tables without the reference itself, which equals itself.
fn compared() -> Vec<(String, &'static Kernels)> {
    tables().into_iter().filter(|(_, kernels)| kernels.isa != Isa::Scalar).collect()
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
    let tables = compared();
    for rows in sizes((1..=15).chain([28, 29, 57]), &[1, 15]) {
        for depth in sizes([1, 2, 7, 32, 65], &[3]) {
            for columns in sizes([1, 15, 16, 17, 31, 32, 33, 96], &[33]) {
                for epilogue in [Epilogue::Store, Epilogue::Gelu, Epilogue::Add] {
                    if cfg!(miri) && epilogue == Epilogue::Gelu && rows > 1 {
                        continue; // it takes minutes
                    }
                    check_matmul(&tables, (rows, depth, columns), epilogue);
                }
            }
        }
    }
}

fn check_matmul(
    tables: &[(String, &Kernels)],
    shape @ (rows, depth, columns): (usize, usize, usize),
    epilogue: Epilogue,
) {
    let scalar = Kernels::scalar();
    let a = left(rows, depth);
    let want = product(scalar, rows, depth, columns, epilogue);
    let want_bf16 = product_bf16(scalar, &a, shape, epilogue);
    let has_pairs = tables.iter().any(|(_, kernels)| kernels.bf16.is_some());
    let want_pairs = has_pairs.then(|| product_bf16(scalar, &through_bf16(&a), shape, epilogue));
    for (name, kernels) in tables {
        let what = format!("{name} {rows}x{depth}x{columns} {epilogue:?}");
        assert_close(&what, &product(kernels, rows, depth, columns, epilogue), &want, 2e-5);
        let got = product_bf16(kernels, &a, shape, epilogue);
        assert_close(&format!("bf16 {what}"), &got, &want_bf16, 2e-5);
        if let (Some(pairs), Some(want)) = (&kernels.bf16, &want_pairs) {
            let got = product_bf16_pairs(pairs, &a, shape, epilogue);
            assert_close(&format!("pairs {what}"), &got, want, 2e-5);
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

#[test]
fn every_layer_norm_agrees_with_the_reference() {
    for (name, kernels) in compared() {
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
    for (name, kernels) in compared() {
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
    for (name, kernels) in compared() {
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
