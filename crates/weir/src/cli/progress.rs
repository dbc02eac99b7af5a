//! Progress of long commands on the error stream: a bar on a terminal, a line every few seconds elsewhere.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use weir_client::IngestProgress;

/// The interval of lines where the error stream is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// Progress by bytes, the only quantity that is known in advance.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    label: &'static str,
    noun: &'static str,
    bytes: u64,
    bytes_total: u64,
    count: u64,
    begun: Instant,
    next_line_at: Instant,
}

impl Progress {
    /// Begins. The bar shows the count of `noun`, or `label` where `noun` is empty.
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
        Progress {
            bar,
            label,
            noun,
            bytes: 0,
            bytes_total,
            count: 0,
            begun: now,
            next_line_at: now + LINE_INTERVAL,
        }
    }

    /// Adds processed bytes and entries.
    pub(super) fn advance(&mut self, bytes: u64, count: u64) {
        self.bytes += bytes;
        self.count += count;
        match &self.bar {
            Some(bar) => {
                bar.set_position(self.bytes.min(self.bytes_total));
                bar.set_message(self.count_and_rate());
            }
            None if Instant::now() >= self.next_line_at => {
                self.next_line_at = Instant::now() + LINE_INTERVAL;
                eprintln!("{}", self.line());
            }
            None => {}
        }
    }

    /// Removes the bar.
    pub(super) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn count_and_rate(&self) -> String {
        if self.noun.is_empty() {
            return self.label.to_owned();
        }
        let seconds = self.begun.elapsed().as_secs_f64().max(1e-3);
        format!("{} {}, {:.0}/s", self.count, self.noun, self.count as f64 / seconds)
    }

    fn line(&self) -> String {
        let share = if self.bytes_total == 0 { 1.0 } else { self.bytes as f64 / self.bytes_total as f64 };
        let left = self.begun.elapsed().as_secs_f64() * (1.0 - share) / share.max(1e-6);
        format!(
            "{} {:.0}% of {}, about {left:.0} s left",
            self.count_and_rate(),
            share * 100.0,
            HumanBytes(self.bytes_total)
        )
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
        match self.0.as_ref().and_then(|progress| progress.bar.as_ref()) {
            Some(bar) => bar.suspend(|| eprintln!("{message}")),
            None => eprintln!("{message}"),
        }
    }

    fn finish(&mut self) {
        if let Some(progress) = self.0.take() {
            progress.finish();
        }
    }
}
