//! Where each weight stands in the block: decided by the network's shape, the precision and the kernels' packing alone, so
//! that a cache file needs no table of contents.

use std::ops::Range;

use weir_kernels::{Group, Kernels, Packing};

use crate::Precision;
use crate::config::Network;

/// Every weight starts at a cache line.
pub(super) const ALIGNMENT: usize = 64;

/// The places of all weights.
pub(crate) struct Layout {
    pub(crate) precision: Precision,
    pub(crate) packing: Packing,
    /// `[vocabulary, hidden]` in the number format of the precision.
    pub(crate) words: Range<usize>,
    /// int8: a factor for each word.
    pub(crate) word_scales: Range<usize>,
    /// `[positions, hidden]` floats, with the embedding of token type 0 added. RoBERTa: the first row is that of padding.
    pub(crate) positions: Range<usize>,
    /// What token type 1 adds to that, if there is one.
    pub(crate) second_type: Range<usize>,
    pub(crate) embedding_norm: Norm,
    pub(crate) layers: Vec<Layer>,
    pub(crate) head: Option<Head>,
    /// Bytes of all.
    pub(crate) len: usize,
}

/// One layer of the network.
pub(crate) struct Layer {
    /// Queries, keys and values of all heads, side by side; queries carry the factor `1/sqrt(head_dim)`.
    pub(crate) qkv: Linear,
    pub(crate) attention_out: Linear,
    pub(crate) attention_norm: Norm,
    pub(crate) up: Linear,
    pub(crate) down: Linear,
    pub(crate) ffn_norm: Norm,
}

/// The classification head, in floats whatever the precision.
pub(crate) struct Head {
    pub(crate) dense: Dense,
    pub(crate) out: Dense,
}

/// A small matrix as checkpoints store it, `[columns, depth]`, and its bias.
pub(crate) struct Dense {
    pub(crate) columns: usize,
    pub(crate) depth: usize,
    pub(crate) weight: Range<usize>,
    pub(crate) bias: Range<usize>,
}

/// A packed matrix and what belongs to its columns, filled up to whole panels.
pub(crate) struct Linear {
    pub(crate) columns: usize,
    pub(crate) depth: usize,
    pub(crate) matrix: Range<usize>,
    /// int8: see [`weir_kernels::Int8Matrix`].
    pub(crate) scale: Range<usize>,
    /// int8: see [`weir_kernels::Int8Matrix`].
    pub(crate) sum: Range<usize>,
    pub(crate) bias: Range<usize>,
    /// int8: which codes of its left-hand side have a common limit.
    pub(crate) group: Group,
}

/// Factors and offsets of a layer normalisation.
pub(crate) struct Norm {
    pub(crate) gamma: Range<usize>,
    pub(crate) beta: Range<usize>,
}

impl Layout {
    pub(crate) fn new(config: &Network, precision: Precision, kernels: &Kernels) -> Layout {
        let packing = match precision {
            Precision::F32 => kernels.packing,
            Precision::Bf16 => kernels.pairs.map_or(kernels.packing, |pairs| pairs.packing),
            Precision::Int8 => kernels.packing_int8,
        };
        let mut plan = Plan { precision, packing, end: 0 };
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        let words = plan.take(config.vocab_size * hidden * precision.bytes());
        let word_scales = plan.int8_floats(config.vocab_size);
        let rows = config.position_rows - config.first_position_row();
        let positions = plan.floats(rows * hidden);
        let second_type = plan.floats(if config.token_types > 1 { hidden } else { 0 });
        let embedding_norm = plan.norm(hidden);
        let layers = (0..config.num_hidden_layers)
            .map(|_| Layer {
                qkv: plan.linear(3 * hidden, hidden, Group::Pair),
                attention_out: plan.linear(hidden, hidden, Group::Quad),
                attention_norm: plan.norm(hidden),
                up: plan.linear(wide, hidden, Group::Pair),
                down: plan.linear(hidden, wide, Group::Quad),
                ffn_norm: plan.norm(hidden),
            })
            .collect();
        let labels = config.labels.len();
        let head =
            (labels > 0).then(|| Head { dense: plan.dense(hidden, hidden), out: plan.dense(labels, hidden) });
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
            len: plan.end,
        }
    }
}

/// Hands out one place after the other.
struct Plan {
    precision: Precision,
    packing: Packing,
    end: usize,
}

impl Plan {
    fn take(&mut self, bytes: usize) -> Range<usize> {
        let start = self.end;
        self.end = (start + bytes).next_multiple_of(ALIGNMENT);
        start..start + bytes
    }

    fn floats(&mut self, len: usize) -> Range<usize> {
        self.take(len * size_of::<f32>())
    }

    /// Floats that only int8 weights have.
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
            matrix: self.take(self.packing.packed_len(columns, depth) * self.precision.bytes()),
            scale: self.int8_floats(padded),
            sum: self.int8_floats(padded),
            bias: self.floats(padded),
            group,
        }
    }
}
