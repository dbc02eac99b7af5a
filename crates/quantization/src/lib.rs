//! Quantisation of embeddings: int8 with one scale for each row, and product quantisation by a codebook that is trained on rows.

#![forbid(unsafe_code)]

mod codebook;

pub use codebook::{Codebook, EncodedRow, RowEncoder};

/// Symmetric int8 with one scale for the whole row: `value ≈ quantised * scale`, quantised in -127..=127.
pub fn quantise(values: &[f32]) -> (Vec<i8>, f32) {
    let largest = values.iter().fold(0.0f32, |largest, value| largest.max(value.abs()));
    let scale = largest / 127.0;
    if scale == 0.0 {
        return (vec![0; values.len()], 0.0);
    }
    (values.iter().map(|value| (value / scale).round().clamp(-127.0, 127.0) as i8).collect(), scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantising_keeps_the_largest_value_and_the_sign() {
        assert_eq!(quantise(&[1.27, -2.54, 0.0]), (vec![64, -127, 0], 2.54 / 127.0));
        assert_eq!(quantise(&[0.0, -0.0]), (vec![0, 0], 0.0));
        assert_eq!(quantise(&[f32::MIN_POSITIVE]).0.len(), 1);
    }
}
