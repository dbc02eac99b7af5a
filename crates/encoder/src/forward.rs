//! The forward pass over a packed batch.

use std::ops::Range;

use weir_kernels::{
    AlignedVec, AttentionShape, Epilogue, Kernels, Matmul, MatmulInt8, PANEL_MAX, QuantizedRows,
};

use crate::Precision;
use crate::config::{ModelConfig, Network};
use crate::network::LoadedNetwork;
use crate::weights::{Layer, Linear, Matrix, Norm};

/// Working memory of one thread. Grows to the largest batch, and is reused.
pub struct Scratch {
    /// `[tokens, width]`: the residual stream.
    hidden: AlignedVec<f32>,
    /// `[tokens, 3 * width]`
    qkv: AlignedVec<f32>,
    /// `[tokens, width]`: the output of attention.
    context: AlignedVec<f32>,
    /// `[FFN_ROWS, intermediate]`: the hidden layer of the feed-forward network.
    wide: AlignedVec<f32>,
    attention: AlignedVec<f32>,
    quantized: QuantizedActivations,
    /// See [`Scratch::before_each_sublayer`].
    before_sublayer: fn(),
}

/// The left-hand rows of a product, converted to the number format of its precision; unused for f32.
#[derive(Default)]
pub(crate) struct QuantizedActivations {
    int8: QuantizedRows,
    /// Rows padded to whole pairs, for kernels that multiply bf16 values.
    bf16: AlignedVec<u16>,
}

impl QuantizedActivations {
    fn memory_bytes(&self) -> usize {
        self.int8.memory_bytes() + self.bf16.memory_bytes()
    }
}

/// Rows per step of the feed-forward network, so that its hidden layer stays in the L2 cache.
const FFN_ROWS: usize = 48;

/// Rows are padded to whole panels of every instruction set.
const PADDING: usize = PANEL_MAX;

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
            quantized: QuantizedActivations::default(),
            before_sublayer: || (),
        }
    }

    /// Calls `hook` before the attention and before the feed-forward network of each layer, for example to yield the core to other threads.
    pub fn before_each_sublayer(self, hook: fn()) -> Scratch {
        Scratch { before_sublayer: hook, ..self }
    }

    /// Bytes of allocated memory.
    pub fn memory_bytes(&self) -> usize {
        let floats = [&self.hidden, &self.qkv, &self.context, &self.wide, &self.attention];
        floats.map(AlignedVec::memory_bytes).iter().sum::<usize>() + self.quantized.memory_bytes()
    }

    /// The rows of the residual stream, `width` floats each; after [`run`] one for each token of the batch.
    pub(crate) fn rows(&self, width: usize) -> impl Iterator<Item = &[f32]> {
        rows_of(&self.hidden, width)
    }
}

/// The rows of a residual stream without padding.
pub(crate) fn rows_of(hidden: &[f32], width: usize) -> impl Iterator<Item = &[f32]> {
    hidden.chunks_exact(width.next_multiple_of(PADDING)).map(move |row| &row[..width])
}

impl Default for Scratch {
    fn default() -> Scratch {
        Scratch::new()
    }
}

/// Runs the network over `sequences`. The last hidden rows are then in [`Scratch::rows`].
///
/// `second` has the index of the first token of type 1 for each sequence; sequences beyond its length have none.
pub(crate) fn run(network: &LoadedNetwork, sequences: &[&[u32]], second: &[usize], scratch: &mut Scratch) {
    let pass = Pass::new(network, sequences, second);
    let (tokens, strides) = (pass.tokens, pass.strides);
    scratch.hidden.grow(tokens * strides.hidden);
    scratch.qkv.grow(tokens * strides.qkv);
    scratch.context.grow(tokens * strides.hidden);
    scratch.wide.grow(FFN_ROWS * strides.wide);

    pass.look_up_embeddings(&mut scratch.hidden);
    for layer in &network.weights.layout.layers {
        (scratch.before_sublayer)();
        pass.attend(layer, scratch);
        (scratch.before_sublayer)();
        pass.feed_forward(layer, scratch);
    }
}

/// Upper bound of the bytes of working memory for batches of `tokens` tokens.
pub(crate) fn working_bytes(
    model: &ModelConfig,
    precision: Precision,
    kernels: &Kernels,
    tokens: usize,
) -> usize {
    let config = &model.network;
    let strides = Strides::of(config);
    let shape = AttentionShape {
        tokens: tokens.min(model.max_tokens),
        heads: config.num_attention_heads,
        head_dim: config.hidden_size / config.num_attention_heads,
        qkv_stride: strides.qkv,
        out_stride: strides.hidden,
    };
    let buffers = [
        tokens * strides.hidden,
        tokens * strides.qkv,
        tokens * strides.hidden,
        FFN_ROWS * strides.wide,
        shape.scratch_len(),
    ];
    let floats = buffers.iter().map(|len| (len * size_of::<f32>()).next_multiple_of(64)).sum::<usize>();
    let wide_rows = FFN_ROWS.min(tokens);
    let bytes_of = |rows, width: usize| match precision {
        Precision::Int8 => QuantizedRows::bytes_for(rows, width, kernels.code_bytes),
        Precision::Bf16 if kernels.bf16.is_some() => rows * bf16_stride(width) * size_of::<u16>() + 64,
        Precision::Bf16 | Precision::F32 => 0,
    };
    floats + bytes_of(tokens, config.hidden_size) + bytes_of(wide_rows, config.intermediate_size)
}

/// Bf16 values from one row to the next.
fn bf16_stride(depth: usize) -> usize {
    depth.next_multiple_of(2)
}

/// Floats from one row to the next in each buffer.
#[derive(Clone, Copy)]
pub(crate) struct Strides {
    pub(crate) hidden: usize,
    qkv: usize,
    pub(crate) wide: usize,
}

impl Strides {
    fn of(config: &Network) -> Strides {
        Strides {
            hidden: config.hidden_size.next_multiple_of(PADDING),
            qkv: (3 * config.hidden_size).next_multiple_of(PADDING),
            wide: config.intermediate_size.next_multiple_of(PADDING),
        }
    }
}

/// One forward pass.
pub(crate) struct Pass<'a> {
    pub(crate) network: &'a LoadedNetwork,
    pub(crate) sequences: &'a [&'a [u32]],
    second: &'a [usize],
    pub(crate) tokens: usize,
    pub(crate) strides: Strides,
}

/// The left-hand side of a product: rows that start every `stride` floats, and the same rows after [`Pass::quantize`].
pub(crate) struct Activations<'a> {
    pub(crate) floats: &'a [f32],
    pub(crate) stride: usize,
    pub(crate) quantized: &'a QuantizedActivations,
}

impl<'a> Pass<'a> {
    /// # Panics
    /// When a sequence is empty or too long for the model.
    pub(crate) fn new(
        network: &'a LoadedNetwork,
        sequences: &'a [&'a [u32]],
        second: &'a [usize],
    ) -> Pass<'a> {
        for ids in sequences {
            assert!(
                !ids.is_empty() && ids.len() <= network.config.max_tokens,
                "encoder: {} tokens",
                ids.len()
            );
        }
        let tokens = sequences.iter().map(|ids| ids.len()).sum();
        Pass { network, sequences, second, tokens, strides: Strides::of(&network.config.network) }
    }

    pub(crate) fn width(&self) -> usize {
        self.network.config.network.hidden_size
    }

    /// Sums word, position and token type embeddings of every token, and normalises the sums.
    pub(crate) fn look_up_embeddings(&self, hidden: &mut [f32]) {
        let (width, weights) = (self.width(), &self.network.weights);
        let positions = weights.floats(&weights.layout.positions);
        let second_type = weights.floats(&weights.layout.second_type);
        let padding = self.network.config.network.padding;
        let mut rows = hidden.chunks_exact_mut(self.strides.hidden);
        for (i, ids) in self.sequences.iter().enumerate() {
            let second = self.second.get(i).copied().unwrap_or(ids.len());
            // row 0 is for the padding token, if there is one
            let mut next = usize::from(padding.is_some());
            for ((at, id), row) in ids.iter().enumerate().zip(&mut rows) {
                let is_padding = padding == Some(*id);
                let position = if is_padding { 0 } else { next };
                next += usize::from(!is_padding);
                row[..width].copy_from_slice(&positions[position * width..][..width]);
                weights.add_word_embedding(*id, &mut row[..width]);
                if at >= second {
                    row.iter_mut().zip(second_type).for_each(|(x, t)| *x += t);
                }
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
            &mut scratch.quantized,
        );
        let heads = self.network.config.network.num_attention_heads;
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
            let (qkv, out) = (&scratch.qkv[first * qkv..], &mut scratch.context[first * hidden..]);
            self.attention()(&shape, qkv, &mut scratch.attention, out);
            first += ids.len();
        }
        let context = (&*scratch.context, hidden);
        self.product(
            &layer.attention_out,
            self.tokens,
            context,
            Epilogue::Add,
            (&mut scratch.hidden, hidden),
            &mut scratch.quantized,
        );
        self.normalise(&mut scratch.hidden, &layer.attention_norm);
    }

    fn feed_forward(&self, layer: &Layer, scratch: &mut Scratch) {
        let Strides { hidden, wide, .. } = self.strides;
        for first in (0..self.tokens).step_by(FFN_ROWS) {
            let rows = FFN_ROWS.min(self.tokens - first);
            let block = &mut scratch.hidden[first * hidden..][..rows * hidden];
            let up = (&mut *scratch.wide, wide);
            self.product(&layer.up, rows, (block, hidden), Epilogue::Gelu, up, &mut scratch.quantized);
            let up = (&*scratch.wide, wide);
            self.product(&layer.down, rows, up, Epilogue::Add, (block, hidden), &mut scratch.quantized);
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
        quantized: &mut QuantizedActivations,
    ) {
        self.quantize(rows, linear, (a, a_stride), quantized);
        let a = Activations { floats: a, stride: a_stride, quantized };
        self.columns(linear, 0..linear.columns, rows, &a, epilogue, (out, out_stride));
    }

    /// Converts `rows` rows to the number format of the product with `linear`.
    pub(crate) fn quantize(
        &self,
        rows: usize,
        linear: &Linear,
        (a, stride): (&[f32], usize),
        quantized: &mut QuantizedActivations,
    ) {
        let kernels = self.network.kernels;
        match (self.network.weights.layout.precision, &kernels.bf16) {
            (Precision::Int8, _) => {
                quantized.int8.resize(rows, linear.depth, linear.group, kernels.code_bytes);
                (kernels.quantize)(a, stride, &mut quantized.int8);
            }
            (Precision::Bf16, Some(pairs)) => {
                let to_stride = bf16_stride(linear.depth);
                quantized.bf16.grow(rows * to_stride);
                let a = &a[..rows * stride];
                (pairs.round)(a, stride, linear.depth, &mut quantized.bf16, to_stride);
            }
            (Precision::Bf16, None) | (Precision::F32, _) => {}
        }
    }

    /// Attention in bf16 if the kernels support it, except with precision f32.
    pub(crate) fn attention(&self) -> fn(&AttentionShape, &[f32], &mut [f32], &mut [f32]) {
        let kernels = self.network.kernels;
        match &kernels.bf16 {
            Some(pairs) if self.network.weights.layout.precision != Precision::F32 => pairs.attention,
            _ => kernels.attention,
        }
    }

    /// Computes a range of columns of a product, which starts and ends at panel boundaries.
    pub(crate) fn columns(
        &self,
        linear: &Linear,
        columns: Range<usize>,
        rows: usize,
        a: &Activations<'_>,
        epilogue: Epilogue,
        (out, out_stride): (&mut [f32], usize),
    ) {
        let (kernels, weights) = (self.network.kernels, &self.network.weights);
        let bias = &weights.floats(&linear.bias)[columns.start..];
        let Activations { floats, stride: a_stride, quantized } = *a;
        match weights.matrix(linear) {
            Matrix::F32(b) => {
                let b = b.columns(columns);
                (kernels.matmul)(Matmul { rows, a: floats, a_stride, b, bias, epilogue, out, out_stride });
            }
            Matrix::Bf16(b) => {
                let b = b.columns(columns);
                match &kernels.bf16 {
                    Some(pairs) => {
                        let (a, a_stride) = (&*quantized.bf16, bf16_stride(linear.depth));
                        (pairs.matmul)(Matmul { rows, a, a_stride, b, bias, epilogue, out, out_stride });
                    }
                    None => {
                        let a = floats;
                        (kernels.matmul_bf16)(Matmul {
                            rows,
                            a,
                            a_stride,
                            b,
                            bias,
                            epilogue,
                            out,
                            out_stride,
                        });
                    }
                }
            }
            Matrix::Int8(b) => {
                let b = b.columns(columns);
                (kernels.matmul_int8)(MatmulInt8 { a: &quantized.int8, b, bias, epilogue, out, out_stride });
            }
        }
    }

    pub(crate) fn normalise(&self, rows: &mut [f32], norm: &Norm) {
        let (stride, weights) = (self.strides.hidden, &self.network.weights);
        let epsilon = self.network.config.network.layer_norm_eps;
        (self.network.kernels.layer_norm)(
            &mut rows[..self.tokens * stride],
            stride,
            weights.floats(&norm.gamma),
            weights.floats(&norm.beta),
            epsilon,
        );
    }
}
