//! From features to log-odds: logistic curves, one set for each retrieval mode.

use super::HitFeatures;
use crate::RetrievalMode;

/// The logistic curves of one retrieval mode.
#[derive(Debug, Clone, Copy)]
pub(super) struct Curve {
    /// Log-odds that the collection can answer: intercept, and slope over nearness.
    pub(super) answerable: (f32, f32),
    /// Log-odds that the best hit answers, if the collection can.
    pub(super) best: f32,
    /// The reduction by a gap of 1.
    pub(super) gap: f32,
    /// Exponent of the gap: the first steps behind the best hit matter most.
    pub(super) power: f32,
    /// Weight of the log-probability that the collection can answer.
    pub(super) unanswerable: f32,
    /// Weight of the share of the query's words in the best chunk, if the collection can answer. Small: a larger one separates right first
    /// hits from wrong ones better, but queries that the collection can answer from others worse.
    pub(super) share: f32,
    /// Weight of the collection's mean cosine, relative to the prior.
    pub(super) cosine: f32,
    /// Weight of the collection's mean score drop, relative to the prior: where scores drop more, a gap means more.
    pub(super) drop: f32,
}

/// Fitted by `scripts/relevance.py`.
const HYBRID: Curve = Curve {
    answerable: (-21.09, 48.18),
    best: 0.511,
    gap: 7.753,
    power: 0.8,
    unanswerable: 0.539,
    share: 0.058,
    cosine: -6.908,
    drop: 28.328,
};
const DENSE: Curve = Curve {
    answerable: (-22.45, 50.62),
    best: 0.556,
    gap: 3.935,
    power: 0.3,
    unanswerable: 0.669,
    share: 0.0,
    cosine: -5.403,
    drop: 14.074,
};
/// Its first, second and fifth values were fitted to first hits of collections without embeddings.
const LEXICAL: Curve = Curve {
    answerable: (-5.96, 36.35),
    best: 0.435,
    gap: 5.945,
    power: 0.8,
    unanswerable: 0.806,
    share: 0.0,
    cosine: -5.539,
    drop: 21.863,
};
/// Lower bound of the gap's slope, as a share of [`Curve::gap`].
const GAP_SHARE_MIN: f32 = 0.1;

impl Curve {
    pub(super) fn of(mode: RetrievalMode) -> Curve {
        match mode {
            RetrievalMode::Hybrid => HYBRID,
            RetrievalMode::Lexical => LEXICAL,
            RetrievalMode::Dense => DENSE,
        }
    }

    /// Log-odds that the collection can answer a query.
    pub(super) fn answerable(&self, nearness: f32) -> f32 {
        self.answerable.0 + self.answerable.1 * nearness
    }

    /// Log-odds that the hit answers its query.
    pub(super) fn log_odds(&self, features: &HitFeatures) -> f32 {
        let (cosine, drop) = features.baseline;
        let steepness = (self.gap + self.drop * drop).max(GAP_SHARE_MIN * self.gap);
        let behind = steepness * features.gap.powf(self.power);
        let unanswerable = self.unanswerable * softplus(-self.answerable(features.nearness));
        let share = self.share * features.share * sigmoid(self.answerable(features.nearness));
        let similar = self.best + share + self.cosine * cosine - behind - unanswerable;
        match features.exactness.log_odds_min() {
            Some(least) => similar.max(least),
            None => similar,
        }
    }
}

/// `ln(1 + exp(x))` without overflow.
fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

pub(super) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}
