//! Attention, once, over [`Lanes`]: a lane of a register is a query.
//!
//! For a panel of queries of one head the scores are a product of keys with queries, `[keys, queries]`. Down its columns the softmax is
//! lane by lane, without a sum across a register, and its rows are the panel that the values are multiplied with: `[head_dim,
//! queries]`. So neither keys nor values are packed or filled up; queries are turned on the way in, and the context on the way out.
//!
//! What a query gets is one chain of operations over the keys, in order, whatever queries stand beside it.

use crate::generic::{Left, Side, column};
use crate::lanes::{Lanes, exp};
use crate::layout::{AttentionShape, Epilogue};

/// See [`crate::Kernels::attention`].
#[inline(always)]
pub(crate) unsafe fn attention<V: Lanes, const C: usize>(
    shape: &AttentionShape,
    qkv: &[f32],
    scratch: &mut [f32],
    out: &mut [f32],
) {
    shape.check(qkv, scratch, out);
    let AttentionShape { tokens, heads, head_dim, qkv_stride, out_stride } = *shape;
    let (keys, scratch) = scratch.split_at_mut(tokens * head_dim);
    let (values, scratch) = scratch.split_at_mut(tokens * head_dim);
    for head in 0..heads {
        gather(&qkv[(heads + head) * head_dim..], qkv_stride, head_dim, keys);
        gather(&qkv[(2 * heads + head) * head_dim..], qkv_stride, head_dim, values);
        let mut first = 0;
        while first < tokens {
            let rest = tokens - first;
            // few queries don't fill a whole panel
            let lanes = if rest <= V::WIDTH { V::WIDTH } else { C * V::WIDTH };
            let (queries, context) = scratch.split_at_mut(head_dim * lanes);
            let (context, scores) = context.split_at_mut(head_dim * lanes);
            // SAFETY: this function runs under the instruction set of V; `check` asserted the lengths of all slices, of which scratch has
            // room for panels of `lanes` queries.
            unsafe {
                let panel = Panel {
                    keys: keys.as_ptr(),
                    values: values.as_ptr(),
                    tokens,
                    head_dim,
                    queries: queries.as_ptr(),
                    scores: scores.as_mut_ptr(),
                    context: context.as_mut_ptr(),
                };
                let count = rest.min(lanes);
                let from = qkv.as_ptr().add(first * qkv_stride + head * head_dim);
                turn_in::<V>(from, qkv_stride, count, head_dim, queries.as_mut_ptr(), lanes);
                if lanes == V::WIDTH {
                    attend::<V, 1>(&panel);
                } else {
                    attend::<V, C>(&panel);
                }
                let to = out.as_mut_ptr().add(first * out_stride + head * head_dim);
                turn_out::<V>(panel.context, lanes, head_dim, to, out_stride, count);
            }
            first += lanes;
        }
    }
}

/// Rows of one head, one behind the other: where they come from they are so far apart that few of them fit the cache together.
fn gather(from: &[f32], stride: usize, head_dim: usize, to: &mut [f32]) {
    for (row, to) in from.chunks(stride).zip(to.chunks_exact_mut(head_dim)) {
        to.copy_from_slice(&row[..head_dim]);
    }
}

/// A panel of queries of one head, and what they are asked about.
struct Panel {
    /// `[tokens, head_dim]`
    keys: *const f32,
    /// `[tokens, head_dim]`
    values: *const f32,
    tokens: usize,
    head_dim: usize,
    /// `[head_dim, lanes]`
    queries: *const f32,
    /// `[tokens, lanes]`
    scores: *mut f32,
    /// `[head_dim, lanes]`
    context: *mut f32,
}

/// The context of a panel of `C` registers of queries.
#[inline(always)]
unsafe fn attend<V: Lanes, const C: usize>(panel: &Panel) {
    let Panel { keys, values, tokens, head_dim, queries, scores, context } = *panel;
    let lanes = C * V::WIDTH;
    // SAFETY: the caller vouches for the panel.
    unsafe {
        let side = Side { panel: queries, depth: head_dim, bias: None };
        let keys = Left { at: keys, row: head_dim, step: 1 };
        column::<V, _, C>(tokens, keys, &side, Epilogue::Store, scores, lanes);
        let sums = softmax::<V, C>(scores, tokens);
        let side = Side { panel: scores.cast_const(), depth: tokens, bias: None };
        let values = Left { at: values, row: 1, step: head_dim };
        column::<V, _, C>(head_dim, values, &side, Epilogue::Store, context, lanes);
        let scales = sums.map(|sum| V::splat(1.0).div(sum));
        for row in 0..head_dim {
            for (c, scale) in scales.iter().enumerate() {
                let at = context.add(row * lanes + c * V::WIDTH);
                V::load(at).mul(*scale).store(at);
            }
        }
    }
}

/// Of the scores `[keys, C registers]` `e` to the score less the largest of its lane; returns the sums of the lanes.
#[inline(always)]
unsafe fn softmax<V: Lanes, const C: usize>(scores: *mut f32, keys: usize) -> [V; C] {
    // SAFETY: the caller vouches for the scores.
    unsafe {
        let at = |key: usize, c: usize| scores.add((key * C + c) * V::WIDTH);
        let mut max = [V::splat(f32::NEG_INFINITY); C];
        for key in 0..keys {
            for (c, max) in max.iter_mut().enumerate() {
                *max = max.max(V::load(at(key, c)));
            }
        }
        let mut sums = [V::splat(0.0); C];
        for key in 0..keys {
            for (c, (sum, max)) in sums.iter_mut().zip(max).enumerate() {
                let e = exp(V::load(at(key, c)).sub(max));
                e.store(at(key, c));
                *sum = sum.add(e);
            }
        }
        sums
    }
}

/// `count` rows of queries into a panel `[head_dim, lanes]`; lanes without a query hold the last one.
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
