//! The measured progress of a request in the bulk lane.

use std::time::{Duration, Instant};

use super::request::InferenceError;

/// Share of the time to its deadline that a request may be expected to take: the speed is an estimate.
pub(super) const DEADLINE_SHARE: f64 = 0.8;
/// Before this time, or one part in [`MEASURED_PARTS`] of the time to its deadline if that is longer, the progress of a request says little:
/// on a busy machine it is a few micro-batches.
const MEASURED_MIN: Duration = Duration::from_secs(2);
const MEASURED_PARTS: u32 = 15;
/// The same of the time that a request could stand still: other work, which may end soon, can stop the threads of the lane for seconds.
const SPARE_PARTS: u32 = 3;
/// Until this multiple of that time a request is refused if the rest takes more than [`DEADLINE_SHARE`] of the time left: little of its work
/// is done. Later it is refused only if it would miss its deadline.
const EARLY: u32 = 2;

/// Counts computed tokens of a request, and measures its speed from its first micro-batch on: the time before depends on other requests.
pub(super) struct Progress {
    deadline: Instant,
    tokens: usize,
    undisturbed: Option<Duration>,
    computed: usize,
    first: Option<(Instant, usize)>,
}

impl Progress {
    /// `undisturbed` is the time for `tokens` if other work does not slow them down, where it is known.
    pub(super) fn new(deadline: Instant, tokens: usize, undisturbed: Option<Duration>) -> Progress {
        Progress { deadline, tokens, undisturbed, computed: 0, first: None }
    }

    /// Counts a micro-batch of `tokens` that was computed at `now`.
    ///
    /// # Errors
    /// [`InferenceError::TooMuchWork`] if the rest would not be computed in time at the speed of the request so far.
    pub(super) fn add(&mut self, now: Instant, tokens: usize) -> Result<(), InferenceError> {
        self.computed += tokens;
        let (start, before) = *self.first.get_or_insert((now, self.computed));
        let elapsed = now.saturating_duration_since(start);
        let time = self.deadline.saturating_duration_since(start);
        let spare = self
            .undisturbed
            .map_or(Duration::ZERO, |takes| time.mul_f64(DEADLINE_SHARE).saturating_sub(takes));
        let measured = MEASURED_MIN.max(time / MEASURED_PARTS).max(spare / SPARE_PARTS);
        if elapsed < measured {
            return Ok(());
        }
        let seconds_per_token = elapsed.as_secs_f64() / (self.computed - before).max(1) as f64;
        let time_for = |tokens: usize| Duration::from_secs_f64(seconds_per_token * tokens as f64);
        let share = if elapsed <= measured * EARLY { DEADLINE_SHARE } else { 1.0 };
        let left = self.deadline.saturating_duration_since(now);
        if time_for(self.tokens - self.computed) <= left.mul_f64(share) {
            return Ok(());
        }
        Err(InferenceError::TooMuchWork {
            tokens: self.tokens,
            takes: time_for(self.tokens - before),
            left: time,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// When a request of 101 micro-batches with a deadline of 30 s is refused, as [`refused_within`].
    fn refused_at(seconds: impl Iterator<Item = f64>) -> Option<f64> {
        refused_within(30, None, seconds)
    }

    /// When a request of 101 micro-batches is refused that takes `undisturbed` seconds at best. `seconds` are the completion times of all but
    /// the first, counted, like the result and the deadline, from the completion of the first.
    fn refused_within(
        deadline: u32,
        undisturbed: Option<u32>,
        seconds: impl Iterator<Item = f64>,
    ) -> Option<f64> {
        let start = Instant::now();
        let undisturbed = undisturbed.map(|takes| takes * SECOND);
        let mut progress = Progress::new(start + deadline * SECOND, 101 * 512, undisturbed);
        progress.add(start, 512).unwrap();
        let mut add = |at: &f64| progress.add(start + Duration::from_secs_f64(*at), 512).is_err();
        seconds.take(100).find(|at| add(at))
    }

    /// Completion times of micro-batches, one every `seconds`.
    fn every(seconds: f64) -> impl Iterator<Item = f64> {
        (1..).map(move |number| f64::from(number) * seconds)
    }

    #[test]
    fn a_request_that_would_take_too_long_is_refused_within_seconds() {
        assert_eq!(refused_at(every(0.2)), None, "20 s of 30");
        assert_eq!(refused_at(every(0.25)), Some(2.0), "25 s of 30");
        assert_eq!(refused_at(every(5.0)), Some(5.0), "no second micro-batch before");
        assert_eq!(refused_at(every(0.2).map(|at| at + 0.2)), None, "a pause, then 20 s");
    }

    #[test]
    fn a_request_that_becomes_slower_is_refused_once_it_would_miss_its_deadline() {
        let slower =
            |factor: f64| every(0.2).map(move |at| if at < 5.0 { at } else { 5.0 + (at - 5.0) * factor });
        assert_eq!(refused_at(slower(1.5)), None, "27.5 s of 30");
        let refused = refused_at(slower(4.0)).unwrap();
        assert!((8.0..20.0).contains(&refused), "{refused}");
    }

    #[test]
    fn a_longer_deadline_leaves_more_time_to_measure() {
        let slow_at_first =
            || every(0.3).enumerate().map(|(index, at)| if index < 2 { at * 5.0 } else { at + 2.4 });
        assert_eq!(
            refused_within(120, None, slow_at_first()),
            None,
            "150 s of 120 after two micro-batches, 33 s in the end"
        );
        assert_eq!(refused_within(120, None, every(1.0)), Some(8.0), "100 s of 120");
    }

    #[test]
    fn work_that_other_work_stops_is_not_refused_while_it_has_time_to_spare() {
        let stopped_at_first =
            || every(0.1).enumerate().map(|(index, at)| if index < 2 { at * 50.0 } else { at + 10.0 });
        assert_eq!(
            refused_within(120, Some(10), stopped_at_first()),
            None,
            "10 s for two of 100 micro-batches"
        );
        assert_eq!(refused_within(120, Some(100), every(1.5)), Some(9.0), "100 s of 120 at best");
        assert_eq!(refused_within(30, Some(22), every(0.5)), Some(2.0), "22 s of 30 at best, 50 in fact");
        assert_eq!(refused_within(30, Some(6), every(0.5)), Some(6.0), "6 s of 30 at best, 50 in fact");
        assert_eq!(refused_within(120, Some(10), every(2.0)), Some(30.0), "10 s of 120 at best, 200 in fact");
    }

    #[test]
    fn the_time_before_the_first_micro_batch_does_not_count_as_slowness() {
        let start = Instant::now();
        let mut progress = Progress::new(start + 30 * SECOND, 10 * 512, None);
        let added: Vec<_> =
            (20..30).map(|second| progress.add(start + second * SECOND / 2 + 5 * SECOND, 512)).collect();
        assert!(added.iter().all(Result::is_ok), "4.5 s of 15: {added:?}");
    }

    #[test]
    fn what_is_computed_is_not_refused() {
        let start = Instant::now();
        let mut progress = Progress::new(start + 3 * SECOND, 2 * 512, None);
        progress.add(start, 512).unwrap();
        assert_eq!(progress.add(start + 3 * SECOND, 512), Ok(()));
    }

    #[test]
    fn the_error_names_the_whole_request() {
        let start = Instant::now();
        let mut progress = Progress::new(start + 30 * SECOND, 101 * 512, None);
        progress.add(start, 512).unwrap();
        let refused = progress.add(start + 3 * SECOND, 3 * 512);
        let expected =
            InferenceError::TooMuchWork { tokens: 101 * 512, takes: 100 * SECOND, left: 30 * SECOND };
        assert_eq!(refused, Err(expected));
    }
}
