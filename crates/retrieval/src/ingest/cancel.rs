//! Cancellation of jobs. The worker carries it out between batches, when it is certain which documents the index has.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use weir_store::Job;

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

    fn lock(&self) -> MutexGuard<'_, Vec<Cancellation>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OpenCollection {
    /// Cancels a job that is not finished: what is not in the index by now is not embedded. `None` if the job has ended, or the collection is
    /// being closed.
    pub(crate) async fn cancel_job(&self, job: &Job) -> Outcome {
        let (done, outcome) = oneshot::channel();
        let first = (job.last_operation + 1).saturating_sub(job.new + job.changed);
        let cancellation = Cancellation { job_id: job.id.clone(), first, last: job.last_operation, done };
        self.cancellations.lock().push(cancellation);
        self.cancellations.added.notify_one();
        tokio::select! {
            outcome = outcome => outcome.unwrap_or(Ok(None)),
            () = self.closing.cancelled() => Ok(None),
        }
    }
}

/// Carries out the cancellations that wait. The preparation of documents of the cancelled jobs starts again without them.
pub(super) async fn carry_out(collection: &OpenCollection, large: &mut LargeDocuments) {
    let waiting = std::mem::take(&mut *collection.cancellations.lock());
    for cancellation in waiting {
        let applied_seq = collection.engine.applied_seq();
        let applied_early = collection.progress.applied_early(cancellation.first..=cancellation.last);
        let store = &collection.preparer.store;
        let cancelled =
            store.cancel_job(collection.id, &cancellation.job_id, applied_seq, applied_early, now()).await;
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
