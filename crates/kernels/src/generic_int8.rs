//! The int8 algorithms, once, over [`Int8Lanes`]: the same tiles and the same order as the float product of `generic.rs`.

use crate::int8::{Codes, MatmulInt8, PAIR_MAX, RowFactor, RowRange};
use crate::lanes::{Int8Lanes, gelu_polynomial};
use crate::layout::{Epilogue, Packing};

/// How a table with `C` registers of `V` in a row of a panel packs int8 matrices.
pub(crate) const fn packing<V: Int8Lanes, const C: usize>() -> Packing {
    Packing { panel: V::WIDTH * C, unit: V::UNIT }
}

/// See [`crate::Kernels::quantise`].
#[inline(always)]
pub(crate) unsafe fn quantise<V: Int8Lanes>(rows: &[f32], stride: usize, to: &mut Codes) {
    let (width, row_bytes) = (to.width(), to.row_bytes());
    let (bytes, factors) = to.check(rows, stride, V::CODE_BYTES);
    if width == 0 {
        return;
    }
    let rows = rows.chunks(stride).map(|row| &row[..width]);
    for ((row, codes), factor) in rows.zip(bytes.chunks_exact_mut(row_bytes)).zip(factors) {
        // SAFETY: a row of codes has room for `width` codes, rounded up to whole registers.
        *factor = unsafe { quantise_row::<V>(row, codes) };
    }
}

#[inline(always)]
unsafe fn quantise_row<V: Int8Lanes>(row: &[f32], codes: &mut [u8]) -> RowFactor {
    let whole = row.len() - row.len() % V::WIDTH;
    let tail = &row[whole..];
    // SAFETY: loads and stores stay below `whole` floats and codes; the last register is filled up from the tail, and
    // rows of codes are whole cache lines, so that it fits too.
    unsafe {
        let (mut low, mut high) = (V::splat(f32::INFINITY), V::splat(f32::NEG_INFINITY));
        let (mut pair_low, mut pair_high) = (low, high);
        for i in (0..whole).step_by(V::WIDTH) {
            let x = V::load(row.as_ptr().add(i));
            (low, high) = (low.min(x), high.max(x));
            let pair = x.add(x.swap_pairs());
            (pair_low, pair_high) = (pair_low.min(pair), pair_high.max(pair));
        }
        let range = RowRange {
            min: low.smallest(),
            max: high.largest(),
            pair_min: pair_low.smallest(),
            pair_max: pair_high.largest(),
        };
        let factor = range.and(RowRange::of(tail)).factor();
        let (inverse, base) = (V::splat(factor.inverse()), V::splat(factor.base));
        let code_of = |x: V| {
            let code = x.sub(base).mul(inverse).round();
            code.min(V::splat(PAIR_MAX).sub(code.swap_pairs())) // what rounding made of a pair at the limit
        };
        for i in (0..whole).step_by(V::WIDTH) {
            code_of(V::load(row.as_ptr().add(i))).store_codes(codes.as_mut_ptr().add(i * V::CODE_BYTES));
        }
        if !tail.is_empty() {
            let mut last = [factor.base; 16];
            last[..tail.len()].copy_from_slice(tail);
            code_of(V::load(last.as_ptr())).store_codes(codes.as_mut_ptr().add(whole * V::CODE_BYTES));
        }
        factor
    }
}

/// See [`crate::Kernels::matmul_int8`].
#[inline(always)]
pub(crate) unsafe fn matmul<V: Int8Lanes, const C: usize>(args: MatmulInt8<'_>) {
    let packing = packing::<V, C>();
    args.check(packing, V::CODE_BYTES);
    let MatmulInt8 { a, b, bias, epilogue, out, out_stride } = args;
    let units = b.panels.depth.div_ceil(V::UNIT);
    for p in 0..b.panels.padded_columns() / packing.panel {
        let first = p * packing.panel;
        // SAFETY: `check` asserted that all rows, panels and factors lie inside the slices.
        unsafe {
            let side = Side {
                panel: b.panels.data.as_ptr().add(first * units * V::UNIT),
                units,
                scale: b.scale.as_ptr().add(first),
                sum: b.sum.as_ptr().add(first),
                bias: bias.as_ptr().add(first),
            };
            column::<V, C>(a, &side, epilogue, out.as_mut_ptr().add(first), out_stride);
        }
    }
}

/// The right-hand side of one column of tiles.
struct Side {
    panel: *const i8,
    units: usize,
    scale: *const f32,
    sum: *const f32,
    bias: *const f32,
}

/// All rows of one panel, in blocks of at most `V::INT8_ROWS` rows of nearly equal height.
#[inline(always)]
unsafe fn column<V: Int8Lanes, const C: usize>(
    a: &Codes,
    side: &Side,
    epilogue: Epilogue,
    out: *mut f32,
    out_stride: usize,
) {
    let rows = a.rows();
    let blocks = rows.div_ceil(V::INT8_ROWS);
    let mut start = 0;
    for block in 0..blocks {
        let end = rows * (block + 1) / blocks;
        // SAFETY: rows start..end are among the rows of a and out.
        unsafe {
            let codes = a.bytes().as_ptr().add(start * a.row_bytes());
            let factors = a.factors().as_ptr().add(start);
            let out = out.add(start * out_stride);
            macro_rules! by_height {
                ($($height:literal)*) => {
                    match end - start {
                        $($height if $height <= V::INT8_ROWS => {
                            let factors = &*factors.cast::<[RowFactor; $height]>();
                            tile::<V, $height, C>((codes, a.row_bytes()), factors, side, epilogue, out, out_stride)
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
unsafe fn tile<V: Int8Lanes, const R: usize, const C: usize>(
    (codes, row_bytes): (*const u8, usize),
    factors: &[RowFactor; R],
    side: &Side,
    epilogue: Epilogue,
    out: *mut f32,
    out_stride: usize,
) {
    // SAFETY: the caller vouches for R rows of codes and out, and for a whole panel with its factors.
    unsafe {
        let mut sums = [[V::no_sum(); C]; R];
        for unit in 0..side.units {
            let at = side.panel.add(unit * C * V::WIDTH * V::UNIT);
            let mut weights = [V::load_weights(at); C];
            for (c, weight) in weights.iter_mut().enumerate().skip(1) {
                *weight = V::load_weights(at.add(c * V::WIDTH * V::UNIT));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = V::load_codes(codes.add(r * row_bytes + unit * V::UNIT * V::CODE_BYTES));
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = V::multiply_add(x, weight, *sum);
                }
            }
        }
        for (r, (sums, factor)) in sums.into_iter().zip(factors).enumerate() {
            let (row_scale, row_base) = (V::splat(factor.scale), V::splat(factor.base));
            for (c, sum) in sums.into_iter().enumerate() {
                let column = c * V::WIDTH;
                let scale = row_scale.mul(V::load(side.scale.add(column)));
                let offset = row_base.mul_add(V::load(side.sum.add(column)), V::load(side.bias.add(column)));
                let value = V::to_floats(sum).mul_add(scale, offset);
                let target = out.add(r * out_stride + column);
                let value = match epilogue {
                    Epilogue::Store => value,
                    Epilogue::Gelu => gelu_polynomial(value),
                    Epilogue::Add => value.add(V::load(target)),
                };
                value.store(target);
            }
        }
    }
}
