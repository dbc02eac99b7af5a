//! The float algorithms, generic over [`Lanes`]. `C` is the number of registers in a row of a panel.
//!
//! The product keeps a tile of `R` rows by one panel in registers. For each unit of the depth it loads `C` registers of the panel,
//! broadcasts a unit of each row and does `R * C` multiply-adds, in the number format that [`ProductFormat`] defines. Each element of the
//! result is one chain of multiply-adds over the depth, in order, independent of the other rows: an embedding does not depend on its batch.
//!
//! The kernels are `unsafe` only because they require the instruction set of `V`. They check their arguments; the private functions
//! below them take pointers and rely on these checks.

use crate::lanes::{Bf16Lanes, Lanes, ProductFormat, gelu};
use crate::layout::{Epilogue, Matmul, PANEL_MAX, Packing};
use crate::prefetch::prefetch_next_panel;
use crate::scalar::f32_to_bf16;
use crate::size::span;

/// The tallest tile that [`tile_of_height`] and [`unrolled_rows`] implement.
pub(crate) const TILE_ROWS_MAX: usize = 14;

/// See [`crate::Kernels::matmul`].
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn matmul<V: Lanes, T: ProductFormat<V>, const C: usize>(
    args: Matmul<'_, T::Number, T::LhsNumber>,
) {
    let panel = V::WIDTH * C;
    const { assert!(PANEL_MAX.is_multiple_of(V::WIDTH * C), "`PANEL_MAX` is whole panels") };
    args.check(Packing { panel, unit: T::UNIT });
    let Matmul { rows, a, a_stride, b, bias, epilogue, out, out_stride } = args;
    if rows == 0 {
        return;
    }
    let units = b.depth.div_ceil(T::UNIT);
    let lhs = Lhs { data: a.as_ptr(), row_stride: a_stride, unit_stride: T::UNIT };
    for p in 0..b.padded_columns() / panel {
        // SAFETY: the caller guarantees the instruction set; `check` asserted that all rows and panels are inside the slices.
        unsafe {
            let rhs = Rhs {
                panel: b.data.as_ptr().add(p * units * T::UNIT * panel),
                units,
                bias: Some(bias.as_ptr().add(p * panel)),
            };
            multiply_panel::<V, T, C>(rows, lhs, &rhs, epilogue, out.as_mut_ptr().add(p * panel), out_stride);
        }
    }
}

/// See [`crate::Bf16Kernels::round`].
///
/// # Safety
/// The processor has the instruction set of `V`.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "only x86-64 has such instructions"))]
#[inline(always)]
pub(crate) unsafe fn round<V: Bf16Lanes>(
    rows: &[f32],
    stride: usize,
    width: usize,
    to: &mut [u16],
    to_stride: usize,
) {
    let whole = width - width % V::WIDTH;
    assert!(stride >= width && to_stride >= width, "round: rows overlap");
    assert!(to.len() >= span(rows.len().div_ceil(stride), to_stride, width), "round: too few rows to write");
    for (row, to) in rows.chunks(stride).zip(to.chunks_mut(to_stride)) {
        let (row, (to, padding)) = (&row[..width], to.split_at_mut(width));
        // SAFETY: guaranteed by the caller; loads and stores stay below `whole`, which is at most the length of both.
        unsafe {
            for i in (0..whole).step_by(V::WIDTH) {
                V::load(row.as_ptr().add(i)).store_bf16(to.as_mut_ptr().add(i));
            }
        }
        to[whole..].iter_mut().zip(&row[whole..]).for_each(|(to, x)| *to = f32_to_bf16(*x));
        padding.fill(0);
    }
}

/// The left-hand side of a product: rows of units.
#[derive(Clone, Copy)]
pub(crate) struct Lhs<N> {
    pub(crate) data: *const N,
    /// Numbers from one row to the next.
    pub(crate) row_stride: usize,
    /// Numbers from one unit to the next.
    pub(crate) unit_stride: usize,
}

/// The right-hand side of a product: one panel and its bias.
pub(crate) struct Rhs<N> {
    pub(crate) panel: *const N,
    /// Units of the depth.
    pub(crate) units: usize,
    /// `None` in attention. With a bias, the panel is part of a weight, and the next panel is prefetched.
    pub(crate) bias: Option<*const f32>,
}

/// Multiplies all rows with one panel, in tiles of at most `V::ROWS` rows of nearly equal height.
///
/// # Safety
/// The processor has the instruction set of `V`; `a` points to `rows` readable rows and `rhs` to a readable panel, both of `rhs.units`
/// units, and to a bias; `out` points to `rows` rows of a panel's width, writable every `out_stride`, and initialised.
#[inline(always)]
pub(crate) unsafe fn multiply_panel<V: Lanes, T: ProductFormat<V>, const C: usize>(
    rows: usize,
    a: Lhs<T::LhsNumber>,
    rhs: &Rhs<T::Number>,
    epilogue: Epilogue,
    out: *mut f32,
    out_stride: usize,
) {
    const { assert!(V::ROWS <= TILE_ROWS_MAX, "every height has a tile") };
    let mut start = 0;
    for tiles_left in (1..=rows.div_ceil(V::ROWS)).rev() {
        let end = start + (rows - start).div_ceil(tiles_left);
        // SAFETY: rows start..end are among the caller's rows, and `end - start` is the height of the tile.
        unsafe {
            let a = Lhs { data: a.data.add(start * a.row_stride), ..a };
            let out = out.add(start * out_stride);
            macro_rules! tile_of_height {
                ($($height:literal)*) => {
                    match end - start {
                        $($height if $height <= V::ROWS => {
                            multiply_tile::<V, T, $height, C>(a, rhs, epilogue, out, out_stride)
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

/// An unrolled loop over the rows of a tile: where the compiler does not unroll a loop, it spills the sums to memory.
macro_rules! unrolled_rows {
    ($row:ident in 0..$rows:ident $body:block) => {
        crate::generic::unrolled_rows!($row in 0..$rows $body 0 1 2 3 4 5 6 7 8 9 10 11 12 13)
    };
    ($row:ident in 0..$rows:ident $body:block $($number:literal)*) => {
        {$(
            if $number < $rows {
                let $row = $number;
                $body
            }
        )*}
    };
}

/// One tile of the product.
///
/// # Safety
/// As [`multiply_panel`], for `R` rows.
#[inline(always)]
unsafe fn multiply_tile<V: Lanes, T: ProductFormat<V>, const R: usize, const C: usize>(
    a: Lhs<T::LhsNumber>,
    rhs: &Rhs<T::Number>,
    epilogue: Epilogue,
    out: *mut f32,
    out_stride: usize,
) {
    // SAFETY: the caller guarantees the instruction set, R rows of a and out, and `units` units of the panel.
    unsafe {
        let mut sums = [[V::splat(0.0); C]; R];
        let (mut left, mut right) = (a.data, rhs.panel);
        for _ in 0..rhs.units {
            if rhs.bias.is_some() {
                prefetch_next_panel(right, rhs.units, C * V::WIDTH * T::UNIT);
            }
            let mut weights = [T::load(right); C];
            for (c, weight) in weights.iter_mut().enumerate().skip(1) {
                *weight = T::load(right.add(c * V::WIDTH * T::UNIT));
            }
            for (r, sums) in sums.iter_mut().enumerate() {
                let x = T::splat(left.add(r * a.row_stride));
                for (sum, weight) in sums.iter_mut().zip(weights) {
                    *sum = T::multiply_add(x, weight, *sum);
                }
            }
            left = left.add(a.unit_stride);
            right = right.add(C * V::WIDTH * T::UNIT);
        }
        let add_bias = |sum: V, c: usize| match rhs.bias {
            Some(bias) => sum.add(V::load(bias.add(c * V::WIDTH))),
            None => sum,
        };
        macro_rules! finish {
            ($value:expr) => {
                unrolled_rows!(r in 0..R {
                    for (c, sum) in sums[r].into_iter().enumerate() {
                        let target = out.add(r * out_stride + c * V::WIDTH);
                        $value(add_bias(sum, c), target).store(target);
                    }
                })
            };
        }
        match epilogue {
            Epilogue::Store => finish!(|value: V, _| value),
            Epilogue::Gelu => finish!(|value: V, _| gelu(value)),
            Epilogue::Add => finish!(|value: V, target: *mut f32| value.add(V::load(target))),
        }
    }
}

/// See [`crate::Kernels::layer_norm`].
///
/// # Safety
/// The processor has the instruction set of `V`.
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
    /// Rows per step: their chains of additions are independent and overlap.
    const ROWS: usize = 4;
    let count = rows.len().checked_sub(width).filter(|_| width > 0).map_or(0, |last| last / stride + 1);
    let rows = rows.as_mut_ptr();
    for first in (0..count).step_by(ROWS) {
        // SAFETY: guaranteed by the caller; `count` rows of `width` floats begin every `stride` floats; `gamma` and `beta` have `width` floats.
        unsafe {
            if first + ROWS <= count {
                normalise_rows::<V, ROWS>(rows.add(first * stride), stride, gamma, beta, epsilon);
                continue;
            }
            for row in first..count {
                normalise_rows::<V, 1>(rows.add(row * stride), stride, gamma, beta, epsilon);
            }
        }
    }
}

/// Normalises `R` rows of `gamma.len()` floats, which begin every `stride` floats.
///
/// # Safety
/// The processor has the instruction set of `V`; `beta` is as long as `gamma`, and so are the `R` rows, readable and writable.
#[inline(always)]
unsafe fn normalise_rows<V: Lanes, const R: usize>(
    rows: *mut f32,
    stride: usize,
    gamma: &[f32],
    beta: &[f32],
    epsilon: f32,
) {
    let width = gamma.len();
    let whole = width - width % V::WIDTH;
    // SAFETY: loads and stores stay below `whole`, at most the length of rows, `gamma` and `beta`; the tails follow up to that length.
    unsafe {
        let row = |r: usize| rows.add(r * stride);
        let tail = |r: usize| std::slice::from_raw_parts(row(r).add(whole), width - whole);
        let mut sums = [V::splat(0.0); R];
        for i in (0..whole).step_by(V::WIDTH) {
            unrolled_rows!(r in 0..R { sums[r] = sums[r].add(V::load(row(r).add(i))); });
        }
        let means: [f32; R] =
            std::array::from_fn(|r| (sums[r].sum() + tail(r).iter().sum::<f32>()) / width as f32);
        let mut squares = [V::splat(0.0); R];
        for i in (0..whole).step_by(V::WIDTH) {
            unrolled_rows!(r in 0..R {
                let x = V::load(row(r).add(i)).sub(V::splat(means[r]));
                squares[r] = x.mul_add(x, squares[r]);
            });
        }
        let scales: [f32; R] = std::array::from_fn(|r| {
            let tail: f32 = tail(r).iter().map(|x| (x - means[r]) * (x - means[r])).sum();
            1.0 / ((squares[r].sum() + tail) / width as f32 + epsilon).sqrt()
        });
        for i in (0..whole).step_by(V::WIDTH) {
            let (gamma, beta) = (V::load(gamma.as_ptr().add(i)), V::load(beta.as_ptr().add(i)));
            unrolled_rows!(r in 0..R {
                let x = V::load(row(r).add(i)).sub(V::splat(means[r])).mul(V::splat(scales[r]));
                x.mul_add(gamma, beta).store(row(r).add(i));
            });
        }
        for r in 0..R {
            let tail = std::slice::from_raw_parts_mut(row(r).add(whole), width - whole);
            for ((x, gamma), beta) in tail.iter_mut().zip(&gamma[whole..]).zip(&beta[whole..]) {
                *x = (*x - means[r]) * scales[r] * gamma + beta;
            }
        }
    }
}

/// See [`crate::Kernels::dot`].
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn dot<V: Lanes>(a: &[f32], b: &[f32]) -> f32 {
    assert_eq!(a.len(), b.len(), "dot: lengths differ");
    let whole = a.len() - a.len() % (2 * V::WIDTH);
    // SAFETY: guaranteed by the caller; loads stay below `whole`, which is at most both lengths.
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

pub(crate) use unrolled_rows;
