//! The documents of a collection as lines of JSON, in the form in which they are ingested.

use std::sync::Arc;

use futures_util::{Stream, stream};
use weir_api::{Document, DocumentPage, Metadata, Vector};
use weir_policy::Caller;
use weir_store::StoredDocument;
use weir_text::PageMap;

use crate::{CollectionView, Result, Retrieval};
use weir_refusal::RequestError;

/// Documents that are read at one time, and the bytes of their texts after which the read ends.
const READ_DOCUMENTS_MAX: usize = 200;
const READ_BYTES_MAX: usize = 1 << 20;

/// Where an export is.
struct Position {
    retrieval: Retrieval,
    view: CollectionView,
    /// The last id that was read.
    after: String,
    is_last: bool,
}

impl Retrieval {
    /// The documents that the caller may see, in the byte order of their ids, from the first id after `after`. Each item has whole lines.
    /// It is read while it is sent: the memory is that of one part, and each document is in the version that is stored when its part is read.
    ///
    /// # Errors
    /// `collection_not_found`. The stream ends with an error when the store fails or the collection is deleted.
    pub fn export(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        after: String,
    ) -> Result<impl Stream<Item = Result<Vec<u8>>> + Send + use<>> {
        let view = self.view(caller, collection)?;
        let begin = Position { retrieval: self.clone(), view, after, is_last: false };
        Ok(stream::try_unfold(begin, |position| async move {
            if position.is_last {
                return Ok(None);
            }
            position.read().await.map(Some)
        }))
    }
}

impl Position {
    /// The next lines, and where the export is then.
    async fn read(mut self) -> Result<(Vec<u8>, Position)> {
        let (documents, is_more) =
            self.view.store().documents_after(&self.after, READ_DOCUMENTS_MAX, READ_BYTES_MAX).await?;
        // a deleted collection reads as empty, which must not look like the end; it is deleted in the store before it is closed
        let stored = self.retrieval.store.collections(self.view.caller_handle()).await?;
        if !stored.iter().any(|stored| stored.id == self.view.id()) {
            return Err(RequestError::no_collection(self.view.name()));
        }
        self.is_last = !is_more;
        if let Some(last) = documents.last() {
            self.after.clone_from(&last.id);
        }
        let mut lines = Vec::new();
        for document in documents {
            let document = exported(document)?;
            serde_json::to_writer(&mut lines, &document).map_err(|error| RequestError::internal(&error))?;
            lines.push(b'\n');
        }
        Ok((lines, self))
    }
}

/// A document in the form in which it is ingested.
fn exported(stored: StoredDocument) -> Result<Document> {
    let metadata = Metadata::from_json(stored.metadata).map_err(|error| RequestError::internal(&error))?;
    let pages = stored.pages.as_deref().and_then(|pages| serde_json::from_str::<PageMap>(pages).ok());
    let pages = pages.map(|pages| {
        let page = |(end, label, approximate): (u64, Option<&str>, bool)| DocumentPage {
            end,
            label: label.map(str::to_owned),
            approximate,
        };
        pages.ends().map(page).collect()
    });
    Ok(Document {
        id: Some(stored.id),
        title: stored.title,
        text: stored.text,
        metadata: Some(metadata),
        pages,
        vector: stored.vector.as_deref().and_then(Vector::from_bytes),
    })
}
