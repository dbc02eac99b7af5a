//! The tensors of a safetensors file, by name, as floats.

use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors};

use crate::LoadError;

/// Where tensors come from; checks names and shapes, converts to f32.
pub(super) struct Source<'a> {
    pub(super) tensors: &'a SafeTensors<'a>,
    pub(super) path: &'a Path,
    /// What may stand before a name; see [`super::names::Names`].
    pub(super) prefix: &'static str,
}

impl Source<'_> {
    fn damaged(&self, reason: String) -> LoadError {
        LoadError::Damaged { path: self.path.to_owned(), reason }
    }

    /// The tensor of that name, with or without the prefix that heads put before it. Norms have old names too.
    fn view(&self, name: &str) -> Result<safetensors::tensor::TensorView<'_>, LoadError> {
        let old =
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        let prefix = self.prefix;
        let names = [name.to_owned(), format!("{prefix}{name}"), format!("{prefix}{old}"), old];
        names
            .iter()
            .find_map(|name| self.tensors.tensor(name).ok())
            .ok_or_else(|| self.damaged(format!("tensor `{name}` is missing")))
    }

    pub(super) fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let view = self.view(name)?;
        if view.shape() != shape {
            return Err(self.damaged(format!("tensor `{name}` has shape {:?}, not {shape:?}", view.shape())));
        }
        self.floats(name, view.dtype(), view.data())
    }

    fn floats(&self, name: &str, dtype: Dtype, bytes: &[u8]) -> Result<Vec<f32>, LoadError> {
        let half = |widen: fn([u8; 2]) -> f32| bytes.as_chunks::<2>().0.iter().map(|b| widen(*b)).collect();
        if dtype == Dtype::F32 {
            Ok(bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect())
        } else if dtype == Dtype::BF16 {
            Ok(half(|b| f32::from_bits(u32::from(u16::from_le_bytes(b)) << 16)))
        } else if dtype == Dtype::F16 {
            Ok(half(|b| weir_kernels::half_to_f32(u16::from_le_bytes(b))))
        } else {
            Err(LoadError::Unsupported {
                path: self.path.to_owned(),
                what: "a tensor's type",
                value: format!("{dtype:?} ({name})"),
                accepted: "F32, F16 and BF16",
            })
        }
    }

    /// Queries, keys and values, of those names, as one weight and one bias; queries carry the factor `1/sqrt(head_dim)`.
    pub(super) fn qkv(
        &self,
        names: &[String; 3],
        hidden: usize,
        heads: usize,
    ) -> Result<LinearTensors, LoadError> {
        let scale = 1.0 / ((hidden / heads) as f32).sqrt();
        let (mut weight, mut bias) =
            (Vec::with_capacity(3 * hidden * hidden), Vec::with_capacity(3 * hidden));
        for (name, factor) in names.iter().zip([scale, 1.0, 1.0]) {
            let part = self.linear(name, hidden, hidden)?;
            weight.extend(part.weight.iter().map(|x| x * factor));
            bias.extend(part.bias.iter().map(|x| x * factor));
        }
        Ok(LinearTensors { weight, bias })
    }

    pub(super) fn linear(
        &self,
        name: &str,
        outputs: usize,
        inputs: usize,
    ) -> Result<LinearTensors, LoadError> {
        let weight = self.get(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = self.get(&format!("{name}.bias"), &[outputs])?;
        Ok(LinearTensors { weight, bias })
    }
}

/// A weight as checkpoints store it, `[outputs, inputs]`, and its bias.
pub(super) struct LinearTensors {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}
