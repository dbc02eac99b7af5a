//! The int8 algorithms, generic over [`Int8Lanes`], with the tiling and the order of the float product in `generic.rs`.

use crate::generic::{TILE_ROWS_MAX, unrolled_rows};
use crate::int8::{Group, MatmulInt8, QUAD_WIDTH, QuantParams, QuantizedRows, RowRange};
use crate::lanes::{Int8Lanes, Lanes, gelu_polynomial};
use crate::layout::{CACHE_LINE, Epilogue, Packing};
use crate::prefetch::prefetch_next_panel;
use crate::size::span;

/// The int8 packing of a table with `C` registers of `V` in a row of a panel.
pub(crate) const fn packing<V: Int8Lanes, const C: usize>() -> Packing {
    Packing { panel: V::WIDTH * C, unit: V::UNIT }
}

/// Floats of the widest register.
const WIDTH_MAX: usize = 16;

/// Asserts that registers and units divide quantized rows (whole cache lines) and halves of rows with quads (see [`QUAD_WIDTH`]).
const fn check_registers<V: Int8Lanes>() {
    assert!(
        V::WIDTH <= WIDTH_MAX && CACHE_LINE.is_multiple_of(V::WIDTH * V::CODE_BYTES),
        "a line is whole registers"
    );
    assert!(CACHE_LINE.is_multiple_of(V::UNIT * V::CODE_BYTES), "a line is whole units");
    assert!(
        QUAD_WIDTH.is_multiple_of(2 * V::WIDTH) && QUAD_WIDTH.is_multiple_of(2 * V::UNIT),
        "a half of a quad row is whole registers and units"
    );
    assert!(V::INT8_ROWS <= TILE_ROWS_MAX && V::QUAD_ROWS <= V::INT8_ROWS, "every height has a tile");
}

/// See [`crate::Kernels::quantize`].
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn quantize<V: Int8Lanes>(rows: &[f32], stride: usize, to: &mut QuantizedRows) {
    const { check_registers::<V>() };
    let (width, row_bytes, group) = (to.width(), to.row_bytes(), to.group());
    let count = to.rows();
    let (bytes, params) = to.check(rows, stride, V::CODE_BYTES);
    if width == 0 {
        return;
    }
    let rows = &rows[..span(count, stride, width)]; // the buffer may be longer, and end with a part of a row
    /// Rows per step, so that the range of one row is computed while the codes of another are written.
    const BLOCK: usize = 8;
    let blocks = rows
        .chunks(BLOCK.saturating_mul(stride))
        .zip(bytes.chunks_mut(BLOCK * row_bytes))
        .zip(params.chunks_mut(BLOCK));
    for ((rows, codes), params) in blocks {
        let rows = rows.chunks(stride).map(|row| row[..width].split_at(width - width % V::WIDTH));
        for ((values, tail), params) in rows.clone().zip(&mut *params) {
            // SAFETY: the caller guarantees the instruction set; `values` are whole registers, and in quads both their halves.
            let range = unsafe {
                match group {
                    Group::Pair => range_of_pairs::<V>(values).union(RowRange::of(tail, group)),
                    Group::Quad => range_of_quads::<V>(values), // no tail, see `QUAD_WIDTH`
                }
            };
            *params = range.quant_params(group);
        }
        for (((values, tail), codes), params) in rows.zip(codes.chunks_exact_mut(row_bytes)).zip(params) {
            // SAFETY: guaranteed by the caller; loads stay below the floats of `values`, whole registers, and a copy of the tail. Rows of
            // codes are whole cache lines, and so include the last register, with the tail.
            unsafe {
                let (inverse, base) = (V::splat(params.inverse()), V::splat(params.base));
                let code_of = |x: V| x.sub(base).mul(inverse);
                let to = codes.as_mut_ptr();
                for i in (0..values.len()).step_by(V::WIDTH) {
                    code_of(V::load(values.as_ptr().add(i))).store_codes(to.add(i * V::CODE_BYTES));
                }
                if !tail.is_empty() {
                    let mut last = [params.base; WIDTH_MAX];
                    last[..tail.len()].copy_from_slice(tail);
                    code_of(V::load(last.as_ptr())).store_codes(to.add(values.len() * V::CODE_BYTES));
                }
            }
        }
    }
}

/// The range of `values`, whole registers, with pairs as groups.
///
/// # Safety
/// The processor has the instruction set of `V`; `values` are whole registers.
#[inline(always)]
unsafe fn range_of_pairs<V: Int8Lanes>(values: &[f32]) -> RowRange {
    // SAFETY: the caller guarantees the instruction set.
    let mut range = unsafe { LaneRange::<V>::new() };
    for i in (0..values.len()).step_by(2 * V::WIDTH) {
        let j = (i + V::WIDTH).min(values.len() - V::WIDTH); // an odd number of registers: the last one twice
        // SAFETY: both registers are inside the values.
        unsafe {
            let (x, y) = (V::load(values.as_ptr().add(i)), V::load(values.as_ptr().add(j)));
            range.include([x, y]);
            range.include_groups(x.pair_sums(y));
        }
    }
    range.reduce()
}

/// The range of `values`, two halves of whole registers, with quads as groups.
///
/// # Safety
/// The processor has the instruction set of `V`; each half of `values` is whole registers.
#[inline(always)]
unsafe fn range_of_quads<V: Int8Lanes>(values: &[f32]) -> RowRange {
    let (first, second) = values.split_at(values.len() / 2);
    // SAFETY: the caller guarantees the instruction set.
    let mut range = unsafe { LaneRange::<V>::new() };
    for i in (0..first.len()).step_by(2 * V::WIDTH) {
        let j = (i + V::WIDTH).min(first.len() - V::WIDTH);
        // SAFETY: both registers are inside each half.
        unsafe {
            let (x, y) = (V::load(first.as_ptr().add(i)), V::load(first.as_ptr().add(j)));
            let (z, w) = (V::load(second.as_ptr().add(i)), V::load(second.as_ptr().add(j)));
            range.include([x, y]);
            range.include([z, w]);
            range.include_groups(x.pair_sums(y).add(z.pair_sums(w)));
        }
    }
    range.reduce()
}

/// A [`RowRange`] for each lane.
struct LaneRange<V> {
    low: V,
    high: V,
    group_low: V,
    group_high: V,
}

impl<V: Lanes> LaneRange<V> {
    /// # Safety
    /// The processor has the instruction set of `V`.
    #[inline(always)]
    unsafe fn new() -> LaneRange<V> {
        // SAFETY: guaranteed by the caller.
        let (low, high) = unsafe { (V::splat(f32::INFINITY), V::splat(f32::NEG_INFINITY)) };
        LaneRange { low, high, group_low: low, group_high: high }
    }

    #[inline(always)]
    fn include(&mut self, [x, y]: [V; 2]) {
        (self.low, self.high) = (self.low.min(x.min(y)), self.high.max(x.max(y)));
    }

    #[inline(always)]
    fn include_groups(&mut self, sums: V) {
        (self.group_low, self.group_high) = (self.group_low.min(sums), self.group_high.max(sums));
    }

    #[inline(always)]
    fn reduce(self) -> RowRange {
        RowRange {
            min: self.low.reduce_min(),
            max: self.high.reduce_max(),
            group_min: self.group_low.reduce_min(),
            group_max: self.group_high.reduce_max(),
        }
    }
}

/// See [`crate::Kernels::matmul_int8`].
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn matmul<V: Int8Lanes, const C: usize>(args: MatmulInt8<'_>) {
    const { check_registers::<V>() };
    let packing = packing::<V, C>();
    args.check(packing, V::CODE_BYTES);
    let MatmulInt8 { a, b, bias, epilogue, out, out_stride } = args;
    if a.rows() == 0 {
        return;
    }
    let units = b.panels.depth.div_ceil(V::UNIT);
    for p in 0..b.panels.padded_columns() / packing.panel {
        let first = p * packing.panel;
        // SAFETY: the caller guarantees the instruction set; `check` asserted that all rows, panels and column vectors are inside the slices.
        unsafe {
            let rhs = Rhs {
                panel: b.panels.data.as_ptr().add(first * units * V::UNIT),
                units,
                scale: b.scale.as_ptr().add(first),
                sum: b.sum.as_ptr().add(first),
                bias: bias.as_ptr().add(first),
            };
            multiply_panel::<V, C>(a, &rhs, epilogue, out.as_mut_ptr().add(first), out_stride);
        }
    }
}

/// The right-hand side of a product: one panel, and scale, sum and bias of each column.
struct Rhs {
    panel: *const i8,
    units: usize,
    scale: *const f32,
    sum: *const f32,
    bias: *const f32,
}

/// Multiplies all rows with one panel, in tiles of nearly equal height.
///
/// # Safety
/// The processor has the instruction set of `V`; `rhs` points to a readable panel as deep as the rows of `a`, and its column vectors; `out`
/// points to a row of a panel's width for each row of `a`, writable every `out_stride`, and initialised.
#[inline(always)]
unsafe fn multiply_panel<V: Int8Lanes, const C: usize>(
    a: &QuantizedRows,
    rhs: &Rhs,
    epilogue: Epilogue,
    out: *mut f32,
    out_stride: usize,
) {
    let rows = a.rows();
    let adds_quads = V::ADDS_QUADS && a.group() == Group::Quad;
    let mut start = 0;
    for tiles_left in (1..=rows.div_ceil(if adds_quads { V::QUAD_ROWS } else { V::INT8_ROWS })).rev() {
        let end = start + (rows - start).div_ceil(tiles_left);
        // SAFETY: rows start..end are among the rows of a and out, and `end - start` the height of the tile. For quads, see `QUAD_WIDTH`.
        unsafe {
            let codes = a.bytes().as_ptr().add(start * a.row_bytes());
            let params = a.params().as_ptr().add(start);
            let out = out.add(start * out_stride);
            macro_rules! tile_of_height {
                ($($height:literal)*) => {
                    match end - start {
                        $($height if $height <= V::INT8_ROWS => {
                            let params = &*params.cast::<[QuantParams; $height]>();
                            let sums = if adds_quads && $height <= V::QUAD_ROWS {
                                quad_sums::<V, $height, C>(codes, a.row_bytes(), rhs)
                            } else {
                                sums::<V, $height, C>(codes, a.row_bytes(), rhs)
                            };
                            finish::<V, $height, C>(sums, params, rhs, epilogue, out, out_stride)
                        })*
                        height => unreachable!("a tile of {height} rows"),
                    }
                };
            }
            tile_of_height!(1 2 3 4 5 6 7 8 9 10 11 12 13 14);
        }
        start = end;
    }
}

/// The sums of a tile.
///
/// # Safety
/// The processor has the instruction set of `V`; `codes` (`R` rows, every `row_bytes`) and `rhs` are readable, `rhs.units` units deep.
#[inline(always)]
unsafe fn sums<V: Int8Lanes, const R: usize, const C: usize>(
    codes: *const u8,
    row_bytes: usize,
    rhs: &Rhs,
) -> [[V::Sums; C]; R] {
    // SAFETY: guaranteed by the caller; every unit is below `rhs.units`.
    unsafe {
        let mut sums = [[V::zero_sums(); C]; R];
        let mut of_zeros = [V::zero_sums(); C];
        for unit in 0..rhs.units {
            let at = rhs.panel.add(unit * C * V::WIDTH * V::UNIT);
            prefetch_next_panel(at, rhs.units, C * V::WIDTH * V::UNIT);
            let mut weights = [V::load_weights(at); C];
            for (c, weight) in weights.iter_mut().enumerate().skip(1) {
                *weight = V::load_weights(at.add(c * V::WIDTH * V::UNIT));
            }
            if V::SHIFTS_CODES {
                for (sum, weight) in of_zeros.iter_mut().zip(weights) {
                    *sum = V::multiply_add(V::zero_codes(), weight, *sum);
                }
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = V::load_codes(codes.add(r * row_bytes + unit * V::UNIT * V::CODE_BYTES));
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = V::multiply_add(x, weight, *sum);
                }
            }
        }
        if V::SHIFTS_CODES {
            sums = sums.map(|sums| std::array::from_fn(|c| V::subtract(sums[c], of_zeros[c])));
        }
        sums
    }
}

/// The same for rows with quads: two units at a time, one of each half.
///
/// # Safety
/// As [`sums`].
#[inline(always)]
unsafe fn quad_sums<V: Int8Lanes, const R: usize, const C: usize>(
    codes: *const u8,
    row_bytes: usize,
    rhs: &Rhs,
) -> [[V::Sums; C]; R] {
    let half = rhs.units / 2;
    // SAFETY: as in `sums`; `unit + half` is below `rhs.units` too.
    unsafe {
        let mut sums = [[V::zero_sums(); C]; R];
        for unit in 0..half {
            for unit in [unit, unit + half] {
                let unit_len = C * V::WIDTH * V::UNIT;
                prefetch_next_panel(rhs.panel.add(unit * unit_len), rhs.units, unit_len);
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let codes_of =
                    |unit| V::load_codes(codes.add(r * row_bytes + unit * V::UNIT * V::CODE_BYTES));
                let x = [codes_of(unit), codes_of(unit + half)];
                for (c, sum) in sums.iter_mut().enumerate() {
                    let weights_of =
                        |unit| V::load_weights(rhs.panel.add((unit * C + c) * V::WIDTH * V::UNIT));
                    *sum = V::multiply_add_quads(x, [weights_of(unit), weights_of(unit + half)], *sum);
                }
            }
        }
        sums
    }
}

/// Scales the sums of a tile to floats, applies the epilogue and stores them.
///
/// # Safety
/// The processor has the instruction set of `V`; `rhs` points to a panel's readable column vectors, and `out` to `R` rows of its width,
/// writable every `out_stride`, and initialised.
#[inline(always)]
unsafe fn finish<V: Int8Lanes, const R: usize, const C: usize>(
    sums: [[V::Sums; C]; R],
    params: &[QuantParams; R],
    rhs: &Rhs,
    epilogue: Epilogue,
    out: *mut f32,
    out_stride: usize,
) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        macro_rules! finish {
            ($value:expr) => {
                unrolled_rows!(r in 0..R {
                    let (row_scale, row_base) = (V::splat(params[r].scale), V::splat(params[r].base));
                    for (c, sum) in sums[r].into_iter().enumerate() {
                        let column = c * V::WIDTH;
                        let scale = row_scale.mul(V::load(rhs.scale.add(column)));
                        let offset = row_base.mul_add(V::load(rhs.sum.add(column)), V::load(rhs.bias.add(column)));
                        let target = out.add(r * out_stride + column);
                        $value(V::to_floats(sum).mul_add(scale, offset), target).store(target);
                    }
                })
            };
        }
        match epilogue {
            Epilogue::Store => finish!(|value: V, _| value),
            Epilogue::Gelu => finish!(|value: V, _| gelu_polynomial(value)),
            Epilogue::Add => finish!(|value: V, target: *mut f32| value.add(V::load(target))),
        }
    }
}
