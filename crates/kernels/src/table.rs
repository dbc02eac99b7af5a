//! Macros that define the table of an instruction set.

/// Defines the `TABLE` of an instruction set: wrappers that call the generic functions under its features.
///
/// `dot_f16`, `dot_i8_rows` and `scan_pq4` are functions of the calling module, with the same `#[target_feature]`.
macro_rules! table {
    ($isa:expr, $features:literal, $lanes:ty, $registers:literal) => {
        pub(crate) static TABLE: crate::Kernels = crate::Kernels {
            isa: $isa,
            packing: crate::Packing { panel: <$lanes as crate::lanes::Lanes>::WIDTH * $registers, unit: 1 },
            packing_int8: crate::generic_int8::packing::<$lanes, $registers>(),
            code_bytes: <$lanes as crate::lanes::Int8Lanes>::CODE_BYTES,
            matmul: table::matmul,
            matmul_bf16: table::matmul_bf16,
            quantize: table::quantize,
            matmul_int8: table::matmul_int8,
            attention: table::attention,
            layer_norm: table::layer_norm,
            bf16: None,
            dot: table::dot,
            dot_f16: table::dot_f16,
            dot_i8_rows: table::dot_i8_rows,
            scan_pq4: table::scan_pq4,
        };

        /// The functions of the table. Each calls its counterpart under `#[target_feature]`.
        mod table {
            use crate::int8::{QuantizedRows, MatmulInt8};
            use crate::layout::Matmul;

            crate::table::entry!($features, matmul(
                args: Matmul<'_, f32>
            ) => crate::generic::matmul::<$lanes, f32, $registers>);
            crate::table::entry!($features, matmul_bf16(
                args: Matmul<'_, u16>
            ) => crate::generic::matmul::<$lanes, u16, $registers>);
            crate::table::entry!($features, quantize(
                rows: &[f32], stride: usize, to: &mut QuantizedRows
            ) => crate::generic_int8::quantize::<$lanes>);
            crate::table::entry!($features, matmul_int8(
                args: MatmulInt8<'_>
            ) => crate::generic_int8::matmul::<$lanes, $registers>);
            crate::table::attention!($features, $lanes, f32, $registers);
            crate::table::entry!($features, layer_norm(
                rows: &mut [f32], stride: usize, gamma: &[f32], beta: &[f32], epsilon: f32
            ) => crate::generic::layer_norm::<$lanes>);
            crate::table::entry!($features, dot(a: &[f32], b: &[f32]) -> f32 => crate::generic::dot::<$lanes>);
            crate::table::entry!($features, dot_f16(a: &[f32], b: &[u16]) -> f32 => super::dot_f16);
            crate::table::entry!($features, dot_i8_rows(query: &[i8], rows: &[i8], out: &mut [i32]) => super::dot_i8_rows);
            crate::table::entry!($features, scan_pq4(
                block: &crate::Pq4Block<'_>, scores: &mut [f32; crate::PQ4_BLOCK_ROWS]
            ) -> u32 => super::scan_pq4);
        }
    };
}

/// Defines `attention` in the number format `$format`, and the products that it calls: as functions of their own, because the compiler takes
/// twice as long for one function with all tiles of both products.
macro_rules! attention {
    ($features:literal, $lanes:ty, $format:ty, $registers:literal) => {
        crate::table::attention!(@product $features, $lanes, $format, 1, narrow_product);
        crate::table::attention!(@product $features, $lanes, $format, $registers, product);
        crate::table::entry!($features, attention(
            shape: &crate::layout::AttentionShape, qkv: &[f32], scratch: &mut [f32], out: &mut [f32]
        ) => |shape, qkv, scratch, out| crate::attention::attention::<$lanes, $format, $registers>(
            shape, qkv, scratch, out, [narrow_product, product],
        ));
    };
    (@product $features:literal, $lanes:ty, $format:ty, $registers:literal, $name:ident) => {
        /// [`multiply`](crate::attention::Product::multiply) under the features.
        ///
        /// # Safety
        /// As there.
        #[target_feature(enable = $features)]
        unsafe fn $name(
            product: crate::attention::Product<'_, <$format as crate::lanes::ProductFormat<$lanes>>::Number>,
        ) {
            // SAFETY: this function runs under the features that the body needs; the caller guarantees the product.
            unsafe { product.multiply::<$lanes, $format, $registers>() }
        }
    };
}

macro_rules! entry {
    ($features:literal, $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? => $body:expr) => {
        pub(super) fn $name($($arg: $type),*) $(-> $result)? {
            #[target_feature(enable = $features)]
            #[allow(clippy::missing_safety_doc, reason = "clippy counts it as unsafe")]
            fn under_features($($arg: $type),*) $(-> $result)? {
                // SAFETY: this function runs under the features that the body needs.
                #[allow(unused_unsafe, reason = "some bodies are safe under the features")]
                unsafe { $body($($arg),*) }
            }
            // SAFETY: the table is only handed out after these features were detected.
            unsafe { under_features($($arg),*) }
        }
    };
}

pub(crate) use {attention, entry, table};
