//! Embeddings in fewer bits, and as bytes.

use half::f16;
use weir_api::EmbeddingDtype;

/// Bytes of an embedding of `dimension` numbers.
pub(super) fn bytes_of(dtype: EmbeddingDtype, dimension: usize) -> usize {
    match dtype {
        EmbeddingDtype::Float32 => 4 * dimension,
        EmbeddingDtype::Float16 => 2 * dimension,
        EmbeddingDtype::Int8 | EmbeddingDtype::Uint8 => dimension,
        EmbeddingDtype::Binary | EmbeddingDtype::Ubinary => dimension.div_ceil(8),
    }
}

/// Appends the bytes of an embedding, little-endian.
pub(super) fn push_bytes(dtype: EmbeddingDtype, embedding: &[f32], bytes: &mut Vec<u8>) {
    match dtype {
        EmbeddingDtype::Float32 => bytes.extend(embedding.iter().flat_map(|x| x.to_le_bytes())),
        EmbeddingDtype::Float16 => {
            bytes.extend(embedding.iter().flat_map(|x| f16::from_f32(*x).to_le_bytes()));
        }
        EmbeddingDtype::Int8 => bytes.extend(int8(embedding).map(i8::cast_unsigned)),
        EmbeddingDtype::Uint8 => bytes.extend(uint8(embedding)),
        EmbeddingDtype::Binary => bytes.extend(binary(embedding).map(i8::cast_unsigned)),
        EmbeddingDtype::Ubinary => bytes.extend(bits(embedding)),
    }
}

/// Each value times 127, divided by the largest absolute value of the embedding: cosines stay, lengths do not.
pub(super) fn int8(embedding: &[f32]) -> impl Iterator<Item = i8> {
    let largest = embedding.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let factor = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    embedding.iter().map(move |x| (x * factor).round() as i8)
}

/// [`int8`] plus 128.
pub(super) fn uint8(embedding: &[f32]) -> impl Iterator<Item = u8> {
    int8(embedding).map(|x| x.cast_unsigned() ^ 0x80)
}

/// [`bits`] less 128.
pub(super) fn binary(embedding: &[f32]) -> impl Iterator<Item = i8> {
    bits(embedding).map(|x| (x ^ 0x80).cast_signed())
}

/// One bit per value, 1 if it is positive; eight in a byte, the first in the highest bit, the last byte filled with zeros.
pub(super) fn bits(embedding: &[f32]) -> impl Iterator<Item = u8> {
    let byte = |values: &[f32]| {
        values.iter().enumerate().fold(0, |byte, (place, x)| byte | u8::from(*x > 0.0) << (7 - place))
    };
    embedding.chunks(8).map(byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn int8_values_are_scaled_to_the_largest() {
        let values = |embedding: &[f32]| int8(embedding).collect::<Vec<i8>>();
        assert_eq!(values(&[0.5, -1.0, 0.25, 0.0]), [64, -127, 32, 0]);
        assert_eq!(values(&[0.0, 0.0]), [0, 0]);
        assert_eq!(values(&[]), [0i8; 0]);
        assert_eq!(uint8(&[0.5, -1.0, 0.25, 0.0]).collect::<Vec<u8>>(), [192, 1, 160, 128]);
    }

    #[test]
    fn bits_are_packed_like_those_of_numpy() {
        let bytes: Vec<u8> = bits(&[1.0, -1.0, 0.0, 2.0, -1.0, -1.0, -1.0, 0.1, 0.3]).collect();
        assert_eq!(bytes, [0b1001_0001, 0b1000_0000]);
        let signed: Vec<i8> = binary(&[1.0, -1.0, 0.0, 2.0, -1.0, -1.0, -1.0, 0.1, -0.3]).collect();
        assert_eq!(signed, [17, -128]);
    }

    #[test]
    fn every_type_takes_the_bytes_that_are_reserved_for_it() {
        let embedding = [1.0, -0.5, 0.25, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
        for dtype in EmbeddingDtype::ALL {
            let mut bytes = Vec::new();
            push_bytes(dtype, &embedding, &mut bytes);
            assert_eq!(bytes.len(), bytes_of(dtype, embedding.len()), "{}", dtype.name());
        }
        let mut half = Vec::new();
        push_bytes(EmbeddingDtype::Float16, &embedding[..2], &mut half);
        assert_eq!(half, [0x00, 0x3c, 0x00, 0xb8]);
    }
}
