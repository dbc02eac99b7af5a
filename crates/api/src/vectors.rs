//! Embeddings that documents bring: the settings of a collection of such documents, and the vector of a document.

use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error, SeqAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Count, Result, require};

/// Most values of an embedding that documents bring; exceeds those of current models.
const DIMENSION_MAX: u64 = 4_096;
/// Longer lists are refused during parsing.
const VALUES_PARSED_MAX: usize = 65_536;
/// Largest absolute value: that of a 16-bit float, in which embeddings are compared.
const VALUE_MAX: f32 = 65_504.0;

/// The embeddings that the documents of a collection bring. The collection has no model.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VectorSettings {
    /// Values of each embedding, 1 to 4096.
    #[schemars(with = "u32")]
    pub dimension: Count,
    /// How embeddings are compared; default: `cosine`.
    pub metric: Option<Metric>,
}

/// How embeddings are compared.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Metric {
    /// By their angle: each is scaled to length one before it is compared.
    #[default]
    Cosine,
    /// By their dot product, as they are.
    Dot,
}

impl VectorSettings {
    /// Validates the dimension.
    ///
    /// # Errors
    /// `invalid_parameter` at `vectors.dimension`.
    pub(crate) fn check(&self) -> Result<()> {
        self.dimension.check(&["vectors", "dimension"], 1..=DIMENSION_MAX, "")
    }

    /// How embeddings are compared.
    pub fn metric(&self) -> Metric {
        self.metric.unwrap_or_default()
    }

    /// Checks an embedding: its length and values, and that one that is scaled is not zero.
    ///
    /// # Errors
    /// `invalid_parameter` at `vector`.
    pub fn check_vector(&self, vector: &[f32]) -> Result<()> {
        let (has, needs) = (vector.len() as u64, self.dimension.get());
        require(has == needs, &["vector"], || {
            format!("`vector` has {has} values; embeddings of the collection have {needs}")
        })?;
        check_values(vector)?;
        let is_direction = vector.iter().any(|value| *value != 0.0);
        require(
            is_direction || self.metric() == Metric::Dot,
            &["vector"],
            || "every value of `vector` is 0, so that it points nowhere; send an embedding, or leave the document out",
        )
    }
}

fn check_values(vector: &[f32]) -> Result<()> {
    let odd = vector.iter().position(|value| value.is_nan() || value.abs() > VALUE_MAX);
    require(odd.is_none(), &["vector"], || {
        format!("value {} of `vector` is beyond ±{VALUE_MAX}; scale the embedding", odd.unwrap_or_default())
    })
}

/// The embedding of a document. Two are equal if their bits are.
#[derive(Debug, Clone, Default, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Vector(Vec<f32>);

impl Vector {
    /// The values.
    pub fn values(&self) -> &[f32] {
        &self.0
    }

    /// As it is stored: little-endian floats.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    /// From what is stored; `None` for bytes that are no floats.
    pub fn from_bytes(bytes: &[u8]) -> Option<Vector> {
        let (floats, rest) = bytes.as_chunks();
        rest.is_empty().then(|| Vector(floats.iter().copied().map(f32::from_le_bytes).collect()))
    }
}

impl From<Vec<f32>> for Vector {
    fn from(values: Vec<f32>) -> Vector {
        Vector(values)
    }
}

impl PartialEq for Vector {
    fn eq(&self, other: &Vector) -> bool {
        self.0.iter().map(|value| value.to_bits()).eq(other.0.iter().map(|value| value.to_bits()))
    }
}

impl Eq for Vector {}

impl<'de> Deserialize<'de> for Vector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Vector, D::Error> {
        deserializer.deserialize_seq(VectorVisitor)
    }
}

/// A number of a vector, with a message of its own for what JavaScript writes in place of NaN.
struct Value(f32);

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
        struct ValueVisitor;
        impl Visitor<'_> for ValueVisitor {
            type Value = Value;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number; NaN and infinity, which some programs write as null, are none")
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
                Ok(Value(value as f32))
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
                Ok(Value(value as f32))
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
                Ok(Value(value as f32))
            }

            fn visit_unit<E: Error>(self) -> Result<Value, E> {
                Err(E::invalid_type(Unexpected::Other("null"), &self))
            }
        }
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct VectorVisitor;

impl<'de> Visitor<'de> for VectorVisitor {
    type Value = Vector;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Vector, A::Error> {
        let mut values = Vec::new();
        while let Some(Value(value)) = items.next_element()? {
            if values.len() == VALUES_PARSED_MAX {
                return Err(A::Error::custom(format_args!(
                    "the vector has more than {VALUES_PARSED_MAX} values"
                )));
            }
            values.push(value);
        }
        Ok(Vector(values))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected`: `ok` or a part of the message.
    #[track_caller]
    fn check(settings: &str, vector: &str, expected: &str) {
        let settings: VectorSettings = serde_json::from_str(settings).unwrap();
        let seen = match serde_json::from_str::<Vector>(vector) {
            Ok(vector) => match settings.check().and_then(|()| settings.check_vector(vector.values())) {
                Ok(()) => "ok".to_owned(),
                Err(invalid) => invalid.message,
            },
            Err(error) => error.to_string(),
        };
        assert!(seen.contains(expected), "{seen}");
    }

    #[test]
    fn vectors_of_another_length_or_with_odd_values_are_refused() {
        let cosine = r#"{"dimension":2}"#;
        check(cosine, "[1, -0.5]", "ok");
        check(cosine, "[1]", "`vector` has 1 values; embeddings of the collection have 2");
        check(cosine, "[1, null]", "invalid type: null, expected a number; NaN");
        check(cosine, "[1, \"2\"]", "invalid type: string");
        check(cosine, "7", "expected a list of numbers");
        check(cosine, "[1e39, 2]", "value 0 of `vector` is beyond ±65504");
        check(cosine, "[1, -65505]", "value 1 of `vector` is beyond");
        check(cosine, "[0, -0.0]", "points nowhere");
        check(r#"{"dimension":2,"metric":"dot"}"#, "[0, 0]", "ok");
        check(r#"{"dimension":0}"#, "[]", "vectors.dimension is 0; it must be from 1 to 4096");
        check(r#"{"dimension":4097}"#, "[1]", "vectors.dimension is 4097");
        check(cosine, &format!("[{}1]", "1,".repeat(65_536)), "more than 65536 values");
    }

    #[test]
    fn a_stored_vector_has_the_bits_of_the_one_that_was_sent() {
        let sent: Vector = serde_json::from_str("[0.1, -0.0, 16777217, 1e-40]").unwrap();
        let stored = Vector::from_bytes(&sent.to_bytes()).unwrap();
        assert_eq!(stored, sent);
        let json = serde_json::to_string(&stored).unwrap();
        assert_eq!(serde_json::from_str::<Vector>(&json).unwrap(), sent, "{json}");
        assert_eq!(Vector::from_bytes(&[0; 5]), None);
    }
}
