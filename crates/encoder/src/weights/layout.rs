//! The position of each weight in the block, a function of the network's shape, the precision and the kernels' packing.

use std::ops::Range;

use weir_kernels::{Group, Kernels, Packing};

use crate::Precision;
use crate::config::Network;

/// Every weight starts at a multiple of this, a cache line.
pub(super) const ALIGNMENT: usize = 64;

/// The byte ranges of all weights.
pub(crate) struct Layout {
    pub(crate) precision: Precision,
    pub(crate) packing: Packing,
    /// `[vocabulary, hidden]` in the number format of the precision.
    pub(crate) words: Range<usize>,
    /// int8: the scale of each word.
    pub(crate) word_scales: Range<usize>,
    /// `[positions, hidden]` floats, with the embedding of token type 0 added. RoBERTa: the first row is for padding.
    pub(crate) positions: Range<usize>,
    /// Embedding of token type 1 minus that of type 0; empty with a single type.
    pub(crate) second_type: Range<usize>,
    pub(crate) embedding_norm: Norm,
    pub(crate) layers: Vec<Layer>,
    pub(crate) head: Option<Head>,
    /// Bytes of the block.
    pub(crate) len: usize,
}

/// One layer of the network.
pub(crate) struct Layer {
    /// Queries, keys and values of all heads, side by side; queries include the factor `1/sqrt(head_dim)`.
    pub(crate) qkv: Linear,
    pub(crate) attention_out: Linear,
    pub(crate) attention_norm: Norm,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) ffn_norm: Norm,
}

/// The classification head, in f32 with every precision.
pub(crate) struct Head {
    pub(crate) dense: Dense,
    pub(crate) out: Dense,
}

/// A small matrix in the layout of checkpoints, `[columns, depth]`, and its bias.
pub(crate) struct Dense {
    pub(crate) columns: usize,
    pub(crate) depth: usize,
    pub(crate) weight: Range<usize>,
    pub(crate) bias: Range<usize>,
}

/// A packed matrix, and vectors with a number per column, padded to whole panels.
pub(crate) struct Linear {
    pub(crate) columns: usize,
    pub(crate) depth: usize,
    pub(crate) matrix: Range<usize>,
    /// int8: see [`weir_kernels::Int8Matrix`].
    pub(crate) scale: Range<usize>,
    /// int8: see [`weir_kernels::Int8Matrix`].
    pub(crate) sum: Range<usize>,
    pub(crate) bias: Range<usize>,
    /// int8: the groups of its left-hand side.
    pub(crate) group: Group,
}

/// Parameters of a layer normalisation.
pub(crate) struct Norm {
    pub(crate) gamma: Range<usize>,
    pub(crate) beta: Range<usize>,
}

impl Layout {
    pub(crate) fn new(config: &Network, precision: Precision, kernels: &Kernels) -> Layout {
        let packing = match precision {
            Precision::F32 => kernels.packing,
            Precision::Bf16 => kernels.bf16.map_or(kernels.packing, |pairs| pairs.packing),
            Precision::Int8 => kernels.packing_int8,
        };
        let mut builder = LayoutBuilder { precision, packing, end: 0 };
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let words = builder.reserve(config.vocab_size * hidden * precision.bytes());
        let word_scales = builder.int8_floats(config.vocab_size);
        let rows = config.position_rows - config.first_position_row();
        let positions = builder.floats(rows * hidden);
        let second_type = builder.floats(if config.token_types > 1 { hidden } else { 0 });
        let embedding_norm = builder.norm(hidden);
        let layers = (0..config.num_hidden_layers)
            .map(|_| Layer {
                qkv: builder.linear(3 * hidden, hidden, Group::Pair),
                attention_out: builder.linear(hidden, hidden, Group::Quad),
                attention_norm: builder.norm(hidden),
                up: builder.linear(wide, hidden, Group::Pair),
                down: builder.linear(hidden, wide, Group::Quad),
                ffn_norm: builder.norm(hidden),
            })
            .collect();
        let labels = config.labels.len();
        let head = (labels > 0)
            .then(|| Head { dense: builder.dense(hidden, hidden), out: builder.dense(labels, hidden) });
        Layout {
            precision,
            packing,
            words,
            word_scales,
            positions,
            second_type,
            embedding_norm,
            layers,
            head,
            len: builder.end,
        }
    }
}

/// Assigns byte ranges one after the other.
struct LayoutBuilder {
    precision: Precision,
    packing: Packing,
    end: usize,
}

impl LayoutBuilder {
    fn reserve(&mut self, bytes: usize) -> Range<usize> {
        let start = self.end;
        self.end = (start + bytes).next_multiple_of(ALIGNMENT);
        start..start + bytes
    }

    fn floats(&mut self, len: usize) -> Range<usize> {
        self.reserve(len * size_of::<f32>())
    }

    /// A vector for int8 weights only.
    fn int8_floats(&mut self, len: usize) -> Range<usize> {
        self.floats(if self.precision == Precision::Int8 { len } else { 0 })
    }

    fn norm(&mut self, width: usize) -> Norm {
        Norm { gamma: self.floats(width), beta: self.floats(width) }
    }

    fn dense(&mut self, columns: usize, depth: usize) -> Dense {
        Dense { columns, depth, weight: self.floats(columns * depth), bias: self.floats(columns) }
    }

    fn linear(&mut self, columns: usize, depth: usize, group: Group) -> Linear {
        let padded = self.packing.padded_columns(columns);
        Linear {
            columns,
            depth,
            matrix: self.reserve(self.packing.packed_len(columns, depth) * self.precision.bytes()),
            scale: self.int8_floats(padded),
            sum: self.int8_floats(padded),
            bias: self.floats(padded),
            group,
        }
    }
}
