//! Embeddings in fewer bits.

/// Each value times 127, divided by the largest absolute value of the embedding: cosines stay, lengths do not.
pub(super) fn int8(embedding: &[f32]) -> Vec<i8> {
    let largest = embedding.iter().fold(0.0f32, |largest, x| largest.max(x.abs()));
    let factor = if largest > 0.0 { 127.0 / largest } else { 0.0 };
    embedding.iter().map(|x| (x * factor).round() as i8).collect()
}

/// One bit per value, 1 if it is positive; eight in a byte, the first in the highest bit, the last byte filled with zeros.
pub(super) fn bits(embedding: &[f32]) -> Vec<u8> {
    let byte = |values: &[f32]| {
        values.iter().enumerate().fold(0, |byte, (place, x)| byte | u8::from(*x > 0.0) << (7 - place))
    };
    embedding.chunks(8).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn int8_values_are_scaled_to_the_largest() {
        assert_eq!(int8(&[0.5, -1.0, 0.25, 0.0]), [64, -127, 32, 0]);
        assert_eq!(int8(&[0.0, 0.0]), [0, 0]);
        assert_eq!(int8(&[]), [0i8; 0]);
    }

    #[test]
    fn bits_are_packed_like_those_of_numpy() {
        assert_eq!(bits(&[1.0, -1.0, 0.0, 2.0, -1.0, -1.0, -1.0, 0.1, 0.3]), [0b1001_0001, 0b1000_0000]);
    }
}
