//! Ingest of any number of documents: in batches, each a job that is watched to its end.
//!
//! Up to [`JOBS_MAX`] jobs run at a time, so that the gateway always has the next batch. There is no journal: the gateway
//! recognises unchanged documents, so that an interrupted ingest is continued by repeating it.

mod files;
mod jobs;

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;
use weir_api::{Document, ErrorCode, FileOptions, IngestRequest, JobReply, JobStatus};

use self::files::FileBatch;
use self::jobs::{AcceptedBatch, Unfinished};
use crate::seen_ids::SeenIds;
use crate::{Client, ClientError, Result};

/// Bytes of documents in one request, about: enough to be efficient, far below the gateway's limit.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// A document of at least this many bytes is sent alone: its job shows the progress within it.
const LARGE_BYTES_MIN: usize = 128 << 10;
/// Jobs that are accepted and not finished.
const JOBS_MAX: usize = 4;
/// Rejections that are reported one by one; [`IngestReport`] has all.
const REJECTIONS_SHOWN_MAX: usize = 100;
/// Replaced documents that are reported one by one.
const REPLACED_SHOWN_MAX: usize = 10;

/// One step of reading documents from files.
#[derive(Debug)]
pub struct ReadStep {
    /// Bytes of the files that this step read.
    pub bytes: u64,
    /// The file, or the file and line (`path#3`).
    pub place: String,
    /// Their content.
    pub result: StepResult,
}

/// The result of a step of reading.
#[derive(Debug)]
pub enum StepResult {
    /// A document.
    Document(Document),
    /// A file of which the gateway extracts the text.
    File(SourceFile),
    /// No text.
    Empty,
    /// No document.
    Rejected(Rejection),
    /// A note about the file, which has documents beside it.
    Note(String),
}

/// A file of which the gateway extracts the text. It is read when it is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFile {
    /// Its path.
    pub path: PathBuf,
    /// The id, title and metadata of its document.
    pub options: FileOptions,
}

/// A document, or a part of a file, that was not ingested.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Rejection {
    /// The file, the file and line (`path#3`), or the document's id.
    pub name: String,
    /// The reason.
    pub message: String,
}

/// The documents to ingest, and their collection.
#[derive(Debug, Clone, Copy)]
pub struct IngestOptions<'a> {
    /// The collection.
    pub collection: &'a str,
    /// Documents in one request, at most.
    pub batch_documents_max: usize,
    /// The sum of `bytes` over all steps, as far as it is known: the scale of the progress.
    pub bytes_total: u64,
    /// Fields of the metadata in which a stored document must equal the one that replaces it.
    pub replace_if_equal: &'a [&'a str],
    /// Whether the files are kept that the gateway reads; otherwise as the collection and the gateway are set.
    pub keep_originals: bool,
    /// The address that the gateway calls at the end of each job.
    pub webhook_url: Option<&'a str>,
}

/// Shows the progress of an ingest.
pub trait IngestProgress {
    /// The ingest begins.
    fn begin(&mut self, bytes_total: u64);
    /// The gateway has processed more documents, read from this many bytes. Both are 0 where nothing changed; the bytes of
    /// a complete ingest add up to the total.
    fn advance(&mut self, bytes: u64, documents: u64);
    /// The gateway embeds this many chunks per second.
    fn rate(&mut self, _chunks_per_second: f64) {}
    /// Shows a message beside the progress.
    fn note(&mut self, message: &str);
    /// The ingest is over; messages may follow.
    fn finish(&mut self);
}

/// The outcome of an ingest.
#[derive(Debug, Default)]
pub struct IngestReport {
    /// Documents that are searchable, those that a later one of this ingest replaced aside.
    pub documents: u64,
    /// Documents whose id was new in the collection.
    pub new: u64,
    /// Documents that replaced another version.
    pub changed: u64,
    /// Documents that were stored already with the same content.
    pub unchanged: u64,
    /// Chunks of the new and the changed documents.
    pub chunks: u64,
    /// Files and lines without text.
    pub empty: u64,
    /// The ids of the jobs.
    pub jobs: Vec<String>,
    /// Documents that a later one with the same id replaced, as far as ids are remembered.
    pub replaced: u64,
    /// The first of the documents that replaced another: their ids and places.
    pub replacing: Vec<(String, String)>,
    /// Everything that was not ingested.
    pub rejections: Vec<Rejection>,
    /// The duration.
    pub elapsed: Duration,
}

/// Why an ingest failed or is incomplete.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// A call failed.
    #[error("{source} ({documents} documents are in)")]
    Call {
        /// The cause.
        source: ClientError,
        /// Documents that are searchable.
        documents: u64,
    },
    /// Some documents were rejected, and named before.
    #[error("{rejected} of {total} documents did not go in")]
    Incomplete {
        /// How many were rejected.
        rejected: u64,
        /// How many there are.
        total: u64,
    },
    /// Some documents replaced others with the same id.
    #[error("{replaced} of {total} documents were replaced by a later one with the same id")]
    Replaced {
        /// How many were replaced.
        replaced: u64,
        /// How many were sent.
        total: u64,
    },
    /// The ingest was cancelled.
    #[error("interrupted: {documents} documents are searchable, {accepted} more are accepted and will be")]
    Cancelled {
        /// Documents that are searchable.
        documents: u64,
        /// Documents of jobs that are not processed yet.
        accepted: u64,
    },
}

impl IngestReport {
    /// An error when something was rejected, or replaced by a later document.
    pub fn check_complete(&self) -> Result<(), IngestError> {
        let (rejected, replaced) = (self.rejections.len() as u64, self.replaced);
        let total = rejected + replaced + self.documents;
        match (rejected, replaced) {
            (0, 0) => Ok(()),
            (0, replaced) => Err(IngestError::Replaced { replaced, total }),
            (rejected, _) => Err(IngestError::Incomplete { rejected, total }),
        }
    }

    fn add(&mut self, job: &JobReply, batch: &AcceptedBatch) {
        self.rejections.extend(job.errors.iter().map(|error| Rejection {
            name: batch.places.get(&error.document_id).unwrap_or(&error.document_id).clone(),
            message: format!("{} ({})", error.message, error.code),
        }));
        if job.status == JobStatus::Completed {
            self.documents += batch.documents.saturating_sub(job.errors.len() as u64 + batch.replaced);
            self.new += job.new_documents;
            self.changed += job.changed_documents;
            self.unchanged += job.unchanged_documents;
            self.chunks += job.chunks;
        } else {
            let message = job.error.clone().unwrap_or_else(|| "the job did not finish".to_owned());
            self.documents += job.processed_documents.saturating_sub(batch.replaced);
            self.rejections.push(Rejection { name: format!("job {}", job.job_id), message });
        }
    }
}

/// Sends the documents of `steps` and waits until they are searchable. Rejections are notes of `progress` at the end.
///
/// # Errors
/// When a call fails, and when `cancelled` is set. Rejected documents are not an error here.
pub async fn ingest(
    client: &Client,
    options: IngestOptions<'_>,
    steps: impl Iterator<Item = ReadStep>,
    progress: &mut dyn IngestProgress,
    cancelled: &CancellationToken,
) -> Result<IngestReport, IngestError> {
    let begun = Instant::now();
    progress.begin(options.bytes_total);
    let report = IngestReport::default();
    let mut ingest = Ingest {
        client,
        options,
        progress,
        accepted: VecDeque::new(),
        bytes_shown: 0,
        seen: SeenIds::default(),
        report,
        has_events: true,
    };
    let sent = cancelled.run_until_cancelled(ingest.send_all(steps)).await;
    let unfinished = if sent.is_none() { ingest.count_unfinished().await } else { Unfinished::default() };
    let mut report = ingest.report;
    report.elapsed = begun.elapsed();
    progress.finish();
    show_rejections(&report.rejections, progress);
    show_replaced(&report, progress);
    match sent {
        None => {
            let documents = report.documents + unfinished.searchable;
            Err(IngestError::Cancelled { documents, accepted: unfinished.accepted })
        }
        Some(Err(source)) => Err(IngestError::Call { source, documents: report.documents }),
        Some(Ok(())) => Ok(report),
    }
}

fn show_rejections(rejections: &[Rejection], progress: &mut dyn IngestProgress) {
    for Rejection { name, message } in rejections.iter().take(REJECTIONS_SHOWN_MAX) {
        progress.note(&format!("failed: {name}: {message}"));
    }
    if rejections.len() > REJECTIONS_SHOWN_MAX {
        progress.note(&format!(
            "failed: and {} more (--json names all)",
            rejections.len() - REJECTIONS_SHOWN_MAX
        ));
    }
}

fn show_replaced(report: &IngestReport, progress: &mut dyn IngestProgress) {
    for (id, place) in &report.replacing {
        progress.note(&format!(
            "replaced: `{}` of {place} has the id of an earlier document; give each its own id",
            id.escape_debug()
        ));
    }
    let more = report.replaced - report.replacing.len() as u64;
    if more > 0 {
        progress.note(&format!("replaced: and {more} more"));
    }
}

/// A batch that is being filled.
#[derive(Default)]
struct Batch {
    documents: Vec<EncodedDocument>,
    bytes: usize,
    /// Bytes of files that were read for it, whether or not they became documents.
    file_bytes: u64,
}

struct EncodedDocument {
    id: String,
    /// Whether an earlier document of the ingest has this id.
    is_replacing: bool,
    json: Box<RawValue>,
}

struct Ingest<'a> {
    client: &'a Client,
    options: IngestOptions<'a>,
    progress: &'a mut dyn IngestProgress,
    accepted: VecDeque<AcceptedBatch>,
    bytes_shown: u64,
    seen: SeenIds,
    report: IngestReport,
    /// Whether the gateway sends events of jobs, as far as is known.
    has_events: bool,
}

impl Ingest<'_> {
    async fn send_all(&mut self, steps: impl Iterator<Item = ReadStep>) -> Result<()> {
        let (mut batch, mut files) = (Batch::default(), FileBatch::default());
        for step in steps {
            let mut is_large = false;
            match step.result {
                StepResult::Document(document) => {
                    let document = self.encode(document, step.place);
                    let bytes = document.json.get().len();
                    is_large = bytes >= LARGE_BYTES_MIN;
                    if !batch.documents.is_empty() && (is_large || batch.bytes + bytes > BATCH_BYTES_MAX) {
                        self.send(std::mem::take(&mut batch)).await?;
                    }
                    batch.bytes += bytes;
                    batch.documents.push(document);
                }
                StepResult::File(file) => {
                    self.push_file(&mut files, file, step.place, step.bytes).await?;
                    continue;
                }
                StepResult::Empty => self.report.empty += 1,
                StepResult::Rejected(rejection) => self.report.rejections.push(rejection),
                StepResult::Note(note) => self.progress.note(&format!("{}: {note}", step.place)),
            }
            batch.file_bytes += step.bytes;
            if is_large || batch.documents.len() >= self.options.batch_documents_max {
                self.send(std::mem::take(&mut batch)).await?;
            }
            // lets a cancellation end the reading of files without documents
            tokio::task::yield_now().await;
        }
        self.send(batch).await?;
        self.send_files(files).await?;
        self.finish_jobs(0).await?;
        // files can have shrunk since they were counted
        self.advance(self.options.bytes_total.saturating_sub(self.bytes_shown), 0);
        Ok(())
    }

    fn encode(&mut self, document: Document, place: String) -> EncodedDocument {
        let json = serde_json::value::to_raw_value(&document).unwrap_or_default();
        let id = document.id.unwrap_or_default();
        let is_replacing = self.seen.is_repeated(&id);
        if is_replacing {
            self.report.replaced += 1;
            if self.report.replacing.len() < REPLACED_SHOWN_MAX {
                self.report.replacing.push((id.clone(), place));
            }
        }
        EncodedDocument { id, is_replacing, json }
    }

    fn advance(&mut self, bytes: u64, documents: u64) {
        self.bytes_shown += bytes;
        self.progress.advance(bytes, documents);
    }

    /// Sends a batch. One that is too large for the gateway is halved; a document that is too large by itself is rejected.
    async fn send(&mut self, batch: Batch) -> Result<()> {
        let mut parts = VecDeque::from([batch.documents]);
        let mut file_bytes = batch.file_bytes;
        while let Some(mut documents) = parts.pop_front() {
            if documents.is_empty() {
                self.advance(std::mem::take(&mut file_bytes), 0);
                continue;
            }
            match self.post(&documents).await {
                Ok(job) => {
                    let batch = AcceptedBatch {
                        job_id: job.job_id.clone(),
                        documents: documents.len() as u64,
                        replaced: documents.iter().filter(|document| document.is_replacing).count() as u64,
                        file_bytes: std::mem::take(&mut file_bytes),
                        places: HashMap::new(),
                        shown: (0, 0),
                    };
                    self.add_batch(batch, &job);
                    self.finish_jobs(JOBS_MAX - 1).await?;
                }
                Err(ClientError::Refused {
                    code: ErrorCode::PayloadTooLarge | ErrorCode::BatchTooLarge,
                    message,
                }) => {
                    if let [document] = documents.as_mut_slice() {
                        let name = std::mem::take(&mut document.id);
                        self.report.rejections.push(Rejection { name, message });
                    } else {
                        let second = documents.split_off(documents.len() / 2);
                        parts.push_front(second);
                        parts.push_front(documents);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn post(&mut self, documents: &[EncodedDocument]) -> Result<JobReply> {
        let request = IngestRequest {
            collection: Some(self.options.collection.into()),
            documents: documents.iter().map(|document| &*document.json).collect(),
            replace_if_equal: self.options.replace_if_equal.iter().map(|field| (*field).into()).collect(),
            webhook_url: self.options.webhook_url.map(Into::into),
        };
        self.client.ingest(&request, |message| self.progress.note(message)).await
    }
}
