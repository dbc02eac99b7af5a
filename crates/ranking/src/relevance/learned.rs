//! The effect of users' judgments on relevance, and its bounds.
//!
//! Judgments come from clients. One of them must not decide what the others see: a calibration is fitted for each group of callers left
//! out, and relevance moves only as far as all of these agree. It never moves further than a limit.

use std::collections::BTreeMap;

use super::{Calibration, HitFeatures, JudgedHit};

/// Callers beyond this number share groups; each group costs one calibration.
const GROUPS_MAX: u64 = 16;

/// The probability that a hit answers its query, adapted to judgments.
#[derive(Debug, Clone, PartialEq)]
pub struct LearnedRelevance {
    /// Without each group of callers in turn. Judgments of operators are part of all.
    calibrations: Vec<Calibration>,
    shift_max: f32,
    summary: LearnedSummary,
}

/// The state of [`LearnedRelevance`], for reports.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct LearnedSummary {
    /// Judgments that count.
    pub votes: usize,
    /// Number of distinct callers with judgments, without operators.
    pub callers: usize,
    /// The largest change of a relevance, negative if it falls.
    pub shift: f32,
}

impl Default for LearnedRelevance {
    /// Nothing is learned.
    fn default() -> LearnedRelevance {
        LearnedRelevance { calibrations: Vec::new(), shift_max: 0.0, summary: LearnedSummary::default() }
    }
}

impl LearnedRelevance {
    /// Learns from judgments; relevance changes by at most `shift_max`.
    pub fn of(votes: &[JudgedHit], shift_max: f32) -> LearnedRelevance {
        let mut voters: BTreeMap<Voter, u64> = BTreeMap::new();
        for vote in votes {
            let next = voters.len() as u64;
            if vote.voter != Voter::Operator {
                voters.entry(vote.voter).or_insert(next % GROUPS_MAX);
            }
        }
        let without = |group: u64| {
            let others = |vote: &&JudgedHit| voters.get(&vote.voter) != Some(&group);
            Calibration::refined(&votes.iter().filter(others).copied().collect::<Vec<_>>())
        };
        let calibrations = match (votes.len(), (voters.len() as u64).min(GROUPS_MAX)) {
            (0, _) => Vec::new(),
            (_, 0) => vec![Calibration::refined(votes)],
            (_, groups) => (0..groups).map(without).collect(),
        };
        let mut learned = LearnedRelevance { calibrations, shift_max, summary: LearnedSummary::default() };
        let shift = (-60..=60).map(|tenth| {
            let log_odds = tenth as f32 / 10.0;
            learned.adapt(log_odds) - Calibration::default().probability(log_odds)
        });
        let shift = shift.fold(0.0f32, |most, one| if one.abs() > most.abs() { one } else { most });
        learned.summary = LearnedSummary { votes: votes.len(), callers: voters.len(), shift };
        learned
    }

    /// The probability, from 0 to 1, that the hit answers the query.
    pub fn relevance(&self, features: &HitFeatures) -> f32 {
        let log_odds = features.log_odds();
        if log_odds.is_finite() { self.adapt(log_odds) } else { 0.0 }
    }

    /// Increases with the log-odds, as every bound does: the order of hits is kept.
    fn adapt(&self, log_odds: f32) -> f32 {
        let untaught = Calibration::default().probability(log_odds);
        let each = || self.calibrations.iter().map(|calibration| calibration.probability(log_odds));
        let least = each().fold(f32::INFINITY, f32::min).min(untaught + self.shift_max);
        let most = each().fold(f32::NEG_INFINITY, f32::max).max(untaught - self.shift_max);
        match self.calibrations.is_empty() {
            true => untaught,
            false => untaught.max(least).min(most),
        }
    }

    /// The learned state.
    pub fn summary(&self) -> LearnedSummary {
        self.summary
    }
}

/// The source of a judgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Voter {
    /// An operator, whose word needs no other.
    Operator,
    /// A caller.
    Caller(i64),
    /// Callers without a key.
    Unnamed,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RetrievalMode;
    use crate::relevance::Exactness;

    const FEATURES: HitFeatures = HitFeatures {
        mode: RetrievalMode::Hybrid,
        nearness: 0.7,
        gap: 0.0,
        share: 0.5,
        baseline: (0.0, 0.0),
        exactness: Exactness::Similar,
    };

    fn votes(voter: Voter, count: usize, is_relevant: bool) -> Vec<JudgedHit> {
        vec![JudgedHit { features: FEATURES, is_relevant, weight: 1.0, voter }; count]
    }

    fn shift(votes: &[JudgedHit], shift_max: f32) -> f32 {
        let learned = LearnedRelevance::of(votes, shift_max);
        learned.relevance(&FEATURES) - Calibration::default().relevance(&FEATURES)
    }

    #[test]
    fn one_caller_alone_moves_nothing_and_several_that_agree_move_it_within_the_limit() {
        let [a, b, c] = [1, 2, 3].map(Voter::Caller);
        assert_eq!(shift(&[], 1.0), 0.0);
        for one in [a, Voter::Unnamed] {
            assert_eq!(shift(&votes(one, 1_000, false), 1.0), 0.0, "nobody agrees with {one:?}");
        }
        let agreed = [votes(a, 30, false), votes(b, 30, false)].concat();
        assert!(shift(&agreed, 1.0) < -0.2, "{}", shift(&agreed, 1.0));
        assert!((shift(&agreed, 0.05) + 0.05).abs() < 1e-6, "{}", shift(&agreed, 0.05));
        let contrary = [votes(a, 1_000, false), votes(b, 30, true)].concat();
        assert_eq!(shift(&contrary, 1.0), 0.0);
        // without its strongest opponent, relevance would rise
        let outvoted = [votes(a, 30, true), votes(b, 30, true), votes(c, 1_000, false)].concat();
        assert_eq!(shift(&outvoted, 1.0), 0.0);
    }

    #[test]
    fn an_operator_needs_no_other() {
        let word = votes(Voter::Operator, 30, false);
        assert!(shift(&word, 1.0) < -0.2);
        assert!((shift(&word, 0.05) + 0.05).abs() < 1e-6);
        let summary = LearnedRelevance::of(&word, 0.05).summary();
        assert_eq!((summary.votes, summary.callers), (30, 0));
        assert!((summary.shift + 0.05).abs() < 1e-3, "{summary:?}");
    }

    #[test]
    fn older_judgments_weigh_less() {
        let old: Vec<JudgedHit> = votes(Voter::Operator, 30, false)
            .into_iter()
            .map(|vote| JudgedHit { weight: 0.01, ..vote })
            .collect();
        let (old, new) = (shift(&old, 1.0), shift(&votes(Voter::Operator, 30, false), 1.0));
        assert!(new < -0.2 && old > -0.05, "{old} {new}");
    }

    #[test]
    fn the_order_of_hits_is_kept() {
        let high = FEATURES;
        let low = HitFeatures { gap: 0.3, ..high };
        let judged = |features, is_relevant, voter| JudgedHit { features, is_relevant, weight: 1.0, voter };
        let votes: Vec<JudgedHit> = (0..2_000)
            .map(|n| match n % 2 {
                0 => judged(high, false, Voter::Caller(n % 7)),
                _ => judged(low, true, Voter::Caller(n % 7)),
            })
            .collect();
        for shift_max in [0.05, 1.0] {
            let learned = LearnedRelevance::of(&votes, shift_max);
            assert!(learned.relevance(&high) > learned.relevance(&low), "{learned:?}");
        }
    }

    #[test]
    fn more_callers_than_groups_are_counted() {
        let many: Vec<JudgedHit> = (0..40).flat_map(|key| votes(Voter::Caller(key), 3, false)).collect();
        let learned = LearnedRelevance::of(&many, 0.05);
        assert_eq!((learned.calibrations.len(), learned.summary().callers), (16, 40));
        assert!((shift(&many, 0.05) + 0.05).abs() < 1e-6);
    }
}
