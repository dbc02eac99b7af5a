//! Accepts documents: validates them, stores them with a job, and wakes the worker.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use tokio::time::Instant;
use weir_api::{
    CollectionSettings, Document, ErrorCode, IngestRequest, Invalid, JobReply, Limits, Vector,
    check_collection_name,
};
use weir_policy::Caller;
use weir_store::{
    Acceptance, DocumentError, IdempotencyKey, Job, NewDocument, NewOriginal, NewWebhook, Precondition,
    Submission, SubmittedFiles, VersionTest,
};
use weir_text::PageMap;

use crate::{CollectionView, Result, Retrieval, jobs, run_to_completion};
use weir_originals::KeptFile;
use weir_preparation::own_vectors;
use weir_refusal::RequestError;

/// How long a job may be noted as finished after its documents are searchable, and how often this is looked up.
const NOTED_IN_MAX: Duration = Duration::from_secs(2);
const NOTED_INTERVAL: Duration = Duration::from_millis(20);

/// Documents that are on disk and become searchable soon.
pub struct IngestOutcome {
    /// The collection; `None` if it was deleted since an earlier request stored the documents.
    pub(super) view: Option<CollectionView>,
    pub(super) job: Job,
    /// Of the last document, if it was not refused.
    pub(super) version: Option<u64>,
    pub(super) is_repeated: bool,
}

/// Under which terms documents are stored.
#[derive(Debug, Clone, Default)]
pub struct IngestTerms {
    /// Fields of the metadata in which a stored document must equal the one that replaces it.
    pub replace_if_equal: Vec<String>,
    /// The condition on the only document.
    pub test: Option<VersionTest>,
    /// The address to call when the job has ended.
    pub webhook_url: Option<String>,
    /// The key under which the result is kept; see [`Retrieval::begin_keyed`].
    pub idempotency: Option<IdempotencyKey>,
}

impl IngestTerms {
    /// The condition on the document with this id.
    pub(super) fn precondition(&self, id: &str) -> Option<Precondition> {
        self.test.clone().map(|test| Precondition { document_id: id.to_owned(), test })
    }

    /// The webhook of the job.
    ///
    /// # Errors
    /// `invalid_parameter` for an address that is not allowed.
    pub(crate) fn webhook(&self, settings: &weir_config::table::Webhooks) -> Result<Option<NewWebhook>> {
        Ok(self.webhook_url.as_ref().map(|url| weir_webhooks::checked(url, settings)).transpose()?)
    }
}

/// Checked documents that are to be stored together.
#[derive(Default)]
pub(super) struct CheckedDocuments {
    pub(super) documents: Vec<NewDocument>,
    pub(super) rejected: Rejected,
    pub(super) terms: IngestTerms,
    /// The condition of the terms, with the id of its document.
    pub(super) precondition: Option<Precondition>,
    /// Documents that are stored already.
    pub(super) unchanged: u64,
    /// The files from which documents were made.
    pub(super) files: Vec<FileOfDocument>,
}

/// Which document was made from which file.
pub(super) struct FileOfDocument {
    pub(super) id: String,
    pub(super) sha256: String,
    /// The file, if it is kept.
    pub(super) kept: Option<KeptFile>,
}

impl IngestOutcome {
    /// The reason why the only document was not stored: the caller may not replace the one with its id.
    pub fn refusal(&self) -> Option<(ErrorCode, String)> {
        let [error] = self.job.errors.as_slice() else { return None };
        let is_refused = self.job.total == 1 && error.code == ErrorCode::DocumentNotAllowed.as_str();
        is_refused.then(|| (ErrorCode::DocumentNotAllowed, error.message.clone()))
    }

    /// The version in which the only document is stored.
    pub fn version(&self) -> Option<u64> {
        self.version.filter(|_| self.job.total == 1)
    }

    /// Whether an earlier request with the same idempotency key stored the documents.
    pub fn is_repeated(&self) -> bool {
        self.is_repeated
    }

    /// The same outcome with the version of a document that was stored already.
    pub(super) fn with_version(self, version: Option<u64>) -> IngestOutcome {
        IngestOutcome { version: self.version.or(version), ..self }
    }

    /// The job as it was stored, with its last operation.
    pub(super) fn into_job(self) -> Job {
        self.job
    }

    /// The job as it was stored.
    pub fn job(self) -> JobReply {
        let is_shared = self.view.as_ref().is_some_and(CollectionView::is_shared);
        let operation = is_shared.then_some(self.job.last_operation);
        JobReply { operation, ..jobs::render(self.job, None) }
    }
}

impl Retrieval {
    /// Stores documents. On return they are on disk; invalid ones are named in the job.
    ///
    /// # Errors
    /// The first document's error if none is valid; `overloaded` when too many operations are pending; store errors.
    pub async fn accept(
        &self,
        caller: &Arc<Caller>,
        request: &IngestRequest<'_>,
        idempotency: Option<IdempotencyKey>,
    ) -> Result<IngestOutcome> {
        let limits = self.config.request_limits();
        request.check(&limits)?;
        let owned = |text: &Cow<'_, str>| text.clone().into_owned();
        let terms = IngestTerms {
            replace_if_equal: request.replace_if_equal.iter().map(owned).collect(),
            webhook_url: request.webhook_url.as_ref().map(owned),
            idempotency,
            test: None,
        };
        terms.webhook(&self.config.webhooks)?;
        let (documents, rejected) = validate_documents(&request.documents, &limits);
        if documents.is_empty() {
            return Err(all_rejected(rejected));
        }
        self.check_new(caller, request.collection(), &documents)?;
        let view = self.view_or_create(caller, request.collection()).await?;
        let checked = CheckedDocuments { documents, rejected, terms, ..Default::default() };
        self.submit(view, checked).await
    }

    /// Stores one document under its id, if it meets the condition.
    ///
    /// # Errors
    /// The error of the document; `precondition_failed`; as [`Retrieval::accept`].
    pub async fn put_document(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        document: Document,
        terms: IngestTerms,
    ) -> Result<IngestOutcome> {
        check_collection_name(collection)?;
        document.check(&self.config.request_limits())?;
        let document = new_document(document);
        self.check_new(caller, collection, std::slice::from_ref(&document))?;
        let precondition = terms.precondition(&document.id);
        let view = self.view_for(caller, collection, precondition.as_ref()).await?;
        let documents = vec![document];
        self.submit(view, CheckedDocuments { documents, precondition, terms, ..Default::default() }).await
    }

    /// The collection for new documents, which is created if it does not exist and the condition can be met in an empty one.
    pub(super) async fn view_for(
        &self,
        caller: &Arc<Caller>,
        name: &str,
        precondition: Option<&Precondition>,
    ) -> Result<CollectionView> {
        let can_be_new = precondition.is_none_or(|condition| condition.test.is_met(None));
        if !can_be_new {
            self.view(caller, name)?;
        }
        self.view_or_create(caller, name).await
    }

    /// The collection for new documents, which is created if it does not exist.
    ///
    /// # Errors
    /// `collection_not_found` for a caller that may not see it; `overloaded` when too many operations are pending; store errors.
    pub(super) async fn view_or_create(&self, caller: &Arc<Caller>, name: &str) -> Result<CollectionView> {
        let view = self.open_or_create(caller, name).await?;
        view.check_pending(self.config.limits.pending_operations_max)?;
        Ok(view)
    }

    /// The same, whatever is pending.
    ///
    /// # Errors
    /// `collection_not_found` for a caller that may not see it; store errors.
    pub(super) async fn open_or_create(&self, caller: &Arc<Caller>, name: &str) -> Result<CollectionView> {
        if caller.sees(name) && self.collections.get(caller, name).is_none() {
            self.collections.create(name, &CollectionSettings::default()).await?;
        }
        self.view(caller, name)
    }

    /// Refuses documents that bring vectors for a collection that does not exist, and all for one that waits for its engine.
    pub(super) fn check_new(&self, caller: &Caller, name: &str, documents: &[NewDocument]) -> Result<()> {
        self.collections.check_waiting(caller, name)?;
        if caller.sees(name) && self.collections.get(caller, name).is_none() {
            let vector = documents.iter().find_map(|document| document.vector.as_deref());
            own_vectors::check_new(name, vector)?;
        }
        Ok(())
    }

    /// Stores checked documents with a job. Those whose vector does not fit the collection are rejected.
    ///
    /// # Errors
    /// The first document's error if all are rejected; store errors.
    pub(super) async fn submit(
        &self,
        view: CollectionView,
        checked: CheckedDocuments,
    ) -> Result<IngestOutcome> {
        let CheckedDocuments { documents, mut rejected, terms, precondition, unchanged, files } = checked;
        let webhook = terms.webhook(&self.config.webhooks)?;
        let (documents, misfits) = view.with_fitting_vectors(documents);
        rejected.extend(misfits);
        if documents.is_empty() && unchanged == 0 && !rejected.is_empty() {
            return Err(all_rejected(rejected));
        }
        let ids: Vec<&str> = documents.iter().map(|document| document.id.as_str()).collect();
        self.reading.wait_for_documents(view.id(), &ids).await;
        self.metrics.documents_received(documents.len() as u64, rejected.len() as u64);
        let submission = Submission {
            job_id: new_job_id(),
            documents,
            rejected: rejected.into_iter().map(|(id, invalid)| document_error(id, invalid)).collect(),
            replace_if_equal: terms.replace_if_equal,
            precondition,
            unchanged,
            originals: files.iter().map(original_of).collect(),
            idempotency: terms.idempotency,
            webhook,
            files: SubmittedFiles::None,
        };
        let target = view.clone();
        let accepted = run_to_completion(async move {
            let accepted = target.accept(submission).await;
            // until their documents are stored, the files are in use
            drop(files);
            accepted?.ok_or_else(|| RequestError::no_collection(target.name()))
        });
        let Acceptance { job, version, is_repeated } = accepted.await?;
        Ok(IngestOutcome { view: Some(view), job, version, is_repeated })
    }

    /// Waits until the documents are searchable or failed, at most until `until`, and returns the job as it is then.
    pub async fn wait_until_searchable(&self, outcome: IngestOutcome, until: Instant) -> Result<JobReply> {
        let IngestOutcome { view: Some(view), mut job, .. } = outcome else { return Ok(outcome.job()) };
        if job.unread > 0 {
            let _ = tokio::time::timeout_at(until, self.reading.wait_for_job(&job.id)).await;
            job = self.store.job(view.caller(), &job.id).await?.unwrap_or(job);
        }
        let searchable = view.wait_until_searchable(job.last_operation);
        let is_searchable = tokio::time::timeout_at(until, searchable).await.is_ok();
        job = self.store.job(view.caller(), &job.id).await?.unwrap_or(job);
        // another gateway that applies the documents notes the job after the index has them
        let noted_until = until.min(Instant::now() + NOTED_IN_MAX);
        while is_searchable && job.finished_at.is_none() && Instant::now() < noted_until {
            tokio::time::sleep(NOTED_INTERVAL).await;
            job = self.store.job(view.caller(), &job.id).await?.unwrap_or(job);
        }
        Ok(self.render_job(view.caller(), job))
    }
}

/// The id of a new job.
pub(crate) fn new_job_id() -> String {
    format!("job_{}", uuid::Uuid::new_v4().simple())
}

/// Documents that can't be stored: their ids and the reasons.
pub(super) type Rejected = Vec<(String, Invalid)>;

/// Parses and checks each document by itself, so that an invalid one does not reject the others.
fn validate_documents(raw: &[&RawValue], limits: &Limits) -> (Vec<NewDocument>, Rejected) {
    let (mut documents, mut rejected) = (Vec::with_capacity(raw.len()), Vec::new());
    for (index, raw) in raw.iter().enumerate() {
        match Document::parse(raw, limits) {
            Ok(document) => documents.push(new_document(document)),
            Err(invalid) => {
                let id = weir_api::document_id_of(raw).unwrap_or_else(|| format!("documents[{index}]"));
                rejected.push((id, invalid.in_document(index)));
            }
        }
    }
    (documents, rejected)
}

/// A document without an id gets one derived from its content, so that a repeated request does not store it twice.
pub(super) fn new_document(document: Document) -> NewDocument {
    let metadata = document.metadata.unwrap_or_else(weir_api::Metadata::empty).as_json().to_owned();
    let id = document.id.unwrap_or_else(|| {
        let title = document.title.as_deref().unwrap_or_default();
        let mut content = serde_json::json!([title, document.text, metadata]).to_string();
        if let Some(vector) = &document.vector {
            // as JSON: texts have no such end
            content.push_str(&serde_json::to_string(vector).unwrap_or_default());
        }
        let hash = weir_text::text_hash(&content);
        let hex: String = hash[..12].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("doc_{hex}")
    });
    let pages = document.pages.and_then(|pages| {
        PageMap::new(pages.into_iter().map(|page| (page.end, page.label, page.approximate)))
    });
    let pages = pages.and_then(|pages| serde_json::to_string(&pages).ok());
    let vector = document.vector.as_ref().map(Vector::to_bytes);
    NewDocument {
        id,
        title: document.title,
        text: document.text,
        metadata,
        pages,
        vector,
        ..NewDocument::default()
    }
}

/// The file of a document, as the store takes it.
pub(super) fn original_of(file: &FileOfDocument) -> NewOriginal {
    NewOriginal {
        document_id: file.id.clone(),
        sha256: file.sha256.clone(),
        kept: file.kept.as_ref().map(|kept| kept.original.clone()),
    }
}

pub(super) fn document_error(document_id: String, invalid: Invalid) -> DocumentError {
    let message = invalid.code.with_remedy(&invalid.message);
    DocumentError { document_id, code: invalid.code.as_str().to_owned(), message }
}

/// No document is valid: the first error, with the others in `errors`.
pub(super) fn all_rejected(rejected: Rejected) -> RequestError {
    let mut all = rejected.into_iter().map(|(_, invalid)| invalid);
    match all.next() {
        Some(first) => RequestError::from(first).with_others(all.take(100).collect()),
        None => {
            RequestError::new(ErrorCode::InvalidParameter, "`documents` is empty; send at least one document")
        }
    }
}
