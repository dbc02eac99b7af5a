//! Second-stage scoring of the first results: reranking and late interaction.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Count, Result, require};

/// Largest `top_n` of a reranker and of late interaction.
pub const RERANK_TOP_N_MAX: u64 = 100;
/// Default `top_n` of late interaction.
pub const DEFAULT_LATE_INTERACTION_TOP_N: u64 = 50;
/// Largest weight of late interaction; higher weights make rankings worse.
pub const LATE_INTERACTION_WEIGHT_MAX: f32 = 0.5;

/// Reranking of the first results: `"none"`, a model's name, or `{"model": "m", "top_n": 20}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rerank {
    /// No reranking, regardless of the gateway's configuration.
    Off,
    /// Reranking with these options.
    With(RerankOptions),
}

/// The reranker, and the number of results to rerank.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RerankOptions {
    /// Id or alias of a reranker; default: the gateway's configuration.
    pub model: Option<String>,
    /// Number of first results to rerank, 1 to 100; default: the gateway's configuration. Later results keep their order.
    pub top_n: Option<Count>,
}

/// Late interaction: reorders the first results by the similarity of their token embeddings to the query's (MaxSim).
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LateInteraction {
    /// Weight of late interaction in the score, above 0 and at most 0.5.
    pub weight: f32,
    /// Number of first results to score, 1 to 100; default: 50. Later results keep their order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_n: Option<Count>,
}

impl Rerank {
    pub(super) fn check(&self) -> Result<()> {
        match self {
            Rerank::Off => Ok(()),
            Rerank::With(options) => check_top_n("rerank", options.top_n),
        }
    }
}

impl LateInteraction {
    /// Number of first results to score.
    pub fn top_n(&self) -> u64 {
        self.top_n.map_or(DEFAULT_LATE_INTERACTION_TOP_N, Count::get)
    }

    /// Validates weight and `top_n`.
    ///
    /// # Errors
    /// `invalid_parameter` when one of them is out of range.
    pub fn check(&self) -> Result<()> {
        let (weight, most) = (self.weight, LATE_INTERACTION_WEIGHT_MAX);
        require(weight > 0.0 && weight <= most, &["late_interaction", "weight"], || {
            format!(
                "late_interaction.weight is {weight}; it must be above 0 and at most {most}: higher weights make rankings worse"
            )
        })?;
        check_top_n("late_interaction", self.top_n)
    }
}

fn check_top_n(field: &str, top_n: Option<Count>) -> Result<()> {
    top_n.map_or(Ok(()), |top_n| top_n.check(&[field, "top_n"], 1..=RERANK_TOP_N_MAX, ""))
}

/// The JSON value of [`Rerank::Off`].
const NONE: &str = "none";

impl From<&str> for Rerank {
    fn from(text: &str) -> Rerank {
        match text {
            NONE => Rerank::Off,
            model => Rerank::With(RerankOptions { model: Some(model.to_owned()), top_n: None }),
        }
    }
}

impl Serialize for Rerank {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Rerank::Off => serializer.serialize_str(NONE),
            Rerank::With(options) => options.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Rerank {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Rerank, D::Error> {
        deserializer.deserialize_any(RerankVisitor)
    }
}

struct RerankVisitor;

impl<'de> Visitor<'de> for RerankVisitor {
    type Value = Rerank;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"none\", the name of a model, or an object with `model` and `top_n`")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Rerank, E> {
        Ok(Rerank::from(text))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Rerank, A::Error> {
        RerankOptions::deserialize(MapAccessDeserializer::new(map)).map(Rerank::With)
    }
}

impl JsonSchema for Rerank {
    fn schema_name() -> Cow<'static, str> {
        "Rerank".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let object = generator.subschema_for::<RerankOptions>();
        let description = "Id or alias of a reranker, or `none`.";
        schemars::json_schema!({"oneOf": [{"type": "string", "description": description}, object]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected`: the value serialised again, or the beginning of the message.
    fn check(json: &str, expected: &str) {
        let seen = match serde_json::from_str::<Rerank>(json) {
            Ok(rerank) => serde_json::to_string(&rerank).unwrap(),
            Err(error) => error.to_string(),
        };
        assert!(seen.starts_with(expected), "{json}: {seen}");
    }

    #[test]
    fn rerank_has_a_short_and_a_long_form() {
        check(r#""none""#, r#""none""#);
        check(r#""ce""#, r#"{"model":"ce"}"#);
        check(r#"{"model":"none","top_n":3}"#, r#"{"model":"none","top_n":3}"#);
        check("{}", "{}");
        check("true", "invalid type: boolean `true`, expected \"none\", the name of a model, or an object");
        check(r#"{"name":"ce"}"#, "unknown field `name`, expected `model` or `top_n`");
    }
}
