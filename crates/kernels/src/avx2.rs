//! x86-64 with AVX2, FMA and F16C: eight floats per register, a tile of 6 rows by 16 columns (12 accumulators, two
//! registers of weights, one broadcast: 15 of the 16 registers).

#![allow(
    clippy::missing_safety_doc,
    reason = "clippy counts safe functions under `#[target_feature]` as unsafe"
)]

use std::arch::x86_64::*;

use crate::Isa;
use crate::lanes::{Int8Lanes, Lanes, lanewise};
use crate::pq4::{PQ4_BLOCK_ROWS, Pq4Block};
use crate::size::times;

crate::table::table!(Isa::Avx2, "avx2,fma,f16c", crate::avx2::F32x8, 2);

/// Whether this processor supports the table.
pub(crate) fn is_available() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

#[derive(Clone, Copy)]
pub(crate) struct F32x8(__m256);

// SAFETY of every block: the processor has avx2 and fma, by guarantee of the caller or because a register exists. Pointers are
// valid by the contract of each method, see `Lanes`.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, given above")]
impl Lanes for F32x8 {
    const WIDTH: usize = 8;
    const ROWS: usize = 6;

    #[inline(always)]
    unsafe fn splat(value: f32) -> Self {
        unsafe { F32x8(_mm256_set1_ps(value)) }
    }
    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        unsafe { F32x8(_mm256_loadu_ps(from)) }
    }
    #[inline(always)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        unsafe {
            let halves = _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()));
            F32x8(_mm256_castsi256_ps(_mm256_slli_epi32::<16>(halves)))
        }
    }
    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        unsafe { _mm256_storeu_ps(to, self.0) }
    }
    lanewise!(add = _mm256_add_ps, sub = _mm256_sub_ps, mul = _mm256_mul_ps, div = _mm256_div_ps);
    lanewise!(min = _mm256_min_ps, max = _mm256_max_ps);
    #[inline(always)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        unsafe { F32x8(_mm256_fmadd_ps(self.0, factor.0, addend.0)) }
    }
    #[inline(always)]
    fn round(self) -> Self {
        unsafe { F32x8(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(self.0)) }
    }
    #[inline(always)]
    fn times_pow2(self, power: Self) -> Self {
        unsafe {
            let power = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(power.0)); // added to the exponent
            F32x8(_mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(self.0), power)))
        }
    }
    /// Transposes 4 × 4 squares, then exchanges halves of registers.
    #[inline(always)]
    unsafe fn transpose(
        from: *const f32,
        stride: usize,
        rows: usize,
        to: *mut f32,
        to_stride: usize,
        to_rows: usize,
    ) {
        /// Transposes the 4 × 4 squares in both halves of four rows: register `c` has column `c` of each half.
        ///
        /// # Safety
        /// The processor has AVX.
        #[inline(always)]
        unsafe fn transpose_4x4(rows: [__m256; 4]) -> [__m256; 4] {
            unsafe {
                let (a, b) = (_mm256_unpacklo_ps(rows[0], rows[1]), _mm256_unpackhi_ps(rows[0], rows[1]));
                let (c, d) = (_mm256_unpacklo_ps(rows[2], rows[3]), _mm256_unpackhi_ps(rows[2], rows[3]));
                [
                    _mm256_shuffle_ps::<0b01_00_01_00>(a, c),
                    _mm256_shuffle_ps::<0b11_10_11_10>(a, c),
                    _mm256_shuffle_ps::<0b01_00_01_00>(b, d),
                    _mm256_shuffle_ps::<0b11_10_11_10>(b, d),
                ]
            }
        }
        unsafe {
            let mut all = [_mm256_setzero_ps(); 8];
            for (i, row) in all.iter_mut().enumerate() {
                *row = _mm256_loadu_ps(from.add(i.min(rows - 1) * stride));
            }
            let [a, b, c, d, e, f, g, h] = all;
            let (first, second) = (transpose_4x4([a, b, c, d]), transpose_4x4([e, f, g, h]));
            for i in 0..4 {
                let low = _mm256_permute2f128_ps::<0x20>(first[i], second[i]);
                let high = _mm256_permute2f128_ps::<0x31>(first[i], second[i]);
                for (i, row) in [(i, low), (i + 4, high)] {
                    if i < to_rows {
                        _mm256_storeu_ps(to.add(i * to_stride), row);
                    }
                }
            }
        }
    }
    #[inline(always)]
    fn sum(self) -> f32 {
        unsafe {
            let half = _mm_add_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let pair = _mm_add_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)))
        }
    }
    #[inline(always)]
    fn reduce_min(self) -> f32 {
        unsafe {
            let half = _mm_min_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let pair = _mm_min_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_min_ss(pair, _mm_movehdup_ps(pair)))
        }
    }
    #[inline(always)]
    fn reduce_max(self) -> f32 {
        unsafe {
            let half = _mm_max_ps(_mm256_castps256_ps128(self.0), _mm256_extractf128_ps::<1>(self.0));
            let pair = _mm_max_ps(half, _mm_movehl_ps(half, half));
            _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)))
        }
    }
}

// `vpmaddubsw` multiplies bytes and adds two products in 16 bits; it does not saturate because sums of codes are limited (see `int8.rs`).
// `vpmaddwd` by ones adds two of these sums in 32 bits. The two pairs of a quad are added in 16 bits before.
//
// SAFETY of every block: as above.
#[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, given above")]
impl Int8Lanes for F32x8 {
    type Sums = __m256i;
    type Weights = __m256i;
    type CodeRegister = __m256i;
    const INT8_ROWS: usize = 5;
    const UNIT: usize = 4;
    const CODE_BYTES: usize = 1;

    #[inline(always)]
    unsafe fn zero_sums() -> __m256i {
        unsafe { _mm256_setzero_si256() }
    }
    #[inline(always)]
    unsafe fn load_weights(from: *const i8) -> __m256i {
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn load_codes(from: *const u8) -> __m256i {
        unsafe { _mm256_set1_epi32(from.cast::<i32>().read_unaligned()) }
    }
    #[inline(always)]
    unsafe fn multiply_add(codes: __m256i, weights: __m256i, sums: __m256i) -> __m256i {
        unsafe {
            let pairs = _mm256_maddubs_epi16(codes, weights);
            _mm256_add_epi32(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)), sums)
        }
    }
    const ADDS_QUADS: bool = true;
    const QUAD_ROWS: usize = 4;
    #[inline(always)]
    unsafe fn multiply_add_quads(codes: [__m256i; 2], weights: [__m256i; 2], sums: __m256i) -> __m256i {
        unsafe {
            let first = _mm256_maddubs_epi16(codes[0], weights[0]);
            let quads = _mm256_add_epi16(first, _mm256_maddubs_epi16(codes[1], weights[1]));
            _mm256_add_epi32(_mm256_madd_epi16(quads, _mm256_set1_epi16(1)), sums)
        }
    }
    #[inline(always)]
    unsafe fn to_floats(sums: __m256i) -> Self {
        unsafe { F32x8(_mm256_cvtepi32_ps(sums)) }
    }
    #[inline(always)]
    fn pair_sums(self, other: Self) -> Self {
        unsafe { F32x8(_mm256_hadd_ps(self.0, other.0)) }
    }
    #[inline(always)]
    unsafe fn store_codes(self, to: *mut u8) {
        unsafe {
            let wide = _mm256_cvtps_epi32(self.0);
            let words = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256::<1>(wide));
            _mm_storel_epi64(to.cast(), _mm_packus_epi16(words, words));
        }
    }
}

/// Four independent sums hide the latency of additions.
#[target_feature(enable = "avx2,fma,f16c")]
fn dot_f16(a: &[f32], b: &[u16]) -> f32 {
    assert_eq!(a.len(), b.len(), "dot_f16: lengths differ");
    let whole = a.len() - a.len() % 32;
    let mut sums = [_mm256_setzero_ps(); 4];
    for i in (0..whole).step_by(32) {
        for (part, sum) in sums.iter_mut().enumerate() {
            let i = i + 8 * part;
            // SAFETY: eight values from i on are below `whole`, at most both lengths.
            let (x, y) = unsafe {
                (
                    _mm256_loadu_ps(a.as_ptr().add(i)),
                    _mm256_cvtph_ps(_mm_loadu_si128(b.as_ptr().add(i).cast())),
                )
            };
            *sum = _mm256_fmadd_ps(x, y, *sum);
        }
    }
    let sum = _mm256_add_ps(_mm256_add_ps(sums[0], sums[1]), _mm256_add_ps(sums[2], sums[3]));
    let tail: f32 = a[whole..].iter().zip(&b[whole..]).map(|(x, y)| x * crate::scalar::half_to_f32(*y)).sum();
    F32x8(sum).sum() + tail
}

/// Four rows at a time share the loads of the query. `vpmaddubsw` multiplies unsigned by signed bytes, so the sign
/// of the query is applied to the row: `|q| * (x * sign q)`. Two products are at most 2 * 127 * 127 < 2^15 and do not saturate.
#[target_feature(enable = "avx2,fma,f16c")]
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
#[target_feature(enable = "avx2,fma,f16c")]
fn dot_i8_block<const R: usize>(query: &[i8], rows: &[i8], out: &mut [i32]) {
    let dim = query.len();
    assert!(rows.len() == times(R, dim) && out.len() == R, "dot_i8_block: shapes differ");
    let whole = dim - dim % 32;
    let ones = _mm256_set1_epi16(1);
    let mut sums = [_mm256_setzero_si256(); R];
    for i in (0..whole).step_by(32) {
        // SAFETY: 32 values from i on are below `whole`, at most the row's length.
        unsafe {
            let q = _mm256_loadu_si256(query.as_ptr().add(i).cast());
            let magnitude = _mm256_abs_epi8(q);
            for (r, sum) in sums.iter_mut().enumerate() {
                let x = _mm256_loadu_si256(rows.as_ptr().add(r * dim + i).cast());
                let pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(x, q));
                *sum = _mm256_add_epi32(*sum, _mm256_madd_epi16(pairs, ones));
            }
        }
    }
    for (r, (sum, out)) in sums.into_iter().zip(out).enumerate() {
        let row = &rows[r * dim..][..dim];
        let tail: i32 = (whole..dim).map(|j| i32::from(query[j]) * i32::from(row[j])).sum();
        *out = sum_i32(sum) + tail;
    }
}

/// A register has two groups of all rows, looked up by a byte shuffle. Four entries of six bits are added as bytes. These sums are then
/// accumulated as 16-bit numbers, `even + 256 * odd`, which wrap around; the odd sums are accumulated separately, and `even` follows.
#[target_feature(enable = "avx2")]
fn scan_pq4(block: &Pq4Block<'_>, scores: &mut [f32; PQ4_BLOCK_ROWS]) -> u32 {
    block.check();
    let low_bits = _mm256_set1_epi8(15);
    // for the lower and then the upper half of each byte: sums of `even + 256 * odd`, sums of odd bytes
    let mut parts = [_mm256_setzero_si256(); 4];
    let registers = block.tables.as_chunks::<32>().0.as_chunks::<4>().0;
    for (tables, codes) in registers.iter().zip(block.codes.as_chunks::<32>().0.as_chunks::<4>().0) {
        let (mut low, mut high) = (_mm256_setzero_si256(), _mm256_setzero_si256());
        for (table, codes) in tables.iter().zip(codes) {
            // SAFETY: both are 32 bytes long.
            let (table, x) = unsafe {
                (_mm256_loadu_si256(table.as_ptr().cast()), _mm256_loadu_si256(codes.as_ptr().cast()))
            };
            let upper = _mm256_and_si256(_mm256_srli_epi16::<4>(x), low_bits);
            low = _mm256_add_epi8(low, _mm256_shuffle_epi8(table, _mm256_and_si256(x, low_bits)));
            high = _mm256_add_epi8(high, _mm256_shuffle_epi8(table, upper));
        }
        parts[0] = _mm256_add_epi16(parts[0], low);
        parts[1] = _mm256_add_epi16(parts[1], _mm256_srli_epi16::<8>(low));
        parts[2] = _mm256_add_epi16(parts[2], high);
        parts[3] = _mm256_add_epi16(parts[3], _mm256_srli_epi16::<8>(high));
    }
    score_rows(
        block,
        parts.map(|x| _mm_add_epi16(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x))),
        scores,
    )
}

/// The end of a scan: scores from the 16-bit sums of even and odd bytes, see [`scan_pq4`].
#[target_feature(enable = "avx2")]
pub(crate) fn score_rows(
    block: &Pq4Block<'_>,
    [both, odd, both_high, odd_high]: [__m128i; 4],
    scores: &mut [f32; PQ4_BLOCK_ROWS],
) -> u32 {
    let even = _mm_sub_epi16(both, _mm_slli_epi16::<8>(odd));
    let even_high = _mm_sub_epi16(both_high, _mm_slli_epi16::<8>(odd_high));
    let sums_of_rows = [
        _mm_unpacklo_epi16(even, odd),
        _mm_unpackhi_epi16(even, odd),
        _mm_unpacklo_epi16(even_high, odd_high),
        _mm_unpackhi_epi16(even_high, odd_high),
    ];
    let (step, offset) = (_mm256_set1_ps(block.step), _mm256_set1_ps(block.offset));
    let threshold = _mm256_set1_ps(block.threshold);
    let mut above = 0;
    for (octet, sums) in sums_of_rows.into_iter().enumerate() {
        let sums = _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(sums));
        // SAFETY: there are 32 factors and 32 scores, and `octet` is below 4.
        unsafe {
            let factor = _mm256_loadu_ps(block.factors.as_ptr().add(8 * octet));
            let score = _mm256_mul_ps(_mm256_add_ps(_mm256_mul_ps(sums, step), offset), factor);
            _mm256_storeu_ps(scores.as_mut_ptr().add(8 * octet), score);
            let greater = _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(score, threshold));
            above |= greater.cast_unsigned() << (8 * octet);
        }
    }
    above
}

#[inline]
#[target_feature(enable = "avx2")]
fn sum_i32(x: __m256i) -> i32 {
    let half = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256::<1>(x));
    let pair = _mm_add_epi32(half, _mm_shuffle_epi32::<0b01_00_11_10>(half));
    _mm_cvtsi128_si32(_mm_add_epi32(pair, _mm_shuffle_epi32::<0b10_11_00_01>(pair)))
}
