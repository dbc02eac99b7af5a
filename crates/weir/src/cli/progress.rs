//! How far a long command is: a bar on a terminal, otherwise a line every few seconds. Always on the error stream.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};

/// Between two lines, when there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// How far a command is, by bytes, because only these are known beforehand.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    label: &'static str,
    noun: &'static str,
    bytes: u64,
    bytes_total: u64,
    count: u64,
    begun: Instant,
    line_at: Instant,
}

impl Progress {
    /// Begins. `noun` is what is counted beside the bytes; without one, `label` stands in its place.
    pub(super) fn begin(label: &'static str, noun: &'static str, bytes_total: u64) -> Progress {
        let now = Instant::now();
        let bar = std::io::stderr().is_terminal().then(|| {
            let template = "{msg} [{bar:30}] {percent:>3}% {bytes}/{total_bytes}, {eta} left";
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::new(bytes_total).with_style(style.progress_chars("=> "));
            bar.enable_steady_tick(Duration::from_millis(200));
            bar
        });
        Progress { bar, label, noun, bytes: 0, bytes_total, count: 0, begun: now, line_at: now + LINE_EVERY }
    }

    /// More is done.
    pub(super) fn advance(&mut self, bytes: u64, count: u64) {
        self.bytes += bytes;
        self.count += count;
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.bytes.min(self.bytes_total));
                bar.set_message(self.counted());
            }
            None if Instant::now() >= self.line_at => {
                self.line_at = Instant::now() + LINE_EVERY;
                eprintln!("{}", self.line());
            }
            None => {}
        }
    }

    /// Says something without disturbing the bar.
    pub(super) fn note(&self, note: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{note}")),
            None => eprintln!("{note}"),
        }
    }

    /// Ends; the bar goes away.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Since the beginning.
    pub(super) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    fn counted(&self) -> String {
        if self.noun.is_empty() {
            return self.label.to_owned();
        }
        let seconds = self.elapsed().as_secs_f64().max(1e-3);
        format!("{} {}, {:.0}/s", self.count, self.noun, self.count as f64 / seconds)
    }

    fn line(&self) -> String {
        let share = if self.bytes_total == 0 { 1.0 } else { self.bytes as f64 / self.bytes_total as f64 };
        let left = self.elapsed().as_secs_f64() * (1.0 - share) / share.max(1e-6);
        format!(
            "{} {:.0}% of {}, about {left:.0} s left",
            self.counted(),
            share * 100.0,
            HumanBytes(self.bytes_total)
        )
    }
}
