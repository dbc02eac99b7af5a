//! Why a file was not read.

use std::time::Duration;

use weir_documents::Failure;

/// Why a file was not read. Only this file is affected.
#[derive(Debug, thiserror::Error)]
pub enum ExtractError {
    /// The reader found that the file has no text to index.
    #[error("{0}")]
    Failure(#[from] Failure),
    /// The child reached its limit of time or of CPU time.
    #[error("reading the file took longer than {wall:?}, or more than {cpu_seconds} s of CPU time")]
    Timeout {
        /// The limit of time.
        wall: Duration,
        /// The limit of CPU time.
        cpu_seconds: u64,
    },
    /// The child reached its limit of memory.
    #[error("reading the file needs more than {memory_bytes} bytes of memory")]
    Memory {
        /// The limit.
        memory_bytes: u64,
    },
    /// The child ended in another way.
    #[error("the reader of the file crashed: {0}")]
    Crashed(String),
    /// The kernel does not offer a required protection.
    #[error("files are not read, because the child process cannot be isolated: {0}")]
    NoSandbox(String),
    /// The child could not be started.
    #[error("the process that reads the file could not be started")]
    Start(#[from] std::io::Error),
}

impl ExtractError {
    /// The stable name of the error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            ExtractError::Failure(failure) => failure.code(),
            ExtractError::Timeout { .. } => "extraction_timeout",
            ExtractError::Memory { .. } => "extraction_memory",
            ExtractError::Crashed(_) => "extraction_crashed",
            ExtractError::NoSandbox(_) | ExtractError::Start(_) => "extraction_unavailable",
        }
    }
}
