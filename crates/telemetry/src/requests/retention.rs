//! The time by which rows of the request log are old.
//!
//! The system's clock can be wrong for a while: a start before the time is set, a virtual machine that was paused, an error of a person. What
//! is deleted by such a clock is gone. Retention therefore has a clock of its own, which follows the system's clock forwards and backwards at
//! no more than [`CATCH_UP`] times the speed of time, and is kept in a file. A clock that is years ahead for a minute makes rows five minutes
//! older. After the gateway was stopped for some days, rows are kept that much longer at first.

use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Seconds that the clock gains in a second: a gateway that runs for five hours a day keeps pace with the days.
const CATCH_UP: f64 = 5.0;

const FILE: &str = "retention-clock";
const TEMPORARY_FILE: &str = "retention-clock.new";

/// A clock in unix seconds.
pub(super) struct RetentionClock {
    folder: PathBuf,
    at: f64,
    read: Instant,
}

impl RetentionClock {
    /// Goes on from the file in `folder`; without one, from `system`, the time of the system's clock.
    pub(super) fn open(folder: &Path, system: f64, now: Instant) -> RetentionClock {
        let kept = std::fs::read_to_string(folder.join(FILE)).ok();
        let kept = kept.and_then(|text| text.trim().parse().ok()).filter(|at: &f64| at.is_finite());
        let clock = RetentionClock { folder: folder.to_owned(), at: kept.unwrap_or(system), read: now };
        clock.save();
        clock
    }

    /// The time by which rows are old, never after that of the system's clock.
    pub(super) fn advance(&mut self, system: f64, now: Instant) -> f64 {
        let gained = now.saturating_duration_since(self.read).as_secs_f64() * CATCH_UP;
        self.at = system.clamp(self.at - gained, self.at + gained);
        self.read = now;
        self.save();
        self.at.min(system)
    }

    /// How long ago the time was last read.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.read)
    }

    /// A clock that can't be kept starts from the last time that could: rows are kept longer.
    fn save(&self) {
        let temporary = self.folder.join(TEMPORARY_FILE);
        let write = || {
            let mut file = File::create(&temporary)?;
            writeln!(file, "{:.0}", self.at)?;
            file.sync_all()?;
            std::fs::rename(&temporary, self.folder.join(FILE))
        };
        if let Err(error) = write() {
            tracing::debug!(%error, "the clock of retention was not kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: f64 = 86_400.0;

    #[test]
    fn a_clock_that_is_ahead_for_a_while_makes_nothing_old() {
        let folder = tempfile::tempdir().unwrap();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut clock = RetentionClock::open(folder.path(), 1_000.0 * DAY, start);
        assert_eq!(clock.advance(1_000.0 * DAY + 60.0, after(60)), 1_000.0 * DAY + 60.0);
        assert_eq!(
            clock.advance(1_500.0 * DAY, after(63)),
            1_000.0 * DAY + 75.0,
            "it is wrong for three seconds"
        );
        assert_eq!(clock.advance(1_000.0 * DAY + 64.0, after(64)), 1_000.0 * DAY + 64.0, "it is right again");
        // a start while it is wrong
        let mut clock = RetentionClock::open(folder.path(), 1_500.0 * DAY, after(64));
        assert_eq!(clock.advance(1_500.0 * DAY, after(65)), 1_000.0 * DAY + 75.0);
        // and while it is years behind, which makes nothing old, and does not last when it is right again
        let mut clock = RetentionClock::open(folder.path(), 3.0, after(65));
        assert_eq!(clock.advance(4.0, after(66)), 4.0);
        let right = 1_000.0 * DAY + 67.0;
        assert_eq!(clock.advance(right, after(67)), right);
    }

    #[test]
    fn a_gateway_that_runs_five_hours_a_day_keeps_pace() {
        let folder = tempfile::tempdir().unwrap();
        let (start, mut passed) = (Instant::now(), Duration::ZERO);
        RetentionClock::open(folder.path(), 5.0 * 3_600.0, start);
        for day in 1..=30 {
            let morning = f64::from(day) * DAY;
            let mut clock = RetentionClock::open(folder.path(), morning, start + passed);
            passed += Duration::from_secs(5 * 3_600);
            let evening = morning + 5.0 * 3_600.0;
            assert_eq!(clock.advance(evening, start + passed), evening, "day {day}");
        }
    }

    #[test]
    fn a_file_that_is_no_time_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        for text in ["", "NaN", "soon", "inf"] {
            std::fs::write(folder.path().join(FILE), text).unwrap();
            RetentionClock::open(folder.path(), 77.0, Instant::now());
            assert_eq!(std::fs::read_to_string(folder.path().join(FILE)).unwrap(), "77\n", "{text}");
        }
    }
}
