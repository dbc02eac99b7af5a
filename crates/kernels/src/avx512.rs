//! x86-64 with AVX-512 F, BW, VL and VNNI: sixteen floats per register, a tile of 14 rows by 32 columns (28
//! accumulators, two registers of weights, one broadcast: 31 of the 32 registers).

#![allow(
    clippy::missing_safety_doc,
    reason = "clippy counts safe functions under `#[target_feature]` as unsafe"
)]

use std::arch::x86_64::*;

use crate::Isa;
use crate::avx2::score_rows;
use crate::lanes::{Int8Lanes, Lanes, lanewise};
use crate::pq4::{PQ4_BLOCK_ROWS, Pq4Block};
use crate::size::times;

crate::table::table!(Isa::Avx512, "avx512f,avx512bw,avx512vl,avx512vnni", crate::avx512::F32x16, 2);

/// Whether this processor supports the table.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vnni")
}

#[derive(Clone, Copy)]
pub(crate) struct F32x16(pub(crate) __m512);

// SAFETY of every block: the processor has avx512f, by guarantee of the caller or because a register exists. Pointers are valid by the
// contract of each method, see `Lanes`.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, given above")]
impl Lanes for F32x16 {
    const WIDTH: usize = 16;
    const ROWS: usize = 14;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { F32x16(_mm512_set1_ps(value)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { F32x16(_mm512_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        unsafe {
            let halves = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()));
            F32x16(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(halves)))
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm512_storeu_ps(to, self.0) }
    }
    lanewise!(add = _mm512_add_ps, sub = _mm512_sub_ps, mul = _mm512_mul_ps, div = _mm512_div_ps);
    lanewise!(min = _mm512_min_ps, max = _mm512_max_ps);
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        unsafe { F32x16(_mm512_fmadd_ps(self.0, factor.0, addend.0)) }
    }
    #[inline(always)]
    fn round(self) -> Self {
        // scale 2^0: to the nearest integer
        unsafe { F32x16(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT }>(self.0)) }
    }
    #[inline(always)]
    fn times_pow2(self, power: Self) -> Self {
        unsafe { F32x16(_mm512_scalef_ps(self.0, power.0)) }
    }
    #[inline(always)]
    unsafe fn transpose(
        from: *const f32,
        stride: usize,
        rows: usize,
        to: *mut f32,
        to_stride: usize,
        to_rows: usize,
    ) {
        /// Transposes the 4 × 4 squares in the quarters of four rows: register `c` has column `c` of each quarter.
        ///
        /// # Safety
        /// The processor has AVX-512 F.
        #[inline(always)]
        unsafe fn transpose_4x4(rows: [__m512; 4]) -> [__m512; 4] {
            unsafe {
                let (a, b) = (_mm512_unpacklo_ps(rows[0], rows[1]), _mm512_unpackhi_ps(rows[0], rows[1]));
                let (c, d) = (_mm512_unpacklo_ps(rows[2], rows[3]), _mm512_unpackhi_ps(rows[2], rows[3]));
                [
                    _mm512_shuffle_ps::<0b01_00_01_00>(a, c),
                    _mm512_shuffle_ps::<0b11_10_11_10>(a, c),
                    _mm512_shuffle_ps::<0b01_00_01_00>(b, d),
                    _mm512_shuffle_ps::<0b11_10_11_10>(b, d),
                ]
            }
        }
        const EVEN: i32 = 0b10_00_10_00;
        const ODD: i32 = 0b11_01_11_01;
        unsafe {
            let mut all = [_mm512_setzero_ps(); 16];
            for (i, row) in all.iter_mut().enumerate() {
                *row = _mm512_loadu_ps(from.add(i.min(rows - 1) * stride));
            }
            let (quads, _) = all.as_chunks();
            let [first, second, third, fourth] = [
                transpose_4x4(quads[0]),
                transpose_4x4(quads[1]),
                transpose_4x4(quads[2]),
                transpose_4x4(quads[3]),
            ];
            for c in 0..4 {
                let a = _mm512_shuffle_f32x4::<EVEN>(first[c], second[c]);
                let b = _mm512_shuffle_f32x4::<EVEN>(third[c], fourth[c]);
                let x = _mm512_shuffle_f32x4::<ODD>(first[c], second[c]);
                let y = _mm512_shuffle_f32x4::<ODD>(third[c], fourth[c]);
                let transposed = [
                    _mm512_shuffle_f32x4::<EVEN>(a, b),
                    _mm512_shuffle_f32x4::<EVEN>(x, y),
                    _mm512_shuffle_f32x4::<ODD>(a, b),
                    _mm512_shuffle_f32x4::<ODD>(x, y),
                ];
                for (quarter, row) in transposed.into_iter().enumerate() {
                    let i = 4 * quarter + c;
                    if i < to_rows {
                        _mm512_storeu_ps(to.add(i * to_stride), row);
                    }
                }
            }
        }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        unsafe { _mm512_reduce_add_ps(self.0) }
    }
    #[inline(always)]
    fn reduce_min(self) -> f32 {
        unsafe { _mm512_reduce_min_ps(self.0) }
    }
    #[inline(always)]
    fn reduce_max(self) -> f32 {
        unsafe { _mm512_reduce_max_ps(self.0) }
    }
}

// SAFETY of every block: as above, with avx512bw, avx512vl and avx512vnni.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, given above")]
impl Int8Lanes for F32x16 {
    type Sums = __m512i;
    type Weights = __m512i;
    type CodeRegister = __m512i;
    const INT8_ROWS: usize = 14;
    const UNIT: usize = 4;
    const CODE_BYTES: usize = 1;

    #[inline(always)]
    unsafe fn zero_sums() -> __m512i {
        unsafe { _mm512_setzero_si512() }
    }
    #[inline(always)]
    unsafe fn load_weights(from: *const i8) -> __m512i {
        unsafe { _mm512_loadu_si512(from.cast()) }
    }
    #[inline(always)]
    unsafe fn load_codes(from: *const u8) -> __m512i {
        unsafe { _mm512_set1_epi32(from.cast::<i32>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn multiply_add(codes: __m512i, weights: __m512i, sums: __m512i) -> __m512i {
        unsafe { _mm512_dpbusd_epi32(sums, codes, weights) }
    }
    #[inline(always)]
    unsafe fn to_floats(sums: __m512i) -> Self {
        unsafe { F32x16(_mm512_cvtepi32_ps(sums)) }
    }
    #[inline(always)]
    fn pair_sums(self, other: Self) -> Self {
        unsafe {
            let even = _mm512_shuffle_ps::<0b10_00_10_00>(self.0, other.0);
            let odd = _mm512_shuffle_ps::<0b11_01_11_01>(self.0, other.0);
            F32x16(_mm512_add_ps(even, odd))
        }
    }
    #[inline(always)]
    unsafe fn store_codes(self, to: *mut u8) {
        unsafe { _mm_storeu_si128(to.cast(), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(self.0))) }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn dot_f16(a: &[f32], b: &[u16]) -> f32 {
    assert_eq!(a.len(), b.len(), "dot_f16: lengths differ");
    let whole = a.len() - a.len() % 16;
    let mut sum = _mm512_setzero_ps();
    for i in (0..whole).step_by(16) {
        // SAFETY: sixteen values from i on are below `whole`, at most both lengths.
        let (x, y) = unsafe {
            (
                _mm512_loadu_ps(a.as_ptr().add(i)),
                _mm512_cvtph_ps(_mm256_loadu_si256(b.as_ptr().add(i).cast())),
            )
        };
        sum = _mm512_fmadd_ps(x, y, sum);
    }
    let tail: f32 = a[whole..].iter().zip(&b[whole..]).map(|(x, y)| x * crate::scalar::half_to_f32(*y)).sum();
    _mm512_reduce_add_ps(sum) + tail
}

/// Four rows at a time share the loads of the query. `vpdpbusd` multiplies unsigned by signed bytes and adds four
/// products to a 32-bit sum, so the sign of the query is applied to the row: `|q| * (x * sign q)`.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn dot_i8_rows(query: &[i8], rows: &[i8], out: &mut [i32]) {
    let dim = query.len();
    assert_eq!(rows.len(), times(out.len(), dim), "dot_i8_rows: shapes differ");
    let mut quads = out.chunks_exact_mut(4);
    let mut start = 0;
    for out in &mut quads {
        dot_i8_block::<4>(query, &rows[start..start + 4 * dim], out);
        start += 4 * dim;
    }
    for out in quads.into_remainder() {
        dot_i8_block::<1>(query, &rows[start..start + dim], std::slice::from_mut(out));
        start += dim;
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn dot_i8_block<const R: usize>(query: &[i8], rows: &[i8], out: &mut [i32]) {
    let dim = query.len();
    assert!(rows.len() == times(R, dim) && out.len() == R, "dot_i8_block: shapes differ");
    let zero = _mm512_setzero_si512();
    let mut sums = [zero; R];
    for i in (0..dim).step_by(64) {
        let left = dim - i;
        let mask = if left >= 64 { u64::MAX } else { (1u64 << left) - 1 };
        // SAFETY: the mask keeps the loads inside the row.
        unsafe {
            let q = _mm512_maskz_loadu_epi8(mask, query.as_ptr().add(i));
            let magnitude = _mm512_abs_epi8(q);
            let negative = _mm512_movepi8_mask(q);
            for (r, sum) in sums.iter_mut().enumerate() {
                let x = _mm512_maskz_loadu_epi8(mask, rows.as_ptr().add(r * dim + i));
                let signed = _mm512_mask_sub_epi8(x, negative, zero, x);
                *sum = _mm512_dpbusd_epi32(*sum, magnitude, signed);
            }
        }
    }
    for (sum, out) in sums.into_iter().zip(out) {
        *out = _mm512_reduce_add_epi32(sum);
    }
}

/// As in `avx2.rs`, with four groups of all rows in a register. The last sum of bytes may have two entries instead of four.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
fn scan_pq4(block: &Pq4Block<'_>, scores: &mut [f32; PQ4_BLOCK_ROWS]) -> u32 {
    block.check();
    let low_bits = _mm512_set1_epi8(15);
    // for the lower and then the upper half of each byte: sums of `even + 256 * odd`, sums of odd bytes
    let mut parts = [_mm512_setzero_si512(); 4];
    let (tables, codes) = (block.tables.as_chunks::<64>().0, block.codes.as_chunks::<64>().0);
    for (tables, codes) in tables.chunks(4).zip(codes.chunks(4)) {
        let (mut low, mut high) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for (table, codes) in tables.iter().zip(codes) {
            // SAFETY: both are 64 bytes long.
            let (table, x) = unsafe {
                (_mm512_loadu_si512(table.as_ptr().cast()), _mm512_loadu_si512(codes.as_ptr().cast()))
            };
            let upper = _mm512_and_si512(_mm512_srli_epi16::<4>(x), low_bits);
            low = _mm512_add_epi8(low, _mm512_shuffle_epi8(table, _mm512_and_si512(x, low_bits)));
            high = _mm512_add_epi8(high, _mm512_shuffle_epi8(table, upper));
        }
        parts[0] = _mm512_add_epi16(parts[0], low);
        parts[1] = _mm512_add_epi16(parts[1], _mm512_srli_epi16::<8>(low));
        parts[2] = _mm512_add_epi16(parts[2], high);
        parts[3] = _mm512_add_epi16(parts[3], _mm512_srli_epi16::<8>(high));
    }
    let sums = parts.map(|x| {
        let half = _mm256_add_epi16(_mm512_castsi512_si256(x), _mm512_extracti64x4_epi64::<1>(x));
        _mm_add_epi16(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half))
    });
    score_rows(block, sums, scores)
}
