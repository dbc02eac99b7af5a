//! Checks of long texts leave the threads that answer requests: a text of 1 MB takes as long as hundreds of requests.

use std::sync::LazyLock;

use tokio::sync::Semaphore;

use crate::LlmError;

/// Longest body that is checked on the thread of its request.
const INLINE_BYTES_MAX: usize = 64 << 10;

/// At most half the cores check long texts at a time; the others stay free for what is short.
static PERMITS: LazyLock<Semaphore> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Semaphore::new((cores / 2).max(1))
});

/// Does the work for a body of this length.
///
/// # Errors
/// `Internal` if the work panicked, or the gateway stops.
pub(crate) async fn scanned<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, LlmError> {
    if bytes <= INLINE_BYTES_MAX {
        return Ok(work());
    }
    let permit = PERMITS.acquire().await.map_err(|_| LlmError::Internal)?;
    let done = tokio::task::spawn_blocking(move || {
        // until the end of the work, also after the caller has left
        let _permit = permit;
        work()
    });
    done.await.map_err(|error| {
        tracing::error!(%error, "a text was not checked");
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
