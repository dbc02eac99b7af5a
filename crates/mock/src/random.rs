//! A counter-based random number generator: a draw is a function of the seed, the request and the number of the draw.
//!
//! The faults and delays of a request therefore do not depend on its thread or on concurrent requests.

/// The random numbers of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestRng {
    pub(crate) seed: u64,
    /// Number of the request, from 1.
    pub(crate) request: u64,
}

impl RequestRng {
    /// A number in `0..1`, always the same for the same `draw`.
    pub(crate) fn unit(self, draw: u64) -> f64 {
        let bits = mix(mix(mix(self.seed) ^ self.request) ^ draw);
        (bits >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
pub(crate) fn mix(value: u64) -> u64 {
    let z = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_repeatable_and_spread_over_the_unit_interval() {
        let draws =
            |seed| (1..=1000).map(move |request| RequestRng { seed, request }.unit(3)).collect::<Vec<_>>();
        assert_eq!(draws(1), draws(1));
        assert_ne!(draws(1), draws(2));
        let below = |bound: f64| draws(1).iter().filter(|draw| **draw < bound).count();
        assert!((70..=130).contains(&below(0.1)), "{}", below(0.1));
        assert!((450..=550).contains(&below(0.5)), "{}", below(0.5));
    }
}
