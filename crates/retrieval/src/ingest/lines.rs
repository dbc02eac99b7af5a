//! A stream of documents, one on each line: parsed line by line, stored in batches.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::value::RawValue;
use weir_api::{Document, ErrorCode, Invalid, LineError, LinesReply, check_collection_name};
use weir_policy::Caller;
use weir_store::NewDocument;

use super::accept::{CheckedDocuments, IngestTerms, Rejected, new_document};
use crate::jobs::code_of;
use crate::{CollectionView, Result, Retrieval};

/// Documents and bytes of lines that are stored in one step: large enough to sync rarely, small beside the memory of a request.
const BATCH_DOCUMENTS_MAX: usize = 1_000;
const BATCH_BYTES_MAX: usize = 4 << 20;
/// Errors and jobs that a reply lists.
const ERRORS_LISTED_MAX: usize = 100;
const JOBS_LISTED_MAX: usize = 10_000;

/// A stream of documents that is being stored.
pub struct LineIngest {
    retrieval: Retrieval,
    view: CollectionView,
    terms: IngestTerms,
    batch: Batch,
    /// Lines that were read.
    lines_read: u64,
    /// The reply so far, without those jobs and errors that were taken.
    reply: LinesReply,
    jobs_listed: usize,
    errors_listed: usize,
    last_operation: u64,
    /// Stored and failed lines that are in the metrics.
    counted: (u64, u64),
}

/// Lines that are not stored yet.
#[derive(Default)]
struct Batch {
    documents: Vec<NewDocument>,
    bytes: usize,
    rejected: Rejected,
    /// The line of each document, by its id.
    lines: HashMap<String, u64>,
}

impl Retrieval {
    /// Begins a stream of documents for a collection, which is created if it does not exist.
    ///
    /// # Errors
    /// `invalid_parameter` for the name; `collection_not_found` for a caller that may not see it; store errors.
    pub async fn ingest_lines(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        terms: IngestTerms,
    ) -> Result<LineIngest> {
        check_collection_name(collection)?;
        terms.webhook(&self.config.webhooks)?;
        Ok(LineIngest {
            retrieval: self.clone(),
            view: self.open_or_create(caller, collection).await?,
            terms,
            batch: Batch::default(),
            lines_read: 0,
            reply: LinesReply::default(),
            jobs_listed: 0,
            errors_listed: 0,
            last_operation: 0,
            counted: (0, 0),
        })
    }
}

impl LineIngest {
    /// Most bytes of a line: those of a request with one document.
    #[must_use]
    pub fn line_bytes_max(&self) -> usize {
        let limits = &self.retrieval.config.limits;
        2 * limits.document_text_bytes_max + limits.metadata_bytes_max
    }

    /// Takes the next line. One without text is skipped; one that is no document fails alone.
    pub fn push(&mut self, line: &[u8]) {
        self.lines_read += 1;
        let line = line.trim_ascii();
        if line.is_empty() {
            return;
        }
        self.batch.bytes += line.len();
        match self.parse(line) {
            Ok(document) => {
                self.batch.lines.insert(document.id.clone(), self.lines_read);
                self.batch.documents.push(document);
            }
            Err((id, invalid)) => self.reject(id, invalid),
        }
    }

    /// Takes note of a line with more bytes than [`LineIngest::line_bytes_max`].
    pub fn push_too_long(&mut self) {
        self.lines_read += 1;
        let message = format!(
            "the line has more than {} bytes; the limit follows from `limits.document_text_bytes_max`",
            self.line_bytes_max()
        );
        self.reject(None, Invalid::whole(ErrorCode::PayloadTooLarge, message));
    }

    /// Whether the lines that were taken are to be stored before further ones are read.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.batch.documents.len() >= BATCH_DOCUMENTS_MAX || self.batch.bytes >= BATCH_BYTES_MAX
    }

    /// Whether lines wait to be stored.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lines_read == self.reply.lines
    }

    /// Stores the lines that were taken. Waits while more operations are pending than `limits.pending_operations_max`. On return they are
    /// acknowledged.
    ///
    /// # Errors
    /// Store errors; nothing of these lines is acknowledged then.
    pub async fn store(&mut self) -> Result<()> {
        let Batch { documents, rejected, lines, .. } = std::mem::take(&mut self.batch);
        if !documents.is_empty() {
            let rejected_count = rejected.len();
            let pending_max = self.retrieval.config.limits.pending_operations_max;
            self.view.wait_until_pending(pending_max).await;
            let terms = self.terms.clone();
            let checked = CheckedDocuments { documents, rejected, terms, ..Default::default() };
            let outcome = self.retrieval.submit(self.view.clone(), checked).await?;
            self.note_job(outcome.into_job(), rejected_count, &lines);
        }
        self.reply.lines = self.lines_read;
        let now = (self.reply.documents, self.reply.failed_documents);
        self.retrieval.metrics.lines_ingested(now.0 - self.counted.0, now.1 - self.counted.1);
        self.counted = now;
        Ok(())
    }

    /// The reply so far. Jobs and errors are taken: the next reply has those that follow.
    pub fn take_reply(&mut self) -> LinesReply {
        let reply = self.reply.clone();
        (self.reply.jobs, self.reply.errors) = Default::default();
        reply
    }

    /// The lines that are acknowledged.
    #[must_use]
    pub fn acknowledged(&self) -> u64 {
        self.reply.lines
    }

    /// Waits until all documents are searchable, or have failed.
    pub async fn wait_until_searchable(&self) {
        self.view.wait_until_searchable(self.last_operation).await;
    }

    fn parse(&self, line: &[u8]) -> Result<NewDocument, (Option<String>, Invalid)> {
        let text = std::str::from_utf8(line).map_err(|error| {
            let message = format!("byte {} of the line is not UTF-8", error.valid_up_to() + 1);
            (None, Invalid::whole(ErrorCode::InvalidUtf8, message))
        })?;
        let raw: &RawValue = serde_json::from_str(text).map_err(|error| {
            let message = format!("the line is not one JSON object with a document: {error}");
            (None, Invalid::whole(ErrorCode::InvalidParameter, message))
        })?;
        let document = Document::parse(raw, &self.retrieval.config.request_limits());
        let document =
            document.map(new_document).map_err(|invalid| (weir_api::document_id_of(raw), invalid))?;
        match self.view.check_vector(&document) {
            Ok(()) => Ok(document),
            Err(invalid) => Err((Some(document.id), invalid)),
        }
    }

    fn reject(&mut self, document_id: Option<String>, invalid: Invalid) {
        let line = self.lines_read;
        self.note_error(line, document_id.clone(), invalid.code, invalid.code.with_remedy(&invalid.message));
        let name = document_id.unwrap_or_else(|| format!("line {line}"));
        // only the first are listed in a job too
        if self.batch.rejected.len() < ERRORS_LISTED_MAX {
            self.batch.rejected.push((name, invalid));
        }
    }

    fn note_error(&mut self, line: u64, document_id: Option<String>, code: ErrorCode, message: String) {
        self.reply.failed_documents += 1;
        if self.errors_listed < ERRORS_LISTED_MAX {
            self.errors_listed += 1;
            self.reply.errors.push(LineError { line, document_id, code, message });
        }
    }

    /// Takes note of a job. Its first errors, `noted` in number, were noted when their lines were read.
    fn note_job(&mut self, job: weir_store::Job, noted: usize, lines: &HashMap<String, u64>) {
        for refused in job.errors.into_iter().skip(noted) {
            let Some(line) = lines.get(&refused.document_id) else { continue };
            let code = code_of(&refused.code);
            self.note_error(*line, Some(refused.document_id), code, refused.message);
        }
        self.reply.new_documents += job.new;
        self.reply.changed_documents += job.changed;
        self.reply.unchanged_documents += job.unchanged;
        self.reply.documents += job.new + job.changed + job.unchanged;
        self.last_operation = self.last_operation.max(job.last_operation);
        if self.jobs_listed < JOBS_LISTED_MAX {
            self.jobs_listed += 1;
            self.reply.jobs.push(job.id);
        }
    }
}
