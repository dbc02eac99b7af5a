//! The query log: searches put their queries into a bounded channel; a task writes them to the store.
//!
//! The log never delays or fails a search: an entry that does not fit into the channel, or cannot be written, is dropped and counted.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use weir_store::{CollectionId, LoggedQuery, Store};

use crate::clock::now;
use weir_config::table::Search;
use weir_telemetry::metrics::Metrics;

/// Capacity of the channel.
const PENDING_MAX: usize = 4_096;
/// Entries of one commit, at most.
const COMMIT_MAX: usize = 512;
/// Longest wait of an entry for others of the same commit.
const COMMIT_DELAY: Duration = Duration::from_millis(500);
/// Longer queries are truncated.
const QUERY_BYTES_MAX: usize = 1_024;

/// The query log, on or off.
pub struct QueryLog {
    entries: Mutex<Option<mpsc::Sender<LoggedQuery>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    metrics: Metrics,
}

impl QueryLog {
    /// Starts the log if `settings` have it on; `background` runs its task.
    pub fn start(settings: &Search, store: Store, metrics: Metrics, background: &Handle) -> QueryLog {
        let (mut entries, mut writer) = (None, None);
        if settings.query_log {
            let (sender, waiting) = mpsc::channel(PENDING_MAX);
            let entries_max = settings.query_log_entries_max;
            writer = Some(background.spawn(write(waiting, store, entries_max, metrics.clone())));
            entries = Some(sender);
        }
        QueryLog { entries: Mutex::new(entries), writer: Mutex::new(writer), metrics }
    }

    /// Logs an answered search; `relevance` is the highest of its results. Never waits.
    pub fn note(&self, collection: CollectionId, query: &str, results: usize, relevance: Option<f32>) {
        let Some(entries) = self.entries.lock().unwrap_or_else(PoisonError::into_inner).clone() else {
            return;
        };
        let query = query.trim();
        let entry = LoggedQuery {
            collection,
            query: query[..query.floor_char_boundary(QUERY_BYTES_MAX)].to_owned(),
            results: results as u64,
            relevance: relevance.map(f64::from),
            asked_at: now(),
        };
        if entries.try_send(entry).is_err() {
            self.metrics.queries_logged("dropped", 1);
        }
    }

    /// Writes the pending entries and stops.
    pub async fn close(&self) {
        drop(self.entries.lock().unwrap_or_else(PoisonError::into_inner).take());
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer
            && writer.await.is_err()
        {
            tracing::error!("the writer of the query log ended by a panic");
        }
    }
}

/// Writes entries in batches until the channel is closed.
async fn write(mut waiting: mpsc::Receiver<LoggedQuery>, store: Store, entries_max: u64, metrics: Metrics) {
    let mut has_failed = false;
    while let Some(first) = waiting.recv().await {
        let mut entries = vec![first];
        let gathered = async {
            while entries.len() < COMMIT_MAX {
                match waiting.recv().await {
                    Some(entry) => entries.push(entry),
                    None => break,
                }
            }
        };
        let _ = tokio::time::timeout(COMMIT_DELAY, gathered).await;
        let count = entries.len() as u64;
        match store.log_queries(entries, entries_max).await {
            Ok(()) => {
                has_failed = false;
                metrics.queries_logged("written", count);
            }
            Err(error) => {
                metrics.queries_logged("failed", count);
                // once, not for every batch while the disk is full
                if !std::mem::replace(&mut has_failed, true) {
                    tracing::warn!(%error, "queries can't be logged; searches go on");
                }
            }
        }
    }
}
