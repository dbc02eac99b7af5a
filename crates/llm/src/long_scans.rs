//! Checks of long texts leave the threads that answer requests: a text of 1 MB takes as long as hundreds of requests.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::oneshot;

use crate::LlmError;

/// Longest body that is checked on the thread of its request.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// Texts that wait for a thread beside those whose requests wait to add theirs.
const WAITING_MAX: usize = 64;

type Job = Box<dyn FnOnce() + Send>;

/// The threads that check long texts, one for two cores; the other cores stay free for what is short. A busy thread takes its next text without being
/// woken.
static THREADS: LazyLock<Sender<Job>> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (sender, receiver) = channel(WAITING_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    for _ in 0..(cores / 2).max(1) {
        let receiver = receiver.clone();
        if let Err(error) =
            std::thread::Builder::new().name("long-scans".to_owned()).spawn(move || work_off(&receiver))
        {
            tracing::error!(%error, "a thread for the check of long texts can't start");
        }
    }
    sender
});

fn work_off(jobs: &Mutex<Receiver<Job>>) {
    let next = || jobs.lock().unwrap_or_else(PoisonError::into_inner).blocking_recv();
    while let Some(job) = next() {
        // the caller of what panics gets an error
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

/// Does the work for a body of this length. It is not done for a caller who has left before it began.
///
/// # Errors
/// `Internal` if the work panicked, or no thread could be started.
pub(crate) async fn scanned<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LlmError> {
    if bytes <= INLINE_BYTES_MAX {
        return Ok(work());
    }
    let (done, result) = oneshot::channel();
    let job = move || {
        if !done.is_closed() {
            // a caller that has left meanwhile needs no result
            let _ = done.send(work());
        }
    };
    THREADS.send(Box::new(job)).await.map_err(|_| LlmError::Internal)?;
    result.await.map_err(|_| {
        tracing::error!("a text was not checked");
        LlmError::Internal
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn long_work_is_done_on_another_thread() {
        let here = std::thread::current().id();
        let place = |bytes: usize| scanned(bytes, || std::thread::current().id());
        assert_eq!(place(INLINE_BYTES_MAX).await, Ok(here));
        assert_ne!(place(INLINE_BYTES_MAX + 1).await.unwrap(), here);
        let failed = scanned(INLINE_BYTES_MAX + 1, || panic!("on purpose")).await;
        assert_eq!(failed, Err::<(), _>(LlmError::Internal));
    }
}
