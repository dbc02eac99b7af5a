//! The weights: read from a memory-mapped safetensors file, packed for the kernels.

use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors};
use weir_kernels::{Kernels, PackedMatrix, view};
use weir_mapped::Mapped;

use crate::LoadError;
use crate::config::BertConfig;

/// The weights of a network, packed for one kernel table.
pub(crate) struct Weights {
    /// The word embeddings stay in the mapped file: a query touches a few rows of it.
    words: Words,
    /// `[positions, hidden]`, with the embedding of token type 0 added.
    pub(crate) positions: Vec<f32>,
    pub(crate) embedding_norm: Norm,
    pub(crate) layers: Vec<Layer>,
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

/// A packed matrix and its bias, filled up to whole panels.
pub(crate) struct Linear {
    pub(crate) matrix: PackedMatrix,
    pub(crate) bias: Vec<f32>,
}

/// Factors and offsets of a layer normalisation.
pub(crate) struct Norm {
    pub(crate) gamma: Vec<f32>,
    pub(crate) beta: Vec<f32>,
}

enum Words {
    Mapped { file: Mapped, start: usize, len: usize },
    Copied(Vec<f32>),
}

/// Maps `model.safetensors` of `folder`.
pub(crate) fn open_weights(folder: &Path) -> Result<Mapped, LoadError> {
    let path = folder.join("model.safetensors");
    if !path.exists() {
        return Err(LoadError::Missing { path });
    }
    map(&path)
}

fn map(path: &Path) -> Result<Mapped, LoadError> {
    let unreadable =
        |error| LoadError::Unreadable { path: path.to_owned(), source: std::io::Error::other(error) };
    Mapped::open(path).map_err(unreadable)
}

impl Weights {
    /// Packs the tensors of `file`; `path` is named in errors.
    pub(crate) fn pack(
        file: Mapped,
        config: &BertConfig,
        kernels: &Kernels,
        path: &Path,
    ) -> Result<Weights, LoadError> {
        let damaged = |reason: String| LoadError::Damaged { path: path.to_owned(), reason };
        let tensors = SafeTensors::deserialize(&file).map_err(|error| damaged(error.to_string()))?;
        let source = Source { tensors: &tensors, path, panel: kernels.panel };
        let hidden = config.hidden_size;
        let mut positions =
            source.get("embeddings.position_embeddings.weight", &[config.max_position_embeddings, hidden])?;
        let token_type = source.first_rows("embeddings.token_type_embeddings.weight", hidden)?;
        for row in positions.chunks_exact_mut(hidden) {
            row.iter_mut().zip(&token_type).for_each(|(x, t)| *x += t);
        }
        let embedding_norm = source.norm("embeddings.LayerNorm", hidden)?;
        let layers =
            (0..config.num_hidden_layers).map(|i| source.layer(i, config)).collect::<Result<Vec<_>, _>>()?;
        let shape = [config.vocab_size, hidden];
        let words = match source.place("embeddings.word_embeddings.weight", &shape, &file)? {
            Some((start, len)) => Err((start, len)),
            None => Ok(source.get("embeddings.word_embeddings.weight", &shape)?),
        };
        drop(tensors);
        let words = match words {
            Ok(copied) => Words::Copied(copied),
            Err((start, len)) => {
                // a fresh view, because packing has touched every page of the old one
                let expected = file.len();
                drop(file);
                let file = map(path)?;
                if file.len() != expected {
                    return Err(damaged("it was replaced while it was read".to_owned()));
                }
                Words::Mapped { file, start, len }
            }
        };
        Ok(Weights { words, positions, embedding_norm, layers })
    }

    /// The word embeddings, `[vocabulary, hidden]`.
    pub(crate) fn words(&self) -> &[f32] {
        match &self.words {
            Words::Mapped { file, start, len } => view::as_f32(&file[*start..start + len]),
            Words::Copied(values) => values,
        }
    }

    /// Bytes of packed weights on the heap.
    pub(crate) fn size_bytes(&self) -> usize {
        let linear = |l: &Linear| l.matrix.size_bytes() + size_of_val(l.bias.as_slice());
        let layers: usize =
            self.layers.iter().flat_map(|l| [&l.qkv, &l.attention_out, &l.up, &l.down]).map(linear).sum();
        let words = match &self.words {
            Words::Mapped { .. } => 0,
            Words::Copied(values) => size_of_val(values.as_slice()),
        };
        layers + words + size_of_val(self.positions.as_slice())
    }
}

/// Where tensors come from; checks names and shapes, converts to f32.
struct Source<'a> {
    tensors: &'a SafeTensors<'a>,
    path: &'a Path,
    panel: usize,
}

impl Source<'_> {
    fn damaged(&self, reason: String) -> LoadError {
        LoadError::Damaged { path: self.path.to_owned(), reason }
    }

    /// The tensor of that name, with or without the prefix that heads put before it.
    fn view(&self, name: &str) -> Result<safetensors::tensor::TensorView<'_>, LoadError> {
        self.tensors
            .tensor(name)
            .or_else(|_| self.tensors.tensor(&format!("bert.{name}")))
            .map_err(|_| self.damaged(format!("tensor `{name}` is missing")))
    }

    fn get(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, LoadError> {
        let view = self.view(name)?;
        if view.shape() != shape {
            return Err(self.damaged(format!("tensor `{name}` has shape {:?}, not {shape:?}", view.shape())));
        }
        self.floats(name, view.dtype(), view.data())
    }

    /// The first `len` values of a two-dimensional tensor whose rows are `len` long.
    fn first_rows(&self, name: &str, len: usize) -> Result<Vec<f32>, LoadError> {
        let view = self.view(name)?;
        match view.shape() {
            [rows, width] if *rows > 0 && *width == len => {
                let all = self.floats(name, view.dtype(), view.data())?;
                Ok(all[..len].to_vec())
            }
            other => Err(self.damaged(format!("tensor `{name}` has shape {other:?}, not [_, {len}]"))),
        }
    }

    /// Where the tensor's bytes stand in the file, when they can be used in place.
    fn place(&self, name: &str, shape: &[usize], file: &[u8]) -> Result<Option<(usize, usize)>, LoadError> {
        let view = self.view(name)?;
        let data = view.data();
        let start = data.as_ptr() as usize - file.as_ptr() as usize;
        let usable = view.dtype() == Dtype::F32 && view.shape() == shape && start.is_multiple_of(4);
        Ok(usable.then_some((start, data.len())))
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

    fn norm(&self, name: &str, width: usize) -> Result<Norm, LoadError> {
        Ok(Norm {
            gamma: self.get(&format!("{name}.weight"), &[width])?,
            beta: self.get(&format!("{name}.bias"), &[width])?,
        })
    }

    fn linear(&self, name: &str, outputs: usize, inputs: usize) -> Result<Linear, LoadError> {
        let weight = self.get(&format!("{name}.weight"), &[outputs, inputs])?;
        let bias = self.get(&format!("{name}.bias"), &[outputs])?;
        Ok(self.pack(&weight, bias, outputs, inputs))
    }

    fn pack(&self, weight: &[f32], mut bias: Vec<f32>, outputs: usize, inputs: usize) -> Linear {
        let matrix = PackedMatrix::from_rows(weight, outputs, inputs, self.panel);
        bias.resize(matrix.padded_columns(), 0.0);
        Linear { matrix, bias }
    }

    /// Queries, keys and values as one product.
    fn qkv(&self, prefix: &str, hidden: usize, heads: usize) -> Result<Linear, LoadError> {
        let scale = 1.0 / ((hidden / heads) as f32).sqrt();
        let (mut weight, mut bias) =
            (Vec::with_capacity(3 * hidden * hidden), Vec::with_capacity(3 * hidden));
        for (part, factor) in [("query", scale), ("key", 1.0), ("value", 1.0)] {
            let name = format!("{prefix}.attention.self.{part}");
            let rows = self.get(&format!("{name}.weight"), &[hidden, hidden])?;
            weight.extend(rows.iter().map(|x| x * factor));
            bias.extend(self.get(&format!("{name}.bias"), &[hidden])?.iter().map(|x| x * factor));
        }
        Ok(self.pack(&weight, bias, 3 * hidden, hidden))
    }

    fn layer(&self, index: usize, config: &BertConfig) -> Result<Layer, LoadError> {
        let prefix = format!("encoder.layer.{index}");
        let (hidden, wide) = (config.hidden_size, config.intermediate_size);
        Ok(Layer {
            qkv: self.qkv(&prefix, hidden, config.num_attention_heads)?,
            attention_out: self.linear(&format!("{prefix}.attention.output.dense"), hidden, hidden)?,
            attention_norm: self.norm(&format!("{prefix}.attention.output.LayerNorm"), hidden)?,
            up: self.linear(&format!("{prefix}.intermediate.dense"), wide, hidden)?,
            down: self.linear(&format!("{prefix}.output.dense"), hidden, wide)?,
            ffn_norm: self.norm(&format!("{prefix}.output.LayerNorm"), hidden)?,
        })
    }
}
