//! Fills the block from the tensors of a checkpoint.

use std::ops::Range;
use std::path::Path;

use safetensors::tensor::SafeTensors;
use weir_kernels::{AlignedVec, QuantisedWeight, f32_to_bf16};

use super::layout::{Layout, Linear, Norm};
use super::source::{LinearTensors, Source};
use crate::config::BertConfig;
use crate::{LoadError, Precision};

/// All weights of the checkpoint `file`, packed as `layout` says; `path` is named in errors.
pub(super) fn pack(
    file: &[u8],
    config: &BertConfig,
    layout: &Layout,
    path: &Path,
) -> Result<AlignedVec<u8>, LoadError> {
    let damaged = |reason: String| LoadError::Damaged { path: path.to_owned(), reason };
    let tensors = SafeTensors::deserialize(file).map_err(|error| damaged(error.to_string()))?;
    let source = Source { tensors: &tensors, path };
    let mut packer = Packer { layout, block: AlignedVec::zeroed(layout.len) };
    let (hidden, wide) = (config.hidden_size, config.intermediate_size);

    packer.words(&source.get("embeddings.word_embeddings.weight", &[config.vocab_size, hidden])?, hidden);
    let mut positions =
        source.get("embeddings.position_embeddings.weight", &[config.max_position_embeddings, hidden])?;
    let token_type = source.first_rows("embeddings.token_type_embeddings.weight", hidden)?;
    for row in positions.chunks_exact_mut(hidden) {
        row.iter_mut().zip(&token_type).for_each(|(x, t)| *x += t);
    }
    packer.floats(&layout.positions, &positions);
    packer.norm(&layout.embedding_norm, &source, "embeddings.LayerNorm", hidden)?;
    for (i, layer) in layout.layers.iter().enumerate() {
        let prefix = format!("encoder.layer.{i}");
        let linear =
            |name: &str, outputs, inputs| source.linear(&format!("{prefix}.{name}"), outputs, inputs);
        packer.linear(&layer.qkv, &source.qkv(&prefix, hidden, config.num_attention_heads)?);
        packer.linear(&layer.attention_out, &linear("attention.output.dense", hidden, hidden)?);
        packer.linear(&layer.up, &linear("intermediate.dense", wide, hidden)?);
        packer.linear(&layer.down, &linear("output.dense", hidden, wide)?);
        let mut norm = |at, name: &str| packer.norm(at, &source, &format!("{prefix}.{name}"), hidden);
        norm(&layer.attention_norm, "attention.output.LayerNorm")?;
        norm(&layer.ffn_norm, "output.LayerNorm")?;
    }
    Ok(packer.block)
}

struct Packer<'a> {
    layout: &'a Layout,
    block: AlignedVec<u8>,
}

impl Packer<'_> {
    /// Writes numbers to the start of their place; what is left of it stays zero.
    fn write<const N: usize>(&mut self, at: &Range<usize>, numbers: impl Iterator<Item = [u8; N]>) {
        let (places, _) = self.block[at.clone()].as_chunks_mut::<N>();
        places.iter_mut().zip(numbers).for_each(|(place, number)| *place = number);
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
                let words = QuantisedWeight::new(words, width);
                self.write(at, words.codes.iter().map(|code| code.to_le_bytes()));
                self.floats(&self.layout.word_scales, &words.scale);
            }
        }
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
                let quantised = QuantisedWeight::new(weight, depth);
                let packed = packing.pack(&quantised.codes, columns, depth);
                self.write(&linear.matrix, packed.iter().map(|x| x.to_le_bytes()));
                self.floats(&linear.scale, &quantised.scale);
                self.floats(&linear.sum, &quantised.sum);
            }
        }
        self.floats(&linear.bias, &tensors.bias);
    }

    fn norm(&mut self, norm: &Norm, source: &Source<'_>, name: &str, width: usize) -> Result<(), LoadError> {
        self.floats(&norm.gamma, &source.get(&format!("{name}.weight"), &[width])?);
        self.floats(&norm.beta, &source.get(&format!("{name}.bias"), &[width])?);
        Ok(())
    }
}
