//! Changes title and metadata of a document. Its text is not embedded again.

use std::sync::Arc;

use weir_api::{DocumentPatch, ErrorCode, Limits, Metadata};
use weir_policy::Caller;
use weir_store::{NewDocument, Precondition, StoredDocument, VersionTest};

use super::accept::{CheckedDocuments, IngestOutcome, IngestTerms};
use crate::documents::no_document;
use crate::{Result, Retrieval};
use weir_refusal::RequestError;

/// Attempts to change a document that others change at the same time.
const ATTEMPTS_MAX: usize = 32;

impl Retrieval {
    /// Changes title and metadata of a document, if it meets the condition. On return the change is on disk.
    ///
    /// # Errors
    /// `document_not_found`, `precondition_failed`; `invalid_parameter` for a patch that is not valid, or makes metadata that are not;
    /// `overloaded` if others keep changing the document; store errors.
    pub async fn patch_document(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        id: &str,
        patch: &DocumentPatch,
        terms: IngestTerms,
    ) -> Result<IngestOutcome> {
        let limits = self.config.request_limits();
        patch.check(&limits)?;
        let view = self.view(caller, collection)?;
        view.check_pending(self.config.limits.pending_operations_max)?;
        self.reading.wait_for_documents(view.id(), &[id]).await;
        for _ in 0..ATTEMPTS_MAX {
            let stored = view.store().document(id).await?.ok_or_else(|| no_document(collection, id))?;
            let version = stored.version;
            if terms.test.as_ref().is_some_and(|test| !test.is_met(Some(version))) {
                let id = id.to_owned();
                return Err(weir_store::Error::PreconditionFailed { id, version: Some(version) }.into());
            }
            let documents = vec![patched(stored, patch, &limits)?];
            // nothing of a change that others make meanwhile is lost
            let precondition =
                Some(Precondition { document_id: id.to_owned(), test: VersionTest::OneOf(vec![version]) });
            let checked =
                CheckedDocuments { documents, precondition, terms: terms.clone(), ..Default::default() };
            match self.submit(view.clone(), checked).await {
                Err(error) if error.code() == ErrorCode::PreconditionFailed => {}
                done => return done,
            }
        }
        let message = format!("document `{}` was changed by others {ATTEMPTS_MAX} times", id.escape_debug());
        Err(RequestError::new(ErrorCode::Overloaded, message))
    }
}

/// The document after the patch. Its chunks stay as they are, embedded with the title that they were embedded with.
fn patched(stored: StoredDocument, patch: &DocumentPatch, limits: &Limits) -> Result<NewDocument> {
    let metadata = Metadata::from_json(stored.metadata).map_err(|error| RequestError::internal(&error))?;
    let (title, metadata) = patch.apply(stored.title.clone(), &metadata, limits)?;
    let has_text = !stored.text.trim().is_empty();
    if !has_text && stored.vector.is_none() && title.as_ref().is_none_or(|title| title.trim().is_empty()) {
        let message = "the document has no text, so that its title cannot be removed; delete the document";
        return Err(weir_api::Invalid::at(ErrorCode::InvalidParameter, &["title"], message).into());
    }
    let embedded = stored.embedded_title.or(stored.title).unwrap_or_default();
    // without a text the title alone is embedded
    let keeps_embeddings = has_text && embedded != title.as_deref().unwrap_or_default();
    Ok(NewDocument {
        id: stored.id,
        title,
        text: stored.text,
        metadata: metadata.as_json().to_owned(),
        pages: stored.pages,
        embedded_title: keeps_embeddings.then_some(embedded),
        vector: stored.vector,
        source: None,
    })
}
