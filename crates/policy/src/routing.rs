//! The order in which the targets of a route are tried.
//!
//! Targets of a lower priority number come first. Among equals, the order is drawn by weight, follows from a sticky key (rendezvous hashing:
//! Thaler and Ravishankar, 1998), or prefers the better of two draws by latency and load (peak EWMA, as in Finagle and linkerd). Targets whose
//! circuit breaker is open come last.

use std::time::{Duration, Instant};

/// The state of a target when a request arrives.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetState {
    /// Its share among targets of the same priority; above 0.
    pub weight: u32,
    /// Lower numbers come first.
    pub priority: u32,
    /// Whether its circuit breaker rejects calls.
    pub is_open: bool,
    /// [`PeakEwma::load`]; lower is better. Used by [`Choice::Latency`].
    pub load: f64,
    /// The hash of the target with the request's sticky key: [`sticky_hash`]. Used by [`Choice::Sticky`].
    pub hash: u64,
}

/// The hash of a request's sticky key with a target, by which [`Choice::Sticky`] orders targets. The same in every process and version of this
/// program, so that a restart, an upgrade or another instance leads a session to the same target.
pub fn sticky_hash(key: &[u8], upstream: &str, model: &str) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for part in [key, upstream.as_bytes(), model.as_bytes()] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    let mut first = [0; 8];
    hasher.finalize_xof().fill(&mut first);
    u64::from_le_bytes(first)
}

/// How to choose among targets of the same priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Choice {
    /// At random by weight.
    Weighted,
    /// The better of two different ones that are drawn by weight.
    Latency,
    /// By the hash of a key.
    Sticky,
}

/// The indexes of `targets` in the order in which they are tried. `random` returns numbers in 0..1.
pub fn order(targets: &[TargetState], choice: Choice, mut random: impl FnMut() -> f64) -> Vec<usize> {
    let mut left: Vec<usize> = (0..targets.len()).collect();
    if left.len() < 2 {
        return left;
    }
    let class = |index: usize| (targets[index].is_open, targets[index].priority);
    let mut ordered = Vec::with_capacity(left.len());
    while let Some(best) = left.iter().map(|&index| class(index)).min() {
        let equals: Vec<usize> = left.iter().copied().filter(|&index| class(index) == best).collect();
        let first = match choice {
            Choice::Weighted => draw(targets, &equals, random()),
            Choice::Latency => {
                let a = draw(targets, &equals, random());
                let others: Vec<usize> = equals.iter().copied().filter(|&index| index != a).collect();
                let b = if others.is_empty() { a } else { draw(targets, &others, random()) };
                if targets[b].load < targets[a].load { b } else { a }
            }
            Choice::Sticky => rendezvous(targets, &equals),
        };
        left.retain(|&index| index != first);
        ordered.push(first);
    }
    ordered
}

/// One of `indexes`, drawn by weight.
fn draw(targets: &[TargetState], indexes: &[usize], random: f64) -> usize {
    let total: f64 = indexes.iter().map(|&index| f64::from(targets[index].weight)).sum();
    let mut rest = random * total;
    for &index in indexes {
        rest -= f64::from(targets[index].weight);
        if rest < 0.0 {
            return index;
        }
    }
    indexes.last().copied().unwrap_or_default()
}

/// The one with the highest weighted hash: when a target goes, only its own keys move.
fn rendezvous(targets: &[TargetState], indexes: &[usize]) -> usize {
    let score = |index: usize| {
        let TargetState { weight, hash, .. } = targets[index];
        // above 0 and below 1, both exactly
        let uniform = ((hash >> 12) as f64 + 0.5) / (1u64 << 52) as f64;
        f64::from(weight) / -uniform.ln()
    };
    let best = indexes.iter().copied().max_by(|&a, &b| score(a).total_cmp(&score(b)));
    best.unwrap_or_default()
}

/// The half life of a latency that was observed, times ln 2.
const DECAY: Duration = Duration::from_secs(10);

/// A latency that rises at once and falls slowly: a peak-sensitive exponentially weighted mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeakEwma {
    seconds: f64,
    at: Instant,
}

impl PeakEwma {
    /// Nothing was observed yet.
    pub fn new(now: Instant) -> PeakEwma {
        PeakEwma { seconds: 0.0, at: now }
    }

    /// Takes an observed latency in.
    pub fn observe(&mut self, now: Instant, latency: Duration) {
        let seconds = latency.as_secs_f64();
        let weight = self.decay(now);
        self.seconds =
            if seconds > self.seconds { seconds } else { self.seconds * weight + seconds * (1.0 - weight) };
        self.at = now;
    }

    /// The expected cost of one more request beside `in_flight` others.
    pub fn load(&self, now: Instant, in_flight: usize) -> f64 {
        self.seconds * self.decay(now) * (in_flight as f64 + 1.0)
    }

    fn decay(&self, now: Instant) -> f64 {
        (-now.saturating_duration_since(self.at).as_secs_f64() / DECAY.as_secs_f64()).exp()
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "an `Instant` can only be made by the clock")]
mod tests {
    use super::*;

    const TARGET: TargetState = TargetState { weight: 1, priority: 0, is_open: false, load: 0.0, hash: 0 };

    /// The order for numbers that a generator of equally spaced ones returns.
    fn check(targets: &[TargetState], choice: Choice, random: f64, expected: &[usize]) {
        assert_eq!(order(targets, choice, || random), expected, "{targets:?} {random}");
    }

    #[test]
    fn priorities_and_open_breakers_decide_before_the_weight() {
        let heavy = TargetState { weight: 1_000, priority: 1, ..TARGET };
        check(&[heavy, TARGET], Choice::Weighted, 0.0, &[1, 0]);
        let open = TargetState { is_open: true, ..TARGET };
        check(&[open, heavy], Choice::Weighted, 0.0, &[1, 0]);
        check(&[TARGET], Choice::Latency, 0.9, &[0]);
        check(&[], Choice::Weighted, 0.0, &[]);
    }

    #[test]
    fn weights_are_shares() {
        let targets = [TargetState { weight: 3, ..TARGET }, TARGET];
        let firsts = (0..1_000).filter(|step| {
            let random = (f64::from(*step) + 0.5) / 1_000.0;
            order(&targets, Choice::Weighted, || random)[0] == 0
        });
        assert_eq!(firsts.count(), 750);
    }

    #[test]
    fn the_better_of_two_different_draws_is_chosen_by_load() {
        let of_loads = |loads: &[f64]| -> Vec<TargetState> {
            loads.iter().map(|load| TargetState { load: *load, ..TARGET }).collect()
        };
        for random in [0.0, 0.3, 0.6, 0.9] {
            check(&of_loads(&[2.0, 1.0]), Choice::Latency, random, &[1, 0]);
        }
        // drawn are the first and the second, the third and the second, then of those that are left
        check(&of_loads(&[2.0, 1.0, 3.0]), Choice::Latency, 0.1, &[1, 0, 2]);
        check(&of_loads(&[2.0, 4.0, 3.0]), Choice::Latency, 0.9, &[2, 0, 1]);
    }

    #[test]
    fn a_sticky_hash_is_the_same_everywhere_and_differs_by_each_part() {
        let hash = sticky_hash(b"session", "a", "m");
        assert_eq!(hash, 322_880_678_441_932_922);
        for (key, upstream, model) in [("sessio", "na", "m"), ("session", "am", ""), ("session", "b", "m")] {
            assert_ne!(sticky_hash(key.as_bytes(), upstream, model), hash);
        }
    }

    #[test]
    fn a_sticky_key_moves_only_when_its_target_goes() {
        let targets: Vec<TargetState> =
            [3, 1 << 40, u64::MAX - 7].map(|hash| TargetState { hash, ..TARGET }).to_vec();
        check(&targets, Choice::Sticky, 0.0, &[2, 1, 0]);
        let mut one_open = targets.clone();
        one_open[1].is_open = true;
        check(&one_open, Choice::Sticky, 0.0, &[2, 0, 1]);
    }

    #[test]
    fn a_peak_counts_at_once_and_fades() {
        let start = Instant::now();
        let mut latency = PeakEwma::new(start);
        assert_eq!(latency.load(start, 5), 0.0);
        latency.observe(start, Duration::from_millis(100));
        assert_eq!(latency.load(start, 1), 0.2);
        let later = start + DECAY;
        assert!((latency.load(later, 0) - 0.1 / std::f64::consts::E).abs() < 1e-9);
        latency.observe(later, Duration::from_millis(10));
        let mean = 0.1 / std::f64::consts::E + 0.01 * (1.0 - 1.0 / std::f64::consts::E);
        assert!((latency.load(later, 0) - mean).abs() < 1e-9);
    }
}
