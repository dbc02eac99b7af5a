//! Compares quantization and the int8 product of every instruction set with the scalar reference.

use super::{assert_close, compared, numbers, sizes, tables};
use crate::{Epilogue, Group, Int8Matrix, Kernels, MatmulInt8, Panels, QuantizedRows, QuantizedWeight};

/// The codes of all rows, without padding.
fn codes_of(kernels: &Kernels, a: &QuantizedRows) -> Vec<u16> {
    let code = |row: usize, k: usize| {
        let at = &a.bytes()[row * a.row_bytes() + k * kernels.code_bytes..];
        if kernels.code_bytes == 1 { u16::from(at[0]) } else { u16::from_le_bytes([at[0], at[1]]) }
    };
    (0..a.rows()).flat_map(|row| (0..a.width()).map(move |k| (row, k))).map(|(row, k)| code(row, k)).collect()
}

/// The codes and the product.
fn product_int8(
    kernels: &Kernels,
    rows: usize,
    depth: usize,
    columns: usize,
    epilogue: Epilogue,
    group: Group,
) -> (Vec<u16>, Vec<f32>) {
    let weight = QuantizedWeight::new(&numbers(22, columns * depth), depth);
    let packing = kernels.packing_int8;
    let data = packing.pack(&weight.codes, columns, depth);
    let padded = |values: &[f32]| {
        let mut values = values.to_vec();
        values.resize(packing.padded_columns(columns), 0.0);
        values
    };
    let (scale, sum, bias) = (padded(&weight.scale), padded(&weight.sum), padded(&numbers(23, columns)));
    let b = Int8Matrix { panels: Panels { depth, columns, packing, data: &data }, scale: &scale, sum: &sum };
    let (stride, out_stride) = (depth + 3, bias.len() + 5);
    let mut a = QuantizedRows::new();
    a.resize(2 * rows, depth + 9, Group::Pair, 1); // memory with other contents, larger than needed
    a.resize(rows, depth, group, kernels.code_bytes);
    let more = rows * stride + depth / 2; // shared buffers are longer, and may end with a part of a row
    (kernels.quantize)(&numbers(21, more), stride, &mut a);
    let codes = codes_of(kernels, &a);
    let mut out = vec![0.0; rows * out_stride];
    let start = numbers(24, rows * columns);
    for row in 0..rows {
        out[row * out_stride..][..columns].copy_from_slice(&start[row * columns..][..columns]);
    }
    (kernels.matmul_int8)(MatmulInt8 { a: &a, b, bias: &bias, epilogue, out: &mut out, out_stride });
    (codes, (0..rows).flat_map(|row| out[row * out_stride..][..columns].to_vec()).collect())
}

#[test]
fn every_int8_product_equals_the_reference_bit_for_bit() {
    let tables = compared();
    for rows in sizes((1..=15).chain([28, 29, 57]), &[1, 5]) {
        for depth in sizes([1, 2, 3, 7, 8, 31, 32, 65, 384], &[7]) {
            for columns in sizes([1, 15, 16, 17, 31, 32, 33, 96], &[17]) {
                for (epilogue, group) in [
                    (Epilogue::Store, Group::Pair),
                    (Epilogue::Gelu, Group::Pair),
                    (Epilogue::Add, Group::Pair),
                    (Epilogue::Store, Group::Quad),
                ] {
                    if cfg!(miri) && epilogue == Epilogue::Gelu && rows > 1 {
                        continue; // it is slow
                    }
                    // an epilogue gets finished sums, whatever the depth
                    if depth > 65 && epilogue != Epilogue::Store {
                        continue;
                    }
                    check_product_int8(&tables, (rows, depth, columns), epilogue, group);
                }
            }
        }
    }
}

fn check_product_int8(
    tables: &[(String, &Kernels)],
    (rows, depth, columns): (usize, usize, usize),
    epilogue: Epilogue,
    group: Group,
) {
    let of = |kernels| product_int8(kernels, rows, depth, columns, epilogue, group);
    let (want_codes, want) = of(Kernels::scalar());
    for (name, kernels) in tables {
        let fused = !name.ends_with("(emulated)"); // emulated registers round a multiply-add twice
        let (codes, got) = of(kernels);
        let what = format!("{name} {rows}x{depth}x{columns} {epilogue:?} {group:?}");
        assert_eq!(codes, want_codes, "{what}");
        let tolerance = match epilogue {
            _ if !fused => 1e-5,
            Epilogue::Gelu => 1e-6,
            Epilogue::Store | Epilogue::Add => 0.0,
        };
        assert_close(&what, &got, &want, tolerance);
    }
}

#[test]
fn an_int8_product_is_near_the_float_product() {
    let (depth, columns) = if cfg!(miri) { (32, 5) } else { (384, 48) };
    for (name, kernels) in tables() {
        let (_, got) = product_int8(kernels, 5, depth, columns, Epilogue::Store, Group::Pair);
        let (a, b, bias) = (numbers(21, 5 * (depth + 3)), numbers(22, columns * depth), numbers(23, columns));
        for (i, got) in got.into_iter().enumerate() {
            let (row, column) = (i / columns, i % columns);
            let (x, w) = (&a[row * (depth + 3)..][..depth], &b[column * depth..][..depth]);
            let want = (Kernels::scalar().dot)(x, w) + bias[column];
            assert!((got - want).abs() < 0.15, "{name}: at {row}, {column} got {got}, want {want}");
        }
    }
}

/// The sums of the codes of each group.
fn group_sums(codes: &[u16], group: Group) -> Vec<u16> {
    let pairs: Vec<u16> = codes.chunks(2).map(|pair| pair.iter().sum()).collect();
    match group {
        Group::Pair => pairs,
        Group::Quad => (0..pairs.len() / 2).map(|k| pairs[k] + pairs[k + pairs.len() / 2]).collect(),
    }
}

#[test]
fn groups_of_codes_keep_their_limit_and_stay_near_the_values() {
    let shapes: [fn(usize, f32) -> f32; 7] = [
        |_, x| x,
        |k, x| if k == 5 { -9.0 } else { x }, // one value far below: all others are high
        |k, x| if k == 5 { 9.0 } else { x },  // and far above
        |k, x| if k < 2 { 9.0 - 18.0 * k as f32 } else { x }, // extreme on both sides, in one pair
        |k, x| if k < 4 { 9.0 - 18.0 * (k / 2) as f32 } else { x }, // in two
        |_, x| 1e4 + x / 64.0,                // little spread far from zero
        |_, x| x.signum(),
    ];
    let widths = sizes((2..=37).chain([64, 384]), &[2, 17, 32]);
    let widths = || widths.iter().flat_map(|&width| [(width, Group::Pair), (width, Group::Quad)]);
    for (name, kernels) in tables() {
        for ((width, group), (shape, value)) in
            widths().flat_map(|width| shapes.iter().enumerate().map(move |shape| (width, shape)))
        {
            let row: Vec<f32> =
                numbers(31, width).into_iter().enumerate().map(|(k, x)| value(k, x)).collect();
            let mut a = QuantizedRows::new();
            a.resize(1, width, group, kernels.code_bytes);
            (kernels.quantize)(&row, width, &mut a);
            let (codes, params) = (codes_of(kernels, &a), a.params()[0]);
            let what = format!("{name} {width} shape {shape} {group:?}: {codes:?}");
            assert!(codes.iter().all(|code| *code <= 255), "{what}");
            assert!(group_sums(&codes, a.group()).iter().all(|sum| *sum <= 258), "{what}");
            // in the worst case all values of a group are extreme
            let steps = if a.group() == Group::Quad { 64.0 } else { 128.5 };
            let spread = row.iter().fold(0.0f32, |max, x| max.max((x - params.base).abs()));
            let inexact = 4.0 * f32::EPSILON * params.base.abs();
            assert!(params.scale.abs() <= (spread + inexact) / steps, "{what}");
            for (x, code) in row.iter().zip(&codes) {
                let error = (params.base + params.scale * f32::from(*code) - x).abs();
                assert!(error <= 1.51 * params.scale.abs() + 1e-6 * x.abs(), "{what}: {x} is {code}");
            }
        }
    }
}

#[test]
fn the_largest_sums_of_products_do_not_saturate() {
    let pairs = [[255.0f32, 3.0], [3.0, 255.0], [129.0, 129.0], [0.0, 0.0]];
    let halves = [[[255.0f32, 2.0], [64.0, 65.0], [0.0, 0.0]], [[0.0, 0.0], [63.0, 65.0], [129.0, 128.0]]];
    let (depth, columns) = (96, if cfg!(miri) { 3 } else { 33 });
    let of_pairs: Vec<f32> = (0..depth).map(|k| pairs[k / 2 % 4][k % 2]).collect();
    let of_quads: Vec<f32> = (0..depth).map(|k| halves[k / 48][k / 2 % 3][k % 2]).collect();
    let rows = [(Group::Pair, of_pairs), (Group::Quad, of_quads)];
    for ((name, kernels), (group, row)) in
        tables().into_iter().flat_map(|table| rows.iter().map(move |row| (table.clone(), row)))
    {
        let sign = |column: usize, k: usize| match column {
            0 => 1.0,
            1 => -1.0,
            _ if (k / 2 + column).is_multiple_of(3) => -1.0,
            _ => 1.0,
        };
        let weight: Vec<f32> =
            (0..columns).flat_map(|column| (0..depth).map(move |k| sign(column, k))).collect();
        let weight = QuantizedWeight::new(&weight, depth);
        assert!(weight.codes.iter().all(|code| code.abs() == 127));
        let packing = kernels.packing_int8;
        let data = packing.pack(&weight.codes, columns, depth);
        let padded = packing.padded_columns(columns);
        let (scale, zero) = (vec![1.0; padded], vec![0.0; padded]);
        let panels = Panels { depth, columns, packing, data: &data };
        let mut a = QuantizedRows::new();
        a.resize(1, depth, *group, kernels.code_bytes);
        (kernels.quantize)(row, depth, &mut a);
        assert!(codes_of(kernels, &a).iter().zip(row).all(|(code, x)| f32::from(*code) == *x), "{name}");
        let mut out = vec![0.0; padded];
        (kernels.matmul_int8)(MatmulInt8 {
            a: &a,
            b: Int8Matrix { panels, scale: &scale, sum: &zero },
            bias: &zero,
            epilogue: Epilogue::Store,
            out: &mut out,
            out_stride: padded,
        });
        for (column, got) in out.iter().take(columns).enumerate() {
            let sum: f32 = row.iter().enumerate().map(|(k, x)| 127.0 * x * sign(column, k)).sum();
            assert_eq!(*got, a.params()[0].scale * sum, "{name} {group:?} column {column}");
        }
    }
}

#[test]
fn rows_without_spread_and_rows_at_the_limits_are_quantised() {
    for (name, kernels) in tables() {
        for row in [[0.0f32; 19], [-3.5; 19], [1e30; 19], [f32::MIN_POSITIVE; 19]] {
            let mut a = QuantizedRows::new();
            a.resize(1, row.len(), Group::Pair, kernels.code_bytes);
            (kernels.quantize)(&row, row.len(), &mut a);
            let params = a.params()[0];
            assert_eq!((params.scale, params.base), (0.0, row[0]), "{name}");
        }
    }
}
