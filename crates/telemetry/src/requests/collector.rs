//! The thread between requests and the database: it makes batches of records and puts those on disk that the sink can't take.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::RequestRecord;
use super::labels::Labels;
use super::row::Batch;
use super::sink::{self, Handed, Progress, Sink};
use super::spans::SpanExporter;
use super::spill::{Spill, SpillError};
use super::sqlite::SqliteSink;
use crate::metrics::Metrics;

/// How often records are collected. Requests do not wake the thread: that would cost a system call each.
const TICK: Duration = Duration::from_millis(100);
/// Most rows of a batch.
const BATCH_ROWS_MAX: usize = 2_048;
/// Batches between the collector and the sink.
const HANDED_BATCHES_MAX: usize = 2;
/// Slow requests that are logged per tick; the others are counted.
const SLOW_LOGGED_MAX: usize = 10;
/// How long the end of the process waits for batches on disk to be written.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Time between two warnings of the same kind.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Batches between two deletions of old sums: an hour at least.
const SUMS_DELETED_EVERY: i64 = 36_000;

/// Where batches go: the thread of a database, and the disk in front of it.
pub(super) struct Store {
    spill: Spill,
    sender: SyncSender<Handed>,
    thread: JoinHandle<Vec<Handed>>,
    progress: Arc<Progress>,
    /// A batch of the spill that the sink has not taken yet.
    next: Option<Handed>,
    handed: u64,
    warned: Option<Instant>,
    metrics: Metrics,
    /// Sums of this gateway, beside a database that may be down.
    sums: Option<Sums>,
}

/// The sums that the collector writes itself.
pub(super) struct Sums {
    sink: SqliteSink,
    is_failing: bool,
}

impl Sums {
    pub(super) fn new(sink: SqliteSink) -> Sums {
        Sums { sink, is_failing: false }
    }

    /// Adds a batch. Sums that can't be written are lost: the rows are not.
    fn add(&mut self, batch: &Batch) {
        let written = self.sink.write(batch);
        if let Err(error) = &written
            && !self.is_failing
        {
            tracing::warn!(%error, "the sums of this gateway can't be written to telemetry.sqlite; `weir usage` misses them while PostgreSQL is down");
        }
        self.is_failing = written.is_err();
        if written.is_ok() && batch.number % SUMS_DELETED_EVERY == 1 {
            let at = batch.rows.first().map_or(0.0, |row| row.at);
            if let Err(error) = self.sink.delete_old_sums(at) {
                tracing::warn!(%error, "old sums in telemetry.sqlite could not be deleted");
            }
        }
    }
}

impl Store {
    pub(super) fn start(
        sink: Sink,
        spill: Spill,
        sums: Option<Sums>,
        metrics: Metrics,
        folder: &Path,
    ) -> std::io::Result<Store> {
        let folder = folder.to_owned();
        let (sender, batches) = sync_channel(HANDED_BATCHES_MAX);
        let progress = Arc::new(Progress::default());
        let (shared, counters) = (progress.clone(), metrics.clone());
        let thread = std::thread::Builder::new()
            .name("request-log-sink".to_owned())
            .spawn(move || sink::run(sink, &batches, &shared, &counters, &folder))?;
        Ok(Store { spill, sender, thread, progress, next: None, handed: 0, warned: None, metrics, sums })
    }

    /// Hands a batch to the sink, or puts it on disk behind those that wait there.
    fn put(&mut self, batch: Batch) {
        if let Some(sums) = &mut self.sums {
            sums.add(&batch);
        }
        self.replay();
        if self.next.is_some() || !self.spill.is_empty() {
            return self.put_aside(&batch);
        }
        let handed = Handed { number: self.handed + 1, batch, is_spilled: false };
        match self.sender.try_send(handed) {
            Ok(()) => self.handed += 1,
            Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => self.put_aside(&back.batch),
        }
    }

    fn put_aside(&mut self, batch: &Batch) {
        match self.spill.push(batch) {
            Ok(()) => self.metrics.request_rows("spilled", batch.rows.len()),
            Err(error) => self.drop_rows(batch.rows.len(), &error),
        }
    }

    fn drop_rows(&mut self, rows: usize, error: &SpillError) {
        self.metrics.request_rows("dropped", rows);
        if self.warned.is_none_or(|at| at.elapsed() > WARN_EVERY) {
            self.warned = Some(Instant::now());
            tracing::warn!(%error, source = std::error::Error::source(error).map(tracing::field::display), "rows of the request log are dropped");
        }
    }

    /// Hands batches from the disk to the sink while it takes them.
    fn replay(&mut self) {
        self.spill.delete_stored(self.progress.stored.load(Ordering::Acquire));
        loop {
            if self.next.is_none() {
                let number = self.handed + 1;
                match self.spill.next(number) {
                    Ok(batch) => self.next = batch.map(|batch| Handed { number, batch, is_spilled: true }),
                    Err(error) => {
                        tracing::warn!(%error, "rows of the request log wait on disk and can't be read")
                    }
                }
            }
            let Some(next) = self.next.take() else { break };
            match self.sender.try_send(next) {
                Ok(()) => self.handed += 1,
                Err(TrySendError::Full(back) | TrySendError::Disconnected(back)) => {
                    self.next = Some(back);
                    break;
                }
            }
        }
        self.metrics.request_spill_bytes(self.spill.bytes());
    }

    /// Waits a moment for a sink that works, until it has tried what it holds, and puts on disk what it has not stored.
    fn close(mut self) {
        let until = Instant::now() + CLOSE_TIMEOUT;
        while (self.next.is_some() || !self.spill.is_empty())
            && !self.progress.is_failing.load(Ordering::Acquire)
            && Instant::now() < until
        {
            self.replay();
            std::thread::sleep(Duration::from_millis(5));
        }
        self.progress.is_closing.store(true, Ordering::Release);
        drop(self.sender);
        self.thread.thread().unpark();
        let left = self.thread.join().unwrap_or_default();
        let unsaved: Vec<Batch> =
            left.into_iter().filter(|handed| !handed.is_spilled).map(|handed| handed.batch).collect();
        let kept = self.spill.push_older(&unsaved);
        let rows = |batches: &[Batch]| batches.iter().map(|batch| batch.rows.len()).sum();
        self.metrics.request_rows("spilled", rows(&unsaved[..kept]));
        self.metrics.request_rows("dropped", rows(&unsaved[kept..]));
        self.spill.delete_stored(self.progress.stored.load(Ordering::Acquire));
    }
}

/// The thread's state.
pub(super) struct Collector {
    pub(super) records: mpsc::Receiver<RequestRecord>,
    pub(super) store: Option<Store>,
    pub(super) spans: Option<SpanExporter>,
    /// Requests that take longer are logged.
    pub(super) slow: Option<Duration>,
    /// The number of this process in batches.
    pub(super) writer: i64,
    pub(super) metrics: Metrics,
    pub(super) labels: Labels,
}

impl Collector {
    /// Collects until all senders are dropped or the channel is closed and empty.
    pub(super) fn run(mut self, is_closing: &std::sync::atomic::AtomicBool) {
        let mut number = 0;
        loop {
            let is_last = is_closing.load(Ordering::Acquire) || self.records.is_closed();
            if is_last {
                self.records.close();
            }
            self.collect(&mut number);
            if is_last {
                break;
            }
            std::thread::park_timeout(TICK);
        }
        if let Some(store) = self.store {
            store.close();
        }
        if let Some(spans) = self.spans {
            spans.close();
        }
    }

    /// Empties the channel.
    fn collect(&mut self, number: &mut i64) {
        if let Some(store) = &mut self.store {
            store.replay();
        }
        let mut slow = 0;
        loop {
            let mut batch = Batch::new(self.writer, *number + 1);
            let mut taken = 0;
            while taken < BATCH_ROWS_MAX
                && let Ok(record) = self.records.try_recv()
            {
                taken += 1;
                self.labels.count(&record, &self.metrics);
                if self.slow.is_some_and(|limit| record.duration >= limit) {
                    slow += 1;
                    if slow <= SLOW_LOGGED_MAX {
                        log_slow(&record);
                    }
                }
                if let Some(spans) = &mut self.spans {
                    spans.add(&record);
                }
                if self.store.is_some() {
                    batch.push(&record);
                }
            }
            let is_full = taken == BATCH_ROWS_MAX;
            if let Some(store) = self.store.as_mut().filter(|_| !batch.rows.is_empty()) {
                *number += 1;
                store.put(batch);
            }
            if !is_full {
                break;
            }
        }
        if slow > SLOW_LOGGED_MAX {
            tracing::warn!(
                more = slow - SLOW_LOGGED_MAX,
                "further slow requests at the same time are not listed"
            );
        }
        if let Some(spans) = &mut self.spans {
            spans.flush();
        }
    }
}

fn log_slow(record: &RequestRecord) {
    tracing::warn!(
        request_id = &*record.request_id,
        key = record.key,
        method = record.method,
        route = record.route,
        model = record.model.as_deref(),
        upstream = record.upstream.as_deref(),
        status = record.status,
        attempts = record.attempts,
        first_token_ms = record.first_token.map(|first| first.as_millis() as u64),
        duration_ms = record.duration.as_millis() as u64,
        "slow request"
    );
}
