//! Cancellation of jobs. The worker carries it out between batches, when it is certain which documents the index has.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, oneshot};
use weir_policy::Caller;
use weir_store::{Job, JobStatus};

use super::large::LargeDocuments;
use crate::clock::now;
use crate::open_collection::OpenCollection;

/// The outcome of a cancellation: the cancelled job, or `None` if it had ended.
type Outcome = weir_store::Result<Option<Job>>;

/// Jobs of a collection that are to be cancelled.
#[derive(Debug, Default)]
pub(crate) struct Cancellations {
    waiting: Mutex<Vec<Cancellation>>,
    added: Notify,
}

#[derive(Debug)]
struct Cancellation {
    job_id: String,
    /// The operations of the job.
    first: u64,
    last: u64,
    done: oneshot::Sender<Outcome>,
}

impl Cancellations {
    /// Waits until there is one to carry out. Cancel safe.
    pub(super) async fn added(&self) {
        loop {
            let added = self.added.notified();
            if !self.lock().is_empty() {
                return;
            }
            added.await;
        }
    }

    /// Adds a job whose cancellation nobody of this gateway waits for, unless it is there.
    fn add_request(&self, job: &Job) {
        let mut waiting = self.lock();
        if !waiting.iter().any(|one| one.job_id == job.id) {
            waiting.push(Cancellation::of(job, oneshot::channel().0));
            self.added.notify_one();
        }
    }

    /// Refuses those that wait: another gateway does the work of the collection.
    pub(super) fn refuse_all(&self) {
        for refused in std::mem::take(&mut *self.lock()) {
            drop(refused.done.send(Err(weir_store::Error::LeaseLost)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Cancellation>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cancellation {
    fn of(job: &Job, done: oneshot::Sender<Outcome>) -> Cancellation {
        let first = (job.last_operation + 1).saturating_sub(job.new + job.changed);
        Cancellation { job_id: job.id.clone(), first, last: job.last_operation, done }
    }
}

/// How long another gateway may take to carry out a cancellation, and how often is asked whether it has.
const CARRY_OUT_MAX: Duration = Duration::from_secs(10);
const CARRY_OUT_PAUSE: Duration = Duration::from_millis(100);

impl OpenCollection {
    /// Cancels a job that is not finished: what is not in the index by now is not embedded. `None` if the job has ended, or the collection is
    /// being closed.
    pub(crate) async fn cancel_job(&self, job: &Job) -> Outcome {
        if self.preparer.store.is_shared() && self.preparer.lease.get().is_none() {
            return self.request_cancellation(job).await;
        }
        let (done, outcome) = oneshot::channel();
        self.cancellations.lock().push(Cancellation::of(job, done));
        self.cancellations.added.notify_one();
        tokio::select! {
            outcome = outcome => outcome.unwrap_or(Ok(None)),
            () = self.closing.cancelled() => Ok(None),
        }
    }
}

impl OpenCollection {
    /// Has whoever has the lease cancel a job, and waits for it.
    async fn request_cancellation(&self, job: &Job) -> Outcome {
        let store = &self.preparer.store;
        store.request_cancellation(self.id, &job.id).await?;
        // if nobody has it
        self.look_again();
        let until = Instant::now() + CARRY_OUT_MAX;
        while Instant::now() < until && !self.closing.is_cancelled() {
            match store.job(&Caller::system(), &job.id).await? {
                Some(job) if job.finished_at.is_none() => tokio::time::sleep(CARRY_OUT_PAUSE).await,
                Some(job) if job.status == JobStatus::Cancelled => return Ok(Some(job)),
                Some(_) | None => return Ok(None),
            }
        }
        Err(weir_store::Error::Conflict)
    }

    /// Takes on the cancellations that were asked for at other gateways, if this one has the lease.
    pub(crate) async fn take_cancellation_requests(&self) -> weir_store::Result<()> {
        if self.preparer.lease.get().is_some() {
            let requests = self.preparer.store.cancellation_requests(self.id).await?;
            requests.iter().for_each(|job| self.cancellations.add_request(job));
        }
        Ok(())
    }
}

/// Carries out the cancellations that wait. The preparation of documents of the cancelled jobs starts again without them.
pub(super) async fn carry_out(collection: &OpenCollection, large: &mut LargeDocuments) {
    let waiting = std::mem::take(&mut *collection.cancellations.lock());
    for cancellation in waiting {
        let applied_seq = collection.engine.applied_seq();
        let applied_early = collection.progress.applied_early(cancellation.first..=cancellation.last);
        let cancelled = match collection.preparer.worker_store() {
            Ok(store) => {
                store.cancel_job(collection.id, &cancellation.job_id, applied_seq, applied_early, now()).await
            }
            Err(error) => Err(error),
        };
        if let Ok(Some(job)) = &cancelled {
            if cancellation.first <= large.read_to {
                *large = LargeDocuments::none(applied_seq);
            }
            collection.note_ended(job);
        }
        // the caller may have left
        drop(cancellation.done.send(cancelled));
    }
}
