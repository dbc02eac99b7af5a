//! The weights of a network: one block of memory, packed for one kernel table, mapped from a cache file or packed from a checkpoint.

mod cache;
mod layout;
mod names;
mod pack;
mod source;
mod tensors;

use std::ops::Range;

use weir_kernels::{AlignedVec, Int8Matrix, Panels, view};
use weir_mapped::ImmutableFile;

use crate::Precision;
pub(crate) use cache::{CacheFile, WEIGHTS_FILE, load};
pub(crate) use layout::{Dense, Layer, Layout, Linear, Norm};

/// Packed weights. The [`Layout`] has the position of each in the block.
pub(crate) struct Weights {
    pub(crate) layout: Layout,
    block: Block,
}

/// The bytes of all weights, aligned to cache lines.
enum Block {
    /// The part of a cache file after its header; the pages are shared with other processes.
    Mapped {
        file: ImmutableFile,
        start: usize,
    },
    Owned(AlignedVec<u8>),
}

/// A packed matrix in the format of its precision.
pub(crate) enum Matrix<'a> {
    F32(Panels<'a, f32>),
    Bf16(Panels<'a, u16>),
    Int8(Int8Matrix<'a>),
}

impl Weights {
    /// Whether the cache file was truncated while it was mapped: it reads as zeros then.
    pub(crate) fn are_damaged(&self) -> bool {
        match &self.block {
            Block::Mapped { file, .. } => file.check().is_err(),
            Block::Owned(_) => false,
        }
    }

    fn bytes(&self, at: &Range<usize>) -> &[u8] {
        match &self.block {
            Block::Mapped { file, start } => &file[start + at.start..start + at.end],
            Block::Owned(bytes) => &bytes[at.clone()],
        }
    }

    /// The floats at a byte range of the block.
    pub(crate) fn floats(&self, at: &Range<usize>) -> &[f32] {
        view::as_f32(self.bytes(at))
    }

    pub(crate) fn matrix(&self, linear: &Linear) -> Matrix<'_> {
        let Linear { depth, columns, ref matrix, ref scale, ref sum, .. } = *linear;
        let (bytes, packing) = (self.bytes(matrix), self.layout.packing);
        match self.layout.precision {
            Precision::F32 => Matrix::F32(Panels { depth, columns, packing, data: view::as_f32(bytes) }),
            Precision::Bf16 => Matrix::Bf16(Panels { depth, columns, packing, data: view::as_u16(bytes) }),
            Precision::Int8 => {
                let panels = Panels { depth, columns, packing, data: view::as_i8(bytes) };
                Matrix::Int8(Int8Matrix { panels, scale: self.floats(scale), sum: self.floats(sum) })
            }
        }
    }

    /// Adds the word embedding of `id` to `row`.
    pub(crate) fn add_word_embedding(&self, id: u32, row: &mut [f32]) {
        let (width, id) = (row.len(), id as usize);
        let words = self.bytes(&self.layout.words);
        match self.layout.precision {
            Precision::F32 => {
                let word = &view::as_f32(words)[id * width..][..width];
                row.iter_mut().zip(word).for_each(|(x, word)| *x += word);
            }
            Precision::Bf16 => {
                let word = &view::as_u16(words)[id * width..][..width];
                row.iter_mut().zip(word).for_each(|(x, word)| *x += weir_kernels::bf16_to_f32(*word));
            }
            Precision::Int8 => {
                let scale = self.floats(&self.layout.word_scales)[id];
                let word = &view::as_i8(words)[id * width..][..width];
                row.iter_mut().zip(word).for_each(|(x, word)| *x += scale * f32::from(*word));
            }
        }
    }

    /// Writes packed weights to the cache file and maps it, so that processes share the memory.
    pub(crate) fn save(&mut self, cache_file: CacheFile) -> std::io::Result<()> {
        if let Block::Owned(block) = &self.block {
            self.block = cache_file.write(block)?;
        }
        Ok(())
    }

    /// Bytes of packed weights.
    pub(crate) fn size_bytes(&self) -> usize {
        self.layout.len
    }
}
