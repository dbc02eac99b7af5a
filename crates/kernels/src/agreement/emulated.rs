//! Registers in plain Rust, with the tile shapes of instruction sets that a machine may lack.

use crate::attention::{AttentionFormat, Product};
use crate::lanes::{Bf16Lanes, Bf16Pair, Int8Lanes, Lanes};
use crate::{Bf16Kernels, Isa, Kernels, Packing};

/// A register of `W` floats in plain Rust. Its operations are calls: inlined, they take the compiler minutes.
#[derive(Clone, Copy)]
struct Emulated<const W: usize, const ROWS: usize>([f32; W]);

/// As `std::array::from_fn`, in far fewer steps for Miri.
fn from_fn<T: Copy + Default, const W: usize>(lane: impl Fn(usize) -> T) -> [T; W] {
    let (mut lanes, mut i) = ([T::default(); W], 0);
    while i < W {
        lanes[i] = lane(i);
        i += 1;
    }
    lanes
}

impl<const W: usize, const ROWS: usize> Emulated<W, ROWS> {
    #[inline(never)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        Emulated(from_fn(|i| f(self.0[i], other.0[i])))
    }
}

impl<const W: usize, const R: usize> Lanes for Emulated<W, R> {
    const WIDTH: usize = W;
    const ROWS: usize = R;
    #[inline(never)]
    unsafe fn splat(value: f32) -> Self {
        Emulated([value; W])
    }
    #[inline(never)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: the caller guarantees W floats.
        Emulated(unsafe { std::slice::from_raw_parts(from, W) }.try_into().unwrap())
    }
    #[inline(never)]
    unsafe fn load_bf16(from: *const u16) -> Self {
        // SAFETY: the caller guarantees W bf16 values.
        let halves = unsafe { std::slice::from_raw_parts(from, W) };
        Emulated(from_fn(|i| crate::bf16_to_f32(halves[i])))
    }
    #[inline(never)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: the caller guarantees W floats.
        unsafe { std::slice::from_raw_parts_mut(to, W) }.copy_from_slice(&self.0);
    }
    fn add(self, other: Self) -> Self {
        self.zip(other, |a, b| a + b)
    }
    fn sub(self, other: Self) -> Self {
        self.zip(other, |a, b| a - b)
    }
    fn mul(self, other: Self) -> Self {
        self.zip(other, |a, b| a * b)
    }
    fn div(self, other: Self) -> Self {
        self.zip(other, |a, b| a / b)
    }
    fn min(self, other: Self) -> Self {
        self.zip(other, f32::min)
    }
    fn max(self, other: Self) -> Self {
        self.zip(other, f32::max)
    }
    #[inline(never)]
    fn mul_add(self, factor: Self, addend: Self) -> Self {
        Emulated(from_fn(|i| self.0[i] * factor.0[i] + addend.0[i]))
    }
    #[inline(never)]
    fn round(self) -> Self {
        Emulated(self.0.map(f32::round_ties_even))
    }
    fn times_pow2(self, power: Self) -> Self {
        self.zip(power, |x, power| x * power.exp2())
    }
    #[inline(never)]
    fn sum(self) -> f32 {
        self.0.iter().sum()
    }
    #[inline(never)]
    fn reduce_min(self) -> f32 {
        self.0.iter().copied().fold(f32::INFINITY, f32::min)
    }
    #[inline(never)]
    fn reduce_max(self) -> f32 {
        self.0.iter().copied().fold(f32::NEG_INFINITY, f32::max)
    }
}

/// Four products per sum, as in dot-product instructions; the narrowest register shifts codes by -128 too.
impl<const W: usize, const R: usize> Int8Lanes for Emulated<W, R> {
    type Sums = [i32; W];
    type Weights = [[i8; 4]; W];
    type CodeRegister = [i32; 4];
    const INT8_ROWS: usize = R;
    const UNIT: usize = 4;
    const CODE_BYTES: usize = 1;
    const SHIFTS_CODES: bool = W == 4;

    #[inline(never)]
    unsafe fn zero_sums() -> [i32; W] {
        [0; W]
    }
    #[inline(never)]
    unsafe fn load_weights(from: *const i8) -> [[i8; 4]; W] {
        // SAFETY: the caller guarantees 4 * W bytes.
        unsafe { from.cast::<[[i8; 4]; W]>().read_unaligned() }
    }
    #[inline(never)]
    unsafe fn load_codes(from: *const u8) -> [i32; 4] {
        // SAFETY: the caller guarantees 4 bytes.
        let codes = unsafe { from.cast::<[u8; 4]>().read_unaligned() };
        codes.map(|code| i32::from(code) - if Self::SHIFTS_CODES { 128 } else { 0 })
    }
    #[inline(never)]
    unsafe fn multiply_add(codes: [i32; 4], weights: [[i8; 4]; W], sums: [i32; W]) -> [i32; W] {
        from_fn(|i| {
            let [a, b, c, d] = weights[i].map(i32::from);
            sums[i] + codes[0] * a + codes[1] * b + codes[2] * c + codes[3] * d
        })
    }
    #[inline(never)]
    unsafe fn zero_codes() -> [i32; 4] {
        [-128; 4]
    }
    #[inline(never)]
    unsafe fn subtract(sums: [i32; W], others: [i32; W]) -> [i32; W] {
        from_fn(|i| sums[i] - others[i])
    }
    #[inline(never)]
    unsafe fn to_floats(sums: [i32; W]) -> Self {
        Emulated(sums.map(|sum| sum as f32))
    }
    #[inline(never)]
    fn pair_sums(self, other: Self) -> Self {
        let pair = |lanes: [f32; W], k: usize| lanes[2 * k] + lanes[2 * k + 1];
        Emulated(from_fn(|i| if i < W / 2 { pair(self.0, i) } else { pair(other.0, i - W / 2) }))
    }
    #[inline(never)]
    unsafe fn store_codes(self, to: *mut u8) {
        // SAFETY: the caller guarantees W bytes.
        unsafe { to.cast::<[u8; W]>().write_unaligned(self.0.map(|x| x.round_ties_even() as u8)) }
    }
}

impl<const W: usize, const R: usize> Bf16Lanes for Emulated<W, R> {
    type Pairs = [[u16; 2]; W];

    #[inline(never)]
    unsafe fn splat_pair(from: *const u16) -> [[u16; 2]; W] {
        // SAFETY: the caller guarantees two bf16 values.
        [unsafe { from.cast::<[u16; 2]>().read() }; W]
    }
    #[inline(never)]
    unsafe fn load_pairs(from: *const u16) -> [[u16; 2]; W] {
        // SAFETY: the caller guarantees 2 * W bf16 values.
        unsafe { from.cast::<[[u16; 2]; W]>().read() }
    }
    #[inline(never)]
    unsafe fn store_pairs(pairs: [[u16; 2]; W], to: *mut u16) {
        // SAFETY: the caller guarantees the writable memory.
        unsafe { to.cast::<[[u16; 2]; W]>().write(pairs) }
    }
    #[inline(never)]
    fn pairs(first: Self, second: Self) -> [[u16; 2]; W] {
        from_fn(|i| [first.0[i], second.0[i]].map(crate::f32_to_bf16))
    }
    #[inline(never)]
    unsafe fn store_bf16(self, to: *mut u16) {
        // SAFETY: the caller guarantees the writable memory.
        unsafe { to.cast::<[u16; W]>().write(self.0.map(crate::f32_to_bf16)) }
    }
    #[inline(never)]
    fn add_products(self, a: [[u16; 2]; W], b: [[u16; 2]; W]) -> Self {
        let float = crate::bf16_to_f32;
        let products = |i: usize| (0..2).map(|k| float(a[i][k]) * float(b[i][k])).sum::<f32>();
        Emulated(from_fn(|i| self.0[i] + products(i)))
    }
}

/// A table of the generic algorithms over emulated registers.
const fn emulated<const W: usize, const R: usize, const C: usize>(isa: Isa) -> Kernels {
    // SAFETY of the blocks: emulated registers need no instruction set.
    #[allow(clippy::undocumented_unsafe_blocks, reason = "one reason for all, given above")]
    Kernels {
        isa,
        packing: Packing { panel: W * C, unit: 1 },
        packing_int8: crate::generic_int8::packing::<Emulated<W, R>, C>(),
        code_bytes: 1,
        matmul: |args| unsafe { crate::generic::matmul::<Emulated<W, R>, f32, C>(args) },
        matmul_bf16: |args| unsafe { crate::generic::matmul::<Emulated<W, R>, u16, C>(args) },
        quantize: |rows, stride, to| unsafe {
            crate::generic_int8::quantize::<Emulated<W, R>>(rows, stride, to)
        },
        matmul_int8: |args| unsafe { crate::generic_int8::matmul::<Emulated<W, R>, C>(args) },
        attention: |shape, qkv, scratch, out| unsafe {
            let products = [multiply::<Emulated<W, R>, f32, 1>, multiply::<Emulated<W, R>, f32, C>];
            crate::attention::attention::<Emulated<W, R>, f32, C>(shape, qkv, scratch, out, products)
        },
        bf16: Some(Bf16Kernels {
            packing: Packing { panel: W * C, unit: 2 },
            round: |rows, stride, width, to, to_stride| unsafe {
                crate::generic::round::<Emulated<W, R>>(rows, stride, width, to, to_stride)
            },
            matmul: |args| unsafe { crate::generic::matmul::<Emulated<W, R>, Bf16Pair, C>(args) },
            attention: |shape, qkv, scratch, out| unsafe {
                let products =
                    [multiply::<Emulated<W, R>, Bf16Pair, 1>, multiply::<Emulated<W, R>, Bf16Pair, C>];
                crate::attention::attention::<Emulated<W, R>, Bf16Pair, C>(shape, qkv, scratch, out, products)
            },
        }),
        layer_norm: |rows, stride, gamma, beta, epsilon| unsafe {
            crate::generic::layer_norm::<Emulated<W, R>>(rows, stride, gamma, beta, epsilon)
        },
        dot: |a, b| unsafe { crate::generic::dot::<Emulated<W, R>>(a, b) },
        dot_f16: |a, b| (Kernels::scalar().dot_f16)(a, b),
        dot_i8_rows: |query, rows, out| (Kernels::scalar().dot_i8_rows)(query, rows, out),
        scan_pq4: |block, scores| (Kernels::scalar().scan_pq4)(block, scores),
    }
}

/// See [`Product::multiply`].
///
/// # Safety
/// As there.
unsafe fn multiply<V: Lanes, F: AttentionFormat<V>, const C: usize>(product: Product<'_, F::Number>) {
    // SAFETY: guaranteed by the caller.
    unsafe { product.multiply::<V, F, C>() }
}

/// Tables of the tile shapes of other processors. The widest is narrower under Miri, where wide registers take minutes.
pub(super) static SHAPES: [Kernels; 3] = [
    if cfg!(miri) { emulated::<8, 5, 2>(Isa::Avx512Bf16) } else { emulated::<16, 14, 2>(Isa::Avx512Bf16) },
    emulated::<4, 6, 4>(Isa::Neon),
    emulated::<4, 4, 4>(Isa::NeonDot),
];
