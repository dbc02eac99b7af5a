//! Whether the server answers: one that hangs, or a host that has vanished, must not keep calls waiting for their time limits.

use std::sync::Arc;

use tokio::sync::watch;

use super::error::no_answer;
use crate::Result;

/// Whether the database answers the connection for changes. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Answering(Arc<watch::Sender<bool>>);

impl Answering {
    /// A server of which nothing else is known.
    pub(super) fn new() -> Answering {
        Answering(Arc::new(watch::Sender::new(true)))
    }

    pub(super) fn set(&self, answers: bool) {
        self.0.send_if_modified(|now| std::mem::replace(now, answers) != answers);
    }

    /// Whether it answers, as far as is known.
    pub(super) fn check(&self) -> Result<()> {
        if *self.0.borrow() { Ok(()) } else { Err(no_answer("it does not answer")) }
    }

    /// Carries out a call as long as the server answers. A call that is given up may have been carried out.
    pub(super) async fn run<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.check()?;
        let mut answering = self.0.subscribe();
        tokio::select! {
            biased;
            done = call => done,
            _ = answering.wait_for(|answers| !*answers) => Err(no_answer("it does not answer")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_end_when_the_server_is_silent_and_begin_again_when_it_answers() {
        let answering = Answering::new();
        let (waiting, silent) = tokio::join!(answering.run(std::future::pending::<Result<()>>()), async {
            tokio::task::yield_now().await;
            answering.set(false);
            answering.run(async { Ok(1) }).await
        });
        assert!(waiting.unwrap_err().retry_after().is_some());
        assert_eq!(silent.unwrap_err().to_string(), answering.check().unwrap_err().to_string());
        answering.set(true);
        assert_eq!(answering.run(async { Ok(1) }).await.unwrap(), 1);
    }
}
