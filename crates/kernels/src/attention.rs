//! Attention, generic over [`Lanes`]. Each lane of a register computes one query.
//!
//! For a panel of queries of one head, the scores are the product of keys with transposed queries: `[keys, queries]`. The softmax over keys
//! then runs lane by lane, without a sum across a register, and its result is the right-hand panel of the product with the
//! values: `[head_dim, queries]`. Keys and values are copied to be contiguous; queries are transposed before, and the context after.
//!
//! The result of a query is one chain of operations over the keys, in order, independent of the other queries.

use crate::generic::{Lhs, Rhs, multiply_panel};
use crate::lanes::{Bf16Lanes, Bf16Pair, Lanes, ProductFormat, exp};
use crate::layout::{AttentionShape, Epilogue, PANEL_MAX};

/// Floats of the widest register.
const WIDTH_MAX: usize = 16;

/// A number format of attention: both sides of its products are in it. A unit takes four bytes, as a float does.
pub(crate) trait AttentionFormat<V: Lanes>:
    ProductFormat<V, LhsNumber = <Self as ProductFormat<V>>::Number>
{
    /// Writes floats in the format, one after the other.
    ///
    /// # Safety
    /// `to` points to `WIDTH` writable numbers.
    unsafe fn store(floats: V, to: *mut Self::Number);
    /// Interleaves `UNIT` rows of a panel into units and writes these.
    ///
    /// # Safety
    /// `to` points to `UNIT * WIDTH` writable numbers.
    unsafe fn store_units(rows: [V; 2], to: *mut Self::Number);
}

impl<V: Lanes> AttentionFormat<V> for f32 {
    #[inline(always)]
    unsafe fn store(floats: V, to: *mut f32) {
        // SAFETY: the caller guarantees the writable memory.
        unsafe { floats.store(to) }
    }
    #[inline(always)]
    unsafe fn store_units(rows: [V; 2], to: *mut f32) {
        // SAFETY: as above.
        unsafe { rows[0].store(to) }
    }
}

impl<V: Bf16Lanes> AttentionFormat<V> for Bf16Pair {
    #[inline(always)]
    unsafe fn store(floats: V, to: *mut u16) {
        // SAFETY: as above.
        unsafe { floats.store_bf16(to) }
    }
    #[inline(always)]
    unsafe fn store_units(rows: [V; 2], to: *mut u16) {
        // SAFETY: as above.
        unsafe { V::store_pairs(V::pairs(rows[0], rows[1]), to) }
    }
}

/// One product of attention with a panel: of keys with queries, or of values with scores.
pub(crate) struct Product<'a, N> {
    rows: usize,
    lhs: Lhs<N>,
    rhs: &'a Rhs<N>,
    out: *mut f32,
    out_stride: usize,
}

impl<N> Product<'_, N> {
    /// Multiplies `rows` rows with a panel of `C` registers.
    ///
    /// # Safety
    /// As [`multiply_panel`].
    #[inline(always)]
    pub(crate) unsafe fn multiply<V: Lanes, F: AttentionFormat<V, Number = N>, const C: usize>(self) {
        let Product { rows, lhs, rhs, out, out_stride } = self;
        // SAFETY: guaranteed by the caller.
        unsafe { multiply_panel::<V, F, C>(rows, lhs, rhs, Epilogue::Store, out, out_stride) }
    }
}

/// [`Product::multiply`] for some instruction set, format and number of registers.
type Multiply<N> = unsafe fn(Product<'_, N>);

/// See [`crate::Kernels::attention`]. `products` are [`Product::multiply`] with 1 and with `C` registers.
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn attention<V: Lanes, F: AttentionFormat<V>, const C: usize>(
    shape: &AttentionShape,
    qkv: &[f32],
    scratch: &mut [f32],
    out: &mut [f32],
    [narrow_product, product]: [Multiply<F::Number>; 2],
) {
    const {
        assert!(
            C * V::WIDTH <= PANEL_MAX && V::WIDTH <= WIDTH_MAX,
            "scratch fits a panel, and a tail a register"
        );
        assert!(F::UNIT * size_of::<F::Number>() == size_of::<f32>(), "a unit is as large as a float");
        assert!(V::WIDTH.is_multiple_of(F::UNIT), "registers hold whole units");
    }
    shape.check(qkv, scratch, out);
    let AttentionShape { tokens, heads, head_dim, qkv_stride, out_stride } = *shape;
    if tokens == 0 || head_dim == 0 {
        return;
    }
    let (keys, scratch) = scratch.split_at_mut(tokens * head_dim);
    let (values, scratch) = scratch.split_at_mut(tokens * head_dim);
    for head in 0..heads {
        // SAFETY: the caller guarantees the instruction set; `check` asserted the lengths of all slices; `scratch` fits keys, values
        // and a panel of `lanes` queries, at most `PANEL_MAX`.
        unsafe {
            let qkv = qkv.as_ptr().add(head * head_dim);
            pack_keys::<V, F>(qkv.add(heads * head_dim), shape, keys.as_mut_ptr().cast());
            pack_units::<V, F>(
                qkv.add(2 * heads * head_dim),
                qkv_stride,
                (tokens, head_dim),
                values.as_mut_ptr().cast(),
            );
            let mut first = 0;
            while first < tokens {
                let remaining = tokens - first;
                // the last few queries take a panel of one register
                let lanes = if remaining <= V::WIDTH { V::WIDTH } else { C * V::WIDTH };
                let queries = scratch.as_mut_ptr();
                let context = queries.add(head_dim * lanes);
                let panel = Panel::<F::Number> {
                    keys: keys.as_ptr().cast(),
                    values: values.as_ptr().cast(),
                    tokens,
                    head_dim,
                    queries,
                    context,
                    scores: context.add(head_dim * lanes),
                };
                let count = remaining.min(lanes);
                pack_queries::<V>(qkv.add(first * qkv_stride), qkv_stride, count, head_dim, queries, lanes);
                if lanes == V::WIDTH {
                    attend::<V, F, 1>(&panel, narrow_product);
                } else {
                    attend::<V, F, C>(&panel, product);
                }
                let to = out.as_mut_ptr().add(first * out_stride + head * head_dim);
                unpack_context::<V>(context, lanes, head_dim, to, out_stride, count);
                first += lanes;
            }
        }
    }
}

/// Copies the keys of one head, which in `qkv` are too far apart for the cache, to a matrix `[tokens, head_dim]`, rows padded to whole units.
///
/// # Safety
/// The processor has the instruction set of `V`; `from` points to `tokens` rows of `head_dim` readable floats, every `qkv_stride`, and `to`
/// to `tokens` writable rows of whole units.
#[inline(always)]
unsafe fn pack_keys<V: Lanes, F: AttentionFormat<V>>(
    from: *const f32,
    shape: &AttentionShape,
    to: *mut F::Number,
) {
    let AttentionShape { tokens, head_dim, qkv_stride, .. } = *shape;
    let (whole, width) = (head_dim - head_dim % V::WIDTH, head_dim.next_multiple_of(F::UNIT));
    for token in 0..tokens {
        // SAFETY: the caller guarantees all rows and the writable memory.
        unsafe {
            let (from, to) = (from.add(token * qkv_stride), to.add(token * width));
            for d in (0..whole).step_by(V::WIDTH) {
                F::store(V::load(from.add(d)), to.add(d));
            }
            if whole < head_dim {
                let (mut tail, mut packed) = ([0.0; WIDTH_MAX], [0.0f32; WIDTH_MAX]);
                tail.as_mut_ptr().copy_from_nonoverlapping(from.add(whole), head_dim - whole);
                F::store(V::load(tail.as_ptr()), packed.as_mut_ptr().cast());
                to.add(whole).copy_from_nonoverlapping(packed.as_ptr().cast(), width - whole);
            }
        }
    }
}

/// Interleaves rows `[depth, width]` into units, `[depth / UNIT, width]`, in place if `to` is `from`. Pads the last unit with zeros.
///
/// # Safety
/// The processor has the instruction set of `V`; `from` points to `depth` rows of `width` readable floats, every `stride`, and `to` to
/// `depth / UNIT` rows, rounded up, of `width` writable units.
#[inline(always)]
unsafe fn pack_units<V: Lanes, F: AttentionFormat<V>>(
    from: *const f32,
    stride: usize,
    (depth, width): (usize, usize),
    to: *mut F::Number,
) {
    let whole = width - width % V::WIDTH;
    for unit in 0..depth.div_ceil(F::UNIT) {
        // SAFETY: the caller guarantees all rows and the writable memory.
        unsafe {
            let first = from.add(unit * F::UNIT * stride);
            let has_second = F::UNIT == 2 && 2 * unit + 1 < depth;
            let to = to.add(unit * width * F::UNIT);
            for column in (0..whole).step_by(V::WIDTH) {
                let at = first.add(column);
                let second = if has_second { V::load(at.add(stride)) } else { V::splat(0.0) };
                F::store_units([V::load(at), second], to.add(column * F::UNIT));
            }
            if whole < width {
                let (mut tails, mut packed) = ([[0.0; WIDTH_MAX]; 2], [0.0f32; WIDTH_MAX]);
                for (row, tail) in tails.iter_mut().enumerate().take(1 + usize::from(has_second)) {
                    tail.as_mut_ptr()
                        .copy_from_nonoverlapping(first.add(row * stride + whole), width - whole);
                }
                let rows = [V::load(tails[0].as_ptr()), V::load(tails[1].as_ptr())];
                F::store_units(rows, packed.as_mut_ptr().cast());
                let numbers = (width - whole) * F::UNIT;
                to.add(whole * F::UNIT).copy_from_nonoverlapping(packed.as_ptr().cast(), numbers);
            }
        }
    }
}

/// A panel of queries of one head, its keys and values, and memory for its results.
struct Panel<N> {
    /// `[tokens, head_dim]`, see [`pack_keys`].
    keys: *const N,
    /// `[tokens, head_dim]`, see [`pack_units`].
    values: *const N,
    tokens: usize,
    head_dim: usize,
    /// `[head_dim, lanes]`
    queries: *mut f32,
    /// `[head_dim, lanes]`
    context: *mut f32,
    /// `[tokens, lanes]`
    scores: *mut f32,
}

/// Computes the context of a panel of `C` registers of queries; `multiply` is [`Product::multiply`] for this number.
///
/// # Safety
/// The processor has the instruction set of `V`; keys and values are readable, queries, context and scores writable in the shapes that
/// [`Panel`] gives, for `C * WIDTH` lanes and at least one token and one float of a head.
#[inline(always)]
unsafe fn attend<V: Lanes, F: AttentionFormat<V>, const C: usize>(
    panel: &Panel<F::Number>,
    multiply: Multiply<F::Number>,
) {
    let Panel { keys, values, tokens, head_dim, queries, scores, context } = *panel;
    let lanes = C * V::WIDTH;
    let (dim_units, token_units) = (head_dim.div_ceil(F::UNIT), tokens.div_ceil(F::UNIT));
    // SAFETY: the caller guarantees the panel; a unit takes no more memory than a float.
    unsafe {
        if F::UNIT > 1 {
            pack_units::<V, F>(queries, lanes, (head_dim, lanes), queries.cast());
        }
        let rhs = Rhs { panel: queries.cast_const().cast(), units: dim_units, bias: None };
        let keys = Lhs { data: keys, row_stride: dim_units * F::UNIT, unit_stride: F::UNIT };
        multiply(Product { rows: tokens, lhs: keys, rhs: &rhs, out: scores, out_stride: lanes });
        let sums = softmax::<V, F, C>(scores, tokens);
        let rhs = Rhs { panel: scores.cast_const().cast(), units: token_units, bias: None };
        let values = Lhs { data: values, row_stride: F::UNIT, unit_stride: head_dim * F::UNIT };
        multiply(Product { rows: head_dim, lhs: values, rhs: &rhs, out: context, out_stride: lanes });
        let scales = sums.map(|sum| V::splat(1.0).div(sum));
        for row in 0..head_dim {
            for (c, scale) in scales.iter().enumerate() {
                let at = context.add(row * lanes + c * V::WIDTH);
                V::load(at).mul(*scale).store(at);
            }
        }
    }
}

/// Replaces scores `[keys, C registers]` by `exp(score - max)`, with the maximum of each lane, as units; returns the sums of the lanes.
///
/// # Safety
/// The processor has the instruction set of `V`; `scores` points to `keys * C * WIDTH` writable floats.
#[inline(always)]
unsafe fn softmax<V: Lanes, F: AttentionFormat<V>, const C: usize>(scores: *mut f32, keys: usize) -> [V; C] {
    // SAFETY: the caller guarantees the scores. A unit overwrites rows that were already read.
    unsafe {
        let mut max = [V::splat(f32::NEG_INFINITY); C];
        for key in 0..keys {
            for (c, max) in max.iter_mut().enumerate() {
                *max = max.max(V::load(scores.add((key * C + c) * V::WIDTH)));
            }
        }
        let mut sums = [V::splat(0.0); C];
        for unit in 0..keys.div_ceil(F::UNIT) {
            for (c, (sum, max)) in sums.iter_mut().zip(max).enumerate() {
                let mut rows = [V::splat(0.0); 2];
                for (row, key) in rows.iter_mut().zip(unit * F::UNIT..keys).take(F::UNIT) {
                    *row = exp(V::load(scores.add((key * C + c) * V::WIDTH)).sub(max));
                    *sum = sum.add(*row);
                }
                F::store_units(rows, scores.add((unit * C + c) * V::WIDTH).cast());
            }
        }
        sums
    }
}

/// Transposes `count` rows of queries into a panel `[head_dim, lanes]`; unused lanes repeat the last query.
///
/// # Safety
/// The processor has the instruction set of `V`; `count` is at least 1 and at most `lanes`, whole registers; `rows` points to `count` rows
/// of `head_dim` readable floats, every `stride`, and `to` to a writable panel.
#[inline(always)]
unsafe fn pack_queries<V: Lanes>(
    rows: *const f32,
    stride: usize,
    count: usize,
    head_dim: usize,
    to: *mut f32,
    lanes: usize,
) {
    let whole = head_dim - head_dim % V::WIDTH;
    // SAFETY: the caller guarantees rows and panel; squares are inside the panel, and only existing rows are read.
    unsafe {
        for lane in (0..lanes).step_by(V::WIDTH) {
            let first = lane.min(count - 1);
            for d in (0..whole).step_by(V::WIDTH) {
                let square = rows.add(first * stride + d);
                V::transpose(
                    square,
                    stride,
                    V::WIDTH.min(count - first),
                    to.add(d * lanes + lane),
                    lanes,
                    V::WIDTH,
                );
            }
        }
        for (d, lane) in (whole..head_dim).flat_map(|d| (0..lanes).map(move |lane| (d, lane))) {
            *to.add(d * lanes + lane) = *rows.add(lane.min(count - 1) * stride + d);
        }
    }
}

/// Transposes `count` lanes of a panel `[head_dim, lanes]` into rows.
///
/// # Safety
/// As [`pack_queries`], with a readable panel and writable rows.
#[inline(always)]
unsafe fn unpack_context<V: Lanes>(
    from: *const f32,
    lanes: usize,
    head_dim: usize,
    rows: *mut f32,
    stride: usize,
    count: usize,
) {
    let whole = head_dim - head_dim % V::WIDTH;
    // SAFETY: the caller guarantees rows and panel; squares are inside the panel, and only existing rows are written.
    unsafe {
        for lane in (0..count).step_by(V::WIDTH) {
            for d in (0..whole).step_by(V::WIDTH) {
                let square = from.add(d * lanes + lane);
                V::transpose(
                    square,
                    lanes,
                    V::WIDTH,
                    rows.add(lane * stride + d),
                    stride,
                    V::WIDTH.min(count - lane),
                );
            }
        }
        for (d, lane) in (whole..head_dim).flat_map(|d| (0..count).map(move |lane| (d, lane))) {
            *rows.add(lane * stride + d) = *from.add(d * lanes + lane);
        }
    }
}
