//! Jobs whose files are not read yet. Those of one collection are read one after the other, in the order in which they were accepted.
//!
//! A change of a document whose file is not read waits for it, so that changes take effect in the order in which they were acknowledged.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt as _;
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use weir_api::{ErrorCode, Invalid};
use weir_policy::Caller;
use weir_store::{CollectionId, NewWebhook, Submission, SubmittedFiles, UnreadFile, UnreadFiles};
use weir_telemetry::metrics::Metrics;

use super::accept::{CheckedDocuments, document_error, new_job_id, original_of};
use super::unread::FileDetails;
use super::upload::{FILES_AT_ONCE, FileOutcome, Gathered, Pending};
use crate::{CollectionView, Result, Retrieval};
use weir_refusal::RequestError;

/// Jobs whose files are read at one time, each of another collection. The texts of a job are in memory until all of its files are read.
const JOBS_AT_ONCE: usize = 4;
/// First and longest wait after an error of the store.
const RETRY_AFTER: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));

/// The jobs whose files are not read.
#[derive(Clone)]
pub(crate) struct Reading(Arc<ReadingInner>);

struct ReadingInner {
    state: Mutex<ReadingState>,
    /// Wakes those who wait when a job ends.
    ended: Notify,
    permits: Semaphore,
    metrics: Metrics,
}

#[derive(Default)]
struct ReadingState {
    jobs: HashMap<String, ReadingJob>,
    /// The jobs of each collection in their order.
    queues: HashMap<CollectionId, VecDeque<String>>,
}

struct ReadingJob {
    ids: HashSet<String>,
    left: Arc<AtomicU64>,
    cancelled: CancellationToken,
}

/// A job whose files are not read, until this is dropped.
pub(super) struct Ticket {
    reading: Reading,
    job_id: String,
    collection: CollectionId,
    left: Arc<AtomicU64>,
    cancelled: CancellationToken,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.reading.lock();
        state.jobs.remove(&self.job_id);
        if let Some(queue) = state.queues.get_mut(&self.collection) {
            queue.retain(|job| *job != self.job_id);
            if queue.is_empty() {
                state.queues.remove(&self.collection);
            }
        }
        drop(state);
        let left = self.left.load(Ordering::Relaxed);
        self.reading.0.metrics.unread_files(-left.cast_signed());
        self.reading.0.ended.notify_waiters();
    }
}

impl Ticket {
    /// Waits until the earlier jobs of the collection are read.
    async fn turn(&self) {
        let is_first = |state: &ReadingState| {
            state.queues.get(&self.collection).is_none_or(|queue| queue.front() == Some(&self.job_id))
        };
        self.reading.wait_until(is_first).await;
    }
}

impl Reading {
    pub(crate) fn new(metrics: Metrics) -> Reading {
        let permits = Semaphore::new(JOBS_AT_ONCE);
        Reading(Arc::new(ReadingInner { state: Mutex::default(), ended: Notify::new(), permits, metrics }))
    }

    /// Takes note of a job that is about to be stored, or that is stored.
    pub(super) fn begin(&self, job_id: &str, collection: CollectionId, files: &UnreadFiles) -> Ticket {
        let left = Arc::new(AtomicU64::new(files.files.len() as u64));
        self.0.metrics.unread_files(files.files.len() as i64);
        let cancelled = CancellationToken::new();
        let ids = files.files.iter().map(|file| file.document_id.clone()).collect();
        let job = ReadingJob { ids, left: left.clone(), cancelled: cancelled.clone() };
        let mut state = self.lock();
        state.jobs.insert(job_id.to_owned(), job);
        state.queues.entry(collection).or_default().push_back(job_id.to_owned());
        Ticket { reading: self.clone(), job_id: job_id.to_owned(), collection, left, cancelled }
    }

    /// Waits until no file is to be read whose document has one of these ids.
    pub(crate) async fn wait_for_documents(&self, collection: CollectionId, ids: &[&str]) {
        self.wait_until(|state| {
            let jobs = state.queues.get(&collection).into_iter().flatten();
            let mut jobs = jobs.filter_map(|job| state.jobs.get(job));
            !jobs.any(|job| ids.iter().any(|id| job.ids.contains(*id)))
        })
        .await;
    }

    /// Waits until the files of a job are read.
    pub(crate) async fn wait_for_job(&self, job_id: &str) {
        self.wait_until(|state| !state.jobs.contains_key(job_id)).await;
    }

    /// The files of a job that are left to read, if it is known.
    pub(crate) fn left(&self, job_id: &str) -> Option<u64> {
        self.lock().jobs.get(job_id).map(|job| job.left.load(Ordering::Relaxed))
    }

    /// Stops reading the files of a job, which was cancelled.
    pub(crate) fn cancel(&self, job_id: &str) {
        if let Some(job) = self.lock().jobs.get(job_id) {
            job.cancelled.cancel();
        }
    }

    async fn wait_until(&self, is_so: impl Fn(&ReadingState) -> bool) {
        loop {
            let ended = self.0.ended.notified();
            if is_so(&self.lock()) {
                return;
            }
            ended.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, ReadingState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Retrieval {
    /// Goes on with the jobs whose files were not read when the gateway ended.
    ///
    /// # Errors
    /// Store errors.
    pub async fn resume_reading(&self) -> weir_store::Result<()> {
        let collections = self.collections.all(&Caller::system());
        for job in self.store.jobs_with_files().await?.into_iter().filter(|job| job.finished_at.is_none()) {
            if collections.iter().any(|collection| collection.id == job.collection) {
                let ticket = self.reading.begin(&job.job_id, job.collection, &job.files);
                self.start_reading(ticket, job.files);
            }
        }
        Ok(())
    }

    /// Tries the files of a job again that failed, with a new job. `None` if there are none.
    pub(crate) async fn retry_files(
        &self,
        view: &CollectionView,
        job_id: &str,
        webhook: Option<NewWebhook>,
    ) -> Result<Option<weir_store::Job>> {
        let with_files = self.store.jobs_with_files().await?;
        let found = with_files.into_iter().find(|job| job.job_id == job_id && job.finished_at.is_some());
        let Some(found) = found else { return Ok(None) };
        let new_id = new_job_id();
        let ticket = self.reading.begin(&new_id, view.id(), &found.files);
        let files = SubmittedFiles::Unread(found.files.clone());
        let submission = Submission { job_id: new_id, files, webhook, ..Submission::default() };
        let accepted = view.accept(submission).await?;
        let accepted = accepted.ok_or_else(|| RequestError::no_collection(view.name()))?;
        self.start_reading(ticket, found.files);
        self.store.forget_files(vec![job_id.to_owned()]).await?;
        Ok(Some(accepted.job))
    }

    /// Reads the files of a job in the background, when it is its turn.
    pub(super) fn start_reading(&self, ticket: Ticket, files: UnreadFiles) {
        let retrieval = self.clone();
        tokio::spawn(async move {
            let (stopping, cancelled) = (retrieval.stopping.clone(), ticket.cancelled.clone());
            tokio::select! {
                () = stopping.cancelled() => {}
                () = cancelled.cancelled() => {}
                () = retrieval.read_in_turn(&ticket, files) => {}
            }
        });
    }

    async fn read_in_turn(&self, ticket: &Ticket, files: UnreadFiles) {
        ticket.turn().await;
        let Ok(_permit) = self.reading.0.permits.acquire().await else { return };
        let (checked, failed) = self.read_unread(ticket, &files).await;
        let failed = (!failed.is_empty()).then(|| UnreadFiles { files: failed, ..files.clone() });
        let is_done = failed.is_none();
        let CheckedDocuments { documents, rejected, files: read, .. } = checked;
        let submission = Submission {
            job_id: ticket.job_id.clone(),
            documents,
            rejected: rejected.into_iter().map(|(id, invalid)| document_error(id, invalid)).collect(),
            replace_if_equal: files.replace_if_equal.clone(),
            originals: read.iter().map(original_of).collect(),
            files: SubmittedFiles::Read(failed),
            ..Submission::default()
        };
        let mut wait = RETRY_AFTER.0;
        let is_stored = loop {
            match self.store_read(ticket.collection, submission.clone()).await {
                Ok(is_stored) => break is_stored,
                Err(error) => {
                    tracing::error!(job = ticket.job_id, ?error, retry_after = ?wait, "the documents of files were not stored");
                    tokio::time::sleep(wait).await;
                    wait = (wait * 2).min(RETRY_AFTER.1);
                }
            }
        };
        // those of a job that was cancelled can be tried again
        if is_done && is_stored {
            self.uploads.remove(&files.place);
        }
    }

    /// Stores the documents of a job's files; `false` if the job has ended.
    async fn store_read(&self, collection: CollectionId, mut submission: Submission) -> Result<bool> {
        let views = self.views(&Arc::new(Caller::system()))?;
        let Some(view) = views.into_iter().find(|view| view.id() == collection) else {
            let is_left = self.store.jobs_with_files().await?.into_iter();
            let is_left =
                is_left.filter(|job| job.finished_at.is_none()).any(|job| job.job_id == submission.job_id);
            // else the collection was deleted
            return if is_left { Err(RequestError::no_collection("of the files")) } else { Ok(false) };
        };
        let (documents, misfits) = view.with_fitting_vectors(std::mem::take(&mut submission.documents));
        submission.documents = documents;
        submission.rejected.extend(misfits.into_iter().map(|(id, invalid)| document_error(id, invalid)));
        self.metrics.documents_received(submission.documents.len() as u64, submission.rejected.len() as u64);
        view.accept_read(submission).await
    }

    /// The documents of files, and the files without one.
    async fn read_unread(&self, ticket: &Ticket, files: &UnreadFiles) -> (CheckedDocuments, Vec<UnreadFile>) {
        let limits = self.config.request_limits();
        let opened = self.uploads.open(&files.place).await.map_err(|error| error.to_string());
        let (limits, opened) = (&limits, &opened);
        let read: Vec<_> = files
            .files
            .iter()
            .map(|file| async move {
                let read = match (opened, serde_json::from_str::<FileDetails>(&file.details)) {
                    (Ok(all), Ok(details)) => {
                        let hash = self.hash_of_file(&details, limits);
                        let pending = Pending::stored(Box::new(details.of(all)), &details);
                        self.documents_of_new(pending, details.keeps, hash, limits).await
                    }
                    (Err(error), _) => {
                        let message = format!("the file can't be read in the data directory: {error}");
                        FileOutcome::failed(file, Invalid::whole(ErrorCode::StoreUnavailable, message))
                    }
                    (_, Err(error)) => {
                        tracing::error!(job = ticket.job_id, %error, "the description of a file is damaged");
                        FileOutcome::failed(file, Invalid::whole(ErrorCode::Internal, RequestError::INTERNAL))
                    }
                };
                ticket.left.fetch_sub(1, Ordering::Relaxed);
                self.metrics.unread_files(-1);
                (file, read)
            })
            .collect();
        let mut read = futures_util::stream::iter(read).buffered(FILES_AT_ONCE);
        let mut gathered = Gathered::new(self.config.limits.ingest_body_bytes_max);
        let mut failed = Vec::new();
        while let Some((file, outcome)) = read.next().await {
            if outcome.is_failed() {
                failed.push(file.clone());
            }
            gathered.add(outcome);
        }
        (gathered.checked, failed)
    }
}
