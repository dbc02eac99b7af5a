//! x86-64 with AVX-512 as in `avx512.rs`, and BF16: an instruction that adds two products of bf16 values to each of sixteen floats.

use std::arch::x86_64::*;

use crate::avx512::{self, F32x16};
use crate::lanes::Bf16Lanes;
use crate::{Bf16Kernels, Isa, Kernels, Packing};

pub(crate) static TABLE: Kernels = Kernels {
    isa: Isa::Avx512Bf16,
    bf16: Some(Bf16Kernels {
        packing: Packing { unit: 2, ..avx512::TABLE.packing },
        round: table::round,
        matmul: table::matmul,
        attention: table::attention,
    }),
    ..avx512::TABLE
};

/// Whether this processor supports the table.
pub(crate) fn is_available() -> bool {
    avx512::is_available() && is_x86_feature_detected!("avx512bf16")
}

/// Whether a product of bf16 values takes less time than one of floats: on AMD (Zen 4 and 5) half of it, on Intel (Emerald Rapids)
/// twice as much. `examples/peak.rs` prints both, with `WEIR_ISA=avx512-bf16`.
pub(crate) fn is_faster_than_floats() -> bool {
    let vendor = __cpuid(0);
    [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes).as_flattened() != b"GenuineIntel"
}

/// The functions of the table. Each calls its counterpart under `#[target_feature]`.
mod table {
    use super::F32x16;
    use crate::lanes::Bf16Pair;
    use crate::layout::Matmul;

    crate::table::entry!("avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16", round(
        rows: &[f32], stride: usize, width: usize, to: &mut [u16], to_stride: usize
    ) => crate::generic::round::<F32x16>);
    crate::table::entry!("avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16", matmul(
        args: Matmul<'_, u16, u16>
    ) => crate::generic::matmul::<F32x16, Bf16Pair, 2>);
    crate::table::attention!("avx512f,avx512bw,avx512vl,avx512vnni,avx512bf16", F32x16, Bf16Pair, 2);
}

// SAFETY of every block: the processor has avx512bf16, by guarantee of the caller or because a register or pairs exist. Pointers are
// valid by the contract of each method, see `Bf16Lanes`.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, given above")]
impl Bf16Lanes for F32x16 {
    type Pairs = __m512bh;

    #[inline(always)]
    unsafe fn splat_pair(from: *const u16) -> __m512bh {
        unsafe { as_pairs(_mm512_set1_epi32(from.cast::<i32>().read_unaligned())) }
    }
    #[inline(always)]
    unsafe fn load_pairs(from: *const u16) -> __m512bh {
        unsafe { as_pairs(_mm512_loadu_si512(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store_pairs(pairs: __m512bh, to: *mut u16) {
        unsafe { to.cast::<__m512bh>().write_unaligned(pairs) }
    }
    #[inline(always)]
    fn pairs(first: Self, second: Self) -> __m512bh {
        unsafe {
            // `first` is in the lower half; the permutation interleaves the halves
            let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(second.0, first.0));
            as_pairs(_mm512_permutexvar_epi16(_mm512_loadu_si512(INTERLEAVED.as_ptr().cast()), both))
        }
    }
    #[inline(always)]
    unsafe fn store_bf16(self, to: *mut u16) {
        unsafe { to.cast::<__m256bh>().write_unaligned(_mm512_cvtneps_pbh(self.0)) }
    }
    #[inline(always)]
    fn add_products(self, a: __m512bh, b: __m512bh) -> Self {
        unsafe { F32x16(_mm512_dpbf16_ps(self.0, a, b)) }
    }
}

/// Indices that interleave the two halves of 32 words.
static INTERLEAVED: [u16; 32] = {
    let mut words = [0; 32];
    let mut i = 0;
    while i < 16 {
        (words[2 * i], words[2 * i + 1]) = (i as u16, i as u16 + 16);
        i += 1;
    }
    words
};

/// Reinterprets the bits.
#[inline(always)]
fn as_pairs(bits: __m512i) -> __m512bh {
    // SAFETY: both types have 64 bytes, of which all bit patterns are valid.
    unsafe { std::mem::transmute(bits) }
}
