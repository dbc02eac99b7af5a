//! Compares the attention of every instruction set with the scalar reference.

use super::{assert_close, compared, numbers, sizes, through_bf16};
use crate::layout::AlignedVec;
use crate::{AttentionShape, Kernels};

type Attention = fn(&AttentionShape, &[f32], &mut [f32], &mut [f32]);

fn attend(attention: Attention, qkv: &[f32], tokens: usize, heads: usize, head_dim: usize) -> Vec<f32> {
    let width = heads * head_dim;
    let shape = AttentionShape { tokens, heads, head_dim, qkv_stride: 3 * width + 7, out_stride: width + 1 };
    let mut scratch = AlignedVec::zeroed(shape.scratch_len());
    scratch.fill(f32::NAN); // a read before a write shows in the result
    let mut out = vec![0.0; tokens * shape.out_stride];
    attention(&shape, &qkv[..tokens * shape.qkv_stride], &mut scratch, &mut out);
    assert!(out.iter().skip(width).step_by(shape.out_stride).all(|x| *x == 0.0), "written between the rows");
    (0..tokens).flat_map(|row| out[row * shape.out_stride..][..width].to_vec()).collect()
}

#[test]
fn every_attention_agrees_with_the_reference() {
    let tables = compared();
    let reference = Kernels::scalar().attention;
    for tokens in sizes((1..=18).chain([31, 32, 33, 47, 48, 49, 97, 130]), &[1, 17]) {
        for (heads, head_dim) in sizes([(1, 8), (2, 32), (3, 16), (1, 64), (2, 20), (1, 7)], &[(2, 5)]) {
            let qkv: Vec<f32> =
                numbers(5, tokens * (3 * heads * head_dim + 7)).into_iter().map(|x| 3.0 * x).collect();
            let of = |attention, qkv: &[f32]| attend(attention, qkv, tokens, heads, head_dim);
            let want = of(reference, &qkv);
            // the weights are rounded as well
            let has_pairs = tables.iter().any(|(_, kernels)| kernels.bf16.is_some());
            let want_pairs = has_pairs.then(|| of(reference, &through_bf16(&qkv)));
            for (name, kernels) in &tables {
                let what = format!("{name} {tokens} tokens, {heads}x{head_dim}");
                assert_close(&what, &of(kernels.attention, &qkv), &want, 5e-5);
                if let (Some(pairs), Some(want)) = (&kernels.bf16, &want_pairs) {
                    assert_close(&format!("pairs {what}"), &of(pairs.attention, &qkv), want, 4e-3);
                }
            }
        }
    }
}
