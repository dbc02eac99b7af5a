//! The tensors of a safetensors file, by name, as floats.

use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use safetensors::tensor::{Dtype, Metadata, TensorInfo};

use super::tensors::{self, Tensor};
use crate::LoadError;
use crate::config::{Network, open_optional};

/// Bytes of a header; it has about a hundred for each tensor.
const HEADER_BYTES_MAX: u64 = 16 << 20;

/// The largest number in half precision. Products of larger weights could overflow, and with them the embeddings.
const WEIGHT_MAX: f32 = 65504.0;

/// The numbers of weights in a checkpoint.
#[derive(Clone, Copy)]
pub(super) struct Sizes {
    /// Of all tensors of the network.
    pub(super) weights: u128,
    /// Of its largest tensor.
    pub(super) largest: u128,
}

/// A safetensors file. Tensors are read one at a time: mapping the file would be unsound, since other programs may overwrite it.
/// Checks names and shapes, converts to f32.
pub(super) struct Source {
    path: PathBuf,
    file: File,
    /// Where the data of the tensors starts in the file.
    start: u64,
    tensors: Metadata,
    /// Optional prefix of names; see [`super::names::Names`].
    prefix: &'static str,
}

impl Source {
    /// Reads the header of `path`: eight bytes with the length of a JSON object, and that object.
    pub(super) fn open(path: &Path, prefix: &'static str) -> Result<Source, LoadError> {
        let path = path.to_owned();
        let unreadable = |source| LoadError::Unreadable { path: path.clone(), source };
        let damaged = |reason: String| LoadError::Damaged { path: path.clone(), reason };
        let mut file = open_optional(&path)?.ok_or_else(|| LoadError::Missing { path: path.clone() })?;
        let len = file.metadata().map_err(unreadable)?.len();
        let (mut header_len, mut header) = ([0; 8], Vec::new());
        file.read_exact(&mut header_len).map_err(|error| damaged(error.to_string()))?;
        let announced = u64::from_le_bytes(header_len);
        if announced > HEADER_BYTES_MAX {
            return Err(damaged(format!(
                "its header has {announced} bytes; the limit is {HEADER_BYTES_MAX}"
            )));
        }
        (&file).take(announced).read_to_end(&mut header).map_err(unreadable)?;
        let tensors: Metadata =
            serde_json::from_slice(&header).map_err(|error| damaged(error.to_string()))?;
        let start = (header_len.len() + header.len()) as u64;
        if start.checked_add(tensors.data_len() as u64) != Some(len) {
            return Err(damaged(format!("its length of {len} bytes does not match its header")));
        }
        Ok(Source { path, file, start, tensors, prefix })
    }

    /// Checks name and shape of every tensor of `network`, before anything of that size is allocated.
    pub(super) fn check(&self, network: &Network) -> Result<Sizes, LoadError> {
        let mut sizes = Sizes { weights: 0, largest: 0 };
        for Tensor { name, shape } in tensors::of(network) {
            self.expect(&name, &shape)?;
            let weights: u128 = shape.iter().map(|size| *size as u128).product();
            sizes.weights += weights;
            sizes.largest = sizes.largest.max(weights);
        }
        Ok(sizes)
    }

    /// The tensor of that name, if it has that shape.
    fn expect(&self, name: &str, shape: &[usize]) -> Result<&TensorInfo, LoadError> {
        let info = self.info(name)?;
        if info.shape != shape {
            return Err(self.damaged(format!("tensor `{name}` has shape {:?}, not {shape:?}", info.shape)));
        }
        Ok(info)
    }

    fn damaged(&self, reason: String) -> LoadError {
        LoadError::Damaged { path: self.path.clone(), reason }
    }

    /// The tensor of that name, with or without the prefix, or with the old names of norms.
    fn info(&self, name: &str) -> Result<&TensorInfo, LoadError> {
        let old =
            name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta");
        let prefix = self.prefix;
        let names = [name.to_owned(), format!("{prefix}{name}"), format!("{prefix}{old}"), old];
        names
            .iter()
            .find_map(|name| self.tensors.info(name))
            .ok_or_else(|| self.damaged(format!("tensor `{name}` is missing")))
    }

    pub(super) fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let info = self.expect(name, shape)?;
        let (begin, end) = info.data_offsets;
        let mut bytes = vec![0; end - begin];
        (&self.file)
            .seek(SeekFrom::Start(self.start + begin as u64))
            .and_then(|_| (&self.file).read_exact(&mut bytes))
            .map_err(|source| LoadError::Unreadable { path: self.path.clone(), source })?;
        let floats = self.floats(name, info.dtype, &bytes)?;
        match floats.iter().find(|x| !x.is_finite() || x.abs() > WEIGHT_MAX) {
            Some(x) => Err(self.damaged(format!(
                "tensor `{name}` has the weight {x}; weights are numbers from -{WEIGHT_MAX} to {WEIGHT_MAX}"
            ))),
            None => Ok(floats),
        }
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
                path: self.path.clone(),
                what: "a tensor's type",
                value: format!("{dtype:?} ({name})"),
                accepted: "F32, F16 and BF16",
            })
        }
    }

    /// Queries, keys and values, from the tensors `names`, as one weight and one bias; queries include the factor `1/sqrt(head_dim)`.
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

/// A weight in the layout of checkpoints, `[outputs, inputs]`, and its bias.
pub(super) struct LinearTensors {
    pub(super) weight: Vec<f32>,
    pub(super) bias: Vec<f32>,
}
