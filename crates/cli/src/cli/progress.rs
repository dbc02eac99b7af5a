//! Progress of long commands on the error stream: a bar on a terminal, a line every few seconds elsewhere.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use weir_client::IngestProgress;

/// The interval of lines where no bar is drawn.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// A longer remaining time says little: it is shown as more than this.
const LEFT_MAX: Duration = Duration::from_secs(24 * 3600);

/// After this time without progress the rate is unknown.
const STALLED_AFTER: Duration = Duration::from_secs(60);

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
    /// Chunks that the gateway embeds per second; 0 while that is unknown.
    chunks_per_second: f64,
    begun: Instant,
    /// Seconds from `begun` to the last progress; the bar reads it too.
    advanced_s: Arc<AtomicU64>,
    next_line_at: Instant,
}

impl Progress {
    /// Begins. The bar shows the count of `noun`, or `label` where `noun` is empty.
    pub(super) fn begin(label: &'static str, noun: &'static str, bytes_total: u64) -> Progress {
        let template = if noun.is_empty() { DOWNLOAD_BAR } else { DOCUMENTS_BAR };
        let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
        let (begun, advanced_s) = (Instant::now(), Arc::new(AtomicU64::new(0)));
        let advanced = advanced_s.clone();
        let left = move |state: &ProgressState, line: &mut dyn std::fmt::Write| {
            let is_done = Some(state.pos()) >= state.len();
            // writing to a text does not fail
            let _ = line.write_str(&time_left(is_done, state.eta(), since(begun, &advanced)));
        };
        let bar =
            ProgressBar::new(bytes_total).with_style(style.progress_chars("=> ").with_key("left", left));
        if !bar.is_hidden() {
            bar.enable_steady_tick(TICK);
        }
        Progress {
            bar,
            label,
            noun,
            count: 0,
            chunks_per_second: 0.0,
            begun,
            advanced_s,
            next_line_at: begun + LINE_INTERVAL,
        }
    }

    /// Adds processed bytes and entries; both can be 0.
    pub(super) fn advance(&mut self, bytes: u64, count: u64) {
        self.count += count;
        if bytes > 0 {
            self.advanced_s.store(self.begun.elapsed().as_secs(), Ordering::Relaxed);
        }
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
        let documents = format!("{} {}, {:.0}/s", self.count, self.noun, self.count as f64 / seconds);
        match self.chunks_per_second.round() {
            rate if rate >= 1.0 => format!("{documents}, {rate} chunks/s"),
            _ => documents,
        }
    }

    fn line(&self) -> String {
        let (bytes, bytes_total) = (self.bar.position(), self.bytes_total());
        let percent = (bytes * 100).checked_div(bytes_total).unwrap_or(100);
        format!(
            "{} {percent}% of {}, {}",
            self.count_and_rate(),
            HumanBytes(bytes_total),
            time_left(bytes >= bytes_total, self.bar.eta(), since(self.begun, &self.advanced_s))
        )
    }
}

/// The time since the last progress.
fn since(begun: Instant, advanced_s: &AtomicU64) -> Duration {
    begun.elapsed().saturating_sub(Duration::from_secs(advanced_s.load(Ordering::Relaxed)))
}

/// The remaining time in words; "estimating" while the rate is unknown. An estimate of 0 before the end means that there is no rate yet.
fn time_left(is_done: bool, estimate: Duration, since_advance: Duration) -> String {
    if is_done {
        "done".to_owned()
    } else if estimate.is_zero() || since_advance >= STALLED_AFTER {
        "estimating".to_owned()
    } else if estimate > LEFT_MAX {
        "more than a day left".to_owned()
    } else {
        format!("{:#} left", HumanDuration(estimate))
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

    fn rate(&mut self, chunks_per_second: f64) {
        if let Some(progress) = &mut self.0 {
            progress.chunks_per_second = chunks_per_second;
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
        let cases = [
            (true, 7, 0, "done"),
            (false, 0, 0, "estimating"),
            (false, 7, 59, "7s left"),
            (false, 130, 0, "2m left"),
            (false, 7, 60, "estimating"),
            (false, 86_400, 0, "24h left"),
            (false, 86_401, 0, "more than a day left"),
            (false, u64::MAX, 0, "more than a day left"),
        ];
        for (is_done, left, since_advance, expected) in cases {
            let [left, since_advance] = [left, since_advance].map(Duration::from_secs);
            assert_eq!(time_left(is_done, left, since_advance), expected);
        }
    }

    #[test]
    fn a_line_has_the_count_the_share_and_the_total() {
        let mut progress = Progress {
            bar: ProgressBar::hidden(),
            label: "",
            noun: "documents",
            count: 0,
            chunks_per_second: 0.0,
            begun: Instant::now(),
            advanced_s: Arc::default(),
            next_line_at: Instant::now() + LINE_INTERVAL,
        };
        progress.bar.set_length(4096);
        progress.advance(1024, 3);
        let line = progress.line();
        assert!(line.starts_with("3 documents, ") && line.contains("/s 25% of 4.00 KiB, "), "{line}");
        progress.chunks_per_second = 41.6;
        progress.advance(9000, 3);
        assert!(progress.line().ends_with("/s, 42 chunks/s 100% of 4.00 KiB, done"), "{}", progress.line());
    }
}
