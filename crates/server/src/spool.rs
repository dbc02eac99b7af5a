//! The files of a request while they are received: one after the other in one file of the data directory. It has no name there, so that
//! nothing of them is left after a crash.

use std::fs::File;
use std::io::Write as _;
use std::sync::Arc;

use axum::body::Bytes;
use futures_util::{Stream, StreamExt as _};
use sha2::{Digest as _, Sha256};
use weir_api::{ErrorCode, FileOptions};
use weir_retrieval::{Section, UploadedFile};

use super::body::body_too_large;
use super::error::ApiError;
use super::gateway::Gateway;
use crate::Result;

/// Bytes that are written at one time.
const WRITTEN_BYTES: usize = 1 << 20;

/// Files that are being received.
pub(super) struct Spool {
    file: Arc<File>,
    /// Bytes not yet written.
    unwritten: Vec<u8>,
    /// Where the file that is being received begins.
    start: u64,
    /// Its bytes so far.
    bytes: u64,
    hash: Sha256,
    bytes_max: usize,
}

impl Spool {
    pub(super) async fn create(gateway: &Gateway) -> Result<Spool> {
        let folder = gateway.config.server.data_dir.clone();
        let made = tokio::task::spawn_blocking(move || tempfile::tempfile_in(folder)).await;
        let file = made.map_err(|error| ApiError::internal(&error))?.map_err(|error| not_written(&error))?;
        Ok(Spool {
            file: Arc::new(file),
            unwritten: Vec::new(),
            start: 0,
            bytes: 0,
            hash: Sha256::new(),
            bytes_max: gateway.config.extract.file_bytes_max,
        })
    }

    /// Adds a part to the file that is being received.
    ///
    /// # Errors
    /// `payload_too_large` for a file beyond its limit; `insufficient_storage`.
    pub(super) async fn write(&mut self, part: &[u8]) -> Result<()> {
        self.bytes += part.len() as u64;
        if self.bytes > self.bytes_max as u64 {
            let message = format!(
                "the file has more bytes than the limit `extract.file_bytes_max`, which is {}",
                self.bytes_max
            );
            return Err(ApiError::new(ErrorCode::PayloadTooLarge, message));
        }
        self.hash.update(part);
        self.unwritten.extend_from_slice(part);
        if self.unwritten.len() >= WRITTEN_BYTES {
            self.flush().await?;
        }
        Ok(())
    }

    /// Adds all parts of a body of at most `limit` bytes to the file that is being received.
    ///
    /// # Errors
    /// `payload_too_large`, `insufficient_storage`; `invalid_parameter` when the connection broke.
    pub(super) async fn write_all(
        &mut self,
        mut stream: impl Stream<Item = std::io::Result<Bytes>> + Unpin,
        limit: usize,
        setting: &'static str,
    ) -> Result<()> {
        while let Some(part) = stream.next().await {
            let part = part.map_err(|error| {
                ApiError::new(ErrorCode::InvalidParameter, format!("the body broke off: {error}"))
            })?;
            if self.bytes + part.len() as u64 > limit as u64 {
                return Err(body_too_large(limit, setting));
            }
            self.write(&part).await?;
        }
        Ok(())
    }

    /// Ends a file; the next one can begin. It can be read when all files are written: see [`Spool::flush`].
    pub(super) fn end_file(&mut self, name: String, options: FileOptions) -> UploadedFile {
        let content = Section::new(self.file.clone(), self.start, self.bytes);
        let sha256 = self.hash.finalize_reset().iter().map(|byte| format!("{byte:02x}")).collect();
        self.start += std::mem::take(&mut self.bytes);
        UploadedFile { content, sha256, name, options }
    }

    /// Writes what is not written yet.
    ///
    /// # Errors
    /// `insufficient_storage`, `store_unavailable`.
    pub(super) async fn flush(&mut self) -> Result<()> {
        if self.unwritten.is_empty() {
            return Ok(());
        }
        let (file, mut bytes) = (self.file.clone(), std::mem::take(&mut self.unwritten));
        let write = move || {
            (&*file).write_all(&bytes).map(|()| {
                bytes.clear();
                bytes
            })
        };
        let written = tokio::task::spawn_blocking(write).await;
        let written = written.map_err(|error| ApiError::internal(&error))?;
        self.unwritten = written.map_err(|error| not_written(&error))?;
        Ok(())
    }
}

fn not_written(error: &std::io::Error) -> ApiError {
    use std::io::ErrorKind as Kind;
    let is_full = matches!(error.kind(), Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge);
    let code = if is_full { ErrorCode::InsufficientStorage } else { ErrorCode::StoreUnavailable };
    ApiError::new(code, format!("the file could not be written to the data directory: {error}"))
}
