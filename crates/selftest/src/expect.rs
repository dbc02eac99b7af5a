//! Expectations of a reply. Each function returns its finding, or the deviation.

use serde_json::Value;

use crate::probe::Answer;

/// Two embeddings of one text by one model have at least this cosine: batches of other lengths may change the last bits.
const SAME_COSINE_MIN: f64 = 0.999;
/// Largest distance of a normalised embedding's length from 1.
const LENGTH_ERROR_MAX: f64 = 1e-3;

/// The finding of a check in a reply, or the deviation of the reply.
pub(crate) type Finding<T = String> = Result<T, String>;

/// The reply has this status.
pub(crate) fn status(answer: &Answer, expected: u16) -> Finding<()> {
    one_of(answer, &[expected])
}

/// The reply has one of these statuses.
pub(crate) fn one_of(answer: &Answer, expected: &[u16]) -> Finding<()> {
    if expected.contains(&answer.status) {
        return Ok(());
    }
    let expected: Vec<String> = expected.iter().map(u16::to_string).collect();
    Err(format!("the status is {} instead of {}", answer.status, expected.join(" or ")))
}

/// The JSON of a reply with the status 200.
pub(crate) fn success(answer: &Answer) -> Finding<Value> {
    status(answer, 200)?;
    answer.json()
}

/// The value at a JSON pointer.
pub(crate) fn at<'a>(value: &'a Value, pointer: &str) -> Finding<&'a Value> {
    value.pointer(pointer).ok_or_else(|| format!("`{pointer}` is missing"))
}

/// The value at a pointer equals this one.
pub(crate) fn equal(value: &Value, pointer: &str, expected: &Value) -> Finding<()> {
    let found = at(value, pointer)?;
    if found == expected {
        return Ok(());
    }
    Err(format!("`{pointer}` is {} instead of {expected}", short(found)))
}

/// A text that is not empty.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> Finding<&'a str> {
    let found = at(value, pointer)?;
    let text = found.as_str().filter(|text| !text.is_empty());
    text.ok_or_else(|| format!("`{pointer}` is {} instead of a text", short(found)))
}

/// A whole number of 0 or more.
pub(crate) fn count(value: &Value, pointer: &str) -> Finding<u64> {
    let found = at(value, pointer)?;
    found.as_u64().ok_or_else(|| format!("`{pointer}` is {} instead of a whole number", short(found)))
}

/// A number.
pub(crate) fn number(value: &Value, pointer: &str) -> Finding<f64> {
    let found = at(value, pointer)?;
    found.as_f64().ok_or_else(|| format!("`{pointer}` is {} instead of a number", short(found)))
}

/// A list; of this length, if one is given.
pub(crate) fn list<'a>(value: &'a Value, pointer: &str, length: Option<usize>) -> Finding<&'a [Value]> {
    let found = at(value, pointer)?;
    let items =
        found.as_array().ok_or_else(|| format!("`{pointer}` is {} instead of a list", short(found)))?;
    match length {
        Some(length) if items.len() != length => {
            Err(format!("`{pointer}` has {} items instead of {length}", items.len()))
        }
        Some(_) | None => Ok(items),
    }
}

/// An embedding as a list of numbers.
pub(crate) fn floats(value: &Value, pointer: &str) -> Finding<Vec<f64>> {
    let items = list(value, pointer, None)?;
    let floats: Option<Vec<f64>> = items.iter().map(Value::as_f64).collect();
    let floats = floats.ok_or_else(|| format!("`{pointer}` has items that are no numbers"))?;
    if floats.is_empty() { Err(format!("`{pointer}` is an empty list")) } else { Ok(floats) }
}

/// Embeddings as lists of numbers of one length; returns the first one.
pub(crate) fn rows(value: &Value, pointer: &str, length: usize) -> Finding<Vec<f64>> {
    list(value, pointer, Some(length))?;
    let first = floats(value, &format!("{pointer}/0"))?;
    for index in 1..length {
        let other = floats(value, &format!("{pointer}/{index}"))?;
        if other.len() != first.len() {
            return Err(format!(
                "the embeddings of `{pointer}` have different dimensions: {} and {}",
                first.len(),
                other.len()
            ));
        }
    }
    Ok(first)
}

/// The embedding is that of the same text in another reply.
pub(crate) fn same_embedding(found: &[f64], reference: Option<&[f64]>) -> Finding<()> {
    let Some(reference) = reference else { return Ok(()) };
    if found.len() != reference.len() {
        return Err(format!("the embedding has {} dimensions instead of {}", found.len(), reference.len()));
    }
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let cosine = dot(found, reference) / (dot(found, found) * dot(reference, reference)).sqrt();
    if cosine >= SAME_COSINE_MIN {
        return Ok(());
    }
    Err(format!("the embedding is not that of the same text in /v1/embeddings: their cosine is {cosine:.4}"))
}

/// The embedding has the length 1.
pub(crate) fn normalised(found: &[f64]) -> Finding<()> {
    let length = found.iter().map(|x| x * x).sum::<f64>().sqrt();
    if (length - 1.0).abs() <= LENGTH_ERROR_MAX {
        return Ok(());
    }
    Err(format!("the embedding has the length {length:.4} instead of 1"))
}

/// Little-endian floats.
pub(crate) fn floats_of_bytes(bytes: &[u8]) -> Finding<Vec<f64>> {
    let (floats, rest) = bytes.as_chunks::<4>();
    if floats.is_empty() || !rest.is_empty() {
        return Err(format!("{} bytes are not floats of 4 bytes each", bytes.len()));
    }
    Ok(floats.iter().map(|float| f64::from(f32::from_le_bytes(*float))).collect())
}

/// Results of reranking, best first, that name each text at most once; `field` is their score.
pub(crate) fn ranking(value: &Value, pointer: &str, field: &str, length: usize) -> Finding<()> {
    let items = list(value, pointer, Some(length))?;
    let mut before = f64::INFINITY;
    let mut indices = Vec::new();
    for place in 0..items.len() {
        let score = number(value, &format!("{pointer}/{place}/{field}"))?;
        if score > before {
            return Err(format!("`{pointer}/{place}/{field}` is higher than the one before it"));
        }
        if !(0.0..=1.0).contains(&score) {
            return Err(format!("`{pointer}/{place}/{field}` is {score}, which is not from 0 to 1"));
        }
        before = score;
        indices.push(count(value, &format!("{pointer}/{place}/index"))?);
    }
    indices.sort_unstable();
    indices.dedup();
    if indices.len() != items.len() {
        return Err(format!("`{pointer}` names a text twice"));
    }
    Ok(())
}

/// A value for a message.
fn short(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("a list of {}", items.len()),
        Value::Object(_) => "an object".to_owned(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rankings_are_sorted_probabilities_of_different_texts() {
        let check = |results: Value, expected: &str| {
            let seen = ranking(&results, "", "score", 2);
            assert_eq!(seen.err().unwrap_or_default(), expected, "{results}");
        };
        let result = |index: usize, score: f64| json!({"index": index, "score": score});
        check(json!([result(1, 0.9), result(0, 0.9)]), "");
        check(json!([result(1, 0.5), result(0, 0.9)]), "`/1/score` is higher than the one before it");
        check(json!([result(1, 1.5), result(0, 0.9)]), "`/0/score` is 1.5, which is not from 0 to 1");
        check(json!([result(1, 0.9), result(1, 0.8)]), "`` names a text twice");
        check(json!([result(1, 0.9)]), "`` has 1 items instead of 2");
        check(json!([{"index": 1}, result(1, 0.8)]), "`/0/score` is missing");
    }

    #[test]
    fn embeddings_of_one_text_may_differ_in_the_last_bits_only() {
        let reference = [0.6, 0.8];
        assert!(same_embedding(&[0.6001, 0.7999], Some(&reference)).is_ok());
        assert!(same_embedding(&[1.2, 1.6], Some(&reference)).is_ok(), "not every reply is normalised");
        assert!(same_embedding(&[0.0, 1.0], None).is_ok());
        let error = same_embedding(&[0.0, 1.0], Some(&reference)).unwrap_err();
        assert!(error.ends_with("their cosine is 0.8000"), "{error}");
        assert_eq!(
            same_embedding(&[1.0], Some(&reference)).unwrap_err(),
            "the embedding has 1 dimensions instead of 2"
        );
        assert!(normalised(&reference).is_ok());
        assert_eq!(normalised(&[1.2, 1.6]).unwrap_err(), "the embedding has the length 2.0000 instead of 1");
    }

    #[test]
    fn a_value_of_another_type_is_named_with_its_place() {
        let value = json!({"a": [1, "x"], "b": {"c": 7}, "d": ""});
        assert_eq!(text(&value, "/b/c").unwrap_err(), "`/b/c` is 7 instead of a text");
        assert_eq!(text(&value, "/d").unwrap_err(), "`/d` is \"\" instead of a text");
        assert_eq!(count(&value, "/b").unwrap_err(), "`/b` is an object instead of a whole number");
        assert_eq!(floats(&value, "/a").unwrap_err(), "`/a` has items that are no numbers");
        assert_eq!(list(&value, "/a", Some(3)).unwrap_err(), "`/a` has 2 items instead of 3");
        assert_eq!(equal(&value, "/a", &json!(1)).unwrap_err(), "`/a` is a list of 2 instead of 1");
        assert_eq!(at(&value, "/z").unwrap_err(), "`/z` is missing");
    }
}
