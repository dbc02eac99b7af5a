//! Files that the gateway reads: many small ones go in one request, so that a file that is stored already costs almost nothing.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use weir_api::{ErrorCode, FileOptions};

use super::jobs::AcceptedBatch;
use super::{BATCH_BYTES_MAX, Ingest, JOBS_MAX, Rejection, SourceFile};
use crate::client::FileUpload;
use crate::{ClientError, Result};

/// Bytes of a file that is read to be uploaded.
const FILE_BYTES_MAX: u64 = 1 << 30;
/// A file of at least this many bytes is sent alone.
const LARGE_FILE_BYTES_MIN: usize = 1 << 20;

/// Files that are sent in one request.
#[derive(Default)]
pub(super) struct FileBatch {
    files: Vec<ReadFile>,
    bytes: usize,
}

/// A file that was read.
struct ReadFile {
    upload: FileUpload,
    place: String,
    /// Its share of the progress, in bytes.
    file_bytes: u64,
}

impl Ingest<'_> {
    /// Takes a file into the batch, which is sent when it is full.
    pub(super) async fn push_file(
        &mut self,
        batch: &mut FileBatch,
        file: SourceFile,
        place: String,
        file_bytes: u64,
    ) -> Result<()> {
        let bytes = match read(&file.path) {
            Ok(bytes) => bytes,
            Err(message) => {
                self.report.rejections.push(Rejection { name: place, message });
                self.advance(file_bytes, 0);
                return Ok(());
            }
        };
        let is_large = bytes.len() >= LARGE_FILE_BYTES_MIN;
        if is_large || batch.bytes + bytes.len() > BATCH_BYTES_MAX {
            self.send_files(std::mem::take(batch)).await?;
        }
        let name = file.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let keep_original = self.options.keep_originals.then_some(true).or(file.options.keep_original);
        let options = FileOptions { keep_original, ..file.options };
        batch.bytes += bytes.len();
        batch.files.push(ReadFile { upload: FileUpload { name, bytes, options }, place, file_bytes });
        if is_large || batch.files.len() >= self.options.batch_documents_max {
            self.send_files(std::mem::take(batch)).await?;
        }
        Ok(())
    }

    /// Sends files. Those that the gateway refuses together are halved; one that it refuses by itself is rejected.
    pub(super) async fn send_files(&mut self, batch: FileBatch) -> Result<()> {
        let mut parts = VecDeque::from([batch.files]);
        while let Some(mut files) = parts.pop_front() {
            if files.is_empty() {
                continue;
            }
            let uploads: Vec<&FileUpload> = files.iter().map(|file| &file.upload).collect();
            let report = |message: &str| self.progress.note(message);
            match self.client.upload_on_terms(&self.options, &uploads, report).await {
                Ok(job) => {
                    let id_and_place =
                        |file: ReadFile| (file.upload.options.id.unwrap_or(file.upload.name), file.place);
                    let batch = AcceptedBatch {
                        job_id: job.job_id.clone(),
                        documents: job.total_documents,
                        replaced: 0,
                        file_bytes: files.iter().map(|file| file.file_bytes).sum(),
                        places: files.into_iter().map(id_and_place).collect::<HashMap<_, _>>(),
                        shown: (0, 0),
                    };
                    self.add_batch(batch, &job);
                    self.finish_jobs(JOBS_MAX - 1).await?;
                }
                Err(ClientError::Refused { code, message }) if is_of_the_files(code) => {
                    if files.len() > 1 {
                        let second = files.split_off(files.len() / 2);
                        parts.push_front(second);
                        parts.push_front(files);
                        continue;
                    }
                    for file in files {
                        let message = format!("{message} ({code})");
                        self.report.rejections.push(Rejection { name: file.place, message });
                        self.advance(file.file_bytes, 0);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The bytes of a file to upload, or why it is not sent.
fn read(path: &Path) -> Result<Vec<u8>, String> {
    let about = std::fs::metadata(path).map_err(|error| error.to_string())?;
    if about.len() > FILE_BYTES_MAX {
        return Err(format!("the file has more than {FILE_BYTES_MAX} bytes"));
    }
    std::fs::read(path).map_err(|error| error.to_string())
}

/// Whether a refusal says that the files cannot be read, or are too many or too large together.
fn is_of_the_files(code: ErrorCode) -> bool {
    use ErrorCode as E;
    matches!(
        code,
        E::UnsupportedFormat
            | E::Encrypted
            | E::DamagedFile
            | E::NoText
            | E::FileLimit
            | E::ExtractionTimeout
            | E::ExtractionMemory
            | E::ExtractionCrashed
            | E::PayloadTooLarge
            | E::BatchTooLarge
            | E::InvalidParameter
    )
}
