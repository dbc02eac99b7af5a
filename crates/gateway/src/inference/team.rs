//! How many threads work on a short text together.
//!
//! One more makes it ready sooner only where it has a core of its own. Where two share one, or where something else wants it, the others
//! wait for what that thread has begun. Which it is changes from moment to moment, so it is measured: every pass says how long it took.

use std::time::Duration;

/// The number that was taken last time is compared with one next to it in one of so many passes.
const COMPARED_EVERY: u64 = 8;
/// So many passes of each number are remembered. Their median counts: single ones meet all sorts of things.
const RECENT: usize = 7;

/// What the latest passes took, for each number of threads.
pub(super) struct Team {
    /// Seconds a token; first those of one thread.
    recent: Vec<Vec<f64>>,
    passes: u64,
}

impl Team {
    /// Up to so many threads, one at least.
    pub(super) fn new(threads_max: usize) -> Team {
        Team { recent: vec![Vec::new(); threads_max.max(1)], passes: 0 }
    }

    /// How many threads shall work on the next pass, the one that leads it among them.
    pub(super) fn size(&mut self) -> usize {
        self.passes += 1;
        let least = |best: usize, other: usize| match median(&self.recent[other]) < median(&self.recent[best])
        {
            true => other,
            false => best,
        };
        let best = (0..self.recent.len()).rev().reduce(least).unwrap_or_default();
        let compared = match self.passes % (2 * COMPARED_EVERY) {
            0 => best.saturating_sub(1),
            COMPARED_EVERY => (best + 1).min(self.recent.len() - 1),
            _ => best,
        };
        compared + 1
    }

    /// A pass of so many threads over so many tokens took so long.
    pub(super) fn took(&mut self, size: usize, tokens: usize, time: Duration) {
        let recent = &mut self.recent[size - 1];
        if recent.len() == RECENT {
            recent.remove(0);
        }
        recent.push(time.as_secs_f64() / tokens.max(1) as f64);
    }
}

/// 0 as long as there are few, so that every number is tried.
fn median(times: &[f64]) -> f64 {
    if times.len() < RECENT {
        return 0.0;
    }
    let mut sorted = times.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[RECENT / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of so many passes that take what `micros` says of a size.
    fn sizes(team: &mut Team, passes: usize, micros: impl Fn(usize) -> u64) -> Vec<usize> {
        let pass = |_| {
            let size = team.size();
            team.took(size, 8, Duration::from_micros(micros(size)));
            size
        };
        (0..passes).map(pass).collect()
    }

    #[test]
    fn every_size_is_tried_and_then_the_fastest_is_taken_and_compared_with_those_next_to_it() {
        let mut team = Team::new(4);
        let tried = sizes(&mut team, 40, |size| [900, 500, 700, 800][size - 1]);
        assert!((1..=4).all(|size| tried.contains(&size)));
        let mut taken = sizes(&mut team, 16, |size| [900, 500, 700, 800][size - 1]);
        taken.sort_unstable();
        assert_eq!(taken, [[1].as_slice(), &[2; 14], &[3]].concat());
    }

    #[test]
    fn a_size_that_has_become_slow_is_left_and_single_slow_passes_change_nothing() {
        let mut team = Team::new(3);
        sizes(&mut team, 40, |size| [900, 600, 500][size - 1]);
        team.took(3, 8, Duration::from_millis(50));
        let most = |sizes: Vec<usize>, size| sizes.iter().filter(|&&taken| taken == size).count() > 12;
        assert!(most(sizes(&mut team, 16, |size| [900, 600, 500][size - 1]), 3));
        sizes(&mut team, 8, |size| [900, 600, 2000][size - 1]);
        assert!(most(sizes(&mut team, 16, |size| [900, 600, 2000][size - 1]), 2));
    }

    #[test]
    fn one_thread_is_a_team() {
        let mut team = Team::new(1);
        assert_eq!(sizes(&mut team, 20, |_| 500), [1; 20]);
    }
}
