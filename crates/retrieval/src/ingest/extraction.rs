//! The text of files, extracted in child processes.

use std::io::Read;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;
use weir_api::{ErrorCode, Invalid};
use weir_config::{Config, Sandboxing};
use weir_documents::{Extracted, Failure};
use weir_isolation::{ExtractError, Isolation, Protections, Sandbox};
use weir_telemetry::metrics::Metrics;

/// Extracts text, from a limited number of files at one time.
#[derive(Clone)]
pub(crate) struct Extraction {
    isolation: Arc<Isolation>,
    permits: Arc<Semaphore>,
    metrics: Metrics,
}

impl Extraction {
    pub(crate) fn new(config: &Config, metrics: Metrics) -> Extraction {
        let settings = &config.extract;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let parallel = match settings.parallel_max {
            0 => (cores / 2).max(1),
            most => most,
        };
        Extraction {
            isolation: Arc::new(isolation(config)),
            permits: Arc::new(Semaphore::new(parallel)),
            metrics,
        }
    }

    /// The text of the file `name`. Waits for a permit first.
    pub(crate) async fn extract(
        &self,
        name: &str,
        mut content: impl Read + Send + 'static,
    ) -> Result<Extracted, Invalid> {
        let closed = || Invalid::whole(ErrorCode::Internal, "the gateway is stopping");
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| closed())?;
        let (isolation, file_name, metrics) = (self.isolation.clone(), name.to_owned(), self.metrics.clone());
        let work = move || {
            let _permit = permit;
            let begun = Instant::now();
            let outcome = isolation.extract(&file_name, &mut content);
            let result = match &outcome {
                Ok(extracted) if extracted.warnings.is_empty() && extracted.lost.is_empty() => "extracted",
                Ok(_) => "partial",
                Err(error) => error.code(),
            };
            metrics.file_extracted(result, begun.elapsed());
            outcome
        };
        let outcome = tokio::task::spawn_blocking(work).await.map_err(|_| closed())?;
        outcome.map_err(|error| {
            tracing::warn!(file = name, code = error.code(), %error, "a file was not read");
            refusal(&error)
        })
    }

    /// The protections of a child process on this machine.
    pub(crate) fn probe(&self) -> Result<Protections, ExtractError> {
        self.isolation.probe()
    }
}

/// How files are read with these settings.
#[must_use]
pub fn isolation(config: &Config) -> Isolation {
    let settings = &config.extract;
    Isolation {
        sandbox: match settings.sandbox {
            Sandboxing::Required => Sandbox::Required,
            Sandboxing::BestEffort => Sandbox::BestEffort,
        },
        wall: Duration::from_millis(settings.timeout_ms),
        cpu_seconds: settings.cpu_seconds_max,
        memory_bytes: settings.memory_bytes_max,
        text_bytes_max: config.limits.document_text_bytes_max,
        pages_max: settings.pages_max,
        archives: settings.archives,
    }
}

/// The error of a file in the API.
fn refusal(error: &ExtractError) -> Invalid {
    let code = match error {
        ExtractError::Failure(Failure::UnsupportedFormat(_)) => ErrorCode::UnsupportedFormat,
        ExtractError::Failure(Failure::Encrypted) => ErrorCode::Encrypted,
        ExtractError::Failure(Failure::DamagedFile(_)) => ErrorCode::DamagedFile,
        ExtractError::Failure(Failure::NoText(_)) => ErrorCode::NoText,
        ExtractError::Failure(Failure::FileLimit(_)) => ErrorCode::FileLimit,
        ExtractError::Timeout { .. } => ErrorCode::ExtractionTimeout,
        ExtractError::Memory { .. } => ErrorCode::ExtractionMemory,
        // the message of a panic can have parts of the file: the log has it
        ExtractError::Crashed(_) => {
            return Invalid::whole(ErrorCode::ExtractionCrashed, "the process that read the file crashed");
        }
        ExtractError::NoSandbox(_) | ExtractError::Start(_) => ErrorCode::ExtractionUnavailable,
    };
    Invalid::whole(code, error.to_string())
}
