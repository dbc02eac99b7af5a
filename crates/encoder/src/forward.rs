//! The forward pass over a packed batch.

use std::ops::Range;

use weir_kernels::{AlignedVec, AttentionShape, Codes, Epilogue, Matmul, MatmulInt8};

use crate::model::Model;
use crate::weights::{Layer, Linear, Matrix, Norm};
use crate::{Pooling, Precision};

/// Working memory of one thread. Grows to the largest batch it has seen and is used again.
pub struct Scratch {
    /// `[tokens, width]`: the residual stream.
    hidden: AlignedVec<f32>,
    /// `[tokens, 3 * width]`
    qkv: AlignedVec<f32>,
    /// `[tokens, width]`: what attention gives.
    context: AlignedVec<f32>,
    /// `[FFN_ROWS, intermediate]`
    wide: AlignedVec<f32>,
    attention: AlignedVec<f32>,
    /// int8: the rows that a product reads.
    codes: Codes,
}

/// Rows of the feed-forward part that are worked on at a time, so that the wide rows stay in the second-level cache.
const FFN_ROWS: usize = 48;

/// Rows are padded to whole panels of the widest instruction set.
const PADDING: usize = 32;

impl Scratch {
    /// Empty working memory.
    pub fn new() -> Scratch {
        let empty = || AlignedVec::zeroed(0);
        Scratch {
            hidden: empty(),
            qkv: empty(),
            context: empty(),
            wide: empty(),
            attention: empty(),
            codes: Codes::new(),
        }
    }
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

/// See [`Model::embed`].
pub(crate) fn embed(model: &Model, sequences: &[&[u32]], scratch: &mut Scratch, out: &mut [f32]) {
    let config = &model.config.bert;
    assert_eq!(out.len(), sequences.len() * config.hidden_size, "embed: out has the wrong length");
    for ids in sequences {
        assert!(!ids.is_empty() && ids.len() <= model.config.max_tokens, "embed: {} tokens", ids.len());
    }
    let pass = Pass::new(model, sequences);
    let (tokens, strides) = (pass.tokens, pass.strides);
    scratch.hidden.grow(tokens * strides.hidden);
    scratch.qkv.grow(tokens * strides.qkv);
    scratch.context.grow(tokens * strides.hidden);
    scratch.wide.grow(FFN_ROWS * strides.wide);

    pass.look_up(&mut scratch.hidden);
    for layer in &model.weights.layout.layers {
        pass.attend(layer, scratch);
        pass.feed_forward(layer, scratch);
    }
    pass.pool(&scratch.hidden, out);
}

/// Floats from one row to the next in each buffer.
#[derive(Clone, Copy)]
pub(crate) struct Strides {
    pub(crate) hidden: usize,
    qkv: usize,
    pub(crate) wide: usize,
}

/// One forward pass.
pub(crate) struct Pass<'a> {
    pub(crate) model: &'a Model,
    pub(crate) sequences: &'a [&'a [u32]],
    pub(crate) tokens: usize,
    pub(crate) strides: Strides,
}

/// The left-hand side of a product, as rows that start every `stride` floats, and as codes where the weights are int8.
pub(crate) struct Rows<'a> {
    pub(crate) floats: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) codes: &'a Codes,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(model: &'a Model, sequences: &'a [&'a [u32]]) -> Pass<'a> {
        let config = &model.config.bert;
        let strides = Strides {
            hidden: config.hidden_size.next_multiple_of(PADDING),
            qkv: (3 * config.hidden_size).next_multiple_of(PADDING),
            wide: config.intermediate_size.next_multiple_of(PADDING),
        };
        let tokens = sequences.iter().map(|ids| ids.len()).sum();
        Pass { model, sequences, tokens, strides }
    }

    pub(crate) fn width(&self) -> usize {
        self.model.config.bert.hidden_size
    }

    /// Word + position + token type, normalised.
    pub(crate) fn look_up(&self, hidden: &mut [f32]) {
        let (width, weights) = (self.width(), &self.model.weights);
        let positions = weights.floats(&weights.layout.positions);
        let mut rows = hidden.chunks_exact_mut(self.strides.hidden);
        for ids in self.sequences {
            for ((id, position), row) in ids.iter().zip(positions.chunks_exact(width)).zip(&mut rows) {
                row[..width].copy_from_slice(position);
                weights.add_word(*id, &mut row[..width]);
                row[width..].fill(0.0);
            }
        }
        self.normalise(hidden, &weights.layout.embedding_norm);
    }

    fn attend(&self, layer: &Layer, scratch: &mut Scratch) {
        let Strides { hidden, qkv, .. } = self.strides;
        self.product(
            &layer.qkv,
            self.tokens,
            (&scratch.hidden, hidden),
            Epilogue::Store,
            (&mut scratch.qkv, qkv),
            &mut scratch.codes,
        );
        let heads = self.model.config.bert.num_attention_heads;
        let mut first = 0;
        for ids in self.sequences {
            let shape = AttentionShape {
                tokens: ids.len(),
                heads,
                head_dim: self.width() / heads,
                qkv_stride: qkv,
                out_stride: hidden,
            };
            scratch.attention.grow(shape.scratch_len());
            (self.model.kernels.attention)(
                &shape,
                &scratch.qkv[first * qkv..],
                &mut scratch.attention,
                &mut scratch.context[first * hidden..],
            );
            first += ids.len();
        }
        let context = (&*scratch.context, hidden);
        self.product(
            &layer.attention_out,
            self.tokens,
            context,
            Epilogue::Add,
            (&mut scratch.hidden, hidden),
            &mut scratch.codes,
        );
        self.normalise(&mut scratch.hidden, &layer.attention_norm);
    }

    fn feed_forward(&self, layer: &Layer, scratch: &mut Scratch) {
        let Strides { hidden, wide, .. } = self.strides;
        for first in (0..self.tokens).step_by(FFN_ROWS) {
            let rows = FFN_ROWS.min(self.tokens - first);
            let block = &mut scratch.hidden[first * hidden..][..rows * hidden];
            let middle = (&mut *scratch.wide, wide);
            self.product(&layer.up, rows, (block, hidden), Epilogue::Gelu, middle, &mut scratch.codes);
            let middle = (&*scratch.wide, wide);
            self.product(&layer.down, rows, middle, Epilogue::Add, (block, hidden), &mut scratch.codes);
        }
        self.normalise(&mut scratch.hidden, &layer.ffn_norm);
    }

    fn product(
        &self,
        linear: &Linear,
        rows: usize,
        (a, a_stride): (&[f32], usize),
        epilogue: Epilogue,
        (out, out_stride): (&mut [f32], usize),
        codes: &mut Codes,
    ) {
        self.quantise(rows, linear.depth, (a, a_stride), codes);
        let a = Rows { floats: a, stride: a_stride, codes };
        self.columns(linear, 0..linear.columns, rows, &a, epilogue, (out, out_stride));
    }

    /// Makes the codes of `rows` rows of `depth` values, where products need them.
    pub(crate) fn quantise(
        &self,
        rows: usize,
        depth: usize,
        (a, stride): (&[f32], usize),
        codes: &mut Codes,
    ) {
        if self.model.weights.layout.precision == Precision::Int8 {
            codes.fit(rows, depth, self.model.kernels.code_bytes);
            (self.model.kernels.quantise)(a, stride, codes);
        }
    }

    /// Some columns of a product, from a border of panels to another.
    pub(crate) fn columns(
        &self,
        linear: &Linear,
        columns: Range<usize>,
        rows: usize,
        a: &Rows<'_>,
        epilogue: Epilogue,
        (out, out_stride): (&mut [f32], usize),
    ) {
        let (kernels, weights) = (self.model.kernels, &self.model.weights);
        let bias = &weights.floats(&linear.bias)[columns.start..];
        let Rows { floats, stride: a_stride, codes } = *a;
        match weights.matrix(linear) {
            Matrix::F32(b) => {
                let b = b.columns(columns);
                (kernels.matmul)(Matmul { rows, a: floats, a_stride, b, bias, epilogue, out, out_stride });
            }
            Matrix::Bf16(b) => {
                let b = b.columns(columns);
                (kernels.matmul_bf16)(Matmul {
                    rows,
                    a: floats,
                    a_stride,
                    b,
                    bias,
                    epilogue,
                    out,
                    out_stride,
                });
            }
            Matrix::Int8(b) => {
                let b = b.columns(columns);
                (kernels.matmul_int8)(MatmulInt8 { a: codes, b, bias, epilogue, out, out_stride });
            }
        }
    }

    pub(crate) fn normalise(&self, rows: &mut [f32], norm: &Norm) {
        let (stride, weights) = (self.strides.hidden, &self.model.weights);
        let epsilon = self.model.config.bert.layer_norm_eps;
        (self.model.kernels.layer_norm)(
            &mut rows[..self.tokens * stride],
            stride,
            weights.floats(&norm.gamma),
            weights.floats(&norm.beta),
            epsilon,
        );
    }

    /// One vector for each sequence.
    pub(crate) fn pool(&self, hidden: &[f32], out: &mut [f32]) {
        let width = self.width();
        let mut rows = hidden.chunks_exact(self.strides.hidden);
        for (ids, out) in self.sequences.iter().zip(out.chunks_exact_mut(width)) {
            match self.model.config.pooling {
                Pooling::Mean => {
                    out.fill(0.0);
                    for row in rows.by_ref().take(ids.len()) {
                        out.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
                    }
                    out.iter_mut().for_each(|x| *x /= ids.len() as f32);
                }
                Pooling::Cls => {
                    let mut all = rows.by_ref().take(ids.len());
                    if let Some(row) = all.next() {
                        out.copy_from_slice(&row[..width]);
                    }
                    all.for_each(drop);
                }
            }
            if self.model.config.normalise {
                let length = (self.model.kernels.dot)(out, out).sqrt().max(1e-12);
                out.iter_mut().for_each(|x| *x /= length);
            }
        }
    }
}
