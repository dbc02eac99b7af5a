//! Work on the index of a collection beside the ingest, and what is compared with an index.

use crate::scripts::{upkeep, versions};
use crate::tx::script;
use crate::{CollectionId, PreparedVersion, Result, Store, StoreView, Upkeep, UpkeepKind};

impl Store {
    /// All work of a kind.
    pub async fn upkeep(&self, kind: UpkeepKind) -> Result<Vec<Upkeep>> {
        self.database.read(script!(tx => upkeep::all(tx, kind))).await
    }

    /// Replaces the work of a kind on a collection if it has this revision (0: if there is none), and returns its new one. `None` if it has another one,
    /// or the collection is deleted.
    ///
    /// # Errors
    /// `LeaseLost` for a store with a fence.
    pub async fn replace_upkeep(
        &self,
        id: CollectionId,
        kind: UpkeepKind,
        revision: u64,
        state: &str,
    ) -> Result<Option<u64>> {
        let (fence, state) = (self.fence, state.to_owned());
        self.database.write(script!(tx => upkeep::replace(tx, fence, (id, kind), revision, &state))).await
    }
}

impl StoreView {
    /// At most `limit` searchable documents whose ids are greater than `after` in byte order. Fewer are the last ones. None for a caller with a filter.
    pub async fn versions_after(&self, after: &str, limit: usize) -> Result<Vec<PreparedVersion>> {
        let (access, after) = (self.access().clone(), after.to_owned());
        self.store().database.read(script!(tx => versions::after(tx, &access, &after, limit))).await
    }

    /// These documents, in order; `None` for one that does not exist or is not searchable.
    pub async fn versions(&self, ids: Vec<String>) -> Result<Vec<Option<PreparedVersion>>> {
        let access = self.access().clone();
        self.store().database.read(script!(tx => versions::of(tx, &access, &ids))).await
    }
}
