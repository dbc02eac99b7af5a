//! `weir ingest`: files to documents, documents to batches, batches to jobs, and jobs watched to their end.
//!
//! A few batches are on their way at a time, so that the gateway always has the next one. There is no journal: the
//! gateway recognises identical content, so that a run is continued by repeating it.

use std::collections::VecDeque;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::json;
use serde_json::value::RawValue;
use weir_api::{Document, ErrorCode, IngestRequest, JobReply, JobStatus};

use super::arguments::IngestArguments;
use super::client::{Client, ClientError, Patience};
use super::failure::Failure;
use super::interrupt;
use super::progress::Progress;
use super::sources::{Documents, Inputs, Outcome, Rejected, Step};
use weir_config::Environment;

/// Bytes of documents in one request, about: enough to be efficient, far below the gateway's limit.
const BATCH_BYTES_MAX: usize = 8 << 20;
/// Batches that are sent and not finished.
const BATCHES_ON_THE_WAY_MAX: usize = 4;
/// The first and the longest wait between two looks at a job.
const POLL_FIRST: Duration = Duration::from_millis(10);
const POLL_MAX: Duration = Duration::from_millis(500);
/// Rejected documents that are named on the error stream; `--json` names all.
const REJECTED_SHOWN_MAX: usize = 100;

/// Sends files to a gateway.
///
/// # Errors
/// When the gateway can't be asked or refuses everything, and when some documents did not go in.
pub fn run(
    arguments: &IngestArguments,
    file: Option<PathBuf>,
    environment: &Environment,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (client, _) = Client::configured(arguments.url.clone(), file, environment)?;
    let mut inputs = Inputs::find(&arguments.paths);
    if inputs.files.is_empty() && inputs.rejected.is_empty() {
        let paths: Vec<String> = arguments.paths.iter().map(|path| path.display().to_string()).collect();
        return Err(Failure::NothingFound(paths.join(", ")));
    }
    interrupt::listen();
    let bytes = inputs.bytes();
    let files = std::mem::take(&mut inputs.files);
    let mut ingest = Ingest::begin(&client, &arguments.collection, bytes, inputs.rejected);
    let sent = ingest.send_all(Documents::of(files), arguments.batch as usize);
    let (report, seconds) = ingest.finish(sent)?;
    report.print(arguments, inputs.other_files, seconds, out)?;
    out.flush()?;
    report.verdict()
}

/// Sends `documents`, in requests of `batch_documents_max`, and waits until they are searchable; says how many they are
/// and how many seconds it took. `bytes` is how much will be read.
///
/// # Errors
/// When the gateway can't be asked or refuses, and when some documents did not go in.
pub(super) fn send(
    client: &Client,
    collection: &str,
    documents: impl Iterator<Item = Step>,
    batch_documents_max: usize,
    bytes: u64,
) -> Result<(u64, f64), Failure> {
    let mut ingest = Ingest::begin(client, collection, bytes, Vec::new());
    let sent = ingest.send_all(documents, batch_documents_max);
    let (report, seconds) = ingest.finish(sent)?;
    report.verdict()?;
    Ok((report.done, seconds))
}

/// A batch that is being put together.
#[derive(Default)]
struct Batch {
    documents: Vec<Prepared>,
    bytes: usize,
    /// Bytes of files that led here, documents or not.
    file_bytes: u64,
}

struct Prepared {
    id: String,
    json: Box<RawValue>,
}

/// A batch that was accepted.
struct Sent {
    job_id: String,
    documents: u64,
    file_bytes: u64,
}

#[derive(Default)]
struct Report {
    done: u64,
    empty: u64,
    jobs: Vec<String>,
    rejected: Vec<Rejected>,
}

struct Ingest<'a> {
    client: &'a Client,
    collection: &'a str,
    progress: Progress,
    on_the_way: VecDeque<Sent>,
    report: Report,
}

impl<'a> Ingest<'a> {
    fn begin(client: &'a Client, collection: &'a str, bytes: u64, rejected: Vec<Rejected>) -> Ingest<'a> {
        Ingest {
            client,
            collection,
            progress: Progress::begin("", "documents", bytes),
            on_the_way: VecDeque::new(),
            report: Report { rejected, ..Report::default() },
        }
    }

    /// Names what was rejected; returns the report and the seconds that it took.
    fn finish(self, sent: Result<(), ClientError>) -> Result<(Report, f64), Failure> {
        self.progress.finish();
        let seconds = self.progress.elapsed().as_secs_f64();
        let on_the_way: u64 = self.on_the_way.iter().map(|sent| sent.documents).sum();
        let report = self.report;
        report.print_rejected();
        match sent {
            Err(ClientError::Interrupted) => {
                let done = report.done;
                let message =
                    format!(": {done} documents are searchable, {on_the_way} more are accepted and will be");
                Err(Failure::Interrupted(message))
            }
            Err(source) => Err(Failure::Ingest { source, done: report.done }),
            Ok(()) => Ok((report, seconds)),
        }
    }

    fn send_all(
        &mut self,
        documents: impl Iterator<Item = Step>,
        batch_documents_max: usize,
    ) -> Result<(), ClientError> {
        let mut batch = Batch::default();
        for step in documents {
            if interrupt::is_asked() {
                return Err(ClientError::Interrupted);
            }
            match step.outcome {
                Outcome::Document(document) => {
                    let prepared = prepare(document);
                    let bytes = prepared.json.get().len();
                    if !batch.documents.is_empty() && batch.bytes + bytes > BATCH_BYTES_MAX {
                        self.send(std::mem::take(&mut batch))?;
                    }
                    batch.bytes += bytes;
                    batch.documents.push(prepared);
                }
                Outcome::Empty => self.report.empty += 1,
                Outcome::Rejected(rejected) => self.report.rejected.push(rejected),
            }
            batch.file_bytes += step.bytes;
            if batch.documents.len() >= batch_documents_max {
                self.send(std::mem::take(&mut batch))?;
            }
        }
        self.send(batch)?;
        self.finish_until(0)
    }

    /// Sends a batch. One that the gateway finds too large is cut in two; a document that is too large alone is
    /// named.
    fn send(&mut self, batch: Batch) -> Result<(), ClientError> {
        let mut parts = VecDeque::from([batch.documents]);
        let mut file_bytes = batch.file_bytes;
        while let Some(mut documents) = parts.pop_front() {
            if documents.is_empty() {
                self.progress.advance(std::mem::take(&mut file_bytes), 0);
                continue;
            }
            match self.post(&documents) {
                Ok(job) => {
                    let (documents, file_bytes) = (documents.len() as u64, std::mem::take(&mut file_bytes));
                    self.report.jobs.push(job.job_id.clone());
                    self.on_the_way.push_back(Sent { job_id: job.job_id, documents, file_bytes });
                    self.finish_until(BATCHES_ON_THE_WAY_MAX - 1)?;
                }
                Err(ClientError::Refused {
                    code: ErrorCode::PayloadTooLarge | ErrorCode::BatchTooLarge,
                    message,
                }) => {
                    if let [document] = documents.as_mut_slice() {
                        let name = std::mem::take(&mut document.id);
                        self.report.rejected.push(Rejected { name, message });
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

    fn post(&self, documents: &[Prepared]) -> Result<JobReply, ClientError> {
        let request = IngestRequest {
            collection: Some(self.collection.into()),
            documents: documents.iter().map(|document| &*document.json).collect(),
        };
        // Texts, and JSON that was checked before, always have a JSON form.
        let body = serde_json::to_string(&request).unwrap_or_default();
        let note = |message: &str| self.progress.note(message);
        let text = self.client.post_text("/v1/ingest", &body, Patience::LONG, &note)?;
        self.client.read(&text)
    }

    /// Waits until at most `count` batches are on the way.
    fn finish_until(&mut self, count: usize) -> Result<(), ClientError> {
        while self.on_the_way.len() > count {
            let Some(sent) = self.on_the_way.pop_front() else { break };
            let job = match self.wait_for(&sent.job_id) {
                Ok(job) => job,
                Err(error) => {
                    self.on_the_way.push_front(sent);
                    return Err(error);
                }
            };
            self.report.add(&job, &sent);
            self.progress.advance(sent.file_bytes, sent.documents);
        }
        Ok(())
    }

    fn wait_for(&self, job_id: &str) -> Result<JobReply, ClientError> {
        let mut wait = POLL_FIRST;
        loop {
            let job: JobReply = self.client.get(&format!("/v1/jobs/{job_id}"), Patience::LONG)?;
            if job.status.is_finished() {
                return Ok(job);
            }
            interrupt::sleep(wait);
            if interrupt::is_asked() {
                return Err(ClientError::Interrupted);
            }
            wait = (wait * 2).min(POLL_MAX);
        }
    }
}

fn prepare(document: Document) -> Prepared {
    let json = serde_json::value::to_raw_value(&document).unwrap_or_default();
    Prepared { id: document.id.unwrap_or_default(), json }
}

impl Report {
    fn add(&mut self, job: &JobReply, sent: &Sent) {
        self.rejected.extend(job.errors.iter().map(|error| Rejected {
            name: error.document_id.clone(),
            message: format!("{} ({})", error.message, error.code),
        }));
        if job.status == JobStatus::Completed {
            self.done += sent.documents.saturating_sub(job.errors.len() as u64);
        } else {
            let message = job.error.clone().unwrap_or_else(|| "the job did not finish".to_owned());
            self.done += job.processed_documents;
            self.rejected.push(Rejected { name: format!("job {}", job.job_id), message });
        }
    }

    /// An error when something was rejected.
    fn verdict(&self) -> Result<(), Failure> {
        match self.rejected.len() as u64 {
            0 => Ok(()),
            failed => Err(Failure::Documents { failed, total: failed + self.done }),
        }
    }

    fn print_rejected(&self) {
        for rejected in self.rejected.iter().take(REJECTED_SHOWN_MAX) {
            eprintln!("failed: {}: {}", rejected.name, rejected.message);
        }
        if self.rejected.len() > REJECTED_SHOWN_MAX {
            eprintln!("failed: and {} more (--json names all)", self.rejected.len() - REJECTED_SHOWN_MAX);
        }
    }

    fn print(
        &self,
        arguments: &IngestArguments,
        other_files: u64,
        seconds: f64,
        out: &mut dyn Write,
    ) -> std::io::Result<()> {
        let collection = &arguments.collection;
        if arguments.json {
            let shown = json!({
                "collection": collection, "documents": self.done, "failed": self.rejected, "empty": self.empty,
                "other_files": other_files, "jobs": self.jobs, "seconds": seconds,
            });
            return writeln!(out, "{shown}");
        }
        let rate = self.done as f64 / seconds.max(1e-3);
        let (done, plural) = (self.done, if self.done == 1 { "" } else { "s" });
        writeln!(
            out,
            "{done} document{plural} went into `{collection}` in {seconds:.1} s ({rate:.0} documents/s)"
        )?;
        for (count, what) in [(self.empty, "were empty"), (other_files, "are of other kinds")] {
            if count > 0 {
                writeln!(out, "left out: {count} files or lines that {what}")?;
            }
        }
        Ok(())
    }
}
