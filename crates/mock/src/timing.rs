//! Delays: their distribution and their limit.

use std::time::Duration;

use crate::random::RequestRng;

/// Longest mean, and longest delay that is drawn.
pub(crate) const DELAY_MS_MAX: f64 = 600_000.0;
/// Largest `--jitter`: at sigma 3, one delay in a hundred is over ten times the mean.
pub(crate) const JITTER_MAX: f64 = 3.0;

/// Numbers of draws ([`RequestRng::unit`]); those below are for faults.
const DRAW_LATENCY: u64 = 1000;
const DRAW_FIRST_TOKEN: u64 = 1001;
const DRAW_TOKENS: u64 = 2000;
/// Distance to the second draw of one delay.
const SECOND_DRAW: u64 = 1 << 32;

/// How delays are distributed around their mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Each delay is the mean.
    Constant,
    /// Equally likely between `mean * (1 - jitter)` and `mean * (1 + jitter)`; jitter above 1 counts as 1.
    Uniform,
    /// Log-normal with this mean; jitter is sigma, the standard deviation of the logarithm.
    Lognormal,
}

/// Draws the delays of one request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Delays {
    pub(crate) profile: Profile,
    pub(crate) jitter: f64,
    pub(crate) latency_ms: f64,
    pub(crate) first_token_ms: f64,
    pub(crate) token_ms: f64,
    pub(crate) rng: RequestRng,
}

impl Delays {
    /// From the request to the headers of the reply.
    pub(crate) fn latency(&self) -> Duration {
        self.draw(self.latency_ms, DRAW_LATENCY)
    }

    /// From the headers to the first token.
    pub(crate) fn first_token(&self) -> Duration {
        self.draw(self.first_token_ms, DRAW_FIRST_TOKEN)
    }

    /// From the token before `number` to that token; tokens have numbers from 1, and the first has no delay of this kind.
    pub(crate) fn token(&self, number: u32) -> Duration {
        if number <= 1 { Duration::ZERO } else { self.draw(self.token_ms, DRAW_TOKENS + u64::from(number)) }
    }

    /// From the headers to the last of `tokens` tokens.
    pub(crate) fn generation(&self, tokens: u32) -> Duration {
        let rest = if self.token_ms == 0.0 {
            Duration::ZERO
        } else {
            (1..=tokens).map(|number| self.token(number)).sum()
        };
        self.first_token() + rest
    }

    fn draw(&self, mean_ms: f64, draw: u64) -> Duration {
        if mean_ms == 0.0 {
            return Duration::ZERO;
        }
        let factor = match self.profile {
            Profile::Constant => 1.0,
            Profile::Uniform => 1.0 + self.jitter.min(1.0) * (2.0 * self.rng.unit(draw) - 1.0),
            Profile::Lognormal => (self.jitter * self.normal(draw) - self.jitter * self.jitter / 2.0).exp(),
        };
        Duration::from_secs_f64((mean_ms * factor).clamp(0.0, DELAY_MS_MAX) / 1000.0)
    }

    /// A standard normal number (Box and Muller 1958).
    fn normal(&self, draw: u64) -> f64 {
        let radius = (-2.0 * (1.0 - self.rng.unit(draw)).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.rng.unit(draw + SECOND_DRAW)).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delays_ms(profile: Profile, jitter: f64) -> Vec<f64> {
        let delays = |request| Delays {
            profile,
            jitter,
            latency_ms: 50.0,
            first_token_ms: 0.0,
            token_ms: 0.0,
            rng: RequestRng { seed: 1, request },
        };
        (0..20_000).map(|request| delays(request).latency().as_secs_f64() * 1000.0).collect()
    }

    fn mean(values: &[f64]) -> f64 {
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn every_profile_keeps_the_mean() {
        assert!(delays_ms(Profile::Constant, 0.5).iter().all(|ms| (ms - 50.0).abs() < 1e-6));
        for (profile, jitter) in
            [(Profile::Uniform, 0.5), (Profile::Lognormal, 0.5), (Profile::Lognormal, 1.0)]
        {
            let found = mean(&delays_ms(profile, jitter));
            assert!((found - 50.0).abs() < 1.5, "{profile:?} {jitter}: {found}");
        }
    }

    #[test]
    fn uniform_stays_within_its_jitter_and_lognormal_has_a_tail_above_it() {
        let uniform = delays_ms(Profile::Uniform, 0.5);
        assert!(uniform.iter().all(|ms| (25.0..=75.0).contains(ms)));
        assert!(uniform.iter().any(|ms| *ms < 26.0) && uniform.iter().any(|ms| *ms > 74.0));
        // P(X > 3 * mean) at sigma 1 is P(Z > ln 3 + 1/2) = 0.055
        let tail = delays_ms(Profile::Lognormal, 1.0).iter().filter(|ms| **ms > 150.0).count();
        assert!((900..=1300).contains(&tail), "{tail}");
    }

    #[test]
    fn a_reply_without_a_stream_takes_as_long_as_the_stream() {
        let delays = Delays {
            profile: Profile::Uniform,
            jitter: 0.5,
            latency_ms: 7.0,
            first_token_ms: 20.0,
            token_ms: 10.0,
            rng: RequestRng { seed: 1, request: 1 },
        };
        let stream = delays.first_token() + delays.token(1) + delays.token(2) + delays.token(3);
        assert_eq!(delays.generation(3), stream);
        assert_eq!(delays.token(1), Duration::ZERO);
    }
}
