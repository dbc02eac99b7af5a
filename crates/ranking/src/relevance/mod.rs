//! The probability, from 0 to 1, that a hit answers its query; comparable across queries. Pure.
//!
//! It combines two questions. *Can the collection answer the query?* The best cosine decides, adjusted by the position of the
//! query relative to the collection's embeddings ([`CorpusStatistics`], fitted to a sample of chunks without labels) and by the
//! share of the query's words that the best chunk contains. *How far is the hit behind the best one?* The gap between their
//! scores, as a share of the best. The meaning of a gap, and the probability to be expected at all, depend on what users ask a
//! collection: [`ScoreBaseline`] estimates it from searches, also without labels.
//!
//! The coefficients were fitted by `scripts/relevance.py` on the development sets; `docs/relevance.md` has the measured quality.
//! [`LearnedRelevance`] adapts them to users' judgments.

mod baseline;
mod curve;
mod learned;

use serde::{Deserialize, Serialize};

use crate::RetrievalMode;
use crate::fusion::ScoredDocument;
pub use baseline::{ScoreBaseline, ScoreProfile};
use curve::{Curve, sigmoid};
pub use learned::{LearnedRelevance, LearnedSummary, Voter};

/// Maximum number of chunks in the sample for [`CorpusStatistics`].
pub const SAMPLE_CHUNKS_MAX: usize = 512;
/// With fewer chunks no statistics are fitted, and topicality is 0 for every query.
pub const SAMPLE_CHUNKS_MIN: usize = 32;
/// Maximum number of judgments in a calibration: the newest.
pub const FEEDBACK_MAX: usize = 10_000;

/// Upper bound of a term's BM25 score for an idf of 1: `k1 + 1`.
pub const BM25_TERM_MAX: f32 = 2.2;
/// In a collection with fewer chunks, the best cosine of a query is lower, also of a query that it cannot answer: it is the highest of fewer.
const SMALL_CHUNKS: f32 = 256.0;
/// The increase of nearness for a collection with `1/e` of the chunks. The cosine that best separates answerable queries from others, in random parts
/// of two development sets with 9 to 2,000 chunks, rises by 0.02 and 0.04 with each factor of `e`. More is added, because a few texts
/// say little about what their collection can answer, and a right hit that is hidden costs more than a wrong one that is shown.
const SMALL_WEIGHT: f32 = 0.065;
/// Topicality is clamped to this range: far from the collection's embeddings, and just within their middle.
const TOPICALITY: (f32, f32) = (-5.0, 0.5);
/// Weights of topicality and of the share of words, added to the best cosine of hybrid and of dense searches. Small, because they
/// only decide between queries of about the same cosine.
const HYBRID_WEIGHTS: (f32, f32) = (0.015, 0.015);
const DENSE_TOPICALITY_WEIGHT: f32 = 0.005;

/// The distribution of a collection's embeddings, estimated from a sample of its chunks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CorpusStatistics {
    /// Mean of the sample.
    centroid: Vec<f32>,
    /// Mean over the sample of a chunk's mean dot product with the others.
    mean: f32,
    /// Standard deviation of those means.
    spread: f32,
}

impl CorpusStatistics {
    /// Fits the statistics to embeddings of one length; `None` for fewer than [`SAMPLE_CHUNKS_MIN`]. Equal samples give equal
    /// statistics.
    pub fn fit(sample: &[Vec<f32>]) -> Option<CorpusStatistics> {
        let count = sample.len();
        if count < SAMPLE_CHUNKS_MIN {
            return None;
        }
        let mut centroid = vec![0.0; sample[0].len()];
        for row in sample {
            centroid.iter_mut().zip(row).for_each(|(sum, value)| *sum += value / count as f32);
        }
        let with_others =
            |row: &Vec<f32>| (count as f32 * dot(row, &centroid) - dot(row, row)) / (count as f32 - 1.0);
        let means: Vec<f32> = sample.iter().map(with_others).collect();
        let mean = means.iter().sum::<f32>() / count as f32;
        let variance = means.iter().map(|one| (one - mean).powi(2)).sum::<f32>() / count as f32;
        Some(CorpusStatistics { centroid, mean, spread: variance.sqrt().max(1e-3) })
    }

    /// The query's mean dot product with the collection, in standard deviations from that of a chunk: 0 is typical of a chunk, -3
    /// suggests another subject.
    pub fn topicality(&self, query: &[f32]) -> f32 {
        (dot(query, &self.centroid) - self.mean) / self.spread
    }
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The candidates of one retriever, best first.
#[derive(Debug, Clone, Copy)]
pub struct RankedList<'a> {
    /// Its documents.
    pub ranking: &'a [ScoredDocument],
    /// Whether the retriever may have more candidates than requested.
    pub is_truncated: bool,
}

/// Bounds of BM25 scores.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Bm25Bounds {
    /// The highest score of a chunk for the query: the sum of the idf of its words, times [`BM25_TERM_MAX`]. 0 without words.
    pub query: f32,
    /// The highest score of a chunk for one word, which is that of a word in no other chunk.
    pub word: f32,
}

impl Bm25Bounds {
    /// A score as a share of the query's highest, from 0 to 1.
    fn share(self, score: f32) -> f32 {
        if self.query > 0.0 { (score / self.query).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// A score in words: how many of the rarest words, each as frequent as can be, have it. Frequent words are fractions of a word.
    pub fn words(self, score: f32) -> f32 {
        if self.word > 0.0 { (score / self.word).max(0.0) } else { 0.0 }
    }
}

/// The inputs to the features of a search beside its rankings.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct QueryContext {
    /// Bounds of the lexical scores.
    pub bm25: Bm25Bounds,
    /// [`CorpusStatistics::topicality`], or 0 without statistics.
    pub topicality: f32,
    /// The chunks among which was searched.
    pub chunks: u32,
}

/// The features of one search, from which those of its hits are computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QueryFeatures {
    mode: RetrievalMode,
    nearness: f32,
    share: f32,
    shape: ScoreProfile,
    baseline: (f32, f32),
}

/// The features of one hit, from which its relevance is computed. Stored with feedback, so that feedback stays valid when
/// coefficients change.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HitFeatures {
    /// The retrievers of the search.
    #[serde(rename = "kind")]
    pub mode: RetrievalMode,
    /// How well the collection matches the query; equal for all hits of a search.
    pub nearness: f32,
    /// Distance of the hit's score from the best one, as a share of the best; 0 for the best.
    pub gap: f32,
    /// The best chunk's BM25 score as a share of the highest possible one, in hybrid searches; equal for all hits of a search.
    #[serde(default)]
    pub share: f32,
    /// [`ScoreBaseline::deviation_from_prior`] of the collection at the time of the search.
    #[serde(default, rename = "usual")]
    pub baseline: (f32, f32),
    /// Whether the query names the hit.
    #[serde(default)]
    pub exactness: Exactness,
}

/// Whether a query names a hit, which no cosine shows: names and rare words say little to an embedding model.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exactness {
    /// It is at most similar to the query.
    #[default]
    Similar,
    /// It has every word of the query, one of which at most [`RARE_DOCUMENTS_MAX`] documents have; or its title or id begins with the
    /// query, as do those of at most as many documents.
    Rare,
    /// Its title or id is the query.
    Name,
}

/// A word in at most this many documents is rare, and so is the beginning of a name.
pub const RARE_DOCUMENTS_MAX: usize = 2;

impl Exactness {
    /// The lowest log-odds of such a hit, for probabilities of 0.75 and 0.9; set by hand, since the development sets have few such queries.
    fn log_odds_min(self) -> Option<f32> {
        match self {
            Exactness::Similar => None,
            Exactness::Rare => Some(1.1),
            Exactness::Name => Some(2.2),
        }
    }
}

impl HitFeatures {
    /// Log-odds that the hit answers its query, before anything is learned from judgments.
    fn log_odds(&self) -> f32 {
        Curve::of(self.mode).log_odds(self)
    }
}

impl QueryFeatures {
    /// Features of a search by the given retrievers, at least one.
    pub fn of(
        lexical: Option<RankedList<'_>>,
        dense: Option<RankedList<'_>>,
        context: QueryContext,
        baseline: &ScoreBaseline,
    ) -> QueryFeatures {
        let first = |retriever| ranking_of(retriever).first().map_or(0.0, |one| one.score);
        let (best_bm25, best_cosine) = (first(lexical), first(dense));
        let share = context.bm25.share(best_bm25);
        let topicality = context.topicality.clamp(TOPICALITY.0, TOPICALITY.1);
        let fewer = (SMALL_CHUNKS / context.chunks.max(1) as f32).ln().max(0.0);
        let near = best_cosine + SMALL_WEIGHT * fewer;
        let (mode, nearness) = match (lexical, dense) {
            (_, None) => (RetrievalMode::Lexical, share * context.bm25.words(best_bm25)),
            (None, Some(_)) => (RetrievalMode::Dense, near + DENSE_TOPICALITY_WEIGHT * topicality),
            (Some(_), Some(_)) => {
                (RetrievalMode::Hybrid, near + HYBRID_WEIGHTS.0 * topicality + HYBRID_WEIGHTS.1 * share)
            }
        };
        QueryFeatures {
            mode,
            nearness,
            share: if mode == RetrievalMode::Hybrid { share } else { 0.0 },
            shape: ScoreProfile::of(lexical, dense),
            baseline: baseline.deviation_from_prior(),
        }
    }

    /// Features of a hit with this score that is at most similar to the query, where the best hit has the score `best`.
    pub fn features(&self, score: f32, best: f32) -> HitFeatures {
        let gap = if best > 0.0 { ((best - score) / best).max(0.0) } else { 0.0 };
        HitFeatures {
            mode: self.mode,
            nearness: self.nearness,
            gap,
            share: self.share,
            baseline: self.baseline,
            exactness: Exactness::Similar,
        }
    }

    /// Features of a hit that the query names: of the best hit in a collection that can certainly answer it.
    pub fn features_of_exact(&self, exactness: Exactness) -> HitFeatures {
        HitFeatures { nearness: 1.0, exactness, ..self.features(1.0, 1.0) }
    }

    /// Updates the baseline with this search.
    pub fn observe(&self, baseline: &mut ScoreBaseline) {
        baseline.update(self.shape, sigmoid(Curve::of(self.mode).answerable(self.nearness)));
    }
}

fn ranking_of(retriever: Option<RankedList<'_>>) -> &[ScoredDocument] {
    retriever.map_or(&[], |retriever| retriever.ranking)
}

/// Maps features to probabilities for one collection, adapted to users' judgments.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Calibration {
    /// Added to the log-odds.
    shift: f32,
    /// Multiplies the log-odds.
    slope: f32,
}

impl Default for Calibration {
    /// No adaptation.
    fn default() -> Calibration {
        Calibration { shift: 0.0, slope: 1.0 }
    }
}

/// A user's judgment of a hit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JudgedHit {
    /// The hit's features when it was shown.
    pub features: HitFeatures,
    /// Whether it answered the query.
    pub is_relevant: bool,
    /// From 0 to 1: the older, the less.
    pub weight: f32,
    /// The source of the judgment.
    pub voter: Voter,
}

/// Prior standard deviations of shift and slope between collections, from fits that left one development set out.
const PRIOR_SPREAD: (f64, f64) = (0.5, 0.25);
/// Bounds of the slope; positive, so that the order of hits is never reversed.
const SLOPE_RANGE: (f64, f64) = (0.25, 4.0);
/// Newton's method converges long before.
const STEPS_MAX: usize = 30;
/// Maximum change of the shift in one step.
const STEP_MAX: f64 = 1.0;

impl Calibration {
    /// The probability, from 0 to 1, that the hit answers the query.
    pub fn relevance(&self, features: &HitFeatures) -> f32 {
        let log_odds = features.log_odds();
        if log_odds.is_finite() { self.probability(log_odds) } else { 0.0 }
    }

    fn probability(&self, log_odds: f32) -> f32 {
        sigmoid(self.shift + self.slope * log_odds)
    }

    /// The maximum a posteriori calibration for the newest [`FEEDBACK_MAX`] judgments: Platt scaling with a Gaussian prior around
    /// the fitted curves, by Newton's method. Without judgments, the default.
    pub fn refined(feedback: &[JudgedHit]) -> Calibration {
        let last = &feedback[feedback.len().saturating_sub(FEEDBACK_MAX)..];
        let judged = |one: &JudgedHit| Judged {
            log_odds: one.features.log_odds().into(),
            is_relevant: f64::from(u8::from(one.is_relevant)),
            weight: one.weight.clamp(0.0, 1.0).into(),
        };
        let judged: Vec<Judged> = last.iter().map(judged).filter(|one| one.log_odds.is_finite()).collect();
        let (mut shift, mut slope) = (0.0, 1.0);
        for _ in 0..STEPS_MAX {
            let (by_shift, by_slope) = newton_step(&judged, shift, slope);
            shift -= by_shift;
            slope -= by_slope;
            if by_shift.abs() + by_slope.abs() < 1e-9 {
                break;
            }
        }
        Calibration { shift: shift as f32, slope: slope as f32 }
    }
}

/// A judgment as numbers.
struct Judged {
    log_odds: f64,
    /// 1 or 0.
    is_relevant: f64,
    weight: f64,
}

/// One step of Newton's method, to be subtracted from shift and slope: the inverse Hessian of the negative log posterior times
/// its gradient. The slope is kept in its range; the shift is then optimised for the bounded slope.
fn newton_step(judged: &[Judged], shift: f64, slope: f64) -> (f64, f64) {
    let (shift_weight, slope_weight) = (PRIOR_SPREAD.0.powi(-2), PRIOR_SPREAD.1.powi(-2));
    let (mut to_shift, mut to_slope) = (shift * shift_weight, (slope - 1.0) * slope_weight);
    let (mut shift_twice, mut both, mut slope_twice) = (shift_weight, 0.0, slope_weight);
    for &Judged { log_odds, is_relevant, weight } in judged {
        let expected = 1.0 / (1.0 + (-shift - slope * log_odds).exp());
        let (error, weight) = (weight * (expected - is_relevant), weight * expected * (1.0 - expected));
        to_shift += error;
        to_slope += error * log_odds;
        shift_twice += weight;
        both += weight * log_odds;
        slope_twice += weight * log_odds * log_odds;
    }
    // never 0: it contains both priors
    let determinant = shift_twice * slope_twice - both * both;
    let by_slope = (shift_twice * to_slope - both * to_shift) / determinant;
    let by_slope = slope - (slope - by_slope).clamp(SLOPE_RANGE.0, SLOPE_RANGE.1);
    // far from the mode the posterior is flat, and a full step would overshoot
    let by_shift = ((to_shift - both * by_slope) / shift_twice).clamp(-STEP_MAX, STEP_MAX);
    (by_shift, by_slope)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLERANCE: f32 = 1e-4;
    /// The best hit of a hybrid search close to its query, in a collection with the prior baseline.
    const FEATURES: HitFeatures = HitFeatures {
        mode: RetrievalMode::Hybrid,
        nearness: 0.7,
        gap: 0.0,
        share: 0.5,
        baseline: (0.0, 0.0),
        exactness: Exactness::Similar,
    };

    const CONTEXT: QueryContext =
        QueryContext { bm25: Bm25Bounds { query: 44.0, word: 22.0 }, topicality: 0.0, chunks: 1000 };

    fn ranking(pairs: &[(u32, f32)]) -> Vec<ScoredDocument> {
        pairs.iter().map(|&(document, score)| ScoredDocument { document, score }).collect()
    }

    fn retriever(ranking: &[ScoredDocument]) -> Option<RankedList<'_>> {
        Some(RankedList { ranking, is_truncated: false })
    }

    fn close(seen: f32, expected: f32) {
        assert!((seen - expected).abs() < TOLERANCE, "{seen} is not {expected}");
    }

    /// A hybrid search whose best chunk contains half of the query's words.
    fn query_features(topicality: f32) -> QueryFeatures {
        let lexical = ranking(&[(1, 22.0), (2, 11.0)]);
        let dense = ranking(&[(1, 0.6), (3, 0.3)]);
        let context = QueryContext { topicality, ..CONTEXT };
        QueryFeatures::of(retriever(&lexical), retriever(&dense), context, &ScoreBaseline::default())
    }

    #[test]
    fn nearness_is_the_best_cosine_adjusted_by_topicality_and_words() {
        close(query_features(0.0).nearness, 0.6 + 0.015 * 0.5);
        close(query_features(-2.0).nearness, 0.6 - 0.03 + 0.0075);
        close(query_features(-100.0).nearness, 0.6 - 0.075 + 0.0075);
        close(query_features(100.0).nearness, 0.6 + 0.0075 + 0.0075);
        let dense = ranking(&[(1, 0.6)]);
        let of_dense =
            |context| QueryFeatures::of(None, retriever(&dense), context, &ScoreBaseline::default()).nearness;
        close(of_dense(QueryContext { topicality: -2.0, ..CONTEXT }), 0.6 - 0.01);
        close(of_dense(QueryContext { chunks: 9, ..CONTEXT }), 0.6 + 0.065 * (256.0f32 / 9.0).ln());
    }

    #[test]
    fn lexical_nearness_is_the_share_of_the_query_and_how_much_it_says() {
        let nearness = |score, bm25| {
            let lexical = ranking(&[(1, score)]);
            let context = QueryContext { bm25, ..CONTEXT };
            QueryFeatures::of(retriever(&lexical), None, context, &ScoreBaseline::default()).nearness
        };
        close(nearness(11.0, Bm25Bounds { query: 22.0, word: 11.0 }), 0.5);
        close(nearness(44.0, Bm25Bounds { query: 88.0, word: 11.0 }), 2.0);
        close(nearness(5.5, Bm25Bounds { query: 55.0, word: 22.0 }), 0.025);
        close(nearness(5.5, Bm25Bounds::default()), 0.0);
    }

    #[test]
    fn the_gap_is_the_distance_from_the_best_score() {
        let query_features = query_features(0.0);
        close(query_features.features(0.8, 0.8).gap, 0.0);
        close(query_features.features(0.6, 0.8).gap, 0.25);
        close(query_features.features(0.9, 0.8).gap, 0.0);
        // nothing is similar to the query
        close(query_features.features(-0.1, 0.0).gap, 0.0);
        close(query_features.features(0.6, 0.8).share, 0.5);
    }

    #[test]
    fn a_hit_that_the_query_names_is_relevant_though_no_embedding_is_near() {
        let (lexical, dense) = (ranking(&[(1, 22.0)]), ranking(&[(2, 0.1)]));
        let context = QueryContext { topicality: -5.0, ..CONTEXT };
        let far =
            QueryFeatures::of(retriever(&lexical), retriever(&dense), context, &ScoreBaseline::default());
        let relevance = |features| Calibration::default().relevance(&features);
        assert!(relevance(far.features(1.0, 1.0)) < 0.01);
        close(relevance(far.features_of_exact(Exactness::Rare)), sigmoid(1.1));
        close(relevance(far.features_of_exact(Exactness::Name)), sigmoid(2.2));
    }

    #[test]
    fn relevance_falls_with_the_gap_and_with_lower_nearness() {
        let calibration = Calibration::default();
        let relevance = |nearness, gap| calibration.relevance(&HitFeatures { nearness, gap, ..FEATURES });
        close(relevance(0.7, 0.0), 0.6318);
        close(relevance(0.7, 0.5), 0.0196);
        close(relevance(0.4, 0.0), 0.3669);
        close(relevance(0.2, 0.0), 0.0034);
    }

    /// The baseline of a collection whose searches all have this profile.
    fn usually(cosine: f32, drop: f32) -> ScoreBaseline {
        let mut baseline = ScoreBaseline::default();
        let shape = ScoreProfile { cosine: Some(cosine), drop: Some(drop) };
        (0..100_000).for_each(|_| baseline.update(shape, 1.0));
        baseline
    }

    #[test]
    fn the_baseline_scales_the_gap() {
        let relevance = |baseline: ScoreBaseline, gap| {
            Calibration::default().relevance(&HitFeatures {
                gap,
                baseline: baseline.deviation_from_prior(),
                ..FEATURES
            })
        };
        let (sharp, flat) = (usually(0.518, 0.75), usually(0.518, 0.22));
        close(relevance(sharp, 0.0), relevance(flat, 0.0));
        close(relevance(sharp, 0.2), 0.0169);
        close(relevance(flat, 0.2), 0.5203);
        // where cosines are always high, nearness means less
        close(relevance(usually(0.6, 0.435), 0.0), 0.4934);
        let steep = Curve { gap: 4.0, drop: 100.0, power: 1.0, ..Curve::of(RetrievalMode::Hybrid) };
        let behind =
            |gap| steep.log_odds(&HitFeatures { gap, baseline: flat.deviation_from_prior(), ..FEATURES });
        close(behind(0.0) - behind(0.5), 0.1 * 4.0 * 0.5);
    }

    #[test]
    fn only_answerable_searches_update_the_baseline() {
        let flat =
            ranking(&(0..10).map(|document| (document, 20.0 - 0.1 * document as f32)).collect::<Vec<_>>());
        let (high, low) = (0.9, 0.1);
        let fitted = |cosine: f32| {
            let dense = ranking(&(0..10).map(|document| (document, cosine)).collect::<Vec<_>>());
            let mut baseline = ScoreBaseline::default();
            QueryFeatures::of(retriever(&flat), retriever(&dense), CONTEXT, &ScoreBaseline::default())
                .observe(&mut baseline);
            baseline
        };
        assert!(fitted(high).has_changed_from(&ScoreBaseline::default()));
        assert!(!fitted(low).has_changed_from(&ScoreBaseline::default()), "it is off the subject");
    }

    #[test]
    fn each_mode_has_its_own_curve_and_empty_rankings_are_not_relevant() {
        let relevance = |lexical, dense| {
            let features =
                QueryFeatures::of(lexical, dense, CONTEXT, &ScoreBaseline::default()).features(0.0, 0.0);
            (features.mode, Calibration::default().relevance(&features))
        };
        let nothing: Vec<ScoredDocument> = Vec::new();
        let empty = retriever(&nothing);
        for (lexical, dense, mode) in [
            (empty, None, RetrievalMode::Lexical),
            (None, empty, RetrievalMode::Dense),
            (empty, empty, RetrievalMode::Hybrid),
        ] {
            let (seen, value) = relevance(lexical, dense);
            assert_eq!(seen, mode);
            assert!((0.0..0.05).contains(&value), "{value}");
        }
    }

    #[test]
    fn nan_scores_have_no_relevance() {
        let features = HitFeatures { mode: RetrievalMode::Dense, nearness: f32::NAN, ..FEATURES };
        assert_eq!(Calibration::default().relevance(&features), 0.0);
    }

    #[test]
    fn corpus_statistics_are_those_of_the_sample() {
        // half of the rows point one way and half another: the mean dot product with the others is 15/31 for all
        let row = |index: usize| if index.is_multiple_of(2) { vec![1.0, 0.0] } else { vec![0.0, 1.0] };
        let sample: Vec<Vec<f32>> = (0..32).map(row).collect();
        let statistics = CorpusStatistics::fit(&sample).unwrap();
        assert_eq!(statistics.centroid, [0.5, 0.5]);
        close(statistics.mean, 15.0 / 31.0);
        close(statistics.spread, 1e-3);
        assert!(statistics.topicality(&[0.0, -1.0]) < -100.0);
        close(statistics.topicality(&[0.6, 0.8]) / 1e3, 0.7 - 15.0 / 31.0);
        assert_eq!(CorpusStatistics::fit(&sample[..31]), None);
    }

    fn judged(features: HitFeatures, is_relevant: bool) -> JudgedHit {
        JudgedHit { features, is_relevant, weight: 1.0, voter: Voter::Operator }
    }

    fn feedback(count: usize, relevant_of_ten: usize) -> Vec<JudgedHit> {
        let features = FEATURES;
        (0..count).map(|index| judged(features, index * 7 % 10 < relevant_of_ten)).collect()
    }

    #[test]
    fn feedback_moves_relevance_towards_the_judgments() {
        assert_eq!(Calibration::refined(&[]), Calibration::default());
        let relevance =
            |count, relevant| Calibration::refined(&feedback(count, relevant)).relevance(&FEATURES);
        assert!(
            (relevance(10, 1) - 0.42).abs() < 0.05,
            "ten are weighed against the prior: {}",
            relevance(10, 1)
        );
        assert!((relevance(1000, 1) - 0.1).abs() < 0.01);
        assert!((relevance(1000, 9) - 0.9).abs() < 0.01);
    }

    #[test]
    fn feedback_on_improbable_hits_counts() {
        let features = HitFeatures { nearness: 0.0, ..FEATURES };
        let judged = vec![judged(features, true); FEEDBACK_MAX];
        assert!(Calibration::default().relevance(&features) < 1e-4);
        assert!(Calibration::refined(&judged).relevance(&features) > 0.9);
    }

    #[test]
    fn contrary_feedback_does_not_reverse_the_order() {
        let high = FEATURES;
        let low = HitFeatures { gap: 1.0, ..high };
        let contrary: Vec<JudgedHit> = (0..20_000)
            .map(|index| if index % 2 == 0 { judged(high, false) } else { judged(low, true) })
            .collect();
        let refined = Calibration::refined(&contrary);
        assert!(refined.relevance(&high) > refined.relevance(&low), "{refined:?}");
    }

    #[test]
    fn only_the_last_feedback_counts() {
        let old = feedback(20_000, 0);
        let recent = feedback(FEEDBACK_MAX, 9);
        let both: Vec<JudgedHit> = old.into_iter().chain(recent.clone()).collect();
        assert_eq!(Calibration::refined(&both), Calibration::refined(&recent));
    }
}
