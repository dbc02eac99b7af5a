//! Which of the first results are scored once more, and by what.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{Count, ErrorCode, Invalid};

/// Results that one search has scored once more, at most: by a reranker, or by late interaction.
pub const RERANK_TOP_N_MAX: u64 = 100;
/// Results that late interaction scores when the request doesn't say.
pub const DEFAULT_LATE_INTERACTION_TOP_N: u64 = 50;
/// The largest weight of late interaction: more of it makes rankings worse.
pub const LATE_INTERACTION_WEIGHT_MAX: f32 = 0.5;

/// Whether a reranker orders the first results: `"none"`, a model's name, or `{"model": "m", "top_n": 20}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rerank {
    /// It doesn't, whatever the gateway's setting says.
    Off,
    /// It does.
    With(RerankOptions),
}

/// The reranker, and how many results it orders.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RerankOptions {
    /// The id or an alias of a model that reranks; the gateway's setting when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many of the first results it orders, 1 to 100; the gateway's setting when absent. The others follow as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_n: Option<Count>,
}

/// How much the likeness of single tokens counts in the order of the first results.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LateInteraction {
    /// The share that it has in the score, above 0 and at most 0.5.
    pub weight: f32,
    /// How many of the first results it scores, 1 to 100; 50 when absent. The others follow as they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub top_n: Option<Count>,
}

impl Rerank {
    pub(super) fn check(&self) -> Result<(), Invalid> {
        match self {
            Rerank::Off => Ok(()),
            Rerank::With(by) => check_top_n("rerank", by.top_n),
        }
    }
}

impl LateInteraction {
    /// How many of the first results it scores.
    pub fn top_n(&self) -> u64 {
        self.top_n.map_or(DEFAULT_LATE_INTERACTION_TOP_N, Count::get)
    }

    /// Checks weight and number.
    ///
    /// # Errors
    /// `invalid_parameter` when one of them is out of its range.
    pub fn check(&self) -> Result<(), Invalid> {
        let (weight, most) = (self.weight, LATE_INTERACTION_WEIGHT_MAX);
        if !(weight > 0.0 && weight <= most) {
            let message = format!(
                "late_interaction.weight is {weight}; it must be above 0 and at most {most}: more of it makes rankings worse"
            );
            return Err(Invalid::at(ErrorCode::InvalidParameter, &["late_interaction", "weight"], message));
        }
        check_top_n("late_interaction", self.top_n)
    }
}

fn check_top_n(field: &str, top_n: Option<Count>) -> Result<(), Invalid> {
    top_n.map_or(Ok(()), |top_n| top_n.check(&[field, "top_n"], 1..=RERANK_TOP_N_MAX, ""))
}

/// What stands for no reranker.
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
            Rerank::With(by) => by.serialize(serializer),
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
        let about = "The name of a model that reranks, or `none`.";
        schemars::json_schema!({"oneOf": [{"type": "string", "description": about}, object]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expected`: the request as it is written again, or the beginning of the message.
    fn check(json: &str, expected: &str) {
        let seen = match serde_json::from_str::<Rerank>(json) {
            Ok(rerank) => serde_json::to_string(&rerank).unwrap(),
            Err(error) => error.to_string(),
        };
        assert!(seen.starts_with(expected), "{json}: {seen}");
    }

    #[test]
    fn a_reranker_is_named_short_or_long() {
        check(r#""none""#, r#""none""#);
        check(r#""ce""#, r#"{"model":"ce"}"#);
        check(r#"{"model":"none","top_n":3}"#, r#"{"model":"none","top_n":3}"#);
        check("{}", "{}");
        check("true", "invalid type: boolean `true`, expected \"none\", the name of a model, or an object");
        check(r#"{"name":"ce"}"#, "unknown field `name`, expected `model` or `top_n`");
    }
}
