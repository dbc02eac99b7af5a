//! The traits that instruction sets implement for the generic algorithms: registers of `WIDTH` floats.

use std::f32::consts::{LN_2, LOG2_E};

use crate::layout::Pod;

/// A register of floats. Each method is one instruction or close to it.
///
/// Only unsafe methods create a register, and their callers guarantee the instruction set; methods of a register that access no memory
/// are therefore safe. The functions of a table call them under `#[target_feature]`, after its features were detected.
pub(crate) trait Lanes: Copy {
    /// Floats in the register.
    const WIDTH: usize;
    /// Rows of the product's tile, limited by the number of registers for accumulators.
    const ROWS: usize;

    /// The same float in every lane.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn splat(value: f32) -> Self;
    /// `WIDTH` floats, which need not be aligned.
    ///
    /// # Safety
    /// The processor has the instruction set; `from` points to `WIDTH` readable floats.
    unsafe fn load(from: *const f32) -> Self;
    /// `WIDTH` bf16 values (the upper halves of floats), as floats.
    ///
    /// # Safety
    /// The processor has the instruction set; `from` points to `WIDTH` readable bf16 values.
    unsafe fn load_bf16(from: *const u16) -> Self;
    /// Writes `WIDTH` floats, which need not be aligned.
    ///
    /// # Safety
    /// `to` points to `WIDTH` writable floats.
    unsafe fn store(self, to: *mut f32);
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    fn div(self, other: Self) -> Self;
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
    /// `self * factor + addend`, rounded once where the instruction set can.
    fn mul_add(self, factor: Self, addend: Self) -> Self;
    /// The nearest integer.
    fn round(self) -> Self;
    /// `self · 2^power` for integer powers of -126..=127. Exact for a normal result; a subnormal one may be any number below 2^-126.
    fn times_pow2(self, power: Self) -> Self;
    /// Transposes a square of `WIDTH` by `WIDTH` floats: lane `i` of row `j` moves to lane `j` of row `i`. Rows start every `stride`. Reads
    /// only `rows` rows, repeating the last for the missing ones, and writes only `to_rows`.
    ///
    /// # Safety
    /// The processor has the instruction set; `rows` is at least 1; `rows` rows of `WIDTH` floats are readable every `stride` at `from`, and
    /// `to_rows`, at most `WIDTH`, are writable every `to_stride` at `to`.
    #[inline(always)]
    unsafe fn transpose(
        from: *const f32,
        stride: usize,
        rows: usize,
        to: *mut f32,
        to_stride: usize,
        to_rows: usize,
    ) {
        for (i, j) in (0..to_rows).flat_map(|i| (0..Self::WIDTH).map(move |j| (i, j))) {
            // SAFETY: `i` is below `WIDTH` and `j.min(rows - 1)` a row of `from`; the caller guarantees the rows of both squares.
            unsafe { *to.add(i * to_stride + j) = *from.add(j.min(rows - 1) * stride + i) };
        }
    }
    /// The sum of all lanes.
    fn sum(self) -> f32;
    /// The smallest lane.
    fn reduce_min(self) -> f32;
    /// The largest lane.
    fn reduce_max(self) -> f32;
}

/// Methods of [`Lanes`] that are one instruction on registers of their own type.
macro_rules! lanewise {
    ($($name:ident = $instruction:ident),*) => {$(
        #[inline(always)]
        fn $name(self, other: Self) -> Self {
            // SAFETY: `self` was made under the instruction set, see `Lanes`.
            unsafe { Self($instruction(self.0, other.0)) }
        }
    )*};
}

pub(crate) use lanewise;

/// The number formats of a product in float registers. Both sides are read in units of `UNIT` numbers that follow each other in the depth.
pub(crate) trait ProductFormat<V: Lanes>: Copy {
    /// Numbers of the left-hand rows.
    type LhsNumber: Pod;
    /// Numbers of the right-hand panels.
    type Number: Pod;
    /// Numbers of a unit.
    const UNIT: usize;
    /// One unit of a row, broadcast to every column.
    type LhsRegister: Copy;
    /// One unit of `WIDTH` columns of a panel.
    type RhsRegister: Copy;

    /// Reads `UNIT` numbers, which need not be aligned beyond their type.
    ///
    /// # Safety
    /// The processor has the instruction set of `V`; `from` points to `UNIT` readable numbers.
    unsafe fn splat(from: *const Self::LhsNumber) -> Self::LhsRegister;
    /// Reads `UNIT * WIDTH` numbers.
    ///
    /// # Safety
    /// The processor has the instruction set of `V`; `from` points to `UNIT * WIDTH` readable numbers.
    unsafe fn load(from: *const Self::Number) -> Self::RhsRegister;
    /// `sum + left · right`, column by column.
    fn multiply_add(left: Self::LhsRegister, right: Self::RhsRegister, sum: V) -> V;
}

impl<V: Lanes> ProductFormat<V> for f32 {
    type LhsNumber = f32;
    type Number = f32;
    const UNIT: usize = 1;
    type LhsRegister = V;
    type RhsRegister = V;

    #[inline(always)]
    unsafe fn splat(from: *const f32) -> V {
        // SAFETY: the caller guarantees the instruction set and the float.
        unsafe { V::splat(*from) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> V {
        // SAFETY: the caller guarantees the instruction set and `WIDTH` floats.
        unsafe { V::load(from) }
    }
    #[inline(always)]
    fn multiply_add(left: V, right: V, sum: V) -> V {
        left.mul_add(right, sum)
    }
}

/// Floats with bf16 values, which are widened.
impl<V: Lanes> ProductFormat<V> for u16 {
    type LhsNumber = f32;
    type Number = u16;
    const UNIT: usize = 1;
    type LhsRegister = V;
    type RhsRegister = V;

    #[inline(always)]
    unsafe fn splat(from: *const f32) -> V {
        // SAFETY: the caller guarantees the instruction set and the float.
        unsafe { V::splat(*from) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u16) -> V {
        // SAFETY: the caller guarantees the instruction set and `WIDTH` bf16 values.
        unsafe { V::load_bf16(from) }
    }
    #[inline(always)]
    fn multiply_add(left: V, right: V, sum: V) -> V {
        left.mul_add(right, sum)
    }
}

/// Registers of bf16 values, and the instruction that adds the products of two pairs of them to each float lane.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only x86-64 has such instructions"))]
pub(crate) trait Bf16Lanes: Lanes {
    /// Two bf16 values in each lane.
    type Pairs: Copy;

    /// The same two bf16 values in every lane.
    ///
    /// # Safety
    /// The processor has the instruction set; `from` points to two readable bf16 values.
    unsafe fn splat_pair(from: *const u16) -> Self::Pairs;
    /// Reads `2 * WIDTH` bf16 values.
    ///
    /// # Safety
    /// The processor has the instruction set; `from` points to `2 * WIDTH` readable bf16 values.
    unsafe fn load_pairs(from: *const u16) -> Self::Pairs;
    /// Writes `2 * WIDTH` bf16 values.
    ///
    /// # Safety
    /// The processor has the instruction set; `to` points to `2 * WIDTH` writable bf16 values.
    unsafe fn store_pairs(pairs: Self::Pairs, to: *mut u16);
    /// Rounds both registers to bf16 and interleaves them: lanes of `first` become the first value of each pair.
    fn pairs(first: Self, second: Self) -> Self::Pairs;
    /// Rounds `WIDTH` floats to bf16 and writes them.
    ///
    /// # Safety
    /// `to` points to `WIDTH` writable bf16 values.
    unsafe fn store_bf16(self, to: *mut u16);
    /// `self + a[0] · b[0] + a[1] · b[1]`
    fn add_products(self, a: Self::Pairs, b: Self::Pairs) -> Self;
}

/// Units of two bf16 values on both sides.
#[derive(Clone, Copy)]
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only x86-64 has such instructions"))]
pub(crate) struct Bf16Pair;

impl<V: Bf16Lanes> ProductFormat<V> for Bf16Pair {
    type LhsNumber = u16;
    type Number = u16;
    const UNIT: usize = 2;
    type LhsRegister = V::Pairs;
    type RhsRegister = V::Pairs;

    #[inline(always)]
    unsafe fn splat(from: *const u16) -> V::Pairs {
        // SAFETY: the caller guarantees the instruction set and two bf16 values.
        unsafe { V::splat_pair(from) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u16) -> V::Pairs {
        // SAFETY: the caller guarantees the instruction set and `2 * WIDTH` bf16 values.
        unsafe { V::load_pairs(from) }
    }
    #[inline(always)]
    fn multiply_add(left: V::Pairs, right: V::Pairs, sum: V) -> V {
        sum.add_products(left, right)
    }
}

/// Registers for int8 products: `WIDTH` sums of 32 bits, one for each column.
pub(crate) trait Int8Lanes: Lanes {
    /// A register of 32-bit sums.
    type Sums: Copy;
    /// `UNIT` weights for each of `WIDTH` columns.
    type Weights: Copy;
    /// `UNIT` codes of one row, broadcast to every column.
    type CodeRegister: Copy;
    /// Rows of the int8 product's tile.
    const INT8_ROWS: usize;
    /// Products that one instruction adds to a sum.
    const UNIT: usize;
    /// Bytes of a code in memory.
    const CODE_BYTES: usize;

    /// Zeros.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn zero_sums() -> Self::Sums;
    /// Reads `WIDTH * UNIT` weights.
    ///
    /// # Safety
    /// The processor has the instruction set; `from` points to `WIDTH * UNIT` readable bytes.
    unsafe fn load_weights(from: *const i8) -> Self::Weights;
    /// Reads `UNIT` codes.
    ///
    /// # Safety
    /// The processor has the instruction set; `from` points to `UNIT * CODE_BYTES` readable bytes.
    unsafe fn load_codes(from: *const u8) -> Self::CodeRegister;
    /// `sums[column] + Σ codes · weights[column]`. Exact when no pair of codes sums to more than
    /// [`GROUP_MAX`](crate::int8::GROUP_MAX) and weights lie in -127..=127.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn multiply_add(codes: Self::CodeRegister, weights: Self::Weights, sums: Self::Sums)
    -> Self::Sums;
    /// Whether [`Int8Lanes::multiply_add_quads`] is faster than two calls of `multiply_add`.
    const ADDS_QUADS: bool = false;
    /// Rows of the tile with `multiply_add_quads`.
    const QUAD_ROWS: usize = Self::INT8_ROWS;
    /// Multiplies two units at once. A pair of the first and the pair at the same index of the second are one quad.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn multiply_add_quads(
        codes: [Self::CodeRegister; 2],
        weights: [Self::Weights; 2],
        sums: Self::Sums,
    ) -> Self::Sums {
        // SAFETY: the caller guarantees the instruction set.
        unsafe { Self::multiply_add(codes[1], weights[1], Self::multiply_add(codes[0], weights[0], sums)) }
    }
    /// Whether `load_codes` shifts codes by -128, because the instruction multiplies signed bytes. The sums of a row of
    /// [`Int8Lanes::zero_codes`] are then subtracted from those of every row.
    const SHIFTS_CODES: bool = false;
    /// The register that `load_codes` returns for codes of zero.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn zero_codes() -> Self::CodeRegister {
        unreachable!("only called where codes are shifted")
    }
    /// `sums - others`.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn subtract(_sums: Self::Sums, _others: Self::Sums) -> Self::Sums {
        unreachable!("only called where codes are shifted")
    }
    /// The sums as floats, rounded to the nearest.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn to_floats(sums: Self::Sums) -> Self;
    /// The sums of lanes `2k` and `2k + 1` of both, in any order.
    fn pair_sums(self, other: Self) -> Self;
    /// Writes `WIDTH` codes: the lanes rounded to the nearest integer, ties to even. Lanes should lie in 0..=255.
    ///
    /// # Safety
    /// `to` points to `WIDTH * CODE_BYTES` writable bytes.
    unsafe fn store_codes(self, to: *mut u8);
}

/// GELU by a polynomial for `Φ` on -4..4, odd around one half: absolute error below 2e-4.
#[inline(always)]
pub(crate) fn gelu_polynomial<V: Lanes>(x: V) -> V {
    // SAFETY: `x` was made under the instruction set of V.
    unsafe {
        let c = x.max(V::splat(-GELU_BOUND)).min(V::splat(GELU_BOUND));
        let square = c.mul(c);
        let mut p = V::splat(GELU_COEFFICIENTS[0]);
        for coefficient in &GELU_COEFFICIENTS[1..] {
            p = p.mul_add(square, V::splat(*coefficient));
        }
        let phi = p.mul_add(c, V::splat(0.5));
        x.mul(phi)
    }
}

/// Beyond this bound `Φ` counts as 0 or 1.
pub(crate) const GELU_BOUND: f32 = 4.0;

/// The coefficients of `c^13, c^11, …, c` in `Φ(c) - 1/2`: a least-squares fit on -4..4.
pub(crate) const GELU_COEFFICIENTS: [f32; 7] = [
    2.278_129_3e-8,
    -1.598_595_2e-6,
    4.795_538_5e-5,
    -8.140_142e-4,
    8.772_382e-3,
    -6.457_31e-2,
    0.397_883_34,
];

/// `e^x` as `2^n · 2^r` with `|r| <= 1/2`: relative error below 2e-7 near zero, and 6e-8 more for every unit of `x`; arguments below -87 give
/// about 1e-38. The polynomial for `2^r` is exact at zero; Lawson's algorithm minimised its largest relative error.
#[inline(always)]
pub(crate) fn exp<V: Lanes>(x: V) -> V {
    const COEFFICIENTS: [f32; 5] = [9.669_691e-3, 5.550_558_5e-2, 0.240_222_83, LN_2, 1.0];
    // SAFETY: `x` was made under the instruction set of V.
    unsafe {
        let x = x.max(V::splat(-87.0));
        let power = x.mul(V::splat(LOG2_E));
        let n = power.round();
        let r = power.sub(n);
        let mut p = V::splat(1.330_059_4e-3);
        for c in COEFFICIENTS {
            p = p.mul_add(r, V::splat(c));
        }
        p.times_pow2(n)
    }
}

/// The exact GELU, `x · Φ(x)`, by the error function of Abramowitz and Stegun 7.1.26 (absolute error 1.5e-7).
///
/// With `h = (1 - erf(|x|/√2)) / 2`, the tail beyond `|x|`, this is `max(x, 0) - |x| · h`.
#[inline(always)]
pub(crate) fn gelu<V: Lanes>(x: V) -> V {
    const COEFFICIENTS: [f32; 4] = [-1.453_152, 1.421_413_8, -0.284_496_74, 0.254_829_6];
    // SAFETY: `x` was made under the instruction set of V.
    unsafe {
        let zero = V::splat(0.0);
        let abs = x.max(zero.sub(x));
        let one = V::splat(1.0);
        let t = one.div(abs.mul_add(V::splat(0.327_591_1 * std::f32::consts::FRAC_1_SQRT_2), one));
        let mut p = V::splat(1.061_405_4);
        for c in COEFFICIENTS {
            p = p.mul_add(t, V::splat(c));
        }
        let tail = p.mul(t).mul(V::splat(0.5)).mul(exp(abs.mul(abs).mul(V::splat(-0.5))));
        x.max(zero).sub(abs.mul(tail))
    }
}
