//! The choice of retrievers, and the fusion of their rankings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::optional;
use crate::{Result, require};

/// The retrievers of a search.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Mode {
    /// Lexical and dense, fused.
    #[default]
    Hybrid,
    /// The lexical retriever (BM25) only.
    Lexical,
    /// The dense retriever (embeddings) only.
    Dense,
}

/// How the rankings of a hybrid search are fused. Absent fields take the values of the gateway's configuration.
#[serde_with::skip_serializing_none]
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fusion {
    /// The method.
    pub method: Option<FusionMethod>,
    /// The weight of each retriever.
    #[serde(default, deserialize_with = "optional")]
    pub weights: Option<FusionWeights>,
    /// The constant of `rrf`, usually 60; larger values reduce the advantage of the top ranks. Refused with `convex`.
    pub k: Option<f32>,
}

/// A method of fusion.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    JsonSchema,
    strum::EnumString,
    strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum FusionMethod {
    /// Weighted reciprocal rank fusion: uses the ranks only.
    Rrf,
    /// Weighted sum of scores, each divided by the best score of its ranking.
    Convex,
}

/// The weight of each retriever: at least 0, and not both 0.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FusionWeights {
    /// The weight of the lexical ranking.
    pub lexical: f32,
    /// The weight of the dense ranking.
    pub dense: f32,
}

impl Fusion {
    pub(super) fn check(&self) -> Result<()> {
        if let Some(weights) = self.weights {
            weights.check()?;
        }
        let k = self.k.unwrap_or(1.0);
        require(k.is_finite() && k > 0.0, &["fusion", "k"], || {
            format!("fusion.k is {k}; it must be a number above 0")
        })
    }
}

impl FusionWeights {
    fn check(self) -> Result<()> {
        for (name, weight) in [("lexical", self.lexical), ("dense", self.dense)] {
            require(weight.is_finite() && weight >= 0.0, &["fusion", "weights", name], || {
                format!("the weight `{name}` is {weight}; it must be a number of at least 0")
            })?;
        }
        require(
            self.lexical + self.dense != 0.0,
            &["fusion", "weights"],
            || "both weights are 0; at least one must be above 0",
        )
    }
}
