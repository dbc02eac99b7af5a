//! The thread that writes batches to the database, one after the other, each until it is stored.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::postgres::{PostgresError, PostgresSink};
use super::retention::RetentionClock;
use super::row::Batch;
use super::sqlite::SqliteSink;
use crate::metrics::Metrics;

/// Waits between attempts: the first, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// How often the clock of retention is kept, if there are rows.
const CLOCK_EVERY: Duration = Duration::from_secs(60);
/// How often old rows are deleted.
const DELETE_EVERY: Duration = Duration::from_secs(3600);

/// A database.
pub(super) enum Sink {
    Sqlite(SqliteSink),
    Postgres(Box<PostgresSink>),
}

/// Why a database could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum SinkError {
    #[error("telemetry.sqlite can't be written: {0}")]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Postgres(#[from] PostgresError),
}

impl Sink {
    fn write(&mut self, batch: &Batch) -> Result<(), SinkError> {
        match self {
            Sink::Sqlite(sink) => Ok(sink.write(batch)?),
            Sink::Postgres(sink) => Ok(sink.write(batch)?),
        }
    }

    /// Deletes rows that are old at `now`; whether there is more to delete.
    fn delete_old(&mut self, now: f64) -> Result<bool, SinkError> {
        match self {
            Sink::Sqlite(sink) => Ok(sink.delete_old(now)?),
            Sink::Postgres(sink) => Ok(sink.delete_old(now).map(|()| false)?),
        }
    }
}

/// State shared by the sink's thread and the collector.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The number under which the last stored batch was handed over.
    pub(super) stored: AtomicU64,
    /// The last attempt has failed.
    pub(super) is_failing: AtomicBool,
    /// No batch is tried again.
    pub(super) is_closing: AtomicBool,
}

/// A batch on its way to the sink.
pub(super) struct Handed {
    /// Counts from 1.
    pub(super) number: u64,
    pub(super) batch: Batch,
    /// It is on disk until it is stored.
    pub(super) is_spilled: bool,
}

/// Writes until the sender is dropped; what was not written.
pub(super) fn run(
    mut sink: Sink,
    batches: &Receiver<Handed>,
    progress: &Arc<Progress>,
    metrics: &Metrics,
    folder: &Path,
) -> Vec<Handed> {
    let mut left = Vec::new();
    let mut clock = RetentionClock::open(folder, unix_now(), Instant::now());
    let mut deleted: Option<Instant> = None;
    while let Ok(handed) = batches.recv() {
        if !left.is_empty() || !write(&mut sink, &handed.batch, progress) {
            left.push(handed);
            continue;
        }
        metrics.request_rows("written", handed.batch.rows.len());
        progress.stored.store(handed.number, Ordering::Release);
        if clock.age(Instant::now()) > CLOCK_EVERY {
            clock.advance(unix_now(), Instant::now());
        }
        if deleted.is_none_or(|at| at.elapsed() > DELETE_EVERY) {
            match sink.delete_old(clock.advance(unix_now(), Instant::now())) {
                Ok(true) => {}
                Ok(false) => deleted = Some(Instant::now()),
                Err(error) => {
                    deleted = Some(Instant::now());
                    tracing::warn!(%error, "old rows of the request log could not be deleted; it is tried again in an hour");
                }
            }
        }
    }
    clock.advance(unix_now(), Instant::now());
    left
}

/// The time in unix seconds.
fn unix_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Tries until the batch is stored, or until the log is closed.
fn write(sink: &mut Sink, batch: &Batch, progress: &Progress) -> bool {
    let mut wait = BACKOFF.0;
    loop {
        match sink.write(batch) {
            Ok(()) => {
                progress.is_failing.store(false, Ordering::Release);
                if wait > BACKOFF.0 {
                    tracing::info!("the request log is written again");
                }
                return true;
            }
            Err(error) => {
                progress.is_failing.store(true, Ordering::Release);
                if wait == BACKOFF.0 {
                    tracing::warn!(%error, "the request log can't be written; its rows wait on disk until the database works again; a damaged `telemetry.sqlite` can be removed while weir is stopped");
                }
                tracing::debug!(%error, ?wait, "a batch of the request log was not written");
            }
        }
        if progress.is_closing.load(Ordering::Acquire) {
            return false;
        }
        std::thread::park_timeout(wait);
        wait = (wait * 2).min(BACKOFF.1);
    }
}
