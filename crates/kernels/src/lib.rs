//! The hot loops of Weir: packed matrix products, attention, layer norm, dot products, the int8 scan.
//!
//! Every operation is a function pointer in a table, [`Kernels`], and a table is only handed out after its instruction set was
//! detected. [`scalar`](Isa::Scalar) is the specification: it reads like the formula, and one test compares every other
//! table with it, over all shapes around the block sizes.
//!
//! `generic.rs`, `generic_int8.rs` and `attention.rs` hold each algorithm once, generic over the `Lanes` trait (a register of `WIDTH`
//! floats); `avx2.rs`, `avx512.rs`, `avx512_bf16.rs`, `neon.rs` and `neon_dot.rs` implement `Lanes` with intrinsics and instantiate
//! the algorithms under the matching `#[target_feature]`. Scans of int8, f16 and PQ4 rows are written in these files directly.
//!
//! Safe callers cannot cause undefined behaviour: every kernel compares its slices with its shapes before it touches memory, and sizes
//! are computed with checked arithmetic.

#![allow(unsafe_code, reason = "intrinsics need it; every block says why it is sound")]

mod attention;
mod generic;
mod generic_int8;
mod int8;
mod lanes;
mod layout;
mod pq4;
mod prefetch;
mod scalar;
mod size;
mod table;

pub mod view;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_bf16;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_dot;

#[cfg(test)]
mod agreement;

use std::sync::OnceLock;

pub use int8::{Group, Int8Matrix, MatmulInt8, QUAD_WIDTH, QuantizedRows, QuantizedWeight};
pub use layout::{AlignedVec, AttentionShape, Epilogue, Matmul, PANEL_MAX, Packing, Panels, Pod};
pub use pq4::{PQ4_BLOCK_ROWS, PQ4_CENTROIDS, Pq4Block, Pq4Query, pq4_block_bytes, pq4_write_row};
pub use prefetch::prefetch;
pub use scalar::{bf16_to_f32, f32_to_bf16, half_to_f32};

/// An instruction set that a kernel table is written for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    /// Plain Rust: the reference, and the fallback.
    Scalar,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, VL and VNNI.
    Avx512,
    /// The same with products of bf16 values, AVX-512 BF16.
    Avx512Bf16,
    /// 64-bit ARM with NEON.
    Neon,
    /// 64-bit ARM with NEON and dot products of bytes (`dotprod`).
    NeonDot,
}

impl Isa {
    /// Every instruction set that Weir has kernels for, the older ones first.
    pub const ALL: [Isa; 6] = [Isa::Scalar, Isa::Avx2, Isa::Avx512, Isa::Avx512Bf16, Isa::Neon, Isa::NeonDot];

    /// The name that `WEIR_ISA` and the start-up log use.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Scalar => "scalar",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Avx512Bf16 => "avx512-bf16",
            Isa::Neon => "neon",
            Isa::NeonDot => "neon-dot",
        }
    }

    /// The instruction set of that name.
    pub fn parse(name: &str) -> Option<Isa> {
        Isa::ALL.into_iter().find(|isa| isa.name() == name)
    }
}

/// One table of kernels for one instruction set. Get one from [`Kernels::current`] or [`Kernels::available`].
///
/// All functions panic when a slice is too short for the shapes, or a size overflows `usize`; none allocates.
pub struct Kernels {
    /// The instruction set that this table is for.
    pub isa: Isa,
    /// How float matrices are packed for this table.
    pub packing: Packing,
    /// How int8 matrices are packed for this table.
    pub packing_int8: Packing,
    /// Bytes of one code of [`QuantizedRows`]: 2 where the instruction set multiplies 16-bit integers, else 1.
    pub code_bytes: usize,
    /// Matrix product with bias and epilogue; see [`Matmul`].
    pub matmul: fn(Matmul<'_, f32>),
    /// The same with bf16 weights, given as bits.
    pub matmul_bf16: fn(Matmul<'_, u16>),
    /// Quantizes rows to codes of 0..=255, each row with its own scale and base; see [`QuantizedRows`].
    ///
    /// Reads [`QuantizedRows::rows`] rows of [`QuantizedRows::width`] floats, which start every `stride` floats. A row's codes do not
    /// depend on the other rows. Values must be finite.
    pub quantize: fn(rows: &[f32], stride: usize, to: &mut QuantizedRows),
    /// Matrix product of quantized rows with int8 weights, exact in i32 before it is scaled; see [`MatmulInt8`].
    pub matmul_int8: fn(MatmulInt8<'_>),
    /// Multi-head attention of one sequence; see [`AttentionShape`] for the layout of the slices.
    ///
    /// `qkv` holds a row per token: all query heads, then all key heads, then all value heads. Queries must be scaled by `1/sqrt(head_dim)`
    /// beforehand. `scratch` has [`AttentionShape::scratch_len`] floats. Writes the heads side by side into the rows of `out`.
    pub attention: fn(shape: &AttentionShape, qkv: &[f32], scratch: &mut [f32], out: &mut [f32]),
    /// Kernels with bf16 values on both sides of a product, where the instruction set multiplies these.
    pub bf16: Option<Bf16Kernels>,
    /// Layer normalisation of each row in place: `(x - mean) / sqrt(variance + epsilon) * gamma + beta`.
    ///
    /// A row is `gamma.len()` floats; rows start every `stride` floats.
    pub layer_norm: fn(rows: &mut [f32], stride: usize, gamma: &[f32], beta: &[f32], epsilon: f32),
    /// Dot product of two slices of equal length.
    pub dot: fn(a: &[f32], b: &[f32]) -> f32,
    /// Dot product of floats with IEEE half-precision floats given as bits, equal length.
    pub dot_f16: fn(a: &[f32], b: &[u16]) -> f32,
    /// Dot products of one int8 query with many int8 rows: `out[i] = sum_j query[j] * rows[i * query.len() + j]`.
    ///
    /// Exact in i32. All values must lie in -127..=127; `rows` has `out.len() * query.len()` values.
    pub dot_i8_rows: fn(query: &[i8], rows: &[i8], out: &mut [i32]),
    /// Estimates the dot products of a query with a block of rows from their four-bit codes. Returns a bit mask: bit `r` is set when
    /// the score of row `r` is above the threshold. See [`Pq4Block`].
    pub scan_pq4: fn(block: &Pq4Block<'_>, scores: &mut [f32; PQ4_BLOCK_ROWS]) -> u32,
}

/// Kernels with bf16 values, given as bits, on both sides of a product: twice as fast as with floats on AMD, half as fast on Intel.
#[derive(Clone, Copy)]
pub struct Bf16Kernels {
    /// How bf16 matrices are packed for them.
    pub packing: Packing,
    /// Rounds rows of `width` floats, which start every `stride`, to rows of bf16 values, which start every `to_stride`. `to_stride` is at
    /// least `width`, rounded up to whole units of the packing; the padding becomes zero.
    pub round: fn(rows: &[f32], stride: usize, width: usize, to: &mut [u16], to_stride: usize),
    /// As [`Kernels::matmul`].
    pub matmul: fn(Matmul<'_, u16, u16>),
    /// As [`Kernels::attention`], with queries, keys, values and weights rounded to bf16.
    pub attention: fn(shape: &AttentionShape, qkv: &[f32], scratch: &mut [f32], out: &mut [f32]),
}

impl Kernels {
    /// The reference table, which runs everywhere.
    pub fn scalar() -> &'static Kernels {
        &scalar::TABLE
    }

    /// The table for `isa`; `None` when this processor does not support it.
    pub fn for_isa(isa: Isa) -> Option<&'static Kernels> {
        match isa {
            Isa::Scalar => Some(&scalar::TABLE),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::is_available().then_some(&avx2::TABLE),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::is_available().then_some(&avx512::TABLE),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512Bf16 => avx512_bf16::is_available().then_some(&avx512_bf16::TABLE),
            #[cfg(target_arch = "aarch64")]
            Isa::Neon => neon::is_available().then_some(&neon::TABLE),
            #[cfg(target_arch = "aarch64")]
            Isa::NeonDot => neon_dot::is_available().then_some(&neon_dot::TABLE),
            #[allow(unreachable_patterns, reason = "which sets exist depends on the architecture")]
            Isa::Avx2 | Isa::Avx512 | Isa::Avx512Bf16 | Isa::Neon | Isa::NeonDot => None,
        }
    }

    /// Every table that this processor supports, the slowest first.
    pub fn available() -> Vec<&'static Kernels> {
        #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut, reason = "the order is that of the list"))]
        let mut found: Vec<_> = Isa::ALL.into_iter().filter_map(Kernels::for_isa).collect();
        #[cfg(target_arch = "x86_64")]
        if found.last().is_some_and(|k| k.isa == Isa::Avx512Bf16) && !avx512_bf16::is_faster_than_floats() {
            found.sort_by_key(|kernels| kernels.isa == Isa::Avx512); // moves that to the end
        }
        found
    }

    /// The table that this process uses: the best available, or the one that `WEIR_ISA` names.
    ///
    /// # Panics
    /// When `WEIR_ISA` names an instruction set that is unknown or not supported: with a fallback, a test or benchmark would run
    /// the wrong kernels. The gateway checks the variable before the first call.
    pub fn current() -> &'static Kernels {
        static CURRENT: OnceLock<&'static Kernels> = OnceLock::new();
        CURRENT.get_or_init(|| match Kernels::requested() {
            Ok(kernels) => kernels,
            Err(message) => panic!("{message}"),
        })
    }

    /// The table that [`Kernels::current`] returns, or an error message with the remedy.
    ///
    /// # Errors
    /// When `WEIR_ISA` names an instruction set that is unknown or not supported.
    pub fn requested() -> Result<&'static Kernels, String> {
        #[allow(
            clippy::disallowed_methods,
            reason = "tests of this crate choose the instruction set by this variable too"
        )]
        let forced = std::env::var("WEIR_ISA").ok().filter(|name| !name.is_empty());
        let best = || Kernels::available().pop().unwrap_or(&scalar::TABLE);
        let Some(name) = forced else { return Ok(best()) };
        let supported = || Kernels::available().iter().map(|k| k.isa.name()).collect::<Vec<_>>().join(", ");
        Isa::parse(&name).and_then(Kernels::for_isa).ok_or_else(|| {
            format!(
                "WEIR_ISA={name} is not supported by this processor; unset it or choose one of: {}",
                supported()
            )
        })
    }
}
