//! The choice of retrievers, and the fusion of their rankings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::optional;
use crate::{ErrorCode, Invalid};

/// The retrievers of a search.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Lexical and dense, fused.
    #[default]
    Hybrid,
    /// The lexical retriever (BM25) only.
    Lexical,
    /// The dense retriever (embeddings) only.
    Dense,
}

impl Mode {
    /// The mode's name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Mode::Hybrid => "hybrid",
            Mode::Lexical => "lexical",
            Mode::Dense => "dense",
        }
    }
}

/// How the rankings of a hybrid search are fused. Absent fields take the values of the gateway's configuration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fusion {
    /// The method.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<FusionMethod>,
    /// The weight of each retriever.
    #[serde(default, deserialize_with = "optional", skip_serializing_if = "Option::is_none")]
    pub weights: Option<FusionWeights>,
    /// The constant of `rrf`, usually 60; larger values reduce the advantage of the top ranks. Refused with `convex`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub k: Option<f32>,
}

/// A method of fusion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FusionMethod {
    /// Weighted reciprocal rank fusion: uses the ranks only.
    Rrf,
    /// Weighted sum of scores, each divided by the best score of its ranking.
    Convex,
}

impl FusionMethod {
    /// The method's name in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            FusionMethod::Rrf => "rrf",
            FusionMethod::Convex => "convex",
        }
    }
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
    pub(super) fn check(&self) -> Result<(), Invalid> {
        if let Some(weights) = self.weights {
            weights.check()?;
        }
        match self.k {
            Some(k) if !(k.is_finite() && k > 0.0) => {
                let message = format!("fusion.k is {k}; it must be a number above 0");
                Err(Invalid::at(ErrorCode::InvalidParameter, &["fusion", "k"], message))
            }
            Some(_) | None => Ok(()),
        }
    }
}

impl FusionWeights {
    fn check(self) -> Result<(), Invalid> {
        for (name, weight) in [("lexical", self.lexical), ("dense", self.dense)] {
            if !(weight.is_finite() && weight >= 0.0) {
                let message = format!("the weight `{name}` is {weight}; it must be a number of at least 0");
                return Err(Invalid::at(ErrorCode::InvalidParameter, &["fusion", "weights", name], message));
            }
        }
        if self.lexical + self.dense == 0.0 {
            let message = "both weights are 0; at least one must be above 0";
            return Err(Invalid::at(ErrorCode::InvalidParameter, &["fusion", "weights"], message));
        }
        Ok(())
    }
}
