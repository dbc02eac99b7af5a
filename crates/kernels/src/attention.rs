//! Attention, once, over [`Lanes`]: a lane of a register is a query.
//!
//! For a panel of queries of one head the scores are a product of keys with queries, `[keys, queries]`. Down its columns the softmax is
//! lane by lane, without a sum across a register, and its rows are the panel that the values are multiplied with: `[head_dim,
//! queries]`. So keys and values are only copied side by side; queries are turned on the way in, and the context on the way out.
//!
//! What a query gets is one chain of operations over the keys, in order, whatever queries stand beside it.

use crate::generic::{Left, Side, column};
use crate::lanes::{Factor, Lanes, Pair, PairLanes, exp};
use crate::layout::{AttentionShape, Epilogue, PANEL_MAX};

/// Floats of the widest register.
const WIDTH_MAX: usize = 16;

/// The number format that attention multiplies in. `UNIT` numbers take four bytes.
pub(crate) trait Form<V: Lanes>: Factor<V, LeftNumber = <Self as Factor<V>>::Number> {
    /// Writes floats as numbers that follow each other in the depth.
    ///
    /// # Safety
    /// `to` points to `WIDTH` writable numbers.
    unsafe fn store(floats: V, to: *mut Self::Number);
    /// Writes floats of `UNIT` rows of a panel as its places.
    ///
    /// # Safety
    /// `to` points to `UNIT * WIDTH` writable numbers.
    unsafe fn store_places(rows: [V; 2], to: *mut Self::Number);
}

impl<V: Lanes> Form<V> for f32 {
    #[inline(always)]
    unsafe fn store(floats: V, to: *mut f32) {
        // SAFETY: the caller vouches for the room.
        unsafe { floats.store(to) }
    }
    #[inline(always)]
    unsafe fn store_places(rows: [V; 2], to: *mut f32) {
        // SAFETY: as above.
        unsafe { rows[0].store(to) }
    }
}

impl<V: PairLanes> Form<V> for Pair {
    #[inline(always)]
    unsafe fn store(floats: V, to: *mut u16) {
        // SAFETY: as above.
        unsafe { floats.store_bf16(to) }
    }
    #[inline(always)]
    unsafe fn store_places(rows: [V; 2], to: *mut u16) {
        // SAFETY: as above.
        unsafe { V::store_pairs(V::pairs(rows[0], rows[1]), to) }
    }
}

/// See [`crate::Kernels::attention`].
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
pub(crate) unsafe fn attention<V: Lanes, F: Form<V>, const C: usize>(
    shape: &AttentionShape,
    qkv: &[f32],
    scratch: &mut [f32],
    out: &mut [f32],
) {
    const {
        assert!(
            C * V::WIDTH <= PANEL_MAX && V::WIDTH <= WIDTH_MAX,
            "scratch has room for a panel, a tail for a register"
        );
        assert!(F::UNIT * size_of::<F::Number>() == size_of::<f32>(), "a place is as large as a float");
        assert!(V::WIDTH.is_multiple_of(F::UNIT), "registers hold whole places");
    }
    shape.check(qkv, scratch, out);
    let AttentionShape { tokens, heads, head_dim, qkv_stride, out_stride } = *shape;
    if tokens == 0 || head_dim == 0 {
        return;
    }
    let (keys, scratch) = scratch.split_at_mut(tokens * head_dim);
    let (values, scratch) = scratch.split_at_mut(tokens * head_dim);
    for head in 0..heads {
        // SAFETY: the caller vouches for the instruction set; `check` asserted the lengths of all slices, of which scratch has room for
        // keys, values and a panel of `lanes` queries, at most `PANEL_MAX`.
        unsafe {
            let qkv = qkv.as_ptr().add(head * head_dim);
            pack_keys::<V, F>(qkv.add(heads * head_dim), shape, keys.as_mut_ptr().cast());
            pack_places::<V, F>(
                qkv.add(2 * heads * head_dim),
                qkv_stride,
                (tokens, head_dim),
                values.as_mut_ptr().cast(),
            );
            let mut first = 0;
            while first < tokens {
                let rest = tokens - first;
                // few queries don't fill a whole panel
                let lanes = if rest <= V::WIDTH { V::WIDTH } else { C * V::WIDTH };
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
                let count = rest.min(lanes);
                turn_in::<V>(qkv.add(first * qkv_stride), qkv_stride, count, head_dim, queries, lanes);
                if lanes == V::WIDTH {
                    attend::<V, F, 1>(&panel);
                } else {
                    attend::<V, F, C>(&panel);
                }
                let to = out.as_mut_ptr().add(first * out_stride + head * head_dim);
                turn_out::<V>(context, lanes, head_dim, to, out_stride, count);
                first += lanes;
            }
        }
    }
}

/// Keys of one head, `[tokens, head_dim]`, one behind the other, each filled up to whole places: where they come from they are so far apart
/// that few of them fit the cache together.
///
/// # Safety
/// The processor has the instruction set of `V`; `from` points to `tokens` rows of `head_dim` readable floats, every `qkv_stride`, and `to`
/// to as many writable rows of whole places.
#[inline(always)]
unsafe fn pack_keys<V: Lanes, F: Form<V>>(from: *const f32, shape: &AttentionShape, to: *mut F::Number) {
    let AttentionShape { tokens, head_dim, qkv_stride, .. } = *shape;
    let (whole, width) = (head_dim - head_dim % V::WIDTH, head_dim.next_multiple_of(F::UNIT));
    for token in 0..tokens {
        // SAFETY: the caller vouches for all rows and for the room.
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

/// Rows `[depth, width]` as places, `[depth / UNIT, width]`, which may be in the same memory if the rows follow each other there. Rows that are
/// missing to whole places are zero.
///
/// # Safety
/// The processor has the instruction set of `V`; `from` points to `depth` rows of `width` readable floats, every `stride`, and `to` to
/// `depth / UNIT` rows, rounded up, of `width` writable places.
#[inline(always)]
unsafe fn pack_places<V: Lanes, F: Form<V>>(
    from: *const f32,
    stride: usize,
    (depth, width): (usize, usize),
    to: *mut F::Number,
) {
    let whole = width - width % V::WIDTH;
    for place in 0..depth.div_ceil(F::UNIT) {
        // SAFETY: the caller vouches for all rows and for the room.
        unsafe {
            let first = from.add(place * F::UNIT * stride);
            let has_second = F::UNIT == 2 && 2 * place + 1 < depth;
            let to = to.add(place * width * F::UNIT);
            for column in (0..whole).step_by(V::WIDTH) {
                let at = first.add(column);
                let second = if has_second { V::load(at.add(stride)) } else { V::splat(0.0) };
                F::store_places([V::load(at), second], to.add(column * F::UNIT));
            }
            if whole < width {
                let (mut tails, mut packed) = ([[0.0; WIDTH_MAX]; 2], [0.0f32; WIDTH_MAX]);
                for (row, tail) in tails.iter_mut().enumerate().take(1 + usize::from(has_second)) {
                    tail.as_mut_ptr()
                        .copy_from_nonoverlapping(first.add(row * stride + whole), width - whole);
                }
                let rows = [V::load(tails[0].as_ptr()), V::load(tails[1].as_ptr())];
                F::store_places(rows, packed.as_mut_ptr().cast());
                let numbers = (width - whole) * F::UNIT;
                to.add(whole * F::UNIT).copy_from_nonoverlapping(packed.as_ptr().cast(), numbers);
            }
        }
    }
}

/// A panel of queries of one head, and what they are asked about.
struct Panel<N> {
    /// `[tokens, head_dim]`, see [`pack_keys`].
    keys: *const N,
    /// `[tokens, head_dim]`, see [`pack_places`].
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

/// The context of a panel of `C` registers of queries.
///
/// # Safety
/// The processor has the instruction set of `V`; keys and values are readable, queries, context and scores writable in the shapes that
/// [`Panel`] gives, for `C * WIDTH` lanes and at least one token and one float of a head.
#[inline(always)]
unsafe fn attend<V: Lanes, F: Form<V>, const C: usize>(panel: &Panel<F::Number>) {
    let Panel { keys, values, tokens, head_dim, queries, scores, context } = *panel;
    let lanes = C * V::WIDTH;
    let (dim_units, token_units) = (head_dim.div_ceil(F::UNIT), tokens.div_ceil(F::UNIT));
    // SAFETY: the caller vouches for the panel; a place takes no more memory than a float.
    unsafe {
        if F::UNIT > 1 {
            pack_places::<V, F>(queries, lanes, (head_dim, lanes), queries.cast());
        }
        let side = Side { panel: queries.cast_const().cast(), units: dim_units, bias: None };
        let keys = Left { at: keys, row: dim_units * F::UNIT, step: F::UNIT };
        column::<V, F, C>(tokens, keys, &side, Epilogue::Store, scores, lanes);
        let sums = softmax::<V, F, C>(scores, tokens);
        let side = Side { panel: scores.cast_const().cast(), units: token_units, bias: None };
        let values = Left { at: values, row: F::UNIT, step: head_dim * F::UNIT };
        column::<V, F, C>(head_dim, values, &side, Epilogue::Store, context, lanes);
        let scales = sums.map(|sum| V::splat(1.0).div(sum));
        for row in 0..head_dim {
            for (c, scale) in scales.iter().enumerate() {
                let at = context.add(row * lanes + c * V::WIDTH);
                V::load(at).mul(*scale).store(at);
            }
        }
    }
}

/// Makes of the scores `[keys, C registers]` `e` to the score less the largest of its lane, as places; returns the sums of the lanes.
///
/// # Safety
/// The processor has the instruction set of `V`; `scores` points to `keys * C * WIDTH` writable floats.
#[inline(always)]
unsafe fn softmax<V: Lanes, F: Form<V>, const C: usize>(scores: *mut f32, keys: usize) -> [V; C] {
    // SAFETY: the caller vouches for the scores. A place lies no further on than what it is made of.
    unsafe {
        let mut max = [V::splat(f32::NEG_INFINITY); C];
        for key in 0..keys {
            for (c, max) in max.iter_mut().enumerate() {
                *max = max.max(V::load(scores.add((key * C + c) * V::WIDTH)));
            }
        }
        let mut sums = [V::splat(0.0); C];
        for place in 0..keys.div_ceil(F::UNIT) {
            for (c, (sum, max)) in sums.iter_mut().zip(max).enumerate() {
                let mut rows = [V::splat(0.0); 2];
                for (row, key) in rows.iter_mut().zip(place * F::UNIT..keys).take(F::UNIT) {
                    *row = exp(V::load(scores.add((key * C + c) * V::WIDTH)).sub(max));
                    *sum = sum.add(*row);
                }
                F::store_places(rows, scores.add((place * C + c) * V::WIDTH).cast());
            }
        }
        sums
    }
}

/// `count` rows of queries into a panel `[head_dim, lanes]`; lanes without a query hold the last one.
///
/// # Safety
/// The processor has the instruction set of `V`; `count` is at least 1 and at most `lanes`, whole registers; `rows` points to `count` rows
/// of `head_dim` readable floats, every `stride`, and `to` to a writable panel.
#[inline(always)]
unsafe fn turn_in<V: Lanes>(
    rows: *const f32,
    stride: usize,
    count: usize,
    head_dim: usize,
    to: *mut f32,
    lanes: usize,
) {
    let whole = head_dim - head_dim % V::WIDTH;
    // SAFETY: the caller vouches for both; squares lie inside the panel, and rows that aren't there are not read.
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

/// `count` lanes of a panel `[head_dim, lanes]` into rows.
///
/// # Safety
/// As [`turn_in`], with a readable panel and writable rows.
#[inline(always)]
unsafe fn turn_out<V: Lanes>(
    from: *const f32,
    lanes: usize,
    head_dim: usize,
    rows: *mut f32,
    stride: usize,
    count: usize,
) {
    let whole = head_dim - head_dim % V::WIDTH;
    // SAFETY: as in `turn_in`, the other way round.
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
