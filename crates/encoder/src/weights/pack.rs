//! Packs the tensors of a checkpoint into the block.

use std::ops::Range;

use weir_kernels::{AlignedVec, QuantizedWeight, f32_to_bf16};

use super::layout::{Dense, Layout, Linear, Norm};
use super::names::Names;
use super::source::{LinearTensors, Source};
use crate::config::Network;
use crate::{LoadError, Precision};

/// Packs all weights of a checkpoint according to `layout`.
pub(super) fn pack(source: &Source, config: &Network, layout: &Layout) -> Result<AlignedVec<u8>, LoadError> {
    let names = Names::of(config.family);
    let mut packer = Packer { layout, block: AlignedVec::zeroed(layout.len) };
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);

    packer.words(&source.get("embeddings.word_embeddings.weight", &[config.vocab_size, hidden])?, hidden);
    packer.positions_and_types(source, config)?;
    packer.norm(&layout.embedding_norm, source, "embeddings.LayerNorm", hidden)?;
    for (i, layer) in layout.layers.iter().enumerate() {
        let name = |of: &str| format!("{}.{i}.{of}", names.layers);
        let linear = |of, outputs, inputs| source.linear(&name(of), outputs, inputs);
        let parts = names.query_key_value.map(name);
        packer.linear(&layer.qkv, &source.qkv(&parts, hidden, config.num_attention_heads)?);
        packer.linear(&layer.attention_out, &linear(names.attention_out, hidden, hidden)?);
        packer.linear(&layer.up, &linear(names.up, wide, hidden)?);
        packer.linear(&layer.down, &linear(names.down, hidden, wide)?);
        packer.norm(&layer.attention_norm, source, &name(names.attention_norm), hidden)?;
        packer.norm(&layer.ffn_norm, source, &name(names.ffn_norm), hidden)?;
    }
    if let Some(head) = &layout.head {
        packer.dense(&head.dense, source, names.head_dense)?;
        packer.dense(&head.out, source, names.head_out)?;
    }
    Ok(packer.block)
}

struct Packer<'a> {
    layout: &'a Layout,
    block: AlignedVec<u8>,
}

impl Packer<'_> {
    /// Writes numbers to the start of a byte range and leaves the remaining bytes zero.
    fn write<const N: usize>(&mut self, at: &Range<usize>, numbers: impl Iterator<Item = [u8; N]>) {
        let (slots, _) = self.block[at.clone()].as_chunks_mut::<N>();
        slots.iter_mut().zip(numbers).for_each(|(slot, number)| *slot = number);
    }

    fn floats(&mut self, at: &Range<usize>, floats: &[f32]) {
        self.write(at, floats.iter().map(|x| x.to_le_bytes()));
    }

    fn words(&mut self, words: &[f32], width: usize) {
        let at = &self.layout.words;
        match self.layout.precision {
            Precision::F32 => self.floats(at, words),
            Precision::Bf16 => self.write(at, words.iter().map(|x| f32_to_bf16(*x).to_le_bytes())),
            Precision::Int8 => {
                let words = QuantizedWeight::new(words, width);
                self.write(at, words.codes.iter().map(|code| code.to_le_bytes()));
                self.floats(&self.layout.word_scales, &words.scale);
            }
        }
    }

    /// Writes position embeddings plus token type 0, and token type 1 minus type 0.
    fn positions_and_types(&mut self, source: &Source, config: &Network) -> Result<(), LoadError> {
        let hidden = config.hidden_size;
        let table = "embeddings.position_embeddings.weight";
        let mut positions = source.get(table, &[config.position_rows, hidden])?;
        if config.token_types > 0 {
            let table = "embeddings.token_type_embeddings.weight";
            let types = source.get(table, &[config.token_types, hidden])?;
            let (first, others) = types.split_at(hidden);
            for row in positions.chunks_exact_mut(hidden) {
                row.iter_mut().zip(first).for_each(|(x, t)| *x += t);
            }
            let difference: Vec<f32> =
                others.iter().zip(first).map(|(second, first)| second - first).collect();
            self.floats(&self.layout.second_type, &difference);
        }
        self.floats(&self.layout.positions, &positions[config.first_position_row() * hidden..]);
        Ok(())
    }

    fn dense(&mut self, dense: &Dense, source: &Source, name: &str) -> Result<(), LoadError> {
        let tensors = source.linear(name, dense.columns, dense.depth)?;
        self.floats(&dense.weight, &tensors.weight);
        self.floats(&dense.bias, &tensors.bias);
        Ok(())
    }

    fn linear(&mut self, linear: &Linear, tensors: &LinearTensors) {
        let Linear { columns, depth, .. } = *linear;
        let (packing, weight) = (self.layout.packing, &tensors.weight);
        match self.layout.precision {
            Precision::F32 => self.floats(&linear.matrix, &packing.pack(weight, columns, depth)),
            Precision::Bf16 => {
                let halves: Vec<u16> = weight.iter().map(|x| f32_to_bf16(*x)).collect();
                let packed = packing.pack(&halves, columns, depth);
                self.write(&linear.matrix, packed.iter().map(|x| x.to_le_bytes()));
            }
            Precision::Int8 => {
                let quantized = QuantizedWeight::new(weight, depth);
                let packed = packing.pack(&quantized.codes, columns, depth);
                self.write(&linear.matrix, packed.iter().map(|x| x.to_le_bytes()));
                self.floats(&linear.scale, &quantized.scale);
                self.floats(&linear.sum, &quantized.sum);
            }
        }
        self.floats(&linear.bias, &tensors.bias);
    }

    fn norm(&mut self, norm: &Norm, source: &Source, name: &str, width: usize) -> Result<(), LoadError> {
        self.floats(&norm.gamma, &source.get(&format!("{name}.weight"), &[width])?);
        self.floats(&norm.beta, &source.get(&format!("{name}.bias"), &[width])?);
        Ok(())
    }
}
