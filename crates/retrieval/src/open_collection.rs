//! An open collection: its index, its model and its workers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use weir_api::{CollectionSettings, LexicalSettings};
use weir_index::{Engine, EngineId, Engines, IndexError};
use weir_inference::LoadedModel;
use weir_store::{Collection, CollectionId, Job, Retention};
use weir_telemetry::metrics::Metrics;
use weir_text::Language;

use crate::clock::now;
use crate::ingest::{Cancellations, Preparer};
use weir_cursor::RequestHash;
use weir_preparation::IngestProgress;
use weir_upkeep::{Earlier, PreviousIndex};

/// An open collection: searchable, and kept up to date by its ingest worker.
pub struct OpenCollection {
    /// Names it in the store.
    pub(crate) id: CollectionId,
    /// The collection in the store, from which views are opened.
    pub(crate) stored: Collection,
    /// The name in the API.
    pub(crate) name: String,
    /// The settings in force, none absent but `lexical`.
    pub(crate) settings: CollectionSettings,
    /// The settings that can change.
    pub(crate) lexical: RwLock<Arc<LexicalInForce>>,
    /// When it was created, in unix seconds.
    pub(crate) created_at: f64,
    /// Its index.
    pub(crate) engine: Engine,
    /// Names the index.
    pub(crate) engine_id: EngineId,
    /// Where indexes come from.
    pub(crate) engines: Engines,
    /// The earlier generations that all gateways use; and whether this one has searched one since its start.
    pub(crate) earlier: Earlier,
    pub(crate) has_searched_earlier: bool,
    /// Prepares its documents; holds the model.
    pub(crate) preparer: Preparer,
    /// Limits of a batch.
    pub(crate) ingest: weir_config::table::Ingest,
    /// The setting `index.compact_after_s`.
    pub(crate) compact_after: Duration,
    /// Metrics of the workers.
    pub(crate) metrics: Metrics,
    /// Wakes the ingest worker.
    pub(crate) operations_added: Notify,
    /// Whether the store may have changed since the ingest worker last asked it, where other gateways use it.
    pub(crate) is_told: AtomicBool,
    /// Whether this gateway wants the lease although nothing is to be prepared.
    pub(crate) wants_lease: AtomicBool,
    /// Wakes the feedback worker.
    pub(crate) feedback_changed: Notify,
    /// Stops both workers.
    pub(crate) closing: CancellationToken,
    /// The last operation that this process acknowledged.
    pub(crate) accepted: AtomicU64,
    /// An operation that the store has lost; 0: none is known.
    pub(crate) lost_operation: AtomicU64,
    /// The applied sequence of a lost index; until it is reached again, searches would miss documents that they found before.
    pub(crate) rebuild_until: u64,
    /// The index from before its documents were split again, or it was moved, which answers searches until the index is complete.
    pub(crate) previous: RwLock<Option<PreviousIndex>>,
    /// The last operation when the index was last empty: of operations up to this, it has nothing that could be out of date.
    pub(crate) empty_at: AtomicU64,
    /// The highest operation that has been searchable, published by the worker.
    pub(crate) applied_seq: watch::Sender<u64>,
    /// The progress of the operations after it.
    pub(crate) progress: IngestProgress,
    /// Jobs to cancel.
    pub(crate) cancellations: Cancellations,
    pub(crate) failure: Mutex<Option<Failure>>,
    /// Wakes the sender of webhooks.
    pub(crate) webhooks_due: Arc<Notify>,
    pub(crate) job_log: weir_upkeep::JobLog,
    pub(crate) workers: Mutex<Vec<JoinHandle<()>>>,
}

/// Why a collection does not advance.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    /// The last error.
    pub(crate) reason: String,
    /// When the first of these errors occurred, in unix seconds.
    pub(crate) since: f64,
    /// Whether other gateways fail alike: none of them is less ready than another.
    pub(crate) is_alike: bool,
}

/// The settings of lexical retrieval in force.
#[derive(Debug)]
pub(crate) struct LexicalInForce {
    /// As they were sent.
    pub(crate) sent: LexicalSettings,
    /// As the index takes them.
    pub(crate) index: Arc<weir_index::LexicalSettings>,
    /// Of `sent`; cursors depend on it.
    pub(crate) hash: RequestHash,
}

impl LexicalInForce {
    pub(crate) fn new(sent: LexicalSettings, language: Language) -> LexicalInForce {
        let no_synonyms = BTreeMap::new();
        let index = weir_index::LexicalSettings::new(
            language,
            sent.synonyms.as_ref().unwrap_or(&no_synonyms),
            sent.stop_words.as_deref(),
            sent.title_weight.unwrap_or(1.0),
        );
        let hash = RequestHash::of(&[&serde_json::to_vec(&sent).unwrap_or_default()]);
        LexicalInForce { sent, index: Arc::new(index), hash }
    }
}

impl OpenCollection {
    /// The settings of lexical retrieval in force.
    pub(crate) fn lexical(&self) -> Arc<LexicalInForce> {
        self.lexical.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// All settings in force, as the API shows them.
    pub(crate) fn shown_settings(&self) -> CollectionSettings {
        CollectionSettings { lexical: Some(self.lexical().sent.clone()), ..self.settings.clone() }
    }

    /// The model that embeds its chunks; `None` for a text-only collection.
    pub(crate) fn model(&self) -> Option<&Arc<LoadedModel>> {
        self.preparer.model.as_ref()
    }

    /// The language of its texts.
    pub(crate) fn language(&self) -> Language {
        self.settings.language.as_deref().and_then(Language::parse).unwrap_or(Language::English)
    }

    /// Notifies the worker that operations up to `number` are in the store.
    pub(crate) fn wake(&self, number: u64) {
        self.accepted.fetch_max(number, Ordering::Relaxed);
        self.operations_added.notify_one();
    }

    /// Gives up the lease, because another gateway has a later one.
    pub(crate) fn lose_lease(&self) {
        tracing::info!(collection = self.name, "another gateway has taken over the ingest");
        self.preparer.lease.take();
        self.look_again();
    }

    /// Has the worker ask the store what there is to do.
    pub(crate) fn look_again(&self) {
        self.is_told.store(true, Ordering::Relaxed);
        self.operations_added.notify_one();
    }

    /// Replaces the settings of lexical retrieval.
    pub(crate) fn set_lexical(&self, in_force: LexicalInForce) {
        *self.lexical.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(in_force);
    }

    /// Refuses changes of a store that has lost commits.
    ///
    /// # Errors
    /// `LostCommits`.
    pub(crate) fn check_history(&self) -> weir_store::Result<()> {
        match self.lost_operation.load(Ordering::Relaxed) {
            0 => Ok(()),
            operation => Err(weir_store::Error::LostCommits { operation }),
        }
    }

    /// The last acknowledged operation.
    pub(crate) fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Acknowledged operations that are not searchable yet.
    pub(crate) fn pending_operations(&self) -> u64 {
        self.accepted().saturating_sub(self.engine.applied_seq())
    }

    /// Waits until everything up to operation `number` is searchable, or the collection is closed.
    pub(crate) async fn wait_until_searchable(&self, number: u64) {
        let mut applied = self.applied_seq.subscribe();
        tokio::select! {
            _ = applied.wait_for(|applied| *applied >= number) => {}
            () = self.closing.cancelled() => {}
        }
    }

    /// Whether searches of the index would miss what they found before it was lost, or before it was made again.
    pub(crate) fn is_rebuilding(&self) -> bool {
        self.rebuilt().is_some()
    }

    /// The part of the operations, from 0 to 1, that an index which is rebuilt has.
    pub(crate) fn rebuilt(&self) -> Option<f64> {
        let (applied_seq, until) =
            (self.engine.applied_seq(), self.rebuild_until.max(*self.applied_seq.borrow()));
        (applied_seq < until).then(|| applied_seq as f64 / until as f64)
    }

    /// If the index was lost, wakes the worker, which rebuilds it.
    pub(crate) fn note_lost<T>(&self, result: &Result<T, IndexError>) {
        if let Err(error @ IndexError::Lost { .. }) = result {
            tracing::warn!(collection = self.name, %error, "the index is rebuilt from the store");
            self.metrics.index_lost();
            self.empty_at.store(self.accepted(), Ordering::Relaxed);
            self.operations_added.notify_one();
        }
    }

    /// The retention of finished jobs and applied operations.
    pub(crate) fn retention(&self) -> Retention {
        Retention {
            operations_max: self.ingest.operations_kept_max,
            jobs_max: self.ingest.jobs_kept_max,
            idempotency_since: now() - f64::from(self.ingest.idempotency_kept_s),
        }
    }

    /// The error of the last batch, until one succeeds.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn note_failure(&self, reason: Option<String>) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        let since = failure.as_ref().map_or_else(now, |before| before.since);
        *failure = reason.map(|reason| Failure { reason, since, is_alike: false });
    }

    /// The same for an engine or a database that all gateways use and that does not answer.
    pub(crate) fn note_unavailable(&self, reason: String) {
        self.note_failure(Some(reason));
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.iter_mut().for_each(|failure| failure.is_alike = true);
    }

    /// Logs and counts a job that has ended.
    pub(crate) fn note_ended(&self, job: &Job) {
        self.job_log.ended(job);
        self.metrics.job_ended(job.status.into());
        self.note_webhook(job);
    }

    /// Wakes the sender of webhooks for a job that has ended.
    pub(crate) fn note_webhook(&self, job: &Job) {
        if job.webhook.is_some() {
            self.webhooks_due.notify_one();
        }
    }

    /// The highest number counts: while an index is rebuilt, lower ones are applied again.
    pub(crate) fn notify_applied(&self, number: u64) {
        self.applied_seq.send_modify(|applied| *applied = number.max(*applied));
    }

    pub(crate) async fn close(&self) {
        self.stop().await;
        if let Err(error) = self.engine.close().await {
            tracing::warn!(collection = self.name, %error, "the index did not close cleanly; it is checked at the next start");
        }
    }

    /// Ends the workers. The index stays open.
    pub(crate) async fn stop(&self) {
        self.closing.cancel();
        let workers = std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        for worker in workers {
            if worker.await.is_err() {
                tracing::error!(collection = self.name, "a worker of the collection ended by a panic");
            }
        }
        if let Some(fence) = self.preparer.lease.take()
            && let Err(error) = self.preparer.store.release_lease(fence).await
        {
            tracing::warn!(collection = self.name, %error, "the lease ends by itself");
        }
    }
}
