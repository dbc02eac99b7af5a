//! Files from which documents were made: sent again, and removed when no document has them.

use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use weir_api::ErrorCode;
use weir_policy::Caller;
use weir_store::Original;

use crate::documents::no_document;
use crate::{Parts, Result, Retrieval};
use weir_refusal::RequestError;

/// The time between two sweeps: so long does the file of a deleted document stay, at most.
const SWEEP_EVERY: Duration = Duration::from_secs(10);

/// Removes files without a document for as long as the gateway runs.
pub(crate) fn start_sweeping(parts: &Arc<Parts>) {
    let parts = Arc::downgrade(parts);
    tokio::spawn(async move {
        loop {
            let Some(parts) = parts.upgrade() else { return };
            let (originals, uploads, store) =
                (parts.originals.clone(), parts.uploads.clone(), parts.store.clone());
            drop(parts);
            if let Err(error) = uploads.sweep(&store).await {
                tracing::warn!(%error, "uploaded files without a job were not removed");
            }
            if let Err(error) = originals.sweep(&store).await {
                tracing::warn!(%error, "files without a document were not removed");
            }
            tokio::time::sleep(SWEEP_EVERY).await;
        }
    });
}

impl Retrieval {
    /// The file from which a document was made.
    ///
    /// # Errors
    /// `collection_not_found`; `document_not_found`, also where the file was not kept; store errors.
    pub async fn original(
        &self,
        caller: &Arc<Caller>,
        collection: &str,
        id: &str,
    ) -> Result<(Original, File)> {
        let view = self.view(caller, collection)?;
        let Some(original) = view.store().original(id).await? else {
            if view.store().document(id).await?.is_none() {
                return Err(no_document(collection, id));
            }
            let message = format!(
                "the document `{}` has no original; send the file again with `keep_original`",
                id.escape_debug()
            );
            return Err(RequestError::new(ErrorCode::DocumentNotFound, message));
        };
        let file =
            self.originals.open(&original.sha256).await.map_err(|error| RequestError::internal(&error))?;
        Ok((original, file))
    }
}
