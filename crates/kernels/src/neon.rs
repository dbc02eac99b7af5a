//! 64-bit ARM with NEON: four floats per register, a tile of 6 rows by 16 columns (24 accumulators, four registers of
//! weights, one broadcast: 29 of the 32 registers).

#![allow(
    clippy::missing_safety_doc,
    reason = "clippy counts safe functions under `#[target_feature]` as unsafe"
)]

use std::arch::aarch64::*;

use crate::Isa;
use crate::lanes::{Int8Lanes, Lanes, lanewise};
use crate::pq4::{PQ4_BLOCK_ROWS, Pq4Block};
use crate::size::times;

crate::table::table!(Isa::Neon, "neon", crate::neon::F32x4<false>, 4);

/// Whether this processor supports the table.
pub(crate) fn is_available() -> bool {
    std::arch::is_aarch64_feature_detected!("neon")
}

/// With `DOT`, int8 products use the dot products of [`neon_dot`](crate::neon_dot).
#[derive(Clone, Copy)]
pub(crate) struct F32x4<const DOT: bool>(pub(crate) float32x4_t);

// SAFETY of every block: the processor has neon, by guarantee of the caller or because a register exists. Pointers are valid by the
// contract of each method, see `Lanes`.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, given above")]
impl<const DOT: bool> Lanes for F32x4<DOT> {
    const WIDTH: usize = 4;
    const ROWS: usize = 6;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { F32x4(vdupq_n_f32(value)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { F32x4(vld1q_f32(from)) }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        unsafe { F32x4(vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(from)))) }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { vst1q_f32(to, self.0) }
    }
    lanewise!(
        add = vaddq_f32,
        sub = vsubq_f32,
        mul = vmulq_f32,
        div = vdivq_f32,
        min = vminq_f32,
        max = vmaxq_f32
    );
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        unsafe { F32x4(vfmaq_f32(addend.0, self.0, factor.0)) }
    }
    #[inline(always)]
    fn round(self) -> Self {
        unsafe { F32x4(vrndnq_f32(self.0)) }
    }
    #[inline(always)]
    fn times_pow2(self, power: Self) -> Self {
        unsafe {
            let power = vshlq_n_s32::<23>(vcvtq_s32_f32(power.0)); // added to the exponent
            F32x4(vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(self.0), power)))
        }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        unsafe { vaddvq_f32(self.0) }
    }
    #[inline(always)]
    fn reduce_min(self) -> f32 {
        unsafe { vminvq_f32(self.0) }
    }
    #[inline(always)]
    fn reduce_max(self) -> f32 {
        unsafe { vmaxvq_f32(self.0) }
    }
}

// NEON without dot products multiplies 16-bit integers and adds to 32-bit sums.
//
// SAFETY of every block: as above.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, given above")]
impl Int8Lanes for F32x4<false> {
    type Sums = int32x4_t;
    type Weights = int16x4_t;
    type CodeRegister = int16x4_t;
    const INT8_ROWS: usize = 6;
    const UNIT: usize = 1;
    const CODE_BYTES: usize = 2;

    #[inline(always)]
    unsafe fn zero_sums() -> int32x4_t {
        unsafe { vdupq_n_s32(0) }
    }
    #[inline(always)]
    unsafe fn load_weights(from: *const i8) -> int16x4_t {
        unsafe { vget_low_s16(vmovl_s8(vcreate_s8(u64::from(from.cast::<u32>().read_unaligned())))) }
    }
    #[inline(always)]
    unsafe fn load_codes(from: *const u8) -> int16x4_t {
        unsafe { vdup_n_s16(from.cast::<i16>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn multiply_add(codes: int16x4_t, weights: int16x4_t, sums: int32x4_t) -> int32x4_t {
        unsafe { vmlal_s16(sums, weights, codes) }
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
        unsafe { vst1_u16(to.cast(), vmovn_u32(vcvtnq_u32_f32(self.0))) }
    }
}

#[target_feature(enable = "neon")]
pub(crate) fn dot_f16(a: &[f32], b: &[u16]) -> f32 {
    assert_eq!(a.len(), b.len(), "dot_f16: lengths differ");
    let ((a, a_tail), (b, b_tail)) = (a.as_chunks::<4>(), b.as_chunks::<4>());
    let mut sum = vdupq_n_f32(0.0);
    for (x, y) in a.iter().zip(b) {
        // SAFETY: both are four values long.
        let (x, y) = unsafe { (vld1q_f32(x.as_ptr()), vld1_u16(y.as_ptr())) };
        sum = vfmaq_f32(sum, x, vcvt_f32_f16(vreinterpret_f16_u16(y)));
    }
    let tail: f32 = a_tail.iter().zip(b_tail).map(|(x, y)| x * crate::scalar::half_to_f32(*y)).sum();
    vaddvq_f32(sum) + tail
}

/// Widening products of eight bytes (at most 127 * 127), added in pairs to 32-bit sums.
#[target_feature(enable = "neon")]
fn dot_i8_rows(query: &[i8], rows: &[i8], out: &mut [i32]) {
    let dim = query.len();
    assert_eq!(rows.len(), times(out.len(), dim), "dot_i8_rows: shapes differ");
    let whole = dim - dim % 16;
    for (row, out) in rows.chunks_exact(dim).zip(out) {
        let mut sum = vdupq_n_s32(0);
        for i in (0..whole).step_by(16) {
            // SAFETY: sixteen values from i on are below `whole`, at most the row's length.
            let (q, x) = unsafe { (vld1q_s8(query.as_ptr().add(i)), vld1q_s8(row.as_ptr().add(i))) };
            sum = vpadalq_s16(sum, vmull_s8(vget_low_s8(q), vget_low_s8(x)));
            sum = vpadalq_s16(sum, vmull_high_s8(q, x));
        }
        let tail: i32 = (whole..dim).map(|j| i32::from(query[j]) * i32::from(row[j])).sum();
        *out = vaddvq_s32(sum) + tail;
    }
}

/// A register has one group of all rows, looked up by byte in another register. Four entries of six bits are added as bytes.
#[target_feature(enable = "neon")]
pub(crate) fn scan_pq4(block: &Pq4Block<'_>, scores: &mut [f32; PQ4_BLOCK_ROWS]) -> u32 {
    block.check();
    let mut parts = [vdupq_n_u16(0); 4];
    let groups = block.tables.as_chunks::<16>().0.as_chunks::<4>().0;
    for (tables, codes) in groups.iter().zip(block.codes.as_chunks::<16>().0.as_chunks::<4>().0) {
        let (mut low, mut high) = (vdupq_n_u8(0), vdupq_n_u8(0));
        for (table, codes) in tables.iter().zip(codes) {
            // SAFETY: both are 16 bytes long.
            let (table, x) = unsafe { (vld1q_u8(table.as_ptr()), vld1q_u8(codes.as_ptr())) };
            low = vaddq_u8(low, vqtbl1q_u8(table, vandq_u8(x, vdupq_n_u8(15))));
            high = vaddq_u8(high, vqtbl1q_u8(table, vshrq_n_u8::<4>(x)));
        }
        parts[0] = vaddw_u8(parts[0], vget_low_u8(low));
        parts[1] = vaddw_high_u8(parts[1], low);
        parts[2] = vaddw_u8(parts[2], vget_low_u8(high));
        parts[3] = vaddw_high_u8(parts[3], high);
    }
    let mut sums = [0; PQ4_BLOCK_ROWS];
    for (part, sums) in parts.into_iter().zip(sums.chunks_exact_mut(8)) {
        // SAFETY: eight sums of 16 bits are a register.
        unsafe { vst1q_u16(sums.as_mut_ptr(), part) };
    }
    block.score(&sums, scores)
}
