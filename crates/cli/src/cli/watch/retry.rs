//! Waits while the gateway can't be reached or is busy.

use std::time::Duration;

use weir_client::{ClientError, IngestError};

use crate::cli::failure::{Failure, Result};

const FIRST: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(60);

/// The time until the next attempt, which doubles with each.
pub(super) struct Backoff {
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff { next: FIRST }
    }
}

impl Backoff {
    /// Waits after a failure that can pass.
    ///
    /// # Errors
    /// The failure, if it cannot.
    pub(super) async fn wait(&mut self, failure: Failure) -> Result<()> {
        if !is_passing(&failure) {
            return Err(failure);
        }
        eprintln!("note: {failure}; nothing is lost; trying again in {} s", self.next.as_secs());
        tokio::time::sleep(self.next).await;
        self.next = (self.next * 2).min(MAX);
        Ok(())
    }
}

fn is_passing(failure: &Failure) -> bool {
    if let Failure::Client(error) | Failure::Ingest(IngestError::Call { source: error, .. }) = failure {
        return is_passing_call(error);
    }
    false
}

fn is_passing_call(error: &ClientError) -> bool {
    match error {
        ClientError::Unreachable { source, .. } => !source.is_refused_by_tls(),
        ClientError::Refused { code, .. } => code.row().retryable || code.row().status >= 500,
        // a proxy before a gateway that is down
        ClientError::NotAGateway { status, .. } => *status >= 500,
        ClientError::Malformed { .. }
        | ClientError::Provider { .. }
        | ClientError::ApiKey
        | ClientError::IdempotencyKey
        | ClientError::Trust(_)
        | ClientError::NoModel => false,
    }
}
