//! The application core: what the gateway does with collections, documents and searches, as functions over wire types and a
//! caller. The HTTP server, the command line and every later adapter call the same functions.

#![forbid(unsafe_code)]

mod clock;
mod collections;
mod documents;
mod embeddings;
mod export;
mod feedback;
mod feedback_worker;
mod follow;
mod ingest;
mod job_events;
mod jobs;
mod lease;
pub mod models;
mod open_collection;
mod originals;
mod preview;
mod previous;
mod query_log;
mod reconcile;
mod reindex;
mod rerank;
mod search;
mod settings;
mod shared_engines;
mod view;

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, DropGuard};
use tracing::Instrument;
use weir_api::{ErrorCode, FormatsReply};

pub use collections::Collections;
pub use documents::{DOCUMENTS_PAGE, DocumentsQuery};
pub use embeddings::{
    EmbedJob, EmbedOutput, INTERACTIVE_TOKENS_MAX, TokenizedTexts, check_dimensions, is_long_input, prompt_of,
};
pub use feedback::{FEEDBACK_PAGE, FeedbackSelection, LOW_RELEVANCE, QUERIES_PAGE};
pub use ingest::{IngestOutcome, IngestTerms, KeyedRequest, LineIngest, UploadedFile};
pub use job_events::{JobEvent, JobEvents};
pub use jobs::{JOB_DOCUMENTS_PAGE, JOBS_PAGE};
pub use query_log::QueryLog;
pub use search::SearchContext;
pub use settings::Reindexing;
pub use view::CollectionView;
pub use weir_extraction::{Section, isolation};
pub use weir_originals::{CopyError, OriginalsReport, copy_originals, verify_originals};
pub use weir_refusal::{CollectionError, RequestError, Result, chain};
pub use weir_store::{IdempotencyKey, VersionTest};

/// The application core. Cloning gives another handle to the same one.
#[derive(Clone)]
pub struct Retrieval(Arc<Parts>);

/// The shared state of the core.
pub struct Parts {
    pub(crate) collections: Collections,
    pub(crate) query_log: QueryLog,
    cursors: weir_cursor::CursorKey,
    searches: Arc<Semaphore>,
    /// One permit per core, for [`Retrieval::maybe_in_background`].
    background_work: Arc<Semaphore>,
    recall_sampling: weir_upkeep::RecallSampling,
    extraction: weir_extraction::Extraction,
    originals: weir_originals::Originals,
    job_streams: Arc<Semaphore>,
    running_keys: ingest::RunningKeys,
    uploads: ingest::Uploads,
    reading: ingest::Reading,
    /// Ends the streams of events and the sending of webhooks.
    stopping: CancellationToken,
    _stops_when_dropped: DropGuard,
}

/// The core has the shared state of the collections.
impl Deref for Parts {
    type Target = collections::CollectionsInner;

    fn deref(&self) -> &collections::CollectionsInner {
        &self.collections.0
    }
}

impl Deref for Retrieval {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl Retrieval {
    /// Puts the parts together. The key of cursors is that of the store, or read from the data directory, or made there.
    pub fn new(collections: Collections, query_log: QueryLog) -> Retrieval {
        let config = &collections.0.config;
        let searches = Arc::new(Semaphore::new(config.limits.search_concurrency_max));
        let cursors = match collections.0.cursor_key {
            Some(key) => weir_cursor::CursorKey::shared(key),
            None => weir_cursor::CursorKey::of_folder(&config.server.data_dir),
        };
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let background_work = Arc::new(Semaphore::new(cores));
        let recall_sampling = weir_upkeep::RecallSampling::default();
        let extraction = weir_extraction::Extraction::new(config, collections.0.metrics.clone());
        let originals =
            weir_originals::Originals::new(config, &collections.0.store, collections.0.metrics.clone());
        let uploads = ingest::Uploads::new(config, collections.0.metrics.clone());
        let job_streams = Arc::new(Semaphore::new(config.limits.job_streams_max));
        let stopping = CancellationToken::new();
        let metrics = collections.0.metrics.clone();
        let parts = Arc::new(Parts {
            collections,
            query_log,
            cursors,
            searches,
            background_work,
            recall_sampling,
            extraction,
            originals,
            job_streams,
            running_keys: Default::default(),
            uploads,
            reading: ingest::Reading::new(metrics),
            _stops_when_dropped: stopping.clone().drop_guard(),
            stopping,
        });
        originals::start_sweeping(&parts);
        weir_webhooks::start(weir_webhooks::SenderParts {
            store: parts.store.clone(),
            metrics: parts.metrics.clone(),
            settings: parts.config.webhooks.clone(),
            render: |job| jobs::render(job, None),
            due: parts.webhooks_due.clone(),
            stopping: parts.stopping.clone(),
        });
        Retrieval(parts)
    }

    /// The kinds of files that are read.
    #[must_use]
    pub fn formats(&self) -> FormatsReply {
        self.extraction.formats()
    }

    /// Logs the protections of the processes that read uploaded files. Starts one, and waits for its end.
    pub fn log_isolation(&self) {
        match self.extraction.probe() {
            Ok(protections) => {
                tracing::info!(%protections, "uploaded files are read in processes of their own")
            }
            Err(error) => tracing::warn!(error = %chain(&error), "uploaded files are refused"),
        }
    }

    /// Ends the streams of events, because the gateway stops.
    pub fn end_streams(&self) {
        self.stopping.cancel();
    }

    /// Writes what is pending and closes every collection and the store.
    pub async fn close(self) {
        self.query_log.close().await;
        self.collections.close().await;
        self.scheduler.stop();
        self.store.clone().close().await;
    }

    /// Runs `work` on the calling thread if it is short, else at background priority, where it delays no other request. At most as much
    /// work as there are cores runs there at one instant; the rest waits, so that large requests do not occupy a thread each.
    ///
    /// # Errors
    /// `internal` when the work panicked on another thread.
    pub async fn maybe_in_background<T: Send + 'static>(
        &self,
        is_long: bool,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        if !is_long {
            return Ok(work());
        }
        let permit = self.background_work.clone().acquire_owned().await;
        let permit = permit.map_err(|error| RequestError::internal(&error))?;
        let working = self.collections.background().spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        working.await.map_err(|error| RequestError::internal(&error))
    }

    /// Admits a search, or refuses it: a permit among the searches of this instant, if the expected wait for a core is short enough.
    ///
    /// # Errors
    /// `overloaded`.
    pub fn admit_search(&self) -> Result<SearchPermit> {
        check_wait(self.collections.search_limiter().wait(), self.config.limits.search_wait_ms_max)?;
        self.searches.clone().try_acquire_owned().map(SearchPermit).map_err(|_| {
            let limit = self.config.limits.search_concurrency_max;
            let message = format!("{limit} searches run; that is the limit `limits.search_concurrency_max`");
            RequestError::new(ErrorCode::Overloaded, message)
        })
    }
}

/// Refuses a search whose expected wait for a core is longer than the limit.
fn check_wait(wait: Duration, limit_ms: u64) -> Result<()> {
    if wait <= Duration::from_millis(limit_ms) {
        return Ok(());
    }
    let message = format!(
        "a search would wait {} ms for a core; the limit `limits.search_wait_ms_max` is {limit_ms}",
        wait.as_micros().div_ceil(1000)
    );
    Err(RequestError::overloaded(message, wait))
}

/// A search that was admitted, until it is dropped.
#[derive(Debug)]
pub struct SearchPermit(#[expect(dead_code, reason = "held until the search ends")] OwnedSemaphorePermit);

/// Runs `work` to completion even when the caller disconnects: what the store has acknowledged must reach the index.
async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::spawn(work.in_current_span()).await {
        Ok(result) => result,
        Err(error) => Err(RequestError::internal(&error)),
    }
}

/// Runs `work` on the calling thread if it is short, else on a blocking thread, where it delays no other request.
///
/// # Errors
/// `internal` when the work panicked on a blocking thread.
pub(crate) async fn maybe_spawn_blocking<T: Send + 'static>(
    is_long: bool,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T> {
    if !is_long {
        return Ok(work());
    }
    tokio::task::spawn_blocking(work).await.map_err(|error| RequestError::internal(&error))
}

#[cfg(test)]
mod tests {
    use weir_inference::InferenceError;

    use super::*;

    /// `expected`: milliseconds after which the caller may retry, and a part of the message.
    fn check(error: RequestError, expected: (u32, &str)) {
        assert_eq!((error.code(), error.retry_after_ms()), (ErrorCode::Overloaded, Some(expected.0)));
        let problem = error.into_problem(None);
        assert!(problem.detail.contains(expected.1), "{}", problem.detail);
    }

    #[test]
    fn a_search_is_refused_when_its_wait_exceeds_the_limit() {
        assert!(check_wait(Duration::from_millis(25), 25).is_ok());
        let refused = check_wait(Duration::from_micros(25_001), 25).unwrap_err();
        check(refused, (26, "would wait 26 ms for a core; the limit `limits.search_wait_ms_max` is 25"));
    }

    #[test]
    fn a_refused_text_tells_when_to_retry() {
        let (wait, limit) = (Duration::from_millis(60), Duration::from_millis(50));
        let (setting, retry_after) = ("inference.request_wait_ms_max", Duration::from_millis(120));
        check(InferenceError::QueueTooSlow { wait, limit, setting, retry_after }.into(), (120, setting));
        check(InferenceError::QueueFull { queued: 9, limit: 8 }.into(), (1000, "inference.queue_tokens_max"));
    }
}
