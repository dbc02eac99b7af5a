//! What the generic algorithms ask of an instruction set: a register of `WIDTH` floats.

use std::f32::consts::{LN_2, LOG2_E};

use crate::layout::Plain;

/// A register of floats. Each method is one instruction or close to it.
///
/// A register is only made by the unsafe methods, whose callers vouch for the instruction set: methods of a register that touch no
/// memory are therefore safe. The table functions of each instruction set call them under `#[target_feature]`, and a table is only handed
/// out after the processor was asked for the features.
pub(crate) trait Lanes: Copy {
    /// Floats in the register.
    const WIDTH: usize;
    /// Rows of the product's tile: as many as the register file holds accumulators for.
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
    /// `WIDTH` brain floats, the upper halves of floats.
    ///
    /// # Safety
    /// The processor has the instruction set; `from` points to `WIDTH` readable brain floats.
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
    /// `self · 2^power` for powers that are integers of -126..=127 and a normal result; a smaller one may be anything below 2^-126.
    fn times_pow2(self, power: Self) -> Self;
    /// Transposes a square of `WIDTH` by `WIDTH` floats: lane `i` of row `j` comes to lane `j` of row `i`. Rows start every `stride`; of
    /// `from` only `rows` are read, the last one again for each that is missing, and of `to` only `to_rows` are written.
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
            // SAFETY: `i` is below `WIDTH` and `j.min(rows - 1)` a row of `from`; the caller vouches for the rows of both squares.
            unsafe { *to.add(i * to_stride + j) = *from.add(j.min(rows - 1) * stride + i) };
        }
    }
    /// The sum of all lanes.
    fn sum(self) -> f32;
    /// The smallest lane.
    fn smallest(self) -> f32;
    /// The largest lane.
    fn largest(self) -> f32;
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

/// What a float product multiplies: what stands at one place of the depth, on the left in a row, on the right in a panel.
pub(crate) trait Factor<V: Lanes>: Copy {
    /// The numbers that rows are made of.
    type LeftNumber: Plain;
    /// The numbers that panels are made of.
    type Number: Plain;
    /// How many numbers stand at one place.
    const UNIT: usize;
    /// One place of a row, for every column the same.
    type Left: Copy;
    /// One place of a panel, `WIDTH` columns.
    type Right: Copy;

    /// Reads `UNIT` numbers, which need not be aligned beyond their type.
    ///
    /// # Safety
    /// The processor has the instruction set of `V`; `from` points to `UNIT` readable numbers.
    unsafe fn splat(from: *const Self::LeftNumber) -> Self::Left;
    /// Reads `UNIT * WIDTH` numbers.
    ///
    /// # Safety
    /// The processor has the instruction set of `V`; `from` points to so many readable numbers.
    unsafe fn load(from: *const Self::Number) -> Self::Right;
    /// `sum + left · right`, column by column.
    fn multiply_add(left: Self::Left, right: Self::Right, sum: V) -> V;
}

impl<V: Lanes> Factor<V> for f32 {
    type LeftNumber = f32;
    type Number = f32;
    const UNIT: usize = 1;
    type Left = V;
    type Right = V;

    #[inline(always)]
    unsafe fn splat(from: *const f32) -> V {
        // SAFETY: the caller vouches for the instruction set and the float.
        unsafe { V::splat(*from) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> V {
        // SAFETY: the caller vouches for the instruction set and `WIDTH` floats.
        unsafe { V::load(from) }
    }
    #[inline(always)]
    fn multiply_add(left: V, right: V, sum: V) -> V {
        left.mul_add(right, sum)
    }
}

/// Floats with brain floats, which are widened.
impl<V: Lanes> Factor<V> for u16 {
    type LeftNumber = f32;
    type Number = u16;
    const UNIT: usize = 1;
    type Left = V;
    type Right = V;

    #[inline(always)]
    unsafe fn splat(from: *const f32) -> V {
        // SAFETY: the caller vouches for the instruction set and the float.
        unsafe { V::splat(*from) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u16) -> V {
        // SAFETY: the caller vouches for the instruction set and `WIDTH` brain floats.
        unsafe { V::load_bf16(from) }
    }
    #[inline(always)]
    fn multiply_add(left: V, right: V, sum: V) -> V {
        left.mul_add(right, sum)
    }
}

/// What products of brain floats ask beyond [`Lanes`]: an instruction that adds two products to each lane.
pub(crate) trait PairLanes: Lanes {
    /// Two brain floats in each lane.
    type Pairs: Copy;

    /// The same two brain floats in every lane.
    ///
    /// # Safety
    /// The processor has the instruction set; `from` points to two readable brain floats.
    unsafe fn splat_pair(from: *const u16) -> Self::Pairs;
    /// `2 * WIDTH` brain floats.
    ///
    /// # Safety
    /// The processor has the instruction set; `from` points to so many readable brain floats.
    unsafe fn load_pairs(from: *const u16) -> Self::Pairs;
    /// Writes `2 * WIDTH` brain floats.
    ///
    /// # Safety
    /// The processor has the instruction set; `to` points to so many writable brain floats.
    unsafe fn store_pairs(pairs: Self::Pairs, to: *mut u16);
    /// Both, rounded to the nearest brain floats: the lanes of `first` come to the first of each two.
    fn pairs(first: Self, second: Self) -> Self::Pairs;
    /// Writes `WIDTH` floats, rounded to the nearest brain floats.
    ///
    /// # Safety
    /// `to` points to `WIDTH` writable brain floats.
    unsafe fn store_bf16(self, to: *mut u16);
    /// `self + a[0] · b[0] + a[1] · b[1]`
    fn add_products(self, a: Self::Pairs, b: Self::Pairs) -> Self;
}

/// Two brain floats at each place, on both sides.
#[derive(Clone, Copy)]
pub(crate) struct Pair;

impl<V: PairLanes> Factor<V> for Pair {
    type LeftNumber = u16;
    type Number = u16;
    const UNIT: usize = 2;
    type Left = V::Pairs;
    type Right = V::Pairs;

    #[inline(always)]
    unsafe fn splat(from: *const u16) -> V::Pairs {
        // SAFETY: the caller vouches for the instruction set and two brain floats.
        unsafe { V::splat_pair(from) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u16) -> V::Pairs {
        // SAFETY: the caller vouches for the instruction set and `2 * WIDTH` brain floats.
        unsafe { V::load_pairs(from) }
    }
    #[inline(always)]
    fn multiply_add(left: V::Pairs, right: V::Pairs, sum: V) -> V {
        sum.add_products(left, right)
    }
}

/// What the int8 algorithms ask beyond [`Lanes`]: a register of `WIDTH` 32-bit sums, one for each column.
pub(crate) trait Int8Lanes: Lanes {
    /// A register of 32-bit sums.
    type Sums: Copy;
    /// `UNIT` weights for each of `WIDTH` columns.
    type Weights: Copy;
    /// `UNIT` codes of one row, for every column the same.
    type Codes: Copy;
    /// Rows of the int8 product's tile.
    const INT8_ROWS: usize;
    /// Products that are added to a sum at a time.
    const UNIT: usize;
    /// Bytes of a code in memory.
    const CODE_BYTES: usize;

    /// Sums of zero.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn no_sum() -> Self::Sums;
    /// `WIDTH * UNIT` bytes.
    ///
    /// # Safety
    /// The processor has the instruction set; `from` points to so many readable bytes.
    unsafe fn load_weights(from: *const i8) -> Self::Weights;
    /// `UNIT * CODE_BYTES` bytes.
    ///
    /// # Safety
    /// The processor has the instruction set; `from` points to so many readable bytes.
    unsafe fn load_codes(from: *const u8) -> Self::Codes;
    /// `sums[column] + Σ codes · weights[column]`, exact when no pair of codes is more than
    /// [`GROUP_MAX`](crate::int8::GROUP_MAX) and weights lie in -127..=127.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn multiply_add(codes: Self::Codes, weights: Self::Weights, sums: Self::Sums) -> Self::Sums;
    /// Whether codes that are limited in quads are multiplied faster, by [`Int8Lanes::multiply_add_quads`].
    const ADDS_QUADS: bool = false;
    /// Rows of the tile then.
    const QUAD_ROWS: usize = Self::INT8_ROWS;
    /// Two units at once, of which pairs at the same place make a quad.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn multiply_add_quads(
        codes: [Self::Codes; 2],
        weights: [Self::Weights; 2],
        sums: Self::Sums,
    ) -> Self::Sums {
        // SAFETY: the caller vouches for the instruction set.
        unsafe { Self::multiply_add(codes[1], weights[1], Self::multiply_add(codes[0], weights[0], sums)) }
    }
    /// Whether `multiply_add` counts codes from another number than zero, because the instruction takes both sides signed:
    /// then its sums for a row of [`Int8Lanes::zero_codes`] are taken off by [`Int8Lanes::less`].
    const SHIFTS_CODES: bool = false;
    /// What `load_codes` makes of codes that are all zero.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn zero_codes() -> Self::Codes {
        unreachable!("only asked where codes are shifted")
    }
    /// `sums - others`.
    ///
    /// # Safety
    /// The processor has the instruction set.
    #[inline(always)]
    unsafe fn less(_sums: Self::Sums, _others: Self::Sums) -> Self::Sums {
        unreachable!("only asked where codes are shifted")
    }
    /// The sums as floats, rounded to the nearest.
    ///
    /// # Safety
    /// The processor has the instruction set.
    unsafe fn to_floats(sums: Self::Sums) -> Self;
    /// The sums of lanes `2k` and `2k + 1` of both, in any order.
    fn pair_sums(self, other: Self) -> Self;
    /// Writes `WIDTH` codes: the nearest integers, the even one of two, which should lie in 0..=255.
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

/// Beyond this `Φ` is taken as 0 or 1.
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
/// about 1e-38. The polynomial for `2^r` is exact at zero, its largest relative error is the least by Lawson's algorithm.
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
