//! 64-bit ARM with NEON and dot products: `sdot` multiplies sixteen signed bytes and adds four products to each 32-bit sum.
//!
//! Float kernels are those of `neon.rs`. Codes are unsigned, so 128 is subtracted when they are loaded. The tile computes a row of zeros
//! too, whose sums (the weights times -128) are then subtracted from the other rows. A tile is 4 rows by 16 columns and the
//! row of zeros: 20 accumulators, four registers of weights, five of codes: 29 of the 32. With one more row the compiler spills.
//!
//! The instruction is written in assembly, since its intrinsic is not in stable Rust.

#![allow(
    clippy::missing_safety_doc,
    reason = "clippy counts safe functions under `#[target_feature]` as unsafe"
)]

use std::arch::aarch64::*;
use std::arch::asm;

use crate::Isa;
use crate::lanes::Int8Lanes;
use crate::neon::{F32x4, dot_f16, scan_pq4};
use crate::size::times;

crate::table::table!(Isa::NeonDot, "neon,dotprod", crate::neon::F32x4<true>, 4);

/// Whether this processor supports the table.
pub(crate) fn is_available() -> bool {
    crate::neon::is_available() && std::arch::is_aarch64_feature_detected!("dotprod")
}

/// `sums[i] + Σ a[4i + j] · b[4i + j]` for j of 0..4.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn add_products(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: the processor has the instruction, which touches these three registers only.
    unsafe {
        asm!(
            "sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b",
            sums = inout(vreg) sums,
            a = in(vreg) a,
            b = in(vreg) b,
            options(pure, nomem, nostack, preserves_flags),
        );
    }
    sums
}

// SAFETY of every block: the caller guarantees neon and dotprod, or a register exists; pointers are valid, see `Int8Lanes`.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, given above")]
impl Int8Lanes for F32x4<true> {
    type Sums = int32x4_t;
    type Weights = int8x16_t;
    type CodeRegister = int8x16_t;
    const INT8_ROWS: usize = 4;
    const UNIT: usize = 4;
    const CODE_BYTES: usize = 1;
    const SHIFTS_CODES: bool = true;

    #[inline(always)]
    unsafe fn zero_sums() -> int32x4_t {
        unsafe { vdupq_n_s32(0) }
    }
    #[inline(always)]
    unsafe fn load_weights(from: *const i8) -> int8x16_t {
        unsafe { vld1q_s8(from) }
    }
    #[inline(always)]
    unsafe fn load_codes(from: *const u8) -> int8x16_t {
        unsafe {
            let codes = vreinterpretq_s8_u32(vdupq_n_u32(from.cast::<u32>().read_unaligned()));
            veorq_s8(codes, Self::zero_codes())
        }
    }
    #[inline(always)]
    unsafe fn multiply_add(codes: int8x16_t, weights: int8x16_t, sums: int32x4_t) -> int32x4_t {
        unsafe { add_products(sums, weights, codes) }
    }
    #[inline(always)]
    unsafe fn zero_codes() -> int8x16_t {
        unsafe { vdupq_n_s8(-128) }
    }
    #[inline(always)]
    unsafe fn subtract(sums: int32x4_t, others: int32x4_t) -> int32x4_t {
        unsafe { vsubq_s32(sums, others) }
    }
    #[inline(always)]
    unsafe fn to_floats(sums: int32x4_t) -> Self {
        unsafe { F32x4(vcvtq_f32_s32(sums)) }
    }
    #[inline(always)]
    fn pair_sums(self, other: Self) -> Self {
        unsafe { F32x4(vpaddq_f32(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn store_codes(self, to: *mut u8) {
        unsafe {
            let words = vmovn_u32(vcvtnq_u32_f32(self.0));
            let bytes = vreinterpret_u32_u8(vmovn_u16(vcombine_u16(words, words)));
            to.cast::<u32>().write_unaligned(vget_lane_u32::<0>(bytes));
        }
    }
}

#[target_feature(enable = "neon,dotprod")]
fn dot_i8_rows(query: &[i8], rows: &[i8], out: &mut [i32]) {
    let dim = query.len();
    assert_eq!(rows.len(), times(out.len(), dim), "dot_i8_rows: shapes differ");
    let (query, query_tail) = query.as_chunks::<16>();
    for (row, out) in rows.chunks_exact(dim).zip(out) {
        let (row, row_tail) = row.as_chunks::<16>();
        let mut sums = vdupq_n_s32(0);
        for (q, x) in query.iter().zip(row) {
            // SAFETY: both are sixteen bytes long.
            sums = unsafe { add_products(sums, vld1q_s8(q.as_ptr()), vld1q_s8(x.as_ptr())) };
        }
        let tail: i32 = query_tail.iter().zip(row_tail).map(|(q, x)| i32::from(*q) * i32::from(*x)).sum();
        *out = vaddvq_s32(sums) + tail;
    }
}
