//! Embeddings that documents bring: no model makes those of their collection.

use weir_api::{ErrorCode, Invalid, Metric, Vector, VectorSettings, require};

/// Most bytes of a text with its own embedding, which is one chunk.
const TEXT_BYTES_MAX: usize = 64 << 10;

/// Vectors whose length differs from one by less are not scaled, so that an embedding of length one keeps its bits.
const LENGTH_TOLERANCE: f64 = 1e-4;

/// Stands for a model where generations pin one.
pub fn fingerprint(vectors: &VectorSettings) -> String {
    let metric: &str = vectors.metric().into();
    format!("own-{}-{metric}", vectors.dimension.get())
}

/// The stored embedding of a document, as it is compared. `None` if it is missing or does not fit the settings.
pub fn embedding(vectors: &VectorSettings, stored: Option<&[u8]>) -> Option<Vec<f32>> {
    let vector = Vector::from_bytes(stored?)?;
    vectors.check_vector(vector.values()).ok()?;
    let mut values = vector.values().to_vec();
    if vectors.metric() == Metric::Cosine {
        normalise(&mut values);
    }
    Some(values)
}

/// Scales a vector that is not zero to length one, unless it is that long.
pub fn normalise(vector: &mut [f32]) {
    let length = vector.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
    if length > 0.0 && (length - 1.0).abs() > LENGTH_TOLERANCE {
        vector.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
    }
}

/// Checks that a document, given by its stored vector and its text, has a vector if, and only if, its collection takes one, and that it fits.
///
/// # Errors
/// `invalid_parameter` at `vector`; `payload_too_large` for a text that is too long for one chunk.
pub fn check(
    name: &str,
    vectors: Option<&VectorSettings>,
    (vector, text): (Option<&[u8]>, &str),
) -> Result<(), Invalid> {
    match (vectors, vector.and_then(Vector::from_bytes)) {
        (None, None) => Ok(()),
        (None, Some(vector)) => {
            Err(unexpected(&format!("collection `{name}` has none"), vector.values().len()))
        }
        (Some(vectors), None) => {
            let message = format!(
                "collection `{name}` embeds nothing: its documents bring their embeddings; send one of {} values as `vector`",
                vectors.dimension
            );
            Err(Invalid::at(ErrorCode::InvalidParameter, &["vector"], message))
        }
        (Some(vectors), Some(vector)) => {
            vectors.check_vector(vector.values())?;
            let bytes = text.len();
            if bytes <= TEXT_BYTES_MAX {
                return Ok(());
            }
            let message = format!(
                "the text has {bytes} bytes; with its own vector it is one chunk, of at most {TEXT_BYTES_MAX}. Send its parts as documents with a \
                 common field of the metadata, and search with `group_by` of that field"
            );
            Err(Invalid::at(ErrorCode::PayloadTooLarge, &["text"], message))
        }
    }
}

/// Checks that a collection that does not exist yet can be created for documents: not if they bring vectors, of which one is given as it is stored.
///
/// # Errors
/// `invalid_parameter` at `vector`.
pub fn check_new(name: &str, vector: Option<&[u8]>) -> Result<(), Invalid> {
    vector.map_or(Ok(()), |vector| {
        Err(unexpected(
            &format!("collection `{}` does not exist", name.escape_debug()),
            vector.len() / size_of::<f32>(),
        ))
    })
}

/// The error of a vector where none is taken.
fn unexpected(why: &str, dimension: usize) -> Invalid {
    let message = format!(
        "the document brings a vector, and {why}; leave `vector` out, or create a collection for such documents by `PUT` with \
         `{{\"vectors\": {{\"dimension\": {dimension}}}}}`"
    );
    Invalid::at(ErrorCode::InvalidParameter, &["vector"], message)
}

/// Checks the vector of a query, and scales it as those of the documents are.
///
/// # Errors
/// Those of [`VectorSettings::check_vector`].
pub fn query_vector(vectors: &VectorSettings, mut vector: Vec<f32>) -> Result<Vec<f32>, Invalid> {
    vectors.check_vector(&vector)?;
    if vectors.metric() == Metric::Cosine {
        normalise(&mut vector);
    }
    Ok(vector)
}

/// Refuses a mode that compares embeddings for a query without one.
///
/// # Errors
/// `invalid_parameter` at `mode`.
pub fn check_mode(name: &str, asks_for_embeddings: bool) -> Result<(), Invalid> {
    require(!asks_for_embeddings, &["mode"], || {
        format!(
            "collection `{name}` embeds nothing: send the embedding of the query as `vector`, or use mode `lexical`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embeddings_are_scaled_for_cosines_alone() {
        let vectors = |metric| VectorSettings { dimension: 2u32.into(), metric };
        let stored = Vector::from(vec![3.0, 4.0]).to_bytes();
        assert_eq!(embedding(&vectors(None), Some(&stored)), Some(vec![0.6, 0.8]));
        assert_eq!(embedding(&vectors(Some(Metric::Dot)), Some(&stored)), Some(vec![3.0, 4.0]));
        assert_eq!(embedding(&vectors(None), Some(&stored[..4])), None);
        assert_eq!(embedding(&vectors(None), None), None);
        assert_eq!(fingerprint(&vectors(None)), "own-2-cosine");
        // the largest and the smallest values that are sent
        let huge = query_vector(&vectors(None), vec![65_504.0, 65_504.0]).unwrap();
        assert!((huge[0] - 0.5f32.sqrt()).abs() < 1e-6, "{huge:?}");
        let tiny = query_vector(&vectors(None), vec![1e-40, 0.0]).unwrap();
        assert_eq!(tiny, [1.0, 0.0]);
    }
}
