//! Normalisation of vectors.

/// Scales a vector to length one; zero stays zero.
pub fn l2_normalise(embedding: &mut [f32]) {
    let length = embedding.iter().map(|x| x * x).sum::<f32>().sqrt();
    if length > 0.0 {
        embedding.iter_mut().for_each(|x| *x /= length);
    }
}
