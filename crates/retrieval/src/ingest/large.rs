//! Documents that fill a batch by themselves. They are prepared beside the batches that follow, which do not wait for them.
//!
//! The index shows later documents first. The applied sequence stays below the first document that is being prepared, so that a restart
//! begins with it; applying the later operations again changes nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::task::{AbortHandle, JoinSet};
use weir_index::IndexedDocument;
use weir_store::StoredDocument;

use super::{IngestError, Preparer};
use weir_preparation::Preparation;

/// While this many documents are being prepared, the worker reads no further operations.
const LARGE_DOCUMENTS_MAX: usize = 4;

/// A document that was prepared.
pub(super) struct PreparedLarge {
    operation: u64,
    pub(super) documents: Vec<IndexedDocument>,
    pub(super) preparation: Arc<Preparation>,
}

/// The documents that are being prepared, and how far operations were read.
pub(super) struct LargeDocuments {
    tasks: JoinSet<Result<PreparedLarge, IngestError>>,
    /// By the operation for which each is prepared.
    preparing: BTreeMap<u64, Preparing>,
    finished: Vec<Result<PreparedLarge, IngestError>>,
    /// Operations up to this one are applied or being prepared.
    pub(super) read_to: u64,
    /// The applied sequence of the index.
    applied_seq: u64,
}

struct Preparing {
    document_id: String,
    version: u64,
    task: AbortHandle,
}

impl LargeDocuments {
    /// None, for an index with this applied sequence.
    pub(super) fn none(applied_seq: u64) -> LargeDocuments {
        LargeDocuments {
            tasks: JoinSet::new(),
            preparing: BTreeMap::new(),
            finished: Vec::new(),
            read_to: applied_seq,
            applied_seq,
        }
    }

    /// Starts again after the applied sequence if the index was lost.
    pub(super) fn check(&mut self, applied_seq: u64) {
        if applied_seq != self.applied_seq {
            *self = LargeDocuments::none(applied_seq);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.preparing.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.preparing.len() >= LARGE_DOCUMENTS_MAX
    }

    /// Prepares `document`, the state of the document of `operation`.
    pub(super) fn start(
        &mut self,
        preparer: &Preparer,
        operation: u64,
        document: StoredDocument,
        preparation: Arc<Preparation>,
    ) {
        let is_same = |one: &Preparing| one.document_id == document.id && one.version == document.version;
        if self.preparing.values().any(is_same) {
            return;
        }
        self.supersede(&document.id);
        let (document_id, version) = (document.id.clone(), document.version);
        let preparer = preparer.clone();
        let prepare = async move {
            let documents = preparer.prepare(vec![document], &preparation).await?;
            Ok(PreparedLarge { operation, documents, preparation })
        };
        let task = self.tasks.spawn(prepare);
        self.preparing.insert(operation, Preparing { document_id, version, task });
    }

    /// Stops preparing the document `id`: it has a later version, or was deleted.
    pub(super) fn supersede(&mut self, id: &str) {
        self.preparing.retain(|_, one| {
            let is_superseded = one.document_id == id;
            if is_superseded {
                one.task.abort();
            }
            !is_superseded
        });
    }

    /// Waits until a document is prepared.
    pub(super) async fn wait(&mut self) {
        match self.tasks.join_next().await {
            Some(Ok(finished)) => self.finished.push(finished),
            Some(Err(error)) if error.is_panic() => self.finished.push(Err(IngestError::Interrupted)),
            Some(Err(_)) | None => {}
        }
    }

    /// A document that was prepared and is to be applied.
    pub(super) fn take_finished(&mut self) -> Result<Option<PreparedLarge>, IngestError> {
        while let Some(finished) = self.tasks.try_join_next() {
            match finished {
                Ok(finished) => self.finished.push(finished),
                Err(error) if error.is_panic() => return Err(IngestError::Interrupted),
                Err(_) => {}
            }
        }
        while let Some(finished) = self.finished.pop() {
            let finished = finished?;
            if self.preparing.remove(&finished.operation).is_some() {
                return Ok(Some(finished));
            }
        }
        Ok(None)
    }

    /// The applied sequence when everything that was read and is not being prepared is applied.
    pub(super) fn next_applied_seq(&mut self) -> u64 {
        self.applied_seq = self.preparing.keys().next().map_or(self.read_to, |first| first - 1);
        self.applied_seq
    }
}
