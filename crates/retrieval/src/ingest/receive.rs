//! Receives files: those that are not known are kept on the disk, with a job that reads them.

use std::sync::Arc;

use weir_api::check_collection_name;
use weir_extraction::FIRST_BYTES;
use weir_policy::Caller;
use weir_store::{Acceptance, KnownFile, NewDocument, Submission, SubmittedFiles};

use super::accept::{CheckedDocuments, IngestOutcome, IngestTerms, all_rejected, document_error, new_job_id};
use super::known::{self, Identity};
use super::upload::{Gathered, UploadedFile};
use crate::{Result, Retrieval, run_to_completion};
use weir_refusal::RequestError;

/// A file that was received, compared with what is stored.
pub(super) struct Examined {
    pub(super) file: UploadedFile,
    /// Whether it is kept beside its document.
    pub(super) keeps: bool,
    pub(super) hash: [u8; 32],
    /// Its documents, if they are stored already.
    pub(super) stored: Option<KnownFile>,
}

impl Retrieval {
    /// Takes files. On return they are on disk, and a job extracts their text and stores it; files without a text are named in the job. Files that
    /// are stored already, with the same settings, are not read.
    ///
    /// With `waits`, and for a caller with a filter, whose right to store a document depends on its text, the text is extracted first. So it is
    /// over a store that several gateways share: the others do not have the files.
    ///
    /// # Errors
    /// The first file's error if none can be read, as far as that is known; as [`Retrieval::accept`].
    pub async fn upload(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        files: Vec<UploadedFile>,
        terms: IngestTerms,
        waits: bool,
    ) -> Result<IngestOutcome> {
        terms.webhook(&self.config.webhooks)?;
        let examined = self.examine(caller, collection, files).await?;
        let may_wait = !waits && caller.filter().is_none() && !self.store.is_shared();
        if may_wait && examined.iter().any(|one| one.stored.is_none()) {
            return self.receive(caller, collection, examined, terms).await;
        }
        let Gathered { checked, .. } = self.read_files(examined).await?;
        let view = self.view_or_create(caller, collection).await?;
        self.submit(view, CheckedDocuments { terms, ..checked }).await
    }

    /// Stores files that are not known with a job that reads them.
    async fn receive(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        examined: Vec<Examined>,
        terms: IngestTerms,
    ) -> Result<IngestOutcome> {
        let (mut unread, mut rejected, mut unchanged) = (Vec::new(), Vec::new(), 0);
        for Examined { file, keeps, stored, .. } in examined {
            if let Some(stored) = stored {
                unchanged += self.known(&file.name, &stored);
                continue;
            }
            match self.extraction.refuses(&file.name, &file.content.head(FIRST_BYTES)) {
                Some(reason) => rejected.push((file.document_id(), reason)),
                None => unread.push((file, keeps)),
            }
        }
        if unread.is_empty() && unchanged == 0 {
            return Err(all_rejected(rejected));
        }
        let view = self.view_or_create(caller, collection).await?;
        view.check_vector(&NewDocument::default())?;
        if unread.is_empty() {
            let checked = CheckedDocuments { rejected, unchanged, terms, ..Default::default() };
            return self.submit(view, checked).await;
        }
        let job_id = new_job_id();
        let mut received = self.uploads.receive(&self.store, &job_id, unread).await?;
        received.files.replace_if_equal = terms.replace_if_equal.clone();
        let files = received.files.clone();
        let ticket = self.reading.begin(&job_id, view.id(), &files);
        let submission = Submission {
            job_id,
            rejected: rejected.into_iter().map(|(id, invalid)| document_error(id, invalid)).collect(),
            unchanged,
            webhook: terms.webhook(&self.config.webhooks)?,
            idempotency: terms.idempotency,
            files: SubmittedFiles::Unread(files.clone()),
            ..Submission::default()
        };
        let (retrieval, target) = (self.clone(), view.clone());
        let accepted = run_to_completion(async move {
            let accepted = target.accept(submission).await;
            // until their job is stored, the files are in use
            drop(received);
            let accepted = accepted?.ok_or_else(|| RequestError::no_collection(target.name()))?;
            if !accepted.is_repeated {
                retrieval.start_reading(ticket, files);
            }
            Ok(accepted)
        });
        let Acceptance { job, version, is_repeated } = accepted.await?;
        Ok(IngestOutcome { view: Some(view), job, version, is_repeated })
    }

    /// Compares files with what is stored.
    pub(super) async fn examine(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        files: Vec<UploadedFile>,
    ) -> Result<Vec<Examined>> {
        check_collection_name(collection)?;
        if !caller.sees(collection) {
            return Err(RequestError::no_collection(collection));
        }
        let limits = self.config.request_limits();
        let extract = &self.config.extract;
        // it is created with its first document
        let view = self.view(caller, collection).ok();
        let of_collection = view.as_ref().and_then(|view| view.settings().keep_originals);
        let by_default = of_collection.unwrap_or(extract.keep_originals);
        let keeps: Vec<bool> =
            files.iter().map(|file| file.options.keep_original.unwrap_or(by_default)).collect();
        let hash = |(file, keeps): (&UploadedFile, &bool)| {
            let UploadedFile { sha256, name, options, .. } = file;
            known::hash_of(&Identity { sha256, name, options, keeps: *keeps }, &limits, extract)
        };
        let hashes: Vec<_> = files.iter().zip(&keeps).map(hash).collect();
        let stored = match view {
            Some(view) => known::known_files(&view, &files, &hashes, &keeps).await?,
            None => vec![None; files.len()],
        };
        let files = files.into_iter().zip(keeps).zip(hashes).zip(stored);
        Ok(files.map(|(((file, keeps), hash), stored)| Examined { file, keeps, hash, stored }).collect())
    }
}
