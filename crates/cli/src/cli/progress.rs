//! Progress of long commands on the error stream: a bar on a terminal, a line every few seconds elsewhere.

use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use weir_client::IngestProgress;

/// The interval of lines where no bar is drawn.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// How often the bar is drawn while nothing advances.
const TICK: Duration = Duration::from_millis(200);

/// The bars of downloads, and of documents: their bytes are those of files of any kind, which say nothing.
const DOWNLOAD_BAR: &str = "{msg} [{bar:30}] {percent:>3}% {bytes}/{total_bytes}, {left}";
const DOCUMENTS_BAR: &str = "{msg} [{bar:30}] {percent:>3}%, {left}";

/// Progress on the scale of bytes, the only quantity that is known in advance. What advances it is decided by the caller.
pub(super) struct Progress {
    /// Hidden where the error stream is no terminal; it still computes the remaining time, from a smoothed rate.
    bar: ProgressBar,
    label: &'static str,
    noun: &'static str,
    count: u64,
    begun: Instant,
    next_line_at: Instant,
}

impl Progress {
    /// Begins. The bar shows the count of `noun`, or `label` where `noun` is empty.
    pub(super) fn begin(label: &'static str, noun: &'static str, bytes_total: u64) -> Progress {
        let template = if noun.is_empty() { DOWNLOAD_BAR } else { DOCUMENTS_BAR };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let left = |state: &ProgressState, line: &mut dyn std::fmt::Write| {
            let is_done = Some(state.pos()) >= state.len();
            // writing to a text does not fail
            let _ = line.write_str(&time_left(is_done, state.eta()));
        };
        let bar =
            ProgressBar::new(bytes_total).with_style(style.progress_chars("=> ").with_key("left", left));
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        let begun = Instant::now();
        Progress { bar, label, noun, count: 0, begun, next_line_at: begun + LINE_INTERVAL }
    }

    /// Adds processed bytes and entries; both can be 0.
    pub(super) fn advance(&mut self, bytes: u64, count: u64) {
        self.count += count;
        self.bar.set_message(self.count_and_rate());
        self.bar.set_position((self.bar.position() + bytes).min(self.bytes_total()));
        if self.bar.is_hidden() && Instant::now() >= self.next_line_at {
            self.next_line_at = Instant::now() + LINE_INTERVAL;
            eprintln!("{}", self.line());
        }
    }

    /// Shows a message above the bar.
    pub(super) fn note(&self, message: &str) {
        self.bar.suspend(|| eprintln!("{message}"));
    }

    /// Removes the bar, after drawing it once more as it ended.
    pub(super) fn finish(&self) {
        self.bar.force_draw();
        self.bar.finish_and_clear();
    }

    fn bytes_total(&self) -> u64 {
        self.bar.length().unwrap_or_default()
    }

    fn count_and_rate(&self) -> String {
        if self.noun.is_empty() {
            return self.label.to_owned();
        }
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-3);
        format!("{} {}, {:.0}/s", self.count, self.noun, self.count as f64 / seconds)
    }

    fn line(&self) -> String {
        let (bytes, bytes_total) = (self.bar.position(), self.bytes_total());
        let percent = (bytes * 100).checked_div(bytes_total).unwrap_or(100);
        format!(
            "{} {percent}% of {}, {}",
            self.count_and_rate(),
            HumanBytes(bytes_total),
            time_left(bytes >= bytes_total, self.bar.eta())
        )
    }
}

/// The remaining time in words. An estimate of 0 before the end means that there is no rate yet.
fn time_left(is_done: bool, estimate: Duration) -> String {
    match (is_done, estimate.is_zero()) {
        (true, _) => "done".to_owned(),
        (false, true) => "estimating".to_owned(),
        (false, false) => format!("{:#} left", HumanDuration(estimate)),
    }
}

/// The progress of documents, from the beginning of an ingest to its end. Messages can be shown at any time.
#[derive(Default)]
pub(super) struct DocumentProgress(Option<Progress>);

impl IngestProgress for DocumentProgress {
    fn begin(&mut self, bytes_total: u64) {
        self.0 = Some(Progress::begin("", "documents", bytes_total));
    }

    fn advance(&mut self, bytes: u64, documents: u64) {
        if let Some(progress) = &mut self.0 {
            progress.advance(bytes, documents);
        }
    }

    fn note(&mut self, message: &str) {
        match &self.0 {
            Some(progress) => progress.note(message),
            None => eprintln!("{message}"),
        }
    }

    fn finish(&mut self) {
        if let Some(progress) = self.0.take() {
            progress.finish();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remaining_time_is_in_words() {
        for (is_done, seconds, expected) in
            [(true, 7, "done"), (false, 0, "estimating"), (false, 7, "7s left"), (false, 130, "2m left")]
        {
            assert_eq!(time_left(is_done, Duration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn a_line_has_the_count_the_share_and_the_total() {
        let mut progress = Progress {
            bar: ProgressBar::hidden(),
            label: "",
            noun: "documents",
            count: 0,
            begun: Instant::now(),
            next_line_at: Instant::now() + LINE_INTERVAL,
        };
        progress.bar.set_length(4096);
        progress.advance(1024, 3);
        let line = progress.line();
        assert!(line.starts_with("3 documents, ") && line.contains("/s 25% of 4.00 KiB, "), "{line}");
        progress.advance(9000, 3);
        assert!(progress.line().ends_with("/s 100% of 4.00 KiB, done"), "{}", progress.line());
    }
}
